// Text joined is the decoding of the ids, cut at the stop: 10 000 random outputs with random stop
// strings, against a definition that decodes every prefix and searches it.
#include <algorithm>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "server/delta_builder.h"
#include "tests/testing/golden_data.h"

namespace quire {
namespace {

constexpr uint32_t kSeed = 20;
constexpr int kNumOutputs = 10'000;

struct Outcome {
  std::string text;
  int32_t num_tokens = 0;
  std::string stop;

  bool operator==(const Outcome&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Outcome& outcome) {
  return out << '"' << outcome.text << "\" of " << outcome.num_tokens << " tokens, stop \""
             << outcome.stop << '"';
}

// What has been released after each token, the end of the stream included (one entry more).
std::vector<std::string> TextsOfPrefixes(const Tokenizer& tokenizer, bool skip_special,
                                         const std::vector<int32_t>& ids) {
  std::vector<std::string> texts;
  for (size_t n = 1; n <= ids.size(); ++n) {
    StreamDecoder decoder(tokenizer, skip_special);
    std::string text;
    for (size_t i = 0; i < n; ++i) EXPECT_TRUE(decoder.Push(ids[i], text).ok());
    texts.push_back(text);
  }
  texts.push_back(*tokenizer.Decode(ids, skip_special));
  return texts;
}

// The definition.
Outcome Expected(const Tokenizer& tokenizer, const TextRules& rules,
                 const std::vector<std::string>& stops, const std::vector<int32_t>& ids) {
  const std::vector<std::string> texts = TextsOfPrefixes(tokenizer, rules.skip_special, ids);
  for (size_t n = 0; n < texts.size(); ++n) {
    const auto num_tokens = static_cast<int32_t>(std::min(n + 1, ids.size()));
    if (num_tokens < rules.min_tokens) continue;
    // The text of the token with number min_tokens is the first in which one may end.
    const auto min_tokens = static_cast<size_t>(rules.min_tokens);
    const size_t end_from = min_tokens < 2 ? 0 : texts[min_tokens - 2].size();
    const std::string* first = nullptr;
    size_t first_begin = std::string::npos;
    for (const std::string& stop : stops) {
      const size_t from = end_from < stop.size() ? 0 : end_from - stop.size() + 1;
      const size_t begin = texts[n].find(stop, from);
      if (begin >= first_begin) continue;
      first_begin = begin;
      first = &stop;
    }
    if (first == nullptr) continue;
    const size_t length = rules.include_stop_string ? first->size() : 0;
    return {texts[n].substr(0, first_begin + length), num_tokens, *first};
  }
  return {texts.back(), static_cast<int32_t>(ids.size()), ""};
}

// As a stream tells it: a delta now and then.
Outcome Told(const TextRules& rules, const std::vector<int32_t>& ids, std::mt19937& random) {
  DeltaBuilder deltas(rules);
  Outcome outcome;
  const auto take = [&] {
    while (deltas.HasDelta()) {
      v1::Delta delta;
      deltas.Take(&delta);
      outcome.text += delta.text();
      outcome.num_tokens += delta.token_ids_size();
    }
  };
  for (const int32_t id : ids) {
    deltas.Add(id);
    if (random() % 3 > 0) take();
  }
  deltas.Flush();
  take();
  EXPECT_EQ(outcome.num_tokens, deltas.num_tokens());
  if (deltas.stop_string() != nullptr) outcome.stop = *deltas.stop_string();
  return outcome;
}

// A vocabulary and ids that go together often enough for characters to break and to be whole.
class RandomOutputs {
 public:
  RandomOutputs(const Tokenizer& tokenizer, std::mt19937& random)
      : tokenizer_(tokenizer), random_(random) {
    for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
      if (!tokenizer.HasToken(id)) continue;
      all_.push_back(id);
      if (tokenizer.IsSpecial(id)) special_.push_back(id);
      if (tokenizer.TokenBytes(id).size() == 1) bytes_.push_back(id);
    }
  }

  std::vector<int32_t> Next() {
    std::vector<int32_t> ids;
    // Few different tokens, so that texts repeat themselves.
    const std::vector<int32_t> some = {Any(), Any(), Any(), Any()};
    for (size_t i = random_() % 30 + 1; i > 0; --i) {
      const uint32_t kind = random_() % 10;
      if (kind < 4) {
        ids.push_back(some[random_() % some.size()]);
      } else if (kind == 4 && !special_.empty()) {
        ids.push_back(special_[random_() % special_.size()]);
      } else if (kind == 5 && !bytes_.empty()) {
        ids.push_back(bytes_[random_() % bytes_.size()]);  // often half a character
      } else if (kind == 6) {
        const auto encoded = tokenizer_.Encode("né 日本 🙂", {.add_special = false});
        ids.insert(ids.end(), encoded->begin(), encoded->end());
      } else {
        ids.push_back(Any());
      }
    }
    return ids;
  }

  // Mostly cut from the text, so that they are found; some that only begin there.
  std::vector<std::string> Stops(const std::string& text) {
    std::vector<std::string> stops;
    for (size_t i = random_() % 4 + 1; i > 0; --i) {
      std::string stop(1, static_cast<char>('a' + random_() % 26));
      if (!text.empty() && random_() % 4 > 0) {
        size_t begin = random_() % text.size(), end = begin + 1 + random_() % 6;
        while (begin > 0 && (text[begin] & 0xC0) == 0x80) --begin;
        while (end < text.size() && (text[end] & 0xC0) == 0x80) ++end;
        stop = text.substr(begin, end - begin) + (random_() % 3 == 0 ? "~" : "");
      }
      stops.push_back(stop);
    }
    return stops;
  }

 private:
  int32_t Any() { return all_[random_() % all_.size()]; }

  const Tokenizer& tokenizer_;
  std::mt19937& random_;
  std::vector<int32_t> all_, special_, bytes_;
};

class StopPropertyTest : public testing::TestWithParam<const char*> {};

TEST_P(StopPropertyTest, TextIsTheDecodingOfTheIdsCutAtTheStop) {
  const auto tokenizer = Tokenizer::Open(OwnGoldenPath(absl::StrCat("tokenizers/", GetParam())));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  std::mt19937 random(kSeed);
  RandomOutputs outputs(**tokenizer, random);
  int num_stopped = 0;
  for (int round = 0; round < kNumOutputs / 4; ++round) {
    const std::vector<int32_t> ids = outputs.Next();
    const bool skip_special = random() % 2 == 0;
    const std::vector<std::string> stops = outputs.Stops(*(*tokenizer)->Decode(ids, skip_special));
    const TextRules rules{
        .tokenizer = tokenizer->get(),
        .skip_special = skip_special,
        .stop_strings = StopStrings(stops),
        .include_stop_string = random() % 2 == 0,
        .min_tokens = random() % 3 == 0 ? static_cast<int32_t>(random() % 12) : 0};
    const Outcome expected = Expected(**tokenizer, rules, stops, ids);
    ASSERT_EQ(Told(rules, ids, random), expected)
        << "seed " << kSeed << " round " << round << " min_tokens " << rules.min_tokens;
    num_stopped += expected.stop.empty() ? 0 : 1;
  }
  EXPECT_GT(num_stopped, kNumOutputs / 8);
  EXPECT_LT(num_stopped, kNumOutputs / 4);
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, StopPropertyTest,
                         testing::Values("own_bpe_digits", "own_bpe_llama3", "own_spm",
                                         "own_unigram"),
                         [](const auto& one) { return std::string(one.param); });

}  // namespace
}  // namespace quire
