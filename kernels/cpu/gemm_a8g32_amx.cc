#include "kernels/cpu/gemm_a8g32_amx.h"
