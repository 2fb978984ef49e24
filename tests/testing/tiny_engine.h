#ifndef QUIRE_TESTS_TESTING_TINY_ENGINE_H_
#define QUIRE_TESTS_TESTING_TINY_ENGINE_H_

#include <memory>
#include <string>
#include <utility>

#include "gtest/gtest.h"

#include "engine/engine_loop.h"
#include "engine/kv_plan.h"
#include "engine/model_files.h"
#include "paged_kv/kv_layout.h"
#include "tests/testing/test_files.h"

namespace quire {

struct TinyEngineOptions {
  std::string model = "llama_mha";  // of tests/golden/models
  int max_num_seqs = 8;
  int max_queued_requests = 16;
  int num_blocks = 64;           // of 16 tokens
  bool touches_at_once = false;  // all KV memory, before the engine starts
};

inline constexpr int kTinyMaxModelLen = 128;
inline constexpr int kTinyBlockSize = 16;

// The real loop over a model of a few layers and any backend.
inline std::unique_ptr<EngineLoop> MakeTinyEngine(std::unique_ptr<Backend> backend,
                                                  const TinyEngineOptions& options = {}) {
  const auto files = ModelFiles::Open(OwnGoldenPath("models/" + options.model));
  EXPECT_TRUE(files.ok()) << files.status();
  EngineParts parts;
  parts.backend = std::move(backend);
  parts.transformer =
      *Transformer::Load(**files, *parts.backend, kTinyMaxModelLen, WeightQuantization::kNone);
  parts.limits = {.max_num_tokens = 64,
                  .max_num_seqs = options.max_num_seqs,
                  .max_logit_rows = 64,
                  .max_samples = 64,
                  .max_model_len = kTinyMaxModelLen};
  EXPECT_TRUE(parts.backend->Reserve(parts.transformer->shape(), parts.limits).ok());
  const KvLayout layout =
      MakeKvLayout(KvModelOf((*files)->config(), kTinyMaxModelLen), kTinyBlockSize);
  parts.kv_storage = *KvStorage::Open(layout, options.num_blocks, parts.backend.get());
  if (options.touches_at_once) parts.kv_storage->TouchNow(options.num_blocks);
  parts.info.vocab_size = parts.transformer->shape().vocab_size;
  parts.info.max_model_len = kTinyMaxModelLen;
  parts.info.block_size = kTinyBlockSize;
  parts.info.num_blocks = options.num_blocks;
  SchedulerConfig& config = parts.scheduler_config;
  config.block_size = kTinyBlockSize;
  config.num_blocks = options.num_blocks;
  config.group_windows = layout.GroupWindows();
  config.max_num_seqs = options.max_num_seqs;
  config.max_num_batched_tokens = 64;
  config.max_model_len = kTinyMaxModelLen;
  config.max_queued_requests = options.max_queued_requests;
  config.max_queued_prefill_tokens = 1024;
  return std::make_unique<EngineLoop>(std::move(parts));
}

}  // namespace quire

#endif  // QUIRE_TESTS_TESTING_TINY_ENGINE_H_
