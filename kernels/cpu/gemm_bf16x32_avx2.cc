#include "kernels/cpu/gemm_bf16x32.h"
