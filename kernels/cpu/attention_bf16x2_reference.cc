#include "kernels/cpu/attention_bf16x2.h"
