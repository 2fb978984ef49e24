#include <cstdint>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/kv_block.h"

namespace quire {
namespace {

constexpr int kBlockSize = 16;
constexpr int kMaxModelLen = 32;

class LogitsCheckTest : public testing::TestWithParam<CpuIsa> {
 protected:
  void SetUp() override {
    if (!MachineRuns(GetParam())) GTEST_SKIP() << "this machine lacks " << NameOf(GetParam());
  }
};

// The residual is fine, the head is not: only who asks for logits is hit.
TEST_P(LogitsCheckTest, LogitsThatAreNotFiniteAreReportedForTheirSequence) {
  ModelShape shape;
  shape.num_layers = 1;
  shape.hidden_size = 64;
  shape.num_heads = shape.num_kv_heads = 2;
  shape.head_dim = 32;
  shape.intermediate_size = 64;
  shape.vocab_size = 40;
  shape.norm_eps = 1e-5f;
  std::vector<float> embedding(int64_t{shape.vocab_size} * shape.hidden_size, 0.5f);
  std::vector<float> head = embedding;
  head[3 * shape.hidden_size] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> norm(shape.hidden_size, 1.0f);
  const auto view = [&](const std::vector<float>& data, int64_t rows) {
    return WeightView{reinterpret_cast<const std::byte*>(data.data()), DType::kF32, rows,
                      shape.hidden_size};
  };
  CpuBackend backend({GetParam(), ""}, NumericsMode::kBf16x2, 2);
  const MatrixId embedding_id = *backend.PackMatrix({{.view = view(embedding, shape.vocab_size)}});
  const MatrixId head_id = *backend.PackMatrix({{.view = view(head, shape.vocab_size)}});
  const VectorId norm_id = *backend.PackVector({{.view = view(norm, 1)}});
  ASSERT_TRUE(backend.Reserve(shape, {16, 2, 16, 2, kMaxModelLen}).ok());
  KvSpec kv;
  kv.block_size = kBlockSize;
  kv.num_blocks = 2;
  kv.groups = {{shape.num_layers, 0}};
  kv.group_of_layer.assign(shape.num_layers, 0);
  for (int i = 0; i < shape.num_layers; ++i) kv.index_in_group.push_back(i);
  kv.block_bytes = int64_t{shape.num_layers} * 2 * shape.num_kv_heads * kBlockSize *
                   PaddedHeadDim(shape.head_dim) * 2;
  ASSERT_TRUE(backend.AllocateKv(kv).ok());
  const std::vector<int32_t> token_ids = {1, 2, 3}, positions = {0, 1, 0}, slots = {-1, -1, -1};
  const std::vector<int32_t> starts = {0, 2, 3}, tables = {0, 1}, logit_rows = {2};
  HostStep step;
  step.shape = {3, 2, 1, 0};
  step.token_ids = token_ids;
  step.positions = positions;
  step.slots = slots;
  step.query_starts = starts;
  step.block_tables = tables;
  step.max_blocks = 1;
  step.logit_rows = logit_rows;
  const StepTicket ticket = backend.Launch(step, [&](const StepShape&) {
    backend.Embed(embedding_id);
    backend.LogitsOfRows(norm_id, head_id);
  });
  const StepResult result = backend.Collect(ticket).value();
  EXPECT_EQ(result.seq_finite[0], 1);
  EXPECT_EQ(result.seq_finite[1], 0);
}

INSTANTIATE_TEST_SUITE_P(AllIsas, LogitsCheckTest, testing::ValuesIn(kAllCpuIsas),
                         [](const auto& test) { return std::string(NameOf(test.param)); });

}  // namespace
}  // namespace quire
