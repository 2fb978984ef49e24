#ifndef QUIRE_SERVER_STOP_STRINGS_H_
#define QUIRE_SERVER_STOP_STRINGS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace quire {

// Where does a text first have one of several strings? An automaton (Aho and Corasick, 1975): each
// byte of text costs the same, however many strings there are and whatever the text was.
//
// Immutable after construction, whose time and memory are linear in the bytes of the strings. Any
// thread.
class StopStrings {
 public:
  // REQUIRES: no string is empty.
  explicit StopStrings(absl::Span<const std::string> strings);

  bool empty() const { return strings_.empty(); }
  const std::string& operator[](int32_t index) const {
    return strings_[static_cast<size_t>(index)];
  }

 private:
  friend class StopScan;

  // What the text so far ends with: the longest suffix that begins one of the strings.
  struct Node {
    int32_t fail = 0;      // the next shorter such suffix
    int32_t longest = -1;  // the longest string that the text ends with; -1: none
    int32_t held = 0;      // bytes at the end of the text that more text may complete
    int32_t depth = 0;
    bool goes_on = false;
  };

  int32_t Child(int32_t node, uint8_t byte) const;  // -1: none
  int32_t Next(int32_t node, uint8_t byte) const;

  const std::vector<std::string> strings_;
  std::vector<Node> nodes_;                          // the root first, then by depth
  absl::flat_hash_map<uint64_t, int32_t> children_;  // node << 8 | byte
};

// One text on its way through StopStrings, piece by piece. Owned by one choice.
class StopScan {
 public:
  struct Match {
    int64_t begin = 0;  // in bytes of all the text that was fed
    int32_t index = 0;  // of the string
  };

  // `strings` must outlive this.
  explicit StopScan(const StopStrings& strings) : strings_(&strings) {}

  // Takes the next piece. Where strings end within it and `may_stop`: the one that begins first in
  // the text, and of those the first in the list.
  std::optional<Match> Feed(absl::string_view piece, bool may_stop);

  // Bytes at the end of the text that may be the beginning of a string. Where text and strings are
  // UTF-8, they begin with a whole character.
  int64_t num_held() const;

 private:
  const StopStrings* strings_;
  int32_t node_ = 0;
  int64_t num_bytes_ = 0;
};

}  // namespace quire

#endif  // QUIRE_SERVER_STOP_STRINGS_H_
