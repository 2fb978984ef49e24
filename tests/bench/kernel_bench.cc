// Speed of the CPU kernels, beside what the machine can do.
//
//   kernel_bench [substring of names] [isa] [mode]
//
// Every line is the best of many runs, with the machine's peak (multiply-adds in registers, bytes
// read from memory) measured between them: other load slows both, so percentages keep their
// meaning. One thread is timed by its own CPU clock, so that being set aside does not count.
// "GB/s" counts the weights, or the keys and values, once.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"

#include "kernels/cpu/attention.h"
#include "kernels/cpu/bf16.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/kv_block.h"
#include "kernels/cpu/machine_rates.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/thread_pool.h"

namespace quire {

namespace {

constexpr double kSecondsPerLine = 0.6;

// Runs work on a fixed number of threads and prints one line for it.
class Meter {
 public:
  Meter(CpuIsa isa, std::optional<NumericsMode> mode, int num_threads, std::string filter)
      : isa_(isa),
        mode_(mode),
        filter_(std::move(filter)),
        pool_(num_threads),
        rates_(MachineRates::Make(isa, &pool_).value()) {}

  ThreadPool* pool() { return &pool_; }
  CpuIsa isa() const { return isa_; }
  // The one that quantised weights take on such a machine, or the one asked for.
  NumericsMode mode() const {
    return mode_.value_or(isa_ == CpuIsa::kAmx ? NumericsMode::kA8g32x32 : NumericsMode::kA8g32);
  }
  // How it multiplies what is not quantised.
  NumericsMode bf16_mode() const {
    return GoesByBlocks(mode()) ? NumericsMode::kBf16x32 : NumericsMode::kBf16x2;
  }
  // MachineRates::kDataBytes of bf16 values about 1.
  const uint16_t* data() const { return rates_.data(); }
  bool Wants(const std::string& name) const { return name.find(filter_) != std::string::npos; }

  // `run` does `operations` by the rules of `mode`, and reads `bytes`.
  void Measure(const std::string& name, double operations, NumericsMode mode, double bytes,
               absl::FunctionRef<void()> run) {
    double best = 1e9;
    double peak = 0;
    double bandwidth = 0;
    run();
    const double end = rates_.Now() + kSecondsPerLine;
    while (rates_.Now() < end) {
      const double rate = rates_.Multiply(mode);
      peak = std::max(peak, rate > 0 ? rate : rates_.Multiply(NumericsMode::kBf16x2));
      bandwidth = std::max(bandwidth, rates_.Read());
      const double pause = rates_.Now() + 0.01;
      do {
        const double start = rates_.Now();
        run();
        best = std::min(best, rates_.Now() - start);
      } while (rates_.Now() < pause);
    }
    std::printf(
        "%-12s %dT %-34s %10.1f us %7.0f GF/s %5.1f%% of %-5.0f %6.1f GB/s %5.1f%% of %.0f\n",
        NameOf(isa_), pool_.num_threads(), name.c_str(), best * 1e6, operations / best / 1e9,
        100 * operations / best / peak, peak / 1e9, bytes / best / 1e9,
        100 * bytes / best / bandwidth, bandwidth / 1e9);
    std::fflush(stdout);
  }

