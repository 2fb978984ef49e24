#include "kernels/cpu/machine_peak_kernels.h"
