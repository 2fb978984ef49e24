#include "kernels/cpu/reference/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cpu/reference/math.h"
#include "kernels/cpu/sampling_rule.h"

namespace quire::reference {
namespace {

struct Candidate {
  int32_t id;
  float score;
  uint64_t weight;
};

// Falling score, then rising id.
bool Before(const Candidate& a, const Candidate& b) {
  return a.score != b.score ? a.score > b.score : a.id < b.id;
}

// Keeps the shortest prefix whose weights sum to `target`.
void KeepPrefix(uint64_t target, std::vector<Candidate>& sorted) {
  uint64_t sum = 0;
  size_t kept = 0;
  while (sum < target) sum += sorted[kept++].weight;
  sorted.resize(kept);
}

void Filter(const SampleRow& row, std::vector<Candidate>& candidates) {
  if (row.min_p > 0) {
    const uint64_t min_weight = MinWeight(row.min_p);
    std::erase_if(candidates, [&](const Candidate& c) { return c.weight < min_weight; });
  }
  std::sort(candidates.begin(), candidates.end(), Before);
  if (row.top_k > 0 && row.top_k < static_cast<int>(candidates.size())) {
    candidates.resize(row.top_k);
  }
  if (row.top_p < 1) {
    uint64_t total = 0;
    for (const Candidate& c : candidates) total += c.weight;
    KeepPrefix(TopPTarget(row.top_p, total), candidates);
  }
}

float GumbelOfToken(const SampleRow& row, int32_t id) {
  const auto words = Philox(
      {static_cast<uint32_t>(id), static_cast<uint32_t>(row.position), kPurposeDraw, row.choice},
      {static_cast<uint32_t>(row.seed), static_cast<uint32_t>(row.seed >> 32)});
  return Gumbel(words[0], words[1]);
}

}  // namespace

std::array<uint32_t, 4> Philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xd2511f53u} * counter[0];
    const uint64_t product1 = uint64_t{0xcd9e8d57u} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(product0)};
    key[0] += 0x9e3779b9u;
    key[1] += 0xbb67ae85u;
  }
  return counter;
}

float Gumbel(uint32_t first, uint32_t second) {
  const float coarse = static_cast<float>(first >> 8);
  const float fine = static_cast<float>(second >> 9) + 0.5f;
  const float w = std::min(std::fma(fine, 0x1p-23f, coarse) * 0x1p-24f, 0x1.fffffep-1f);
  const float u = 1.0f - w;
  const float exponential = (w - (1.0f - u)) / u - Log(u);
  return 0.0f - Log(exponential);
}

uint64_t WeightOf(float d) {
  const float p = Exp(d);
  return p <= 1 ? static_cast<uint64_t>(p * 0x1p40f) : 0;
}

int32_t ArgMax(const float* logits, int vocab_size) {
  float best = -std::numeric_limits<float>::infinity();
  int32_t id = 0;
  for (int32_t i = 0; i < vocab_size; ++i) {
    if (logits[i] > best) {
      best = logits[i];
      id = i;
    }
  }
  return id;
}

int32_t SampleToken(const float* logits, int vocab_size, const SampleRow& row) {
  const int32_t greedy = ArgMax(logits, vocab_size);
  if (row.temperature == 0) return greedy;
  const float max = logits[greedy] / row.temperature + 0.0f;
  if (!std::isfinite(max)) return greedy;

  std::vector<Candidate> candidates;
  for (int32_t id = 0; id < vocab_size; ++id) {
    const float score = logits[id] / row.temperature + 0.0f;
    if (std::isnan(score)) continue;
    candidates.push_back({id, score, WeightOf(score - max)});
  }
  Filter(row, candidates);

  float best = -std::numeric_limits<float>::infinity();
  int32_t choice = vocab_size;
  for (const Candidate& c : candidates) {
    const float value = c.score + GumbelOfToken(row, c.id);
    if (value > best || (value == best && c.id < choice)) {
      best = value;
      choice = c.id;
    }
  }
  return choice;
}

}  // namespace quire::reference
