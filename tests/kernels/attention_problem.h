#ifndef QUIRE_TESTS_KERNELS_ATTENTION_PROBLEM_H_
#define QUIRE_TESTS_KERNELS_ATTENTION_PROBLEM_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "kernels/cpu/bf16.h"
#include "kernels/cpu/reference/attention.h"
#include "kernels/cpu/thread_pool.h"

// Random queries, keys and values of a few sequences, and what the definition makes of them.

namespace quire {

struct Model {
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  int window = 0;
  NumericsMode mode = NumericsMode::kBf16x2;
};

// The last `num_queries` tokens of a context of `num_tokens` are queries of the step. The first
// `num_shared` tokens, none of them a query, are those of an earlier sequence.
struct Sequence {
  int num_tokens = 0;
  int num_queries = 0;
  int shared_with = 0;
  int num_shared = 0;
};

enum class Values { kUsual, kTiny };

// Dense q, k, v of a few sequences, and what the definition makes of them.
struct Problem {
  Model model;
  std::vector<Sequence> seqs;
  std::vector<std::vector<uint16_t>> q;  // per sequence: bf16 [num_tokens, num_heads, head_dim]
  std::vector<std::vector<uint16_t>> k;  // per sequence: bf16 [num_tokens, num_kv_heads, head_dim]
  std::vector<std::vector<uint16_t>> v;
  std::vector<uint16_t> expected;  // bf16 [sum of num_queries, num_heads * head_dim]
};

inline std::vector<uint16_t> RandomBf16(size_t count, float scale, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<uint16_t> values(count);
  for (uint16_t& x : values) x = RneBf16(normal(random) * scale);
  return values;
}

inline reference::AttentionRow RowOf(const Problem& problem, int seq, int token, int head) {
  const Model& model = problem.model;
  const int kv_head = head / (model.num_heads / model.num_kv_heads);
  reference::AttentionRow row;
  row.q = &problem.q[seq][(static_cast<size_t>(token) * model.num_heads + head) * model.head_dim];
  row.k = problem.k[seq].data() + kv_head * model.head_dim;
  row.v = problem.v[seq].data() + kv_head * model.head_dim;
  row.token_stride = model.num_kv_heads * model.head_dim;
  row.head_dim = model.head_dim;
  row.scale = 1.0f / std::sqrt(static_cast<float>(model.head_dim));
  row.position = token;
  row.window = model.window;
  row.mode = model.mode;
  return row;
}

inline Problem ComputeProblem(const Model& model, const std::vector<Sequence>& seqs,
                              Values values) {
  const ScopedFlushDenormals flush;
  std::mt19937 random(model.num_heads * 131 + model.head_dim + static_cast<int>(seqs.size()));
  Problem problem;
  problem.model = model;
  problem.seqs = seqs;
  for (size_t seq = 0; seq < seqs.size(); ++seq) {
    const Sequence& s = seqs[seq];
    const size_t kv_elems = static_cast<size_t>(s.num_tokens) * model.num_kv_heads * model.head_dim;
    // Wide scores: some probabilities come near 1, many vanish.
    problem.q.push_back(RandomBf16(kv_elems / model.num_kv_heads * model.num_heads, 2, random));
    problem.k.push_back(RandomBf16(kv_elems, 2, random));
    problem.v.push_back(RandomBf16(kv_elems, values == Values::kTiny ? 4e-38f : 1, random));
    const int64_t shared_elems = int64_t{s.num_shared} * model.num_kv_heads * model.head_dim;
    std::copy_n(problem.k[s.shared_with].begin(), shared_elems, problem.k[seq].begin());
    std::copy_n(problem.v[s.shared_with].begin(), shared_elems, problem.v[seq].begin());
    for (int token = s.num_tokens - s.num_queries; token < s.num_tokens; ++token) {
      for (int head = 0; head < model.num_heads; ++head) {
        std::vector<uint16_t> out(model.head_dim);
        reference::Attend(RowOf(problem, static_cast<int>(seq), token, head), out.data());
        problem.expected.insert(problem.expected.end(), out.begin(), out.end());
      }
    }
  }
  return problem;
}

// Kept for the next instruction set that is tested with the same one: numbers and their results
// take most of the time.
inline const Problem& MakeProblem(const Model& model, const std::vector<Sequence>& seqs,
                                  Values values = Values::kUsual) {
  static std::map<std::vector<int>, Problem> known;
  std::vector<int> key = {model.num_heads, model.num_kv_heads,           model.head_dim,
                          model.window,    static_cast<int>(model.mode), static_cast<int>(values)};
  for (const Sequence& s : seqs) {
    key.insert(key.end(), {s.num_tokens, s.num_queries, s.shared_with, s.num_shared});
  }
  const auto [entry, is_new] = known.try_emplace(std::move(key));
  if (is_new) entry->second = ComputeProblem(model, seqs, values);
  return entry->second;
}

}  // namespace quire

#endif  // QUIRE_TESTS_KERNELS_ATTENTION_PROBLEM_H_
