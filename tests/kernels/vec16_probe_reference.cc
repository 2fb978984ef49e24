#include "tests/kernels/vec16_probe_table.h"
