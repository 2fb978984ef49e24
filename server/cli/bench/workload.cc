#include "server/cli/bench/workload.h"

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"

#include "server/cli/read_text.h"

namespace quire::cli::bench {
namespace {

constexpr int64_t kMaxPromptTokens = int64_t{1} << 28;  // of a point: 1 GiB

// A seed that differs when any of the two does (the finalizer of splitmix64).
uint64_t Mix(uint64_t a, uint64_t b) {
  uint64_t x = a * 0x9e3779b97f4a7c15u + b + 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

absl::Status CheckOptions(const WorkloadOptions& options) {
  if (!options.trace_file.empty() && !options.prompts_file.empty()) {
    return absl::InvalidArgumentError("give one of --trace and --prompts, not both");
  }
  if (options.shared_tokens == 0) return absl::OkStatus();
  if (!options.trace_file.empty() || !options.prompts_file.empty()) {
    return absl::InvalidArgumentError(
        "--shared-tokens does not go with --trace or --prompts: their lines say what is shared");
  }
  if (options.shared_tokens >= options.prompt_tokens) {
    return absl::InvalidArgumentError(
        absl::StrCat("--shared-tokens is ", options.shared_tokens, " and --prompt-tokens is ",
                     options.prompt_tokens, "; the second must be larger"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Workload> Workload::Open(const WorkloadOptions& options) {
  if (absl::Status status = CheckOptions(options); !status.ok()) return status;
  Workload workload(options);
  if (!options.trace_file.empty()) {
    const absl::StatusOr<std::string> text = ReadText(options.trace_file);
    if (!text.ok()) return text.status();
    auto trace = ParseTrace(*text, options.trace_file);
    if (!trace.ok()) return trace.status();
    workload.trace_ = *std::move(trace);
  }
  if (!options.prompts_file.empty()) {
    const absl::StatusOr<std::string> text = ReadText(options.prompts_file);
    if (!text.ok()) return text.status();
    auto prompts = ParsePrompts(*text, options.prompts_file);
    if (!prompts.ok()) return prompts.status();
    workload.prompts_ = *std::move(prompts);
  }
  return workload;
}

absl::StatusOr<std::vector<BenchRequest>> Workload::Requests(int point, int64_t count,
                                                             int32_t vocab_size) const {
  if (num_lines() > 0 && count > num_lines()) {
    const std::string& file = prompts_.empty() ? options_.trace_file : options_.prompts_file;
    return absl::InvalidArgumentError(
        absl::StrCat("--requests is ", count, ", but ", file, " has ", num_lines(), " lines"));
  }
  if (!prompts_.empty()) return FromFile(count, vocab_size);
  int64_t num_tokens = count * options_.prompt_tokens;
  if (!trace_.empty()) {
    num_tokens = 0;
    for (int64_t i = 0; i < count; ++i) num_tokens += trace_[i].prompt_tokens;
  }
  if (num_tokens > kMaxPromptTokens) {
    return absl::InvalidArgumentError(absl::StrCat(count, " requests have ", num_tokens,
                                                   " prompt tokens; the limit is ",
                                                   kMaxPromptTokens, ": give fewer --requests"));
  }
  std::vector<BenchRequest> requests;
  for (int64_t i = 0; i < count; ++i) {
    requests.push_back(trace_.empty() ? Drawn(point, i, vocab_size) : Traced(point, i, vocab_size));
  }
  return requests;
}

std::vector<BenchRequest> Workload::WarmUps(int64_t count, int32_t vocab_size) const {
  constexpr int kNoPoint = -1;
  std::vector<BenchRequest> requests;
  for (int64_t i = 0; i < count; ++i) {
    BenchRequest& request = requests.emplace_back();
    request.new_tokens = 8;
    Draw(kNoPoint, Tokens::kOwn, i, 16, vocab_size, &request.prompt_ids);
  }
  return requests;
}

BenchRequest Workload::Priming(int point, int32_t vocab_size) const {
  BenchRequest request{.prompt_ids = {}, .new_tokens = 1};
  Draw(point, Tokens::kShared, 0, options_.shared_tokens, vocab_size, &request.prompt_ids);
  return request;
}

absl::StatusOr<std::vector<BenchRequest>> Workload::FromFile(int64_t count,
                                                             int32_t vocab_size) const {
  std::vector<BenchRequest> requests;
  for (int64_t i = 0; i < count; ++i) {
    const PromptLine& line = prompts_[i];
    const int32_t largest = *std::max_element(line.ids.begin(), line.ids.end());
    if (largest >= vocab_size) {
      return absl::InvalidArgumentError(
          absl::StrCat(options_.prompts_file, ": prompt ", i + 1, " has the token ", largest,
                       ", which is not below the vocabulary's size ", vocab_size));
    }
    requests.push_back({.prompt_ids = line.ids,
                        .new_tokens = line.new_tokens > 0 ? line.new_tokens : options_.new_tokens});
  }
  return requests;
}

BenchRequest Workload::Traced(int point, int64_t index, int32_t vocab_size) const {
  const TraceLine& line = trace_[index];
  BenchRequest request{.prompt_ids = {}, .new_tokens = line.new_tokens};
  int64_t left = line.prompt_tokens;
  for (const int64_t hash_id : line.hash_ids) {
    const int64_t count = std::min<int64_t>(left, kTraceBlockTokens);
    Draw(point, Tokens::kTraceBlock, hash_id, count, vocab_size, &request.prompt_ids);
    left -= count;
  }
  Draw(point, Tokens::kOwn, index, left, vocab_size, &request.prompt_ids);
  return request;
}

BenchRequest Workload::Drawn(int point, int64_t index, int32_t vocab_size) const {
  BenchRequest request{.prompt_ids = {}, .new_tokens = options_.new_tokens};
  const int32_t own = options_.prompt_tokens - options_.shared_tokens;
  Draw(point, Tokens::kShared, 0, options_.shared_tokens, vocab_size, &request.prompt_ids);
  Draw(point, Tokens::kOwn, index, own, vocab_size, &request.prompt_ids);
  return request;
}

void Workload::Draw(int point, Tokens kind, int64_t index, int64_t count, int32_t vocab_size,
                    std::vector<int32_t>* ids) const {
  const uint64_t of_point = Mix(options_.seed, static_cast<uint64_t>(point));
  std::mt19937_64 random(
      Mix(Mix(of_point, static_cast<uint64_t>(kind)), static_cast<uint64_t>(index)));
  for (int64_t i = 0; i < count; ++i) {
    ids->push_back(static_cast<int32_t>(random() % static_cast<uint64_t>(vocab_size)));
  }
}

}  // namespace quire::cli::bench
