#ifndef QUIRE_SERVER_CLI_NEAREST_H_
#define QUIRE_SERVER_CLI_NEAREST_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace quire::cli {

// How many characters must be put in, left out or replaced to make one word of the other.
size_t EditDistance(absl::string_view a, absl::string_view b);

// The candidate with the least distance, the first of several. REQUIRES: there is one.
std::string Nearest(absl::string_view word, const std::vector<std::string>& candidates);

}  // namespace quire::cli

#endif  // QUIRE_SERVER_CLI_NEAREST_H_
