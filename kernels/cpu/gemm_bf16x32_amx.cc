#include "kernels/cpu/gemm_bf16x32_amx.h"
