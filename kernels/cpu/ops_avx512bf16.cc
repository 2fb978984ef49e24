#include "kernels/cpu/ops_table.h"
