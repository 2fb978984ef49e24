#ifndef QUIRE_TESTS_SIM_SHADOW_MODEL_H_
#define QUIRE_TESTS_SIM_SHADOW_MODEL_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "scheduler/request.h"

namespace quire {

// The model of the simulation. Like a transformer, it puts into the slot of a position what that
// position's row made of its token and of everything it saw; the next token is a hash of all that
// the last row saw. So a wrong, stale, foreign or missing slot changes every token after it.

inline uint64_t MixBits(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ULL;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// What a slot of the KV memory holds.
struct ShadowSlot {
  uint64_t state = 0;  // a hash of the tokens up to here, and of their salt
  int32_t position = -1;
  int32_t token = -1;
  bool operator==(const ShadowSlot&) const = default;
};

// What a row gets from a slot that it sees in a KvGroup. What a row gets from several is their sum.
inline uint64_t ReadSlot(const ShadowSlot& slot, int32_t group) {
  return MixBits(slot.state + 0x9e3779b97f4a7c15ULL * static_cast<uint64_t>(slot.position + 1) +
                 0xd1b54a32d192ed03ULL * static_cast<uint64_t>(slot.token + 2) +
                 0x8cb92ba72f3d8dd7ULL * static_cast<uint64_t>(group + 1));
}
inline uint64_t SeenByFirstRow(const std::string& salt) {
  return MixBits(std::hash<std::string>()(salt) | 1);
}
// `seen`: of the positions before.
inline ShadowSlot MakeSlot(uint64_t seen, int32_t position, int32_t token) {
  return {MixBits(seen ^ MixBits(static_cast<uint64_t>(token) + 1)), position, token};
}
// `digest`: the sum of all that the row saw, its own slot included.
inline int32_t DrawToken(uint64_t digest, uint64_t seed, uint32_t choice, int32_t vocab_size) {
  return static_cast<int32_t>(MixBits(digest + MixBits(seed * 1'000'003 + choice + 1)) %
                              static_cast<uint64_t>(vocab_size));
}
// The first position of a group that a row sees. `window`: 0 for full attention.
inline int32_t FirstSeen(int32_t window, int32_t position) {
  return window == 0 ? 0 : std::max(0, position - window + 1);
}

// ShadowTruth is all that a choice will ever be, known from its request alone: the only right
// answer, whatever else the server does. Stop tokens do not end it.
struct ShadowTruth {
  ShadowTruth() = default;
  ShadowTruth(const Request& request, uint32_t choice, const std::vector<int32_t>& group_windows,
              int32_t vocab_size)
      : tokens(request.prompt_token_ids) {
    const size_t num_tokens = tokens.size() + request.max_tokens;
    std::vector<std::vector<uint64_t>> sums(group_windows.size(), {0});  // of positions before
    for (size_t p = 0; p < num_tokens; ++p) {
      const auto position = static_cast<int32_t>(p);
      uint64_t seen = p == 0 ? SeenByFirstRow(request.cache_salt) : 0;
      for (size_t group = 0; group < sums.size(); ++group) {
        seen += sums[group][p] - sums[group][FirstSeen(group_windows[group], position)];
      }
      const ShadowSlot slot = MakeSlot(seen, position, tokens[p]);
      uint64_t digest = seen;
      for (size_t group = 0; group < sums.size(); ++group) {
        const uint64_t read = ReadSlot(slot, static_cast<int32_t>(group));
        digest += read;
        sums[group].push_back(sums[group][p] + read);
      }
      digests.push_back(digest);
      if (p + 1 >= request.prompt_token_ids.size() && p + 1 < num_tokens) {
        tokens.push_back(DrawToken(digest, request.sampling.seed, choice, vocab_size));
      }
    }
  }
  std::vector<int32_t> tokens;    // [prompt + max_tokens]
  std::vector<uint64_t> digests;  // [prompt + max_tokens]: what the row of each position sees
};

}  // namespace quire

#endif  // QUIRE_TESTS_SIM_SHADOW_MODEL_H_
