// The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.

#include "server/cli/doctor/self_test_model.h"

#include <bit>
#include <vector>

#include "absl/strings/str_cat.h"

namespace quire::cli {
namespace {

constexpr uint64_t kVocab = 64;
constexpr uint64_t kHidden = 64;
constexpr uint64_t kHeads = 4;
constexpr uint64_t kKvHeads = 2;
constexpr uint64_t kHeadDim = kHidden / kHeads;
constexpr uint64_t kMlp = 128;
constexpr uint32_t kLayers = 2;
constexpr uint64_t kAlignment = 32;

// Numbers of the format.
constexpr uint32_t kUint32 = 4, kFloat32 = 6, kString = 8;  // of metadata
constexpr uint32_t kF32 = 0, kBf16 = 30;                    // of tensors

struct Tensor {
  std::string name;
  uint64_t rows = 0;  // 0: a vector, of a norm
  uint64_t cols = 0;
  float scale = 0.25f;
};

// Their order is that of the formula's numbers.
std::vector<Tensor> Tensors() {
  std::vector<Tensor> tensors = {{"token_embd.weight", kVocab, kHidden, 1.0f},
                                 {"output.weight", kVocab, kHidden},
                                 {"output_norm.weight", 0, kHidden}};
  for (uint32_t layer = 0; layer < kLayers; ++layer) {
    const std::string prefix = absl::StrCat("blk.", layer, ".");
    for (const Tensor& tensor : {Tensor{"attn_norm", 0, kHidden},
                                 {"attn_q", kHeads * kHeadDim, kHidden},
                                 {"attn_k", kKvHeads * kHeadDim, kHidden},
                                 {"attn_v", kKvHeads * kHeadDim, kHidden},
                                 {"attn_output", kHidden, kHeads * kHeadDim},
                                 {"ffn_norm", 0, kHidden},
                                 {"ffn_gate", kMlp, kHidden},
                                 {"ffn_up", kMlp, kHidden},
                                 {"ffn_down", kHidden, kMlp}}) {
      tensors.push_back(tensor);
      tensors.back().name = absl::StrCat(prefix, tensor.name, ".weight");
    }
  }
  return tensors;
}

// A bijection of 32 bits that leaves no pattern.
uint32_t Mix(uint32_t x) {
  x = (x ^ x >> 16) * 0x7feb352d;
  x = (x ^ x >> 15) * 0x846ca68b;
  return x ^ x >> 16;
}

// k / 128 for a whole k from -128 to 127.
float Value(uint32_t seed, uint32_t tensor, uint32_t element) {
  const uint32_t bits = Mix(Mix(seed * 64 + tensor) + element) >> 24;
  return static_cast<float>(static_cast<int8_t>(bits)) / 128;
}

// Little-endian, as this machine is.
template <typename T>
void Append(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void AppendText(std::string& bytes, absl::string_view text) {
  Append(bytes, uint64_t{text.size()});
  absl::StrAppend(&bytes, text);
}

std::string DataOf(const Tensor& tensor, uint32_t seed, uint32_t number) {
  std::string data;
  const bool is_norm = tensor.rows == 0;
  const uint64_t count = is_norm ? tensor.cols : tensor.rows * tensor.cols;
  for (uint32_t i = 0; i < count; ++i) {
    const float value = Value(seed, number, i);
    if (is_norm) {
      Append(data, 1 + value / 2);
    } else {
      Append(data, static_cast<uint16_t>(std::bit_cast<uint32_t>(value * tensor.scale) >> 16));
    }
  }
  return data;
}

void AppendMetadata(std::string& file) {
  AppendText(file, "general.architecture");
  Append(file, kString);
  AppendText(file, "llama");
  const std::pair<const char*, uint32_t> sizes[] = {
      {"block_count", kLayers},         {"embedding_length", kHidden},
      {"attention.head_count", kHeads}, {"attention.head_count_kv", kKvHeads},
      {"feed_forward_length", kMlp},    {"context_length", 256}};
  for (const auto& [key, value] : sizes) {
    AppendText(file, absl::StrCat("llama.", key));
    Append(file, kUint32);
    Append(file, value);
  }
  const std::pair<const char*, float> numbers[] = {{"attention.layer_norm_rms_epsilon", 1e-5f},
                                                   {"rope.freq_base", 10000.0f}};
  for (const auto& [key, value] : numbers) {
    AppendText(file, absl::StrCat("llama.", key));
    Append(file, kFloat32);
    Append(file, value);
  }
}

}  // namespace

std::string SelfTestModel(uint32_t seed) {
  constexpr uint64_t kNumEntries = 9;
  const std::vector<Tensor> tensors = Tensors();
  std::string file = "GGUF";
  Append(file, uint32_t{3});
  Append(file, uint64_t{tensors.size()});
  Append(file, kNumEntries);
  AppendMetadata(file);
  std::string data;
  for (uint32_t number = 0; number < tensors.size(); ++number) {
    const Tensor& tensor = tensors[number];
    const bool is_norm = tensor.rows == 0;
    AppendText(file, tensor.name);
    Append(file, uint32_t{is_norm ? 1U : 2U});
    Append(file, tensor.cols);  // the fastest comes first
    if (!is_norm) Append(file, tensor.rows);
    Append(file, is_norm ? kF32 : kBf16);
    Append(file, uint64_t{data.size()});  // every tensor is a multiple of the alignment
    data += DataOf(tensor, seed, number);
  }
  file.resize((file.size() + kAlignment - 1) / kAlignment * kAlignment);
  return file + data;
}

}  // namespace quire::cli
