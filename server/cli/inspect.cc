// `quire inspect`: what is in a model's files, and the memory that it takes.

#include "engine/inspect.h"

#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "engine/gguf.h"
#include "paged_kv/capacity.h"
#include "server/cli/command.h"
#include "server/cli/engine_flags.h"
#include "server/cli/read_text.h"
#include "server/cli/report.h"
#include "server/model_text.h"

namespace quire::cli {
namespace {

struct Options {
  std::string model;
  std::vector<GgufOverride> overrides;
  bool json = false;
  bool tensors = false;
  int64_t context = 0;  // 0: as long as the model was made for
  int64_t sequences = 1;
  int32_t block_size = 32;
  std::string kv_dtype = "bf16";
  int32_t kv_elem_bytes = 2;
};

// Tensors of one format together.
struct FormatTotal {
  int64_t num_tensors = 0;
  int64_t num_parameters = 0;
  int64_t num_bytes = 0;
};

struct Totals {
  std::map<std::string, FormatTotal> by_format;
  FormatTotal all;
};

Totals TotalsOf(const ModelReport& report) {
  Totals totals;
  for (const TensorReport& tensor : report.tensors) {
    for (FormatTotal* total : {&totals.by_format[tensor.format], &totals.all}) {
      ++total->num_tensors;
      total->num_parameters += tensor.num_parameters;
      total->num_bytes += tensor.num_bytes;
    }
  }
  return totals;
}

const char* AttentionKind(const ModelConfig& config) {
  if (config.num_kv_heads == config.num_heads) return "MHA";
  return config.num_kv_heads == 1 ? "MQA" : "GQA";
}

// "BPE", "Unigram", or as a GGUF file names it: "gpt2, split as smollm".
std::string TokenizerKind(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    const absl::StatusOr<std::string> text =
        ReadText((std::filesystem::path(path) / "tokenizer.json").string());
    if (!text.ok()) return "unknown";
    const absl::StatusOr<Json> parsed = ParseJson(*text);
    if (!parsed.ok() || !parsed->is_object()) return "unknown";
    const auto model = parsed->find("model");
    if (model == parsed->end() || !model->is_object()) return "unknown";
    const auto type = model->find("type");
    return type != model->end() && type->is_string() ? type->get<std::string>() : "unknown";
  }
  absl::StatusOr<std::unique_ptr<GgufFile>> gguf = GgufFile::Open(path);
  if (!gguf.ok()) return "unknown";
  std::string kind((*gguf)->GetString("tokenizer.ggml.model").value_or("unknown"));
  const absl::StatusOr<absl::string_view> pre = (*gguf)->GetString("tokenizer.ggml.pre");
  return pre.ok() ? absl::StrCat(kind, ", split as ", *pre) : kind;
}

// null where there is none. A broken one is an error; one of a kind that is not supported is shown.
absl::StatusOr<Json> TokenizerJson(const std::string& path,
                                   absl::Span<const GgufOverride> overrides) {
  absl::StatusOr<std::unique_ptr<ModelText>> text = ModelText::Open(path, overrides);
  if (absl::IsNotFound(text.status())) return Json(nullptr);
  if (absl::IsUnimplemented(text.status())) {
    return Json{{"kind", TokenizerKind(path)},
                {"unsupported", std::string(text.status().message())}};
  }
  if (!text.ok()) return text.status();
  const Tokenizer& tokenizer = (*text)->tokenizer();
  return Json{{"kind", TokenizerKind(path)},
              {"vocab_size", tokenizer.vocab_size()},
              {"bos_token_id", tokenizer.bos_id()},
              {"eos_token_id", tokenizer.eos_id()},
              {"chat_template", (*text)->chat_template() != nullptr}};
}

Json ConfigJson(const ModelConfig& config) {
  Json shown = {{"num_layers", config.num_layers},
                {"hidden_size", config.hidden_size},
                {"num_heads", config.num_heads},
                {"num_kv_heads", config.num_kv_heads},
                {"head_dim", config.head_dim},
                {"attention", AttentionKind(config)},
                {"intermediate_size", config.intermediate_size},
                {"vocab_size", config.vocab_size},
                {"max_position_embeddings", config.max_position_embeddings},
                {"norm_eps", config.norm_eps},
                {"tie_word_embeddings", config.tie_word_embeddings},
                {"qkv_bias", config.qkv_bias},
                {"out_bias", config.out_bias},
                {"mlp_bias", config.mlp_bias},
                {"qk_norm", config.qk_norm},
                {"layer_windows", config.layer_windows},
                {"layers_without_rope", config.layers_without_rope},
                {"windows", WindowsText(config)},
                {"without_rope", RangesText(config.layers_without_rope)},
                {"sources", config.sources},
                {"bos_token_id", nullptr},
                {"eos_token_ids", config.eos_token_ids}};
  if (config.bos_token_id) shown["bos_token_id"] = *config.bos_token_id;
  return shown;
}

Json RopeJson(const RopeConfig& rope) {
  Json shown = {{"kind", NameOf(rope.kind)}, {"theta", rope.theta}};
  if (rope.kind != RopeKind::kDefault) shown["factor"] = rope.factor;
  if (rope.original_max_position > 0) shown["original_max_position"] = rope.original_max_position;
  if (rope.kind == RopeKind::kLlama3) {
    shown["low_freq_factor"] = rope.low_freq_factor;
    shown["high_freq_factor"] = rope.high_freq_factor;
  }
  if (rope.kind == RopeKind::kYarn) {
    shown["beta_fast"] = rope.beta_fast;
    shown["beta_slow"] = rope.beta_slow;
    shown["attention_factor"] = rope.attention_factor;
  }
  return shown;
}

Json TensorsJson(const ModelReport& report, const Totals& totals) {
  const auto total_json = [](const FormatTotal& total) {
    return Json{{"count", total.num_tensors},
                {"parameters", total.num_parameters},
                {"bytes", total.num_bytes}};
  };
  Json shown = total_json(totals.all);
  shown["formats"] = Json::object();
  for (const auto& [format, total] : totals.by_format) {
    shown["formats"][format] = total_json(total);
  }
  shown["list"] = Json::array();
  for (const TensorReport& tensor : report.tensors) {
    shown["list"].push_back({{"name", tensor.name},
                             {"shape", tensor.shape},
                             {"format", tensor.format},
                             {"bytes", tensor.num_bytes}});
  }
  return shown;
}

Json MemoryJson(const MemoryPlan& plan, const MemoryDemand& demand, const Options& options) {
  return {{"context", demand.num_tokens},
          {"sequences", demand.num_seqs},
          {"block_size", demand.block_size},
          {"kv_dtype", options.kv_dtype},
          {"parameters", plan.num_parameters},
          {"weight_bytes", plan.weight_bytes},
          {"kv_bytes_per_token", plan.kv_bytes_per_token},
          {"kv_bytes_per_token_mha", plan.kv_bytes_per_token_mha},
          {"kv_bytes", plan.kv_bytes},
          {"block_bytes", plan.block_bytes},
          {"blocks_per_sequence", plan.blocks_per_seq},
          {"num_blocks", plan.num_blocks},
          {"kv_pool_bytes", plan.kv_pool_bytes}};
}

// What a model of its family may have or lack, each with the key or tensor that says so.
void PrintParts(const Json& config, const Json& rope,
                absl::FunctionRef<void(const char*, const std::string&)> line) {
  const auto because = [&](const char* what, const std::string& value) {
    const auto source = config["sources"].find(what);
    return source == config["sources"].end()
               ? value
               : absl::StrCat(value, " (", source->get<std::string>(), ")");
  };
  const auto yes_or_no = [&](const char* key) {
    return config[key].get<bool>() ? std::string("yes") : std::string("no");
  };
  line("rope", because("rope", OneLine(rope)));
  line("no rope", because("no_rope", "layers: " + config["without_rope"].get<std::string>()));
  line("window", because("window", config["windows"].get<std::string>()));
  std::vector<std::string> biased;
  if (config["qkv_bias"].get<bool>()) biased.push_back("q, k, v");
  if (config["out_bias"].get<bool>()) biased.push_back("attention output");
  line("biases", because("attention_bias", biased.empty() ? "none" : absl::StrJoin(biased, ", ")));
  line("", because("mlp_bias", config["mlp_bias"].get<bool>() ? "MLP" : "none in the MLP"));
  line("qk-norm", because("qk_norm", yes_or_no("qk_norm")));
  line("tied", because("tied", yes_or_no("tie_word_embeddings")));
}

// Everything but the list of tensors, for people.
void PrintText(const Json& shown, const Options& options) {
  const auto line = [](const char* name, const std::string& text) {
    std::cout << absl::StrFormat("  %-11s%s\n", name, text);
  };
  const auto number = [](const Json& value) { return value.get<int64_t>(); };
  std::cout << options.model << ": " << shown["kind"].get<std::string>() << "\n";
  if (const Json& config = shown["config"]; config.is_object()) {
    line("family", absl::StrCat(shown["family"]["name"].get<std::string>(), " (",
                                shown["family"]["reason"].get<std::string>(), ")"));
    line("shape",
         absl::StrFormat("%d layers, hidden %d, MLP %d, vocabulary %d",
                         number(config["num_layers"]), number(config["hidden_size"]),
                         number(config["intermediate_size"]), number(config["vocab_size"])));
    line("attention",
         absl::StrFormat("%s, %d heads, %d key-value heads, %d wide",
                         config["attention"].get<std::string>(), number(config["num_heads"]),
                         number(config["num_kv_heads"]), number(config["head_dim"])));
    PrintParts(config, shown["rope"], line);
    line("length", absl::StrCat(number(config["max_position_embeddings"]), " tokens"));
  }
  for (const auto& [format, total] : shown["tensors"]["formats"].items()) {
    line("tensors",
         absl::StrFormat("%d in %s: %d parameters, %s", number(total["count"]), format,
                         number(total["parameters"]), BytesText(number(total["bytes"]))));
  }
  line("tokenizer", shown["tokenizer"].is_null() ? "none" : OneLine(shown["tokenizer"]));
  if (const Json& memory = shown["memory"]; memory.is_object()) {
    line("weights", absl::StrFormat("%d parameters, %s as held", number(memory["parameters"]),
                                    BytesText(number(memory["weight_bytes"]))));
    line("KV cache", absl::StrFormat("%d bytes per token (%d if it were MHA), %s",
                                     number(memory["kv_bytes_per_token"]),
                                     number(memory["kv_bytes_per_token_mha"]), options.kv_dtype));
    line("", absl::StrFormat("%d sequences of %d tokens: %d bytes = %s",
                             number(memory["sequences"]), number(memory["context"]),
                             number(memory["kv_bytes"]), BytesText(number(memory["kv_bytes"]))));
    line("", absl::StrFormat("in blocks of %d tokens: %d blocks of %d bytes = %s",
                             number(memory["block_size"]), number(memory["num_blocks"]),
                             number(memory["block_bytes"]),
                             BytesText(number(memory["kv_pool_bytes"]))));
  }
  if (!options.tensors) return;
  for (const Json& tensor : shown["tensors"]["list"]) {
    std::cout << absl::StrFormat("  %-48s %-5s %-16s %d\n", tensor["name"].get<std::string>(),
                                 tensor["format"].get<std::string>(), OneLine(tensor["shape"]),
                                 number(tensor["bytes"]));
  }
}

ExitCode Inspect(const Options& options) {
  absl::StatusOr<ModelReport> report = InspectModel(options.model, options.overrides);
  if (!report.ok()) return FailToLoad(report.status());
  Json shown = {{"path", options.model}, {"kind", report->kind}, {"family", nullptr},
                {"config", nullptr},     {"rope", nullptr},      {"tensors", nullptr},
                {"tokenizer", nullptr},  {"memory", nullptr}};
  shown["tensors"] = TensorsJson(*report, TotalsOf(*report));
  if (report->config) {
    const ModelConfig& config = *report->config;
    shown["family"] = {{"name", config.family->name}, {"reason", report->family_reason}};
    shown["config"] = ConfigJson(config);
    shown["rope"] = RopeJson(config.rope);
    const MemoryDemand demand = {
        .num_tokens = options.context > 0 ? options.context : config.max_position_embeddings,
        .num_seqs = options.sequences,
        .block_size = options.block_size,
        .kv_elem_bytes = options.kv_elem_bytes};
    absl::StatusOr<MemoryPlan> plan = PlanMemory(config, demand);
    if (!plan.ok()) return Fail(ExitCode::kUsage, plan.status().message());
    plan->weight_bytes = report->held_weight_bytes.value_or(plan->weight_bytes);
    shown["memory"] = MemoryJson(*plan, demand, options);
  }
  std::error_code error;
  if (std::filesystem::is_directory(options.model, error) || report->kind == "GGUF file") {
    absl::StatusOr<Json> tokenizer = TokenizerJson(options.model, options.overrides);
    if (!tokenizer.ok()) return FailToLoad(tokenizer.status());
    shown["tokenizer"] = *std::move(tokenizer);
  }
  if (options.json) {
    std::cout << OneLine(shown) << '\n';
  } else {
    PrintText(shown, options);
  }
  return ExitCode::kOk;
}

Flag KvDtypeFlag(Options* options) {
  return {.name = "--kv-dtype",
          .value = "TYPE",
          .help = "How keys and values are held: bf16, fp16, fp32 or fp8 (default: bf16)",
          .set = [options](const std::string& text) {
            if (text == "bf16" || text == "fp16") {
              options->kv_elem_bytes = 2;
            } else if (text == "fp32") {
              options->kv_elem_bytes = 4;
            } else if (text == "fp8") {
              options->kv_elem_bytes = 1;
            } else {
              return absl::InvalidArgumentError(
                  absl::StrCat("\"", text, "\" is not bf16, fp16, fp32 or fp8"));
            }
            options->kv_dtype = text;
            return absl::OkStatus();
          }};
}

}  // namespace

