#include "server/cli/layers.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "server/cli/config_file.h"
#include "server/cli/nearest.h"

namespace quire::cli {
namespace {

// Keys that a file may have.
std::vector<std::string> FileKeys(absl::Span<const Flag> flags) {
  std::vector<std::string> keys;
  for (const Flag& flag : flags) {
    if (flag.sources != Sources::kAll) continue;
    for (std::string& key : KeysOf(flag)) keys.push_back(std::move(key));
  }
  return keys;
}

std::optional<size_t> IndexOf(absl::Span<const Flag> flags, const std::string& key) {
  for (size_t i = 0; i < flags.size(); ++i) {
    const std::vector<std::string> keys = KeysOf(flags[i]);
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) return i;
  }
  return std::nullopt;
}

std::string RequiredText(const Flag& flag) {
  std::string text = absl::StrCat(NameOf(flag), ": is required");
  if (flag.sources != Sources::kCommandLine) {
    absl::StrAppend(&text, "; ", VariableOf(KeysOf(flag)[0]), " in the environment does as well");
  }
  return text;
}

absl::Status Set(const Flag& flag, const Said& said) {
  if (said.texts.size() > 1 && !flag.repeats) {
    return absl::InvalidArgumentError(absl::StrCat(said.place, ": given ", said.texts.size(),
                                                   " times, the last as \"", said.texts.back(),
                                                   "\"; it can be given once"));
  }
  for (const std::string& text : said.texts) {
    if (absl::Status status = flag.set(text); !status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(said.place, ": ", status.message()));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Layer> EnvironmentLayer(absl::Span<const Flag> flags, const Variables& variables) {
  Layer layer(flags.size());
  for (size_t i = 0; i < flags.size(); ++i) {
    const Flag& flag = flags[i];
    if (flag.sources == Sources::kCommandLine) continue;
    for (const std::string& key : KeysOf(flag)) {
      const std::string name = VariableOf(key);
      const auto variable = variables.find(name);
      if (variable == variables.end()) continue;
      if (layer[i]) {
        return absl::InvalidArgumentError(
            absl::StrCat(layer[i]->origin, " and ", name, " are the same setting; unset one"));
      }
      layer[i] = Said{.texts = {variable->second}, .origin = name, .place = name};
      if (flag.repeats) layer[i]->texts = absl::StrSplit(variable->second, ',', absl::SkipEmpty());
    }
  }
  return layer;
}

absl::StatusOr<Layer> FileLayer(absl::Span<const Flag> flags, const std::string& path) {
  absl::StatusOr<std::vector<FileEntry>> entries = ReadConfigFile(path);
  if (!entries.ok()) return entries.status();
  Layer layer(flags.size());
  for (FileEntry& entry : *entries) {
    const std::string origin = absl::StrCat(path, ":", entry.line);
    const std::string place = absl::StrCat(origin, ": ", entry.key);
    const std::optional<size_t> i = IndexOf(flags, entry.key);
    if (!i) {
      return absl::InvalidArgumentError(absl::StrCat(place,
                                                     ": there is no such setting; the nearest is ",
                                                     Nearest(entry.key, FileKeys(flags))));
    }
    const Flag& flag = flags[*i];
    if (flag.sources != Sources::kAll) {
      return absl::InvalidArgumentError(absl::StrCat(place, ": cannot stand in a file"));
    }
    if (layer[*i]) {
      return absl::InvalidArgumentError(absl::StrCat(place, ": is the same setting as the one of ",
                                                     layer[*i]->origin, "; remove one"));
    }
    if (entry.is_array && !flag.repeats) {
      return absl::InvalidArgumentError(absl::StrCat(place, ": takes one value, not a list"));
    }
    layer[*i] = Said{.texts = std::move(entry.texts), .origin = origin, .place = place};
  }
  return layer;
}

absl::StatusOr<std::vector<std::string>> SetFromLayers(absl::Span<const Flag> flags,
                                                       absl::Span<const Layer* const> layers) {
  std::vector<std::string> origins;
  for (size_t i = 0; i < flags.size(); ++i) {
    const auto speaks = std::find_if(layers.begin(), layers.end(),
                                     [i](const Layer* layer) { return (*layer)[i].has_value(); });
    if (speaks == layers.end()) {
      if (flags[i].required) return absl::InvalidArgumentError(RequiredText(flags[i]));
      origins.push_back("default");
      continue;
    }
    const Said& said = *(**speaks)[i];
    if (absl::Status status = Set(flags[i], said); !status.ok()) return status;
    origins.push_back(said.origin);
  }
  return origins;
}

}  // namespace quire::cli