 private:
  const CpuIsa isa_;
  const std::optional<NumericsMode> mode_;
  const std::string filter_;
  ThreadPool pool_;
  MachineRates rates_;
};

struct Format {
  const char* name;
  PackedFormat format;
};
constexpr Format kFormats[] = {{"bf16", PackedFormat::kBf16},      {"int4", PackedFormat::kU4},
                               {"int4+min", PackedFormat::kU4Min}, {"int8", PackedFormat::kU8},
                               {"q4_k", PackedFormat::kQ4K},       {"q5_k", PackedFormat::kQ5K},
                               {"q6_k", PackedFormat::kQ6K}};

// out = a * w^T with weights that cycle through the pool, as the layers of a model do. Their bytes
// are those of random bf16: as good as any to measure with.
void BenchGemm(Meter& meter, const Format& format, int m, int n, int k) {
  const std::string name = std::string("gemm ") + format.name + " m=" + std::to_string(m) +
                           " n=" + std::to_string(n) + " k=" + std::to_string(k);
  if (!meter.Wants(name)) return;
  const int64_t lda = ActivationStride(k);
  const std::vector<uint16_t> a(meter.data(), meter.data() + m * lda);
  std::vector<float> wide(lda);
  std::vector<int8_t> q(m * lda);
  std::vector<RowGroup> groups(m * (lda / kGroupDepth));
  std::vector<float> out(static_cast<size_t>(m) * n);
  GemmArgs args;
  args.a = a.data();
  args.lda = lda;
  args.quantized = {q.data(), groups.data(), lda, lda / kGroupDepth};
  args.k = k;
  args.n = n;
  args.out = out.data();
  args.ldo = n;
  for (int row = 0; row < m; ++row) {
    CpuOpsFor(meter.isa()).widen_row(&a[row * lda], k, wide.data());
    CpuOpsFor(meter.isa())
        .quantize_row(wide.data(), k, &q[row * lda], &groups[row * (lda / kGroupDepth)]);
  }
  const GemmKernels& kernels = GemmKernelsFor(meter.isa(), meter.mode(), format.format);
  const GemmChunks chunks =
      ChunkGemm(m, NumPanels(n), 1, k, RowsPerChunk(meter.mode(), format.format),
                meter.pool()->num_threads());
  const bool int8 = TakesInt8(meter.mode()) && format.format != PackedFormat::kBf16;
  const int64_t bytes = PackedBytes(format.format, n, k);
  int64_t offset = 0;
  const NumericsMode mode = int8 ? meter.mode() : meter.bf16_mode();
  meter.Measure(name, 2.0 * m * n * k, mode, static_cast<double>(bytes), [&] {
    args.w = reinterpret_cast<const uint8_t*>(meter.data()) + offset;
    offset += bytes;
    if (offset + bytes > MachineRates::kDataBytes) offset = 0;
    meter.pool()->Run(chunks.num_chunks, [&](int chunk, int) {
      const auto rows = chunks.RowsOf(chunk);
      const auto units = chunks.UnitsOf(chunk);
      kernels.store(args, rows.begin, rows.end, units.begin, units.end);
    });
  });
}

struct AttentionCase {
  int num_seqs;
  int context;
  int num_queries;  // per sequence, the last tokens of the context
  int num_heads;
  int num_kv_heads;
  int head_dim;
  int block_size;
  int num_shared = 0;  // first tokens that all sequences have in the same blocks
};

// Layers cycle through the pool.
void BenchAttention(Meter& meter, const AttentionCase& c) {
  const std::string name = "attention " + std::to_string(c.num_seqs) + "x" +
                           std::to_string(c.num_queries) + "@" + std::to_string(c.context) + " h" +
                           std::to_string(c.num_heads) + "/" + std::to_string(c.num_kv_heads) +
                           " d" + std::to_string(c.head_dim) + " b" + std::to_string(c.block_size) +
                           (c.num_shared == 0 ? "" : " s" + std::to_string(c.num_shared));
  if (!meter.Wants(name)) return;
  const int padded = PaddedHeadDim(c.head_dim);
  const KvBlockShape shape = {c.num_kv_heads, c.block_size, padded};
  const int64_t layer_elems = KvLayerElems(shape);
  const int blocks_per_seq = (c.context + c.block_size - 1) / c.block_size;
  const int num_shared_blocks = c.num_shared / c.block_size;
  const int num_blocks = num_shared_blocks + (blocks_per_seq - num_shared_blocks) * c.num_seqs;
  const int num_layers = static_cast<int>(MachineRates::kDataBytes / 2 / layer_elems / num_blocks);
  std::vector<int32_t> ids(num_blocks);
  std::iota(ids.begin(), ids.end(), 0);
  std::shuffle(ids.begin(), ids.end(), std::mt19937(1));
  std::vector<int32_t> tables;
  auto own = ids.begin() + num_shared_blocks;
  for (int seq = 0; seq < c.num_seqs; ++seq) {
    tables.insert(tables.end(), ids.begin(), ids.begin() + num_shared_blocks);
    tables.insert(tables.end(), own, own + blocks_per_seq - num_shared_blocks);
    own += blocks_per_seq - num_shared_blocks;
  }

  PagedAttention::Config config;
  config.shape = {c.num_heads, c.num_kv_heads, c.head_dim,
                  1.0f / std::sqrt(static_cast<float>(c.head_dim))};
  config.block_size = c.block_size;
  config.block_bytes = num_layers * layer_elems * 2;
  config.max_num_tokens = c.num_seqs * c.num_queries;
  config.max_num_seqs = c.num_seqs;
  PagedAttention attention(config, AttentionKernelsFor(meter.isa(), meter.mode()), meter.pool());

  std::vector<int32_t> positions;
  std::vector<int32_t> query_starts = {0};
  double visible = 0;
  for (int seq = 0; seq < c.num_seqs; ++seq) {
    for (int i = 0; i < c.num_queries; ++i) {
      positions.push_back(c.context - c.num_queries + i);
      visible += positions.back() + 1;
    }
    query_starts.push_back(static_cast<int32_t>(positions.size()));
  }
  const size_t rows = positions.size() * c.num_heads;
  const std::vector<uint16_t> q(meter.data(), meter.data() + rows * padded);
  std::vector<uint16_t> out(rows * c.head_dim);
  AttentionLayer layer;
  layer.q = q.data();
  layer.kv = reinterpret_cast<const std::byte*>(meter.data());
  layer.out = out.data();
  layer.out_stride = c.num_heads * c.head_dim;
  attention.Plan({positions, query_starts, tables, blocks_per_seq});
  const double kv_tokens = c.num_shared + 1.0 * (c.context - c.num_shared) * c.num_seqs;
  const double kv_bytes = 4.0 * kv_tokens * c.num_kv_heads * padded;
  meter.Measure(name, 4.0 * visible * c.num_heads * c.head_dim, meter.bf16_mode(), kv_bytes, [&] {
    attention.Run(layer);
    layer.layer_in_group = (layer.layer_in_group + 1) % num_layers;
  });
}

void BenchAll(Meter& meter) {
  struct Shape {
    int n;
    int k;
  };
  for (const Shape& shape :
       {Shape{2048, 2048}, {8192, 2048}, {2048, 8192}, {960, 576}, {576, 1536}}) {
    for (const Format& format : kFormats) {
      for (int m : {1, 2, 4, 8, 16, 32, 64, 512}) BenchGemm(meter, format, m, shape.n, shape.k);
    }
  }
  for (const AttentionCase& c : std::vector<AttentionCase>{
           {1, 8192, 1, 32, 8, 128, 32},
           {1, 8192, 1, 9, 3, 64, 32},
           {16, 1024, 1, 32, 8, 128, 32},
           {64, 512, 1, 9, 3, 64, 16},
           {8, 2048, 1, 16, 16, 64, 32},
           {1, 512, 512, 32, 8, 128, 32},
           {1, 512, 512, 9, 3, 64, 32},
           {1, 4096, 256, 32, 8, 128, 32},
           {8, 1088, 1, 9, 3, 64, 32},
           {8, 1088, 1, 9, 3, 64, 32, 1024},
           {32, 1088, 1, 9, 3, 64, 32},
           {32, 1088, 1, 9, 3, 64, 32, 1024},
           {8, 1088, 1, 32, 8, 128, 32},
           {8, 1088, 1, 32, 8, 128, 32, 1024},
           {32, 1088, 1, 32, 8, 128, 32},
           {32, 1088, 1, 32, 8, 128, 32, 1024},
       }) {
    BenchAttention(meter, c);
  }
}

}  // namespace
}  // namespace quire

int main(int argc, char** argv) {
  const std::string filter = argc > 1 ? argv[1] : "";
  const std::string only = argc > 2 ? argv[2] : "";
  const auto mode = quire::NumericsModeNamed(argc > 3 ? argv[3] : "");
  for (const quire::CpuIsa isa : quire::kAllCpuIsas) {
    if (isa == quire::CpuIsa::kReference || !quire::MachineRuns(isa)) continue;
    if (!only.empty() && only != quire::NameOf(isa)) continue;
    for (int num_threads : {1, 2}) {
      quire::Meter meter(isa, mode, num_threads, filter);
      quire::BenchAll(meter);
    }
  }
  return 0;
}
