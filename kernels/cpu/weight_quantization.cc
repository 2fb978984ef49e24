#include "kernels/cpu/weight_quantization.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/check.h"
#include "kernels/cpu/f16.h"

namespace quire {
namespace {

constexpr int kGroup = 32;

// As an fp16.
uint16_t ScaleOf(const float* x, float scale) {
  const bool finite = std::all_of(x, x + kGroup, [](float v) { return std::isfinite(v); });
  if (!finite) return ToF16(std::numeric_limits<float>::quiet_NaN());
  constexpr float kLargest = 65504;
  return ToF16(std::clamp(scale, -kLargest, kLargest));
}

// In multiples of `scale`, rounded to nearest even; 0 where there is no scale.
int Rounded(float x, float scale, int lowest, int highest) {
  if (scale == 0 || std::isnan(scale)) return 0;
  const float q = std::nearbyintf(x / scale);
  return static_cast<int>(std::clamp(q, static_cast<float>(lowest), static_cast<float>(highest)));
}

void QuantizeQ80(const float* x, float largest, uint8_t* block) {
  const uint16_t half = ScaleOf(x, std::fabs(largest) / 127.0f);
  std::memcpy(block, &half, sizeof(half));
  for (int i = 0; i < kGroup; ++i) {
    block[2 + i] = static_cast<uint8_t>(Rounded(x[i], FromF16(half), -127, 127));
  }
}

void QuantizeQ40(const float* x, float largest, uint8_t* block) {
  const uint16_t half = ScaleOf(x, largest / -8.0f);
  std::memcpy(block, &half, sizeof(half));
  for (int i = 0; i < 16; ++i) {
    const int low = Rounded(x[i], FromF16(half), -8, 7) + 8;
    const int high = Rounded(x[16 + i], FromF16(half), -8, 7) + 8;
    block[2 + i] = static_cast<uint8_t>(low | high << 4);
  }
}

}  // namespace

void QuantizeWeightRow(DType dtype, const float* x, int64_t cols, uint8_t* out) {
  QUIRE_CHECK(dtype == DType::kQ8_0 || dtype == DType::kQ4_0, "rows are rounded to Q8_0 or Q4_0");
  for (int64_t begin = 0; begin < cols; begin += kGroup) {
    const float* const largest =
        std::max_element(x + begin, x + begin + kGroup,
                         [](float a, float b) { return std::fabs(a) < std::fabs(b); });
    if (dtype == DType::kQ8_0) {
      QuantizeQ80(x + begin, *largest, out);
    } else {
      QuantizeQ40(x + begin, *largest, out);
    }
    out += InfoOf(dtype).block_bytes;
  }
}

}  // namespace quire
