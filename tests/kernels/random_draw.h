#ifndef QUIRE_TESTS_KERNELS_RANDOM_DRAW_H_
#define QUIRE_TESTS_KERNELS_RANDOM_DRAW_H_

#include <cmath>
#include <cstdint>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/sample_row.h"

namespace quire {

// A random row of logits and a random valid request for a token of it, a function of the seed.
class RandomDraw {
 public:
  RandomDraw(uint64_t seed, int vocab_size) : random_(seed), logits_(vocab_size) {
    FillLogits();
    FillParameters();
    if (random_() % 2 == 0) FillEdits();
  }
  RandomDraw(const RandomDraw&) = delete;
  RandomDraw& operator=(const RandomDraw&) = delete;

  const std::vector<float>& logits() const { return logits_; }
  SampleRow row() const {
    SampleRow row = row_;
    row.edits.biases = biases_;
    row.edits.allowed = allowed_;
    row.edits.banned = banned_;
    row.edits.counts = counts_;
    return row;
  }

  std::string ToString() const {
    std::ostringstream text;
    text << "kind " << kind_ << " T " << row_.temperature << " n_sigma " << row_.top_n_sigma
         << " min_p " << row_.min_p << " top_k " << row_.top_k << " typical " << row_.typical_p
         << " top_p " << row_.top_p << " xtc " << row_.xtc_probability << " at "
         << row_.xtc_threshold << " penalties " << row_.edits.repetition_penalty << " "
         << row_.edits.frequency_penalty << " " << row_.edits.presence_penalty << " biases "
         << biases_.size() << " allowed " << allowed_.size() << " banned " << banned_.size()
         << " counts " << counts_.size();
    return text.str();
  }

 private:
  template <typename T>
  T OneOf(std::initializer_list<T> values) {
    return values.begin()[random_() % values.size()];
  }
  float Between(float low, float high) {
    return std::uniform_real_distribution<float>(low, high)(random_);
  }
  bool OneIn(int n) { return random_() % n == 0; }

  // Narrow to wide, with many ties, all equal, with impossible tokens, with what a broken model
  // says.
  void FillLogits() {
    kind_ = static_cast<int>(random_() % 10);
    const float deviation = OneOf({0.01f, 0.5f, 1.0f, 2.0f, 3.0f, 8.0f});
    std::normal_distribution<float> normal(0, deviation);
    for (float& x : logits_) {
      x = normal(random_);
      if (kind_ == 0) x = std::round(x * 2) / 2;
      if (kind_ == 1) x = -1.5f;
      if (kind_ == 2 && OneIn(3)) x = -INFINITY;
      if (kind_ == 3 && OneIn(400)) x = OneOf({INFINITY, -INFINITY, NAN});
    }
  }

  void FillParameters() {
    row_.temperature = OneOf({0.0f, 0.05f, 0.7f, 1.0f, 1.0f, 1.3f, 2.5f, Between(0.01f, 2)});
    if (OneIn(3)) row_.top_n_sigma = OneOf({0.3f, 1.0f, 2.0f, Between(0, 5)});
    if (OneIn(3)) row_.min_p = OneOf({0.05f, 0.001f, 0.5f, 1.0f, 1e-9f, Between(0.001f, 1)});
    if (OneIn(3)) row_.top_k = OneOf({1, 2, 5, 20, 50, 1 << 20});
    if (OneIn(3)) row_.typical_p = OneOf({0.95f, 0.5f, 0.2f, 0.999f, Between(0.01f, 0.999f)});
    if (OneIn(3)) row_.top_p = OneOf({0.95f, 0.5f, 0.1f, 0.9999f, Between(0.01f, 0.999f)});
    if (OneIn(3)) {
      row_.xtc_probability = OneOf({0.5f, 1.0f, Between(0, 1)});
      row_.xtc_threshold = OneOf({0.1f, 0.01f, 0.0f, 0.5f, Between(0, 0.5f)});
    }
    row_.seed = random_();
    row_.choice = random_() % 8;
    row_.position = static_cast<int32_t>(random_() % 100000);
  }

  // Each token at most once in a list: ids ascend by random steps.
  template <typename Add>
  void ForSomeIds(Add add) {
    const int step = OneOf({1, 3, 10, 100});
    const int vocab_size = static_cast<int>(logits_.size());
    for (int id = static_cast<int>(random_() % step); id < vocab_size;
         id += 1 + static_cast<int>(random_() % step)) {
      add(id);
    }
  }

  void FillEdits() {
    if (OneIn(2)) ForSomeIds([&](int id) { biases_.push_back({id, Between(-20, 20)}); });
    if (OneIn(3)) {
      allowed_.resize((logits_.size() + 31) / 32);
      ForSomeIds([&](int id) { allowed_[id / 32] |= 1u << (id % 32); });
    }
    if (OneIn(2)) ForSomeIds([&](int id) { banned_.push_back(id); });
    if (OneIn(2)) {
      row_.edits.repetition_penalty = OneOf({1.0f, 1.1f, 0.8f, 2.0f, Between(0.5f, 2)});
      row_.edits.frequency_penalty = OneOf({0.0f, 0.5f, -2.0f, Between(-2, 2)});
      row_.edits.presence_penalty = OneOf({0.0f, 0.5f, 2.0f, Between(-2, 2)});
      ForSomeIds([&](int id) {
        const bool in_prompt = OneIn(2);
        const int num_generated = static_cast<int>(random_() % 4) + (in_prompt ? 0 : 1);
        counts_.push_back({id, num_generated, in_prompt});
      });
    }
  }

  std::mt19937_64 random_;
  std::vector<float> logits_;
  int kind_ = 0;
  SampleRow row_;
  std::vector<TokenBias> biases_;
  std::vector<uint32_t> allowed_;
  std::vector<int32_t> banned_;
  std::vector<TokenCount> counts_;
};

}  // namespace quire

#endif  // QUIRE_TESTS_KERNELS_RANDOM_DRAW_H_
