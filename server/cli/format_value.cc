#include "server/cli/format_value.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace quire::cli {
namespace {

struct Unit {
  const char* name;
  int64_t size;
};

// The first of them that divides the number; the last is 1.
template <size_t kCount>
std::string InUnits(int64_t number, const Unit (&units)[kCount]) {
  const Unit* unit = units;
  while (number == 0 ? unit->size != 1 : number % unit->size != 0) ++unit;
  return absl::StrCat(number / unit->size, unit->name);
}

}  // namespace

std::string FormatSize(int64_t size) {
  static constexpr Unit kUnits[] = {{"TiB", int64_t{1} << 40},
                                    {"GiB", int64_t{1} << 30},
                                    {"MiB", int64_t{1} << 20},
                                    {"KiB", int64_t{1} << 10},
                                    {"", 1}};
  return InUnits(size, kUnits);
}

std::string FormatDurationMs(int64_t ms) {
  static constexpr Unit kUnits[] = {{"m", 60'000}, {"s", 1000}, {"ms", 1}};
  return InUnits(ms, kUnits);
}

std::vector<std::string> FormatValue(const std::string& value) { return {value}; }

std::vector<std::string> FormatValue(bool value) { return {value ? "true" : "false"}; }

std::vector<std::string> FormatValue(const std::vector<std::string>& value) { return value; }

std::vector<std::string> FormatValue(const std::vector<int32_t>& value) {
  return {absl::StrJoin(value, ",")};
}

}  // namespace quire::cli
