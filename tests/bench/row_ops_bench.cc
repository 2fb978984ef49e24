// What do the operations on single rows cost, per instruction set? Google Benchmark; its flags
// apply: row_ops_bench --benchmark_filter=Draw

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "benchmark/benchmark.h"

#include "kernels/cpu/isa.h"
#include "kernels/cpu/logprobs.h"
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

// Log-probabilities of a token and the 20 likeliest.
void TopLogprobs(benchmark::State& state, CpuIsa isa, int vocab_size) {
  const ScopedFlushDenormals flush;
  const std::vector<float> logits = NormalRow(vocab_size, 3);
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        LogprobsOf(CpuOpsFor(isa), logits.data(), vocab_size, vocab_size / 2, kMaxTopLogprobs));
  }
}

// The scale of the others: one pass that reads the row, and does next to nothing.
void ReadRow(benchmark::State& state, CpuIsa isa, int vocab_size) {
  const ScopedFlushDenormals flush;
  const std::vector<float> logits = NormalRow(vocab_size, 3);
  for (auto _ : state) {
    benchmark::DoNotOptimize(CpuOpsFor(isa).all_finite(logits.data(), vocab_size));
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

// 1000 distinct tokens that a sequence has seen, a third of them generated.
std::vector<TokenCount> SeenTokens() {
  std::vector<TokenCount> counts;
  for (int i = 0; i < 1000; ++i) {
    counts.push_back({.token_id = i * 31, .num_generated = i % 3 == 0 ? 2 : 0, .in_prompt = true});
  }
  return counts;
}

std::vector<std::pair<std::string, SampleRow>> Draws(const std::vector<TokenCount>& counts) {
  SampleRow greedy, plain, top_k, top_p, filtered, penalized, typical, n_sigma, xtc;
  for (SampleRow* row : {&plain, &top_k, &top_p, &filtered, &penalized, &typical, &n_sigma, &xtc}) {
    row->temperature = 0.8f;
  }
  top_k.top_k = 50;
  top_p.top_p = 0.95f;
  filtered.top_k = 50;
  filtered.top_p = 0.95f;
  filtered.min_p = 0.05f;
  penalized = filtered;
  penalized.edits.counts = counts;
  penalized.edits.repetition_penalty = 1.1f;
  penalized.edits.frequency_penalty = 0.5f;
  penalized.edits.presence_penalty = 0.5f;
  typical.typical_p = 0.95f;
  n_sigma.top_n_sigma = 1.5f;
  xtc.xtc_probability = 1;
  xtc.xtc_threshold = 0.1f;
  return {{"greedy", greedy},   {"temperature", plain},  {"k", top_k},
          {"p", top_p},         {"k+p+min_p", filtered}, {"k+p+min_p+penalties", penalized},
          {"typical", typical}, {"n_sigma", n_sigma},    {"xtc", xtc}};
}

// `counts` outlives the runs.
void RegisterAll(const std::vector<TokenCount>& counts) {
  for (const CpuIsa isa : {CpuIsa::kAvx2, CpuIsa::kAvx512, CpuIsa::kAvx512Bf16}) {
    if (!MachineRuns(isa)) continue;
    for (const int vocab_size : {32000, 49152, 128256}) {
      const std::string place = std::string(NameOf(isa)) + "/" + std::to_string(vocab_size);
      const auto add = [&](const std::string& name, auto... arguments) {
        benchmark::RegisterBenchmark(name.c_str(), arguments...)->Unit(benchmark::kMicrosecond);
      };
      add("ReadRow/" + place, ReadRow, isa, vocab_size);
      for (const auto& [name, row] : Draws(counts)) {
        add("Draw/" + place + "/" + name, DrawToken, isa, row, vocab_size);
      }
      add("Logprobs/" + place + "/top20", TopLogprobs, isa, vocab_size);
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
  const std::vector<quire::TokenCount> counts = quire::SeenTokens();
  quire::RegisterAll(counts);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
