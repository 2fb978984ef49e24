#include "tests/bench/machine_peak_kernels.h"
