#include "kernels/cpu/gemm_a8g32.h"
