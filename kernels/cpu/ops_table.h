#ifndef QUIRE_KERNELS_CPU_OPS_TABLE_H_
#define QUIRE_KERNELS_CPU_OPS_TABLE_H_

// The definition of the CpuOps of one instruction set: ops_<isa>.cc are this and nothing else.

#include "kernels/cpu/gumbel.h"
#include "kernels/cpu/logprobs_kernels.h"
#include "kernels/cpu/norm.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/quantize.h"
#include "kernels/cpu/rope.h"
#include "kernels/cpu/sampling_kernels.h"
#include "kernels/cpu/unpack.h"
#include "kernels/cpu/unpack_k.h"

namespace quire {
inline namespace QUIRE_ISA {

extern const CpuOps kCpuOps;
// Included by one source of each instruction set. NOLINTNEXTLINE(misc-definitions-in-headers)
const CpuOps kCpuOps = {
    .rms_norm = RmsNormRow,
    .rms_norm_head = RmsNormHead,
    .all_finite = AllFinite,
    .rotate_head = RotateHead,
    .round_row = RoundRow,
    .widen_row = WidenRow,
    .quantize_row = QuantizeRow,
    .unpack_f32 = UnpackF32Row,
    .unpack_f16 = UnpackF16Row,
    .unpack_bf16 = UnpackBf16Row,
    .unpack_q4_0 = UnpackQ40Row,
    .unpack_q4_1 = UnpackQ41Row,
    .unpack_q5_0 = UnpackQ50Row,
    .unpack_q5_1 = UnpackQ51Row,
    .unpack_q8_0 = UnpackQ80Row,
    .unpack_q4_k = UnpackQ4KRow,
    .unpack_q5_k = UnpackQ5KRow,
    .unpack_q6_k = UnpackQ6KRow,
    .unpack_f8_e4m3 = UnpackF8E4M3Row,
    .argmax = ArgMaxRow,
    .mask = MaskRow,
    .scale = ScaleRow,
    .spread = SpreadOfRow,
    .sum_weights = SumWeights,
    .count_levels = CountLevels,
    .sum_levels = SumLevels,
    .collect = CollectNear,
    .weigh = WeighCandidates,
    .gumbel_argmax = GumbelArgMaxRow,
    .gumbel_argmax_of = GumbelArgMaxOf,
    .top = TopOfRow,
    .num_before = NumBefore,
};

}  // namespace QUIRE_ISA
}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_OPS_TABLE_H_
