// What do the operations on single rows cost, per instruction set? Google Benchmark; its flags
// apply: row_ops_bench --benchmark_filter=Draw

#include <random>
#include <string>
#include <vector>

#include "benchmark/benchmark.h"

#include "kernels/cpu/isa.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/sampling.h"
#include "kernels/cpu/thread_pool.h"

namespace quire {
namespace {

std::vector<float> NormalRow(int n, float deviation) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, deviation);
  std::vector<float> row(n);
  for (float& x : row) x = normal(random);
  return row;
}

void DrawToken(benchmark::State& state, CpuIsa isa, const SampleRow& row, int vocab_size) {
  const ScopedFlushDenormals flush;
  TokenSampler sampler(CpuOpsFor(isa), vocab_size);
  const std::vector<float> logits = NormalRow(vocab_size, 3);
  SampleRow next = row;
  for (auto _ : state) {
    ++next.position;
    benchmark::DoNotOptimize(sampler.Draw(logits.data(), next));
  }
}

void Norm(benchmark::State& state, CpuIsa isa, int cols) {
  const ScopedFlushDenormals flush;
  const std::vector<float> x = NormalRow(cols, 1);
  std::vector<uint16_t> out(cols);
  for (auto _ : state) {
    CpuOpsFor(isa).rms_norm(x.data(), x.data(), cols, 1e-5f, out.data());
    benchmark::DoNotOptimize(out.data());
  }
}

void RegisterAll() {
  struct Params {
    const char* name;
    SampleRow row;
  };
  SampleRow greedy, plain, filtered;
  plain.temperature = 1;
  filtered.temperature = 0.8f;
  filtered.top_k = 50;
  filtered.top_p = 0.95f;
  filtered.min_p = 0.05f;
  for (const CpuIsa isa : {CpuIsa::kAvx2, CpuIsa::kAvx512, CpuIsa::kAvx512Bf16}) {
    if (!MachineRuns(isa)) continue;
    for (const int vocab_size : {32000, 49152, 128256}) {
      for (const auto& [name, row] :
           {Params{"greedy", greedy}, {"temperature", plain}, {"k+p+min_p", filtered}}) {
        const std::string full =
            std::string("Draw/") + NameOf(isa) + "/" + std::to_string(vocab_size) + "/" + name;
        benchmark::RegisterBenchmark(full.c_str(), DrawToken, isa, row, vocab_size)
            ->Unit(benchmark::kMicrosecond);
      }
    }
    for (const int cols : {576, 4096}) {
      const std::string full = std::string("RmsNorm/") + NameOf(isa) + "/" + std::to_string(cols);
      benchmark::RegisterBenchmark(full.c_str(), Norm, isa, cols)->Unit(benchmark::kNanosecond);
    }
  }
}

}  // namespace
}  // namespace quire

int main(int argc, char** argv) {
  quire::RegisterAll();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
