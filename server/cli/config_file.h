#ifndef QUIRE_SERVER_CLI_CONFIG_FILE_H_
#define QUIRE_SERVER_CLI_CONFIG_FILE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace quire::cli {

// One `key = value` of a configuration file, its value as the command line would have it.
struct FileEntry {
  std::string key;
  std::vector<std::string> texts = {};  // of an array one for each element
  bool is_array = false;
  int line = 0;
};

// Reads TOML: strings, numbers, booleans and arrays of them; no tables, no dates. Entries come in
// the order of their lines. What is wrong is named with file and line. At most 1 MiB.
absl::StatusOr<std::vector<FileEntry>> ReadConfigFile(const std::string& path);

// `key = value  # comment`, or `# key is not set: comment` where there is no text and no array.
// INVALID_ARGUMENT for a text that is not UTF-8, which TOML cannot hold.
absl::StatusOr<std::string> ConfigLine(const FileEntry& entry, const std::string& comment);

}  // namespace quire::cli

#endif  // QUIRE_SERVER_CLI_CONFIG_FILE_H_
