#ifndef QUIRE_KERNELS_NUMERICS_MODE_H_
#define QUIRE_KERNELS_NUMERICS_MODE_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace quire {

// How products with weights are computed, and to which bits (kernels/numerics.md). Chosen when a
// model is loaded; equal modes give equal bits on every machine that has them.
enum class NumericsMode : uint8_t {
  kBf16x2,  // bf16 operands, by pairs of k; quantised weights are rounded to bf16
  kA8g32,   // quantised weights as they are, activations in int8 by groups of 32; the rest as above
  kBf16x32,  // as bf16x2, but by blocks of 32 of k: what AMX computes
};

constexpr NumericsMode kAllNumericsModes[] = {NumericsMode::kBf16x2, NumericsMode::kA8g32,
                                              NumericsMode::kBf16x32};

constexpr const char* NameOf(NumericsMode mode) {
  switch (mode) {
    case NumericsMode::kBf16x2:
      return "bf16x2";
    case NumericsMode::kA8g32:
      return "a8g32";
    case NumericsMode::kBf16x32:
      return "bf16x32";
  }
  return "?";
}

constexpr std::optional<NumericsMode> NumericsModeNamed(std::string_view name) {
  for (const NumericsMode mode : kAllNumericsModes) {
    if (name == NameOf(mode)) return mode;
  }
  return std::nullopt;
}

}  // namespace quire

#endif  // QUIRE_KERNELS_NUMERICS_MODE_H_
