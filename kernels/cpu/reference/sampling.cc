#include "kernels/cpu/reference/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cpu/reference/math.h"
#include "kernels/cpu/sampling_rule.h"

namespace quire::reference {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Falling score, then rising id.
bool Before(const Candidate& a, const Candidate& b) {
  return a.score != b.score ? a.score > b.score : a.id < b.id;
}

uint64_t TotalOf(const std::vector<Candidate>& candidates) {
  uint64_t total = 0;
  for (const Candidate& c : candidates) total += c.weight;
  return total;
}

// Keeps the shortest prefix whose weights sum to `share` of all.
void KeepShare(float share, std::vector<Candidate>& candidates) {
  const uint64_t target = ShareOf(TotalOf(candidates), share);
  uint64_t sum = 0;
  size_t kept = 0;
  while (sum < target) sum += candidates[kept++].weight;
  candidates.resize(kept);
}

void KeepWithinDeviations(float num_deviations, absl::Span<const float> logits, float temperature,
                          std::vector<Candidate>& candidates) {
  // Elements that are not finite count as zeros in a sum, and not in the number.
  const auto score_of = [&](size_t i) { return logits[i] / temperature + 0.0f; };
  Sum16 sum;
  int count = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!std::isfinite(score_of(i))) continue;
    sum.Add(static_cast<int64_t>(i), score_of(i));
    ++count;
  }
  const float mean = sum.Total() / static_cast<float>(count);
  Sum16 squares;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!std::isfinite(score_of(i))) continue;
    const float x = score_of(i) - mean;
    squares.Add(static_cast<int64_t>(i), x * x);
  }
  const float deviation = std::sqrt(squares.Total() / static_cast<float>(count));
  const float lowest = 0.0f - num_deviations * deviation;
  std::erase_if(candidates, [&](const Candidate& c) { return c.depth < lowest; });
}

// Leaves the order by score behind.
void KeepTypical(float typical_p, std::vector<Candidate>& candidates) {
  uint64_t depth = 0;
  for (const Candidate& c : candidates) {
    depth += static_cast<uint64_t>(Exp(c.depth) * (0.0f - c.depth) * 0x1p40f);
  }
  const float center = TypicalCenter(depth, TotalOf(candidates));
  std::sort(candidates.begin(), candidates.end(), [&](const Candidate& a, const Candidate& b) {
    const float far_a = std::fabs(a.depth - center);
    const float far_b = std::fabs(b.depth - center);
    return far_a != far_b ? far_a < far_b : a.id < b.id;
  });
  KeepShare(typical_p, candidates);
}

void ExcludeTopChoices(const SampleRow& row, std::vector<Candidate>& sorted) {
  const auto words =
      Philox({0, static_cast<uint32_t>(row.position), kPurposeXtc, row.choice},
             {static_cast<uint32_t>(row.seed), static_cast<uint32_t>(row.seed >> 32)});
  if (!XtcHappens(words[0], row.xtc_probability)) return;
  const uint64_t threshold = ShareOf(TotalOf(sorted), row.xtc_threshold);
  int32_t last = kNoToken;
  for (const Candidate& c : sorted) {
    if (c.weight >= threshold) last = c.id;
  }
  std::erase_if(sorted, [&](const Candidate& c) { return c.weight >= threshold && c.id != last; });
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

int32_t ArgMax(absl::Span<const float> logits) {
  float best = -kInfinity;
  int32_t id = kNoToken;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > best) {
      best = logits[i];
      id = static_cast<int32_t>(i);
    }
  }
  return id;
}

std::vector<float> EditLogits(absl::Span<const float> logits, const LogitEdits& edits) {
  std::vector<float> edited(logits.begin(), logits.end());
  for (const TokenBias& b : edits.biases) edited[b.token_id] += b.bias;
  if (!edits.allowed.empty()) {
    for (size_t id = 0; id < edited.size(); ++id) {
      if ((edits.allowed[id / 32] >> (id % 32) & 1) == 0) edited[id] = -kInfinity;
    }
  }
  for (const int32_t id : edits.banned) edited[id] = -kInfinity;
  for (const TokenCount& count : edits.counts) {
    edited[count.token_id] = Penalized(edited[count.token_id], count, edits);
  }
  return edited;
}

