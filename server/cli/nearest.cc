#include "server/cli/nearest.h"

#include <algorithm>
#include <numeric>

namespace quire::cli {

size_t EditDistance(absl::string_view a, absl::string_view b) {
  // distances[j]: between what was seen of `a` and the first j of `b`.
  std::vector<size_t> distances(b.size() + 1);
  std::iota(distances.begin(), distances.end(), size_t{0});
  for (const char c : a) {
    size_t diagonal = distances[0]++;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (c == b[j] ? 0 : 1);
      diagonal = distances[j + 1];
      distances[j + 1] = std::min({replaced, diagonal + 1, distances[j] + 1});
    }
  }
  return distances.back();
}

std::string Nearest(absl::string_view word, const std::vector<std::string>& candidates) {
  return *std::min_element(candidates.begin(), candidates.end(),
                           [word](const std::string& a, const std::string& b) {
                             return EditDistance(word, a) < EditDistance(word, b);
                           });
}

}  // namespace quire::cli
