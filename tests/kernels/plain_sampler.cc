#include "tests/kernels/plain_sampler.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "kernels/cpu/reference/sampling.h"

namespace quire {
namespace {

using Real = long double;

struct Token {
  int32_t id;
  Real score;  // logit / temperature
  Real p;      // of what is left
};

class PlainSampler {
 public:
  std::optional<int32_t> Draw(std::vector<float> logits, const SampleRow& row) {
    Edit(logits, row.edits);
    std::optional<int32_t> best;
    for (size_t id = 0; id < logits.size(); ++id) {
      if (std::isnan(logits[id]) || logits[id] == -INFINITY) continue;
      if (!best.has_value() || logits[id] > logits[*best]) best = static_cast<int32_t>(id);
    }
    if (!best.has_value()) return kNoToken;
    if (row.temperature == 0 || std::isinf(logits[*best])) return best;

    for (size_t id = 0; id < logits.size(); ++id) {
      if (!std::isfinite(logits[id])) continue;
      const float score = logits[id] / row.temperature;  // one rounding to fp32
      tokens_.push_back({static_cast<int32_t>(id), score, 0});
    }
    Normalize();
    if (row.top_n_sigma > 0) KeepWithinSigmas(row.top_n_sigma);
    if (row.min_p > 0) KeepMinP(row.min_p);
    if (row.top_k > 0) KeepTopK(row.top_k);
    if (row.typical_p < 1) KeepTypical(row.typical_p);
    if (row.top_p < 1) KeepTopP(row.top_p);
    if (row.xtc_probability > 0) ExcludeTopChoices(row);
    const int32_t token = GumbelMax(row);
    if (is_close_) return std::nullopt;
    return token;
  }

 private:
  static void Edit(std::vector<float>& logits, const LogitEdits& edits) {
    std::map<int32_t, float> bias;
    std::set<int32_t> banned(edits.banned.begin(), edits.banned.end());
    for (const TokenBias& b : edits.biases) bias[b.token_id] = b.bias;
    std::map<int32_t, TokenCount> counts;
    for (const TokenCount& c : edits.counts) counts[c.token_id] = c;
    for (size_t i = 0; i < logits.size(); ++i) {
      const int32_t id = static_cast<int32_t>(i);
      float& x = logits[i];
      if (bias.contains(id)) x += bias[id];
      const bool may = edits.allowed.empty() || ((edits.allowed[i / 32] >> (i % 32)) & 1u) == 1;
      if (!may || banned.contains(id)) x = -INFINITY;
      if (!counts.contains(id)) continue;
      // repetition: Keskar et al., CTRL (2019); frequency and presence: OpenAI's API reference.
      x = x > 0 ? x / edits.repetition_penalty : x * edits.repetition_penalty;
      x = x - edits.frequency_penalty * static_cast<float>(counts[id].num_generated);
      if (counts[id].num_generated > 0) x = x - edits.presence_penalty;
    }
  }

  void Close(bool is_close) { is_close_ = is_close_ || is_close; }

  void Normalize() {
    Real max = -INFINITY, sum = 0;
    for (const Token& t : tokens_) max = std::max(max, t.score);
    for (Token& t : tokens_) sum += t.p = std::exp(t.score - max);
    for (Token& t : tokens_) t.p /= sum;
  }

  void SortByScore() {
    std::sort(tokens_.begin(), tokens_.end(), [](const Token& a, const Token& b) {
      return a.score != b.score ? a.score > b.score : a.id < b.id;
    });
  }

  void KeepWithinSigmas(Real n) {
    Real max = -INFINITY, mean = 0, variance = 0;
    const Real count = static_cast<Real>(tokens_.size());
    for (const Token& t : tokens_) {
      mean += t.score / count;
      max = std::max(max, t.score);
    }
    for (const Token& t : tokens_) variance += (t.score - mean) * (t.score - mean) / count;
    const Real threshold = max - n * std::sqrt(variance);
    for (const Token& t : tokens_) {
      Close(std::fabs(t.score - threshold) < 1e-5L * (1 + std::fabs(max - threshold)));
    }
    std::erase_if(tokens_, [&](const Token& t) { return t.score < threshold; });
    Normalize();
  }

