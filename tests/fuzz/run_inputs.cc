// Runs a target on files instead of under libFuzzer, with any compiler: what a test does with the
// corpus and the regressions, and what you do with a file that libFuzzer wrote.
//
//   safetensors_fuzz FILE_OR_FOLDER...
//
// Names each file before it is run, so that the last name is the culprit's. Exit code 1 where there
// are no files at all.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz_input.h"

namespace {

namespace fs = std::filesystem;

std::vector<std::string> FilesOf(int argc, char** argv) {
  std::vector<std::string> files;
  for (int i = 1; i < argc; ++i) {
    if (fs::is_regular_file(argv[i])) files.emplace_back(argv[i]);
    if (!fs::is_directory(argv[i])) continue;
    for (const fs::directory_entry& entry : fs::directory_iterator(argv[i])) {
      if (entry.is_regular_file()) files.push_back(entry.path().string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> files = FilesOf(argc, argv);
  for (const std::string& path : files) {
    std::ifstream file(path, std::ios::binary);
    const std::string content(std::istreambuf_iterator<char>(file), {});
    std::printf("%s: %zu bytes", path.c_str(), content.size());
    std::fflush(stdout);
    // A block of its own and of just that size: a sanitizer sees a byte read beyond it.
    const std::unique_ptr<uint8_t[]> bytes(new uint8_t[content.size()]);
    std::copy(content.begin(), content.end(), bytes.get());
    const auto start = std::chrono::steady_clock::now();
    LLVMFuzzerTestOneInput(bytes.get(), content.size());
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    std::printf(", %.1f ms\n", took.count());
  }
  std::printf("%zu files\n", files.size());
  return files.empty() ? 1 : 0;
}
