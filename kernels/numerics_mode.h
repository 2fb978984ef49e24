#ifndef QUIRE_KERNELS_NUMERICS_MODE_H_
#define QUIRE_KERNELS_NUMERICS_MODE_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace quire {

// How products are computed, and to which bits (kernels/numerics.md). Chosen when a model is
// loaded; equal modes give equal bits on every machine.
enum class NumericsMode : uint8_t {
  kBf16x2,    // bf16 operands, by pairs of k; all weights are held as bf16
  kBf16x32,   // bf16 operands, by blocks of 32 of k: what AMX computes
  kA8g32,     // quantised weights by activations in int8, groups of 32; all else as in bf16x2
  kA8g32x32,  // the same, and all else as in bf16x32
};

constexpr NumericsMode kAllNumericsModes[] = {NumericsMode::kBf16x2, NumericsMode::kBf16x32,
                                              NumericsMode::kA8g32, NumericsMode::kA8g32x32};

// Whether quantised weights are multiplied by activations in int8.
constexpr bool TakesInt8(NumericsMode mode) {
  return mode == NumericsMode::kA8g32 || mode == NumericsMode::kA8g32x32;
}

// Whether products of bf16 operands go by blocks of 32, not by pairs.
constexpr bool GoesByBlocks(NumericsMode mode) {
  return mode == NumericsMode::kBf16x32 || mode == NumericsMode::kA8g32x32;
}

constexpr const char* NameOf(NumericsMode mode) {
  switch (mode) {
    case NumericsMode::kBf16x2:
      return "bf16x2";
    case NumericsMode::kBf16x32:
      return "bf16x32";
    case NumericsMode::kA8g32:
      return "a8g32";
    case NumericsMode::kA8g32x32:
      return "a8g32x32";
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
