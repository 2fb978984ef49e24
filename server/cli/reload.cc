#include "server/cli/reload.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace quire::cli {

Reload::Values Reload::ValuesOf(absl::Span<const Flag> flags) {
  Values values;
  for (const Flag& flag : flags) {
    if (flag.sources == Sources::kAll) {
      values[KeysOf(flag)[0]] = absl::StrJoin(flag.get(), ",");
    }
  }
  return values;
}

Reload::Reload(absl::Span<const Flag> running) : running_(ValuesOf(running)), told_(running_) {}

Reload::Changes Reload::Compare(absl::Span<const Flag> next) {
  const Values values = ValuesOf(next);
  Changes changes;
  for (const Flag& flag : next) {
    const std::string key = KeysOf(flag)[0];
    const auto value = values.find(key);
    if (value == values.end()) continue;
    if (flag.reloads) {
      if (value->second == running_[key]) continue;
      changes.reloaded.push_back(absl::StrCat(key, " from ", running_[key], " to ", value->second));
      running_[key] = value->second;
    } else if (value->second != told_[key]) {
      told_[key] = value->second;
      if (value->second != running_[key]) changes.need_restart.push_back(key);
    }
  }
  return changes;
}

}  // namespace quire::cli
