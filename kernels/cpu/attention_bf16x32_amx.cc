#include "kernels/cpu/attention_bf16x32_amx.h"
