// A GenerateRequest of any bytes on its way to the engine: the wire check, the parser, the
// validator, the effective parameters, the prompt's tokens. The first byte says what the model has:
// bit 0 no tokenizer, bit 1 no chat template.
#include <string>

#include <google/protobuf/util/message_differencer.h>

#include "quire/v1/generation.pb.h"
#include "server/errors.h"
#include "server/params.h"
#include "server/prompt.h"
#include "server/validation.h"
#include "server/wire_check.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/testing/byte_text.h"

namespace quire {
namespace {

std::unique_ptr<ServingModel> MakeModel(std::unique_ptr<ModelText> text) {
  auto model = std::make_unique<ServingModel>();
  model->name = "model";
  model->aliases = {"alias"};
  model->info.vocab_size = 300;
  model->info.eos_token_ids = {256};
  model->info.max_model_len = 4096;
  model->info.max_num_seqs = 4;
  model->info.max_num_batched_tokens = 64;
  model->info.block_size = 16;
  model->info.num_blocks = 256;
  model->info.default_temperature = 0.5f;
  model->info.default_top_p = -1;  // says nothing
  model->info.default_min_p = -1;
  model->default_params = DefaultParams(model->info);
  model->text = std::move(text);
  return model;
}

const ServingModel& ModelOf(uint8_t kind) {
  static const auto* const with_text = MakeModel(MakeByteText()).release();
  static const auto* const without_template = MakeModel(MakeByteTextWithoutTemplate()).release();
  static const auto* const without_text = MakeModel(nullptr).release();
  return (kind & 1) != 0 ? *without_text : (kind & 2) != 0 ? *without_template : *with_text;
}

// What a client is told: a reason, in text that a message can carry.
void CheckRefusal(const absl::Status& status) {
  QUIRE_CHECK(!status.ok() && !absl::IsInternal(status) && !absl::IsUnknown(status),
              "a client's mistake is called ours");
  QUIRE_CHECK(!ReasonOf(status).empty(), "no reason");
  QUIRE_CHECK(IsWellFormedUtf8(status.message()), "a refusal is not UTF-8");
  for (const auto& [key, value] : MetadataOf(status)) {
    QUIRE_CHECK(IsWellFormedUtf8(key) && IsWellFormedUtf8(value), "metadata is not UTF-8");
  }
  for (const auto& [field, what] : ViolationsOf(status)) {
    QUIRE_CHECK(!field.empty() && IsWellFormedUtf8(field) && IsWellFormedUtf8(what),
                "a violation is not UTF-8");
  }
}

// Parameters in effect are a request's too: accepted, and the same parameters again.
void CheckEffective(const v1::GenerateRequest& request, const ServingModel& model,
                    const ServerLimits& limits) {
  const v1::GenerationParams params = EffectiveParams(request.params(), model, limits);
  QUIRE_CHECK(params.has_seed() && params.has_temperature() && params.has_top_p(),
              "a parameter is not set");
  v1::GenerateRequest again = request;
  *again.mutable_params() = params;
  const absl::Status status = CheckGenerate(again, model, limits);
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  QUIRE_CHECK(status.ok(), "what is in effect is not accepted");
  QUIRE_CHECK(google::protobuf::util::MessageDifferencer::Equals(
                  EffectiveParams(params, model, limits), params),
              "what is in effect changes when asked for");
}

void CheckTokens(const v1::GenerateRequest& request, const ServingModel& model,
                 const ServerLimits& limits) {
  const auto ids = TokenizePrompt(request, model.text.get(), model.info);
  if (!ids.ok()) return CheckRefusal(ids.status());
  QUIRE_CHECK(!ids->empty(), "a prompt of no tokens");
  for (const int32_t id : *ids) {
    QUIRE_CHECK(id >= 0 && id < model.info.vocab_size, "a prompt's token out of range");
  }
  v1::GenerationParams params = EffectiveParams(request.params(), model, limits);
  const auto num_tokens = static_cast<int64_t>(ids->size());
  const absl::Status status = ResolveMaxTokens(num_tokens, model.info, limits, params);
  if (!status.ok()) return CheckRefusal(status);
  QUIRE_CHECK(
      params.max_tokens() >= 1 && num_tokens + params.max_tokens() <= model.info.max_model_len,
      "more tokens than the context holds");
}

void Receive(absl::string_view input) {
  const ServingModel& model = ModelOf(static_cast<uint8_t>(input[0]));
  input.remove_prefix(1);
  const ServerLimits limits;
  const absl::Status wire = CheckWire(*v1::GenerateRequest::descriptor(), input, limits);
  if (!wire.ok()) return CheckRefusal(wire);
  v1::GenerateRequest request;
  const bool parsed = request.ParseFromArray(input.data(), static_cast<int>(input.size()));
  QUIRE_CHECK(parsed, "passes the wire check, but is no message");
  const absl::Status status = CheckGenerate(request, model, limits);
  if (!status.ok()) return CheckRefusal(status);
  CheckEffective(request, model, limits);
  CheckTokens(request, model, limits);
}

}  // namespace
}  // namespace quire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 0) quire::Receive(quire::ViewOf(data, size));
  return 0;
}
