#include "kernels/cpu/gemm_bf16x2.h"