  void KeepMinP(Real min_p) {
    Real max = 0;
    for (const Token& t : tokens_) max = std::max(max, t.p);
    for (const Token& t : tokens_) {
      Close(t.p != max && std::fabs(t.p / max - min_p) < 1e-6L * min_p + 0x1p-39L);
    }
    std::erase_if(tokens_, [&](const Token& t) { return t.p < min_p * max; });
    Normalize();
  }

  void KeepTopK(size_t k) {
    SortByScore();
    if (tokens_.size() > k) tokens_.resize(k);
    Normalize();
  }

  // The shortest prefix with at least this probability.
  void KeepMass(Real mass) {
    Real sum = 0;
    size_t kept = 0;
    while (kept < tokens_.size() && (kept == 0 || sum < mass)) {
      sum += tokens_[kept++].p;
      Close(std::fabs(sum - mass) < 1e-6L);
    }
    tokens_.resize(kept);
  }

  // Meister et al., "Locally typical sampling" (2022).
  void KeepTypical(Real mass) {
    Real entropy = 0;
    for (const Token& t : tokens_) entropy -= t.p == 0 ? 0 : t.p * std::log(t.p);
    const Real log_p_of_score_0 = std::log(tokens_[0].p) - tokens_[0].score;
    const auto distance = [&](const Token& t) {
      return std::fabs(-(t.score + log_p_of_score_0) - entropy);
    };
    std::sort(tokens_.begin(), tokens_.end(), [&](const Token& a, const Token& b) {
      return distance(a) != distance(b) ? distance(a) < distance(b) : a.id < b.id;
    });
    const std::vector<Token> all = tokens_;
    KeepMass(mass);
    // Which of two tokens at almost the same distance is the last must not matter.
    const Token& last = tokens_.back();
    for (const Token& t : all) {
      Close(t.score != last.score && std::fabs(distance(t) - distance(last)) < 1e-4L);
    }
    Normalize();
  }

  // Holtzman et al., "The curious case of neural text degeneration" (2020).
  void KeepTopP(Real mass) {
    SortByScore();
    KeepMass(mass);
    Normalize();
  }

  void ExcludeTopChoices(const SampleRow& row) {
    const auto words =
        reference::Philox({0, static_cast<uint32_t>(row.position), 1, row.choice}, Key(row));
    const Real u = static_cast<Real>(words[0] >> 8) / (1 << 24);
    if (u >= row.xtc_probability) return;
    SortByScore();
    size_t num_above = 0;
    for (const Token& t : tokens_) {
      Close(std::fabs(t.p - row.xtc_threshold) < 1e-6L);
      if (t.p >= row.xtc_threshold) ++num_above;
    }
    if (num_above >= 2) tokens_.erase(tokens_.begin(), tokens_.begin() + (num_above - 1));
  }

  static std::array<uint32_t, 2> Key(const SampleRow& row) {
    return {static_cast<uint32_t>(row.seed), static_cast<uint32_t>(row.seed >> 32)};
  }

  int32_t GumbelMax(const SampleRow& row) {
    Real best = -INFINITY, second = -INFINITY;
    int32_t choice = kNoToken;
    for (const Token& t : tokens_) {
      const auto words = reference::Philox(
          {static_cast<uint32_t>(t.id), static_cast<uint32_t>(row.position), 0, row.choice},
          Key(row));
      const Real w = (static_cast<Real>(words[0] >> 8) +
                      (static_cast<Real>(words[1] >> 9) + 0.5L) / (1 << 23)) /
                     (1 << 24);
      const Real value = t.score - std::log(-std::log1p(-w));
      second = std::max(second, std::min(value, best));
      if (value > best) {
        best = value;
        choice = t.id;
      }
    }
    Close(best - second < 1e-5L * (1 + std::fabs(best)));
    return choice;
  }

  std::vector<Token> tokens_;
  bool is_close_ = false;
};

}  // namespace

std::optional<int32_t> PlainSampledToken(const std::vector<float>& logits, const SampleRow& row) {
  return PlainSampler().Draw(logits, row);
}

}  // namespace quire