std::vector<Candidate> KeptTokens(absl::Span<const float> logits, const SampleRow& row) {
  const int32_t best = ArgMax(logits);
  if (best == kNoToken) return {};
  const float max = logits[best] / row.temperature + 0.0f;
  if (!std::isfinite(max)) return {};

  std::vector<Candidate> kept;
  for (size_t id = 0; id < logits.size(); ++id) {
    const float score = logits[id] / row.temperature + 0.0f;
    const float depth = score - max;
    if (depth > -kInfinity) {
      kept.push_back({static_cast<int32_t>(id), score, depth, WeightOf(depth)});
    }
  }
  if (row.top_n_sigma > 0) KeepWithinDeviations(row.top_n_sigma, logits, row.temperature, kept);
  if (row.min_p > 0) {
    const uint64_t min_weight = MinWeight(row.min_p);
    std::erase_if(kept, [&](const Candidate& c) { return c.weight < min_weight; });
  }
  std::sort(kept.begin(), kept.end(), Before);
  if (row.top_k > 0 && row.top_k < static_cast<int>(kept.size())) kept.resize(row.top_k);
  if (row.typical_p < 1) {
    KeepTypical(row.typical_p, kept);
    std::sort(kept.begin(), kept.end(), Before);
  }
  if (row.top_p < 1) KeepShare(row.top_p, kept);
  if (row.xtc_probability > 0) ExcludeTopChoices(row, kept);
  return kept;
}

int32_t SampleToken(absl::Span<const float> logits, const SampleRow& row) {
  const std::vector<float> edited = EditLogits(logits, row.edits);
  const int32_t greedy = ArgMax(edited);
  if (row.temperature == 0) return greedy;
  const std::vector<Candidate> kept = KeptTokens(edited, row);
  if (kept.empty()) return greedy;

  float best = -kInfinity;
  int32_t choice = kNoToken;
  for (const Candidate& c : kept) {
    const float value = c.score + GumbelOfToken(row, c.id);
    if (value > best || (value == best && c.id < choice)) {
      best = value;
      choice = c.id;
    }
  }
  return choice;
}

RowLogprobs LogprobsOf(absl::Span<const float> logits, int32_t token_id, int32_t num_top) {
  std::vector<TokenLogprob> sorted;  // with logits for now
  for (size_t id = 0; id < logits.size(); ++id) {
    if (!std::isnan(logits[id])) sorted.push_back({static_cast<int32_t>(id), logits[id]});
  }
  std::stable_sort(sorted.begin(), sorted.end(), [](const TokenLogprob& a, const TokenLogprob& b) {
    return a.logprob > b.logprob;
  });
  uint64_t total = 0;
  for (const TokenLogprob& t : sorted) total += WeightOf(t.logprob - sorted[0].logprob);
  const float log_total =
      total == 0 ? kNan : Log(static_cast<float>(static_cast<double>(total) * 0x1p-40));
  const auto logprob_of = [&](float logit) {
    return total == 0 ? kNan : (logit - sorted[0].logprob) - log_total;
  };

  RowLogprobs answer;
  answer.num_top = std::min(num_top, static_cast<int32_t>(sorted.size()));
  for (int i = 0; i < answer.num_top; ++i) {
    answer.top[i] = {sorted[i].token_id, logprob_of(sorted[i].logprob)};
  }
  answer.token.token_id = token_id;
  if (token_id == kNoToken) {
    answer.token.logprob = -kInfinity;
    return answer;
  }
  answer.token.logprob = logprob_of(logits[token_id]);
  answer.rank = 1;
  for (const TokenLogprob& t : sorted) {
    if (t.token_id == token_id) break;
    ++answer.rank;
  }
  return answer;
}

}  // namespace quire::reference
