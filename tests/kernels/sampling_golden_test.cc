// The filters of sampling against transformers and llama.cpp: tests/golden/README.md, "sampling".

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "kernels/cpu/reference/sampling.h"
#include "kernels/cpu/thread_pool.h"
#include "tests/testing/golden_data.h"

namespace quire {
namespace {

using Json = nlohmann::json;

std::string GoldenPath(const std::string& file) { return OwnGoldenPath("sampling/" + file); }

// Tokens of a mask, bit id % 8 of byte id / 8 in hexadecimal.
std::vector<int32_t> TokensOf(const std::string& hex) {
  std::vector<int32_t> ids;
  for (size_t byte = 0; byte * 2 < hex.size(); ++byte) {
    const int bits = std::stoi(hex.substr(byte * 2, 2), nullptr, 16);
    for (int bit = 0; bit < 8; ++bit) {
      if (bits >> bit & 1) ids.push_back(static_cast<int32_t>(byte * 8 + bit));
    }
  }
  return ids;
}

SampleRow RowOf(const Json& params) {
  SampleRow row;
  row.temperature = params.value("temperature", 1.0f);
  row.top_n_sigma = params.value("top_n_sigma", 0.0f);
  row.min_p = params.value("min_p", 0.0f);
  row.top_k = params.value("top_k", 0);
  row.typical_p = params.value("typical_p", 1.0f);
  row.top_p = params.value("top_p", 1.0f);
  row.xtc_probability = params.contains("xtc_threshold") ? 1.0f : 0.0f;
  row.xtc_threshold = params.value("xtc_threshold", 0.0f);
  return row;
}

TEST(SamplingGolden, FiltersLeaveTheTokensThatTransformersAndLlamaCppLeave) {
  const ScopedFlushDenormals flush;
  const GoldenArrays arrays(GoldenPath("arrays.safetensors"));
  std::map<std::string, int> num_cases;
  for (const Json& params : ReadJsonLines(GoldenPath("filters.jsonl"))) {
    ++num_cases[params["by"]];
    const std::vector<float> logits = arrays.Get<float>(params["logits"]);
    const auto kept = reference::KeptTokens(logits, RowOf(params));
    std::vector<int32_t> ids;
    for (const reference::Candidate& c : kept) ids.push_back(c.id);
    std::sort(ids.begin(), ids.end());
    Json shown = params;
    shown.erase("kept");
    EXPECT_EQ(ids, TokensOf(params["kept"])) << shown;
    if (!params.contains("scores")) continue;
    const std::vector<float> scores = arrays.Get<float>(params["scores"]);
    for (const reference::Candidate& c : kept) EXPECT_FLOAT_EQ(c.score, scores[c.id]) << shown;
  }
  EXPECT_EQ(num_cases["transformers"], 211);
  EXPECT_EQ(num_cases["llama.cpp"], 276);
}

}  // namespace
}  // namespace quire
