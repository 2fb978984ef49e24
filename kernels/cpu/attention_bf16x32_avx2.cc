#include "kernels/cpu/attention_bf16x32.h"
