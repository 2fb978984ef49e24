// A GGUF file of any bytes: its metadata and tensors, the model that they describe, the model's
// weights, and the arrays of its tokenizer.
#include "engine/gguf.h"
#include "engine/gguf_shards.h"
#include "engine/inspect.h"
#include "engine/model_config.h"
#include "engine/model_files.h"
#include "engine/weights.h"
#include "server/text/gguf_vocab.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/model_config_checks.h"

namespace quire {
namespace {

void TouchAll(absl::string_view text) { Touch(text.data(), text.size()); }

// A key answers to the type that it has, and refuses the others.
void ReadKey(const GgufFile& file, absl::string_view key) {
  TouchAll(key);
  QUIRE_CHECK(file.Has(key), "a key is not there");
  if (const auto text = file.GetString(key); text.ok()) TouchAll(*text);
  const auto texts = file.GetStrings(key);
  if (texts.ok()) {
    for (const absl::string_view text : *texts) TouchAll(text);
  }
  const bool is_array = texts.ok() || file.GetInts(key).ok() || file.GetFloats(key).ok();
  const bool is_single = file.GetString(key).ok() || file.GetInt(key).ok() ||
                         file.GetFloat(key).ok() || file.GetBool(key).ok();
  QUIRE_CHECK(!is_array || !is_single, "a key is both an array and a single value");
}

void ReadFile(const GgufFile& file) {
  for (const absl::string_view key : file.keys()) ReadKey(file, key);
  for (const FileTensor& tensor : file.tensors()) {
    QUIRE_CHECK(file.FindTensor(tensor.name) == &tensor, "a tensor is not found by its name");
    const DTypeInfo info = InfoOf(tensor.view.dtype);
    QUIRE_CHECK(tensor.view.rows * (tensor.view.cols / info.block_elems) * info.block_bytes ==
                    tensor.num_bytes,
                "bytes and shape differ");
    Touch(tensor.view.data, static_cast<size_t>(tensor.num_bytes));
  }
  if (const auto vocab = ReadGgufVocab(file); vocab.ok()) {
    for (const absl::string_view token : vocab->tokens) TouchAll(token);
    for (const absl::string_view merge : vocab->merges) TouchAll(merge);
    TouchAll(vocab->chat_template);
  } else {
    CheckFileError(vocab.status(), file.path());
  }
}

// Errors may be about another file of a split model, in the same `folder`.
void ReadModel(const std::string& path, const std::string& folder) {
  const auto shards = GgufShards::Open(path);
  if (!shards.ok()) return CheckFileError(shards.status(), folder);
  const auto config = ModelConfigOfGguf(**shards);
  if (!config.ok()) return CheckFileError(config.status(), path);
  CheckReadConfig(*config, path);
  const auto files = ModelFiles::Open(path);
  if (!files.ok()) return CheckFileError(files.status(), path);
  (*files)->Fingerprint();
  const auto weights = FindWeights(**files);
  if (!weights.ok()) return CheckFileError(weights.status(), path);
  QUIRE_CHECK(weights->layers.size() == static_cast<size_t>((*files)->config().num_layers),
              "layers are missing");
}

}  // namespace
}  // namespace quire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto* const folder = new quire::ScratchFolder;
  const std::string path = folder->Write("model.gguf", quire::ViewOf(data, size));
  const auto file = quire::GgufFile::Open(path);
  if (file.ok()) {
    quire::ReadFile(**file);
    quire::ReadModel(path, folder->path());
  } else {
    quire::CheckFileError(file.status(), path);
  }
  const auto report = quire::InspectModel(path);
  QUIRE_CHECK(file.ok() || !report.ok(), "inspect accepts what does not open");
  return 0;
}
