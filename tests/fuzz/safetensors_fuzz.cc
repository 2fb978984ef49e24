// SafetensorsFile on any bytes: opens what is right, and says what is wrong with the rest.
#include "engine/safetensors.h"
#include "tests/fuzz/fuzz_input.h"

namespace quire {
namespace {

void CheckTensors(const SafetensorsFile& file) {
  for (const FileTensor& tensor : file.tensors()) {
    const DTypeInfo info = InfoOf(tensor.view.dtype);
    int64_t num_elems = 1;
    for (const int64_t dim : tensor.shape) num_elems *= dim;
    QUIRE_CHECK(tensor.view.rows * tensor.view.cols == num_elems, "view and shape differ");
    QUIRE_CHECK(num_elems / info.block_elems * info.block_bytes == tensor.num_bytes,
                "bytes and shape differ");
    Touch(tensor.view.data, static_cast<size_t>(tensor.num_bytes));
  }
}

}  // namespace
}  // namespace quire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto* const folder = new quire::ScratchFolder;
  const std::string path = folder->Write("model.safetensors", quire::ViewOf(data, size));
  const auto file = quire::SafetensorsFile::Open(path);
  if (file.ok()) {
    quire::CheckTensors(**file);
  } else {
    quire::CheckFileError(file.status(), path);
  }
  return 0;
}