Command InspectCommand() {
  auto options = std::make_shared<Options>();
  Flag model = MakeFlag("MODEL", "", "A folder, a config.json, a .gguf or a .safetensors file",
                        &options->model);
  model.required = true;
  return {
      .name = "inspect",
      .summary = "What is in a model's files, and the memory that it takes",
      .examples = R"(Checks all that loading checks. A config.json alone is enough for the memory.

Examples:
  quire inspect models/SmolLM2-135M-Instruct.Q4_1.gguf
  quire inspect models/my-model --context 32k --sequences 16 --json
  quire inspect models/my-model/config.json --kv-dtype fp16)",
      .flags = {model, Switch("--json", "One line of JSON", &options->json),
                Switch("--tensors", "Every tensor as well (--json has them anyway)",
                       &options->tensors),
                SizeFlag("--context", "TOKENS",
                         "Tokens of a sequence (default: the longest the model was made for)",
                         &options->context, 1),
                SizeFlag("--sequences", "N", "Sequences at once (default: 1)", &options->sequences,
                         1),
                SizeFlag("--block-size", "TOKENS", "Tokens in a block of KV memory (default: 32)",
                         &options->block_size, 1, 1 << 16),
                KvDtypeFlag(options.get()), OverrideFlag(&options->overrides)},
      .run = [options] { return Inspect(*options); }};
}

}  // namespace quire::cli
