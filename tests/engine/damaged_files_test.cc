// Files cut short or with bytes changed: an error or a model, never a crash, a hang or a large
// allocation. Run under the address sanitizer too.
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <random>
#include <sys/resource.h>
#include <unistd.h>

#include "gtest/gtest.h"

#include "engine/model_files.h"
#include "engine/weights.h"
#include "tests/testing/golden_data.h"

namespace quire {
namespace {

// Reads all that a caller could ask for: what has passed the checks must be readable.
uint64_t TouchAll(const ModelFiles& files) {
  uint64_t sum = files.Fingerprint();
  for (const FileTensor* tensor : files.tensors()) {
    for (int64_t i = 0; i < tensor->num_bytes; ++i) {
      sum += std::to_integer<uint64_t>(tensor->view.data[i]);
    }
  }
  if (files.gguf() == nullptr) return sum;
  for (const absl::string_view key : files.gguf()->keys()) {
    sum += files.gguf()->GetString(key).ok() + files.gguf()->GetInt(key).ok() +
           files.gguf()->GetFloat(key).ok() + files.gguf()->GetBool(key).ok() +
           files.gguf()->GetStrings(key).ok() + files.gguf()->GetInts(key).ok() +
           files.gguf()->GetFloats(key).ok();
  }
  return sum;
}

bool Loads(const std::string& model) {
  const auto files = ModelFiles::Open(model);
  if (!files.ok()) {
    EXPECT_NE(files.status().message().find(model), std::string::npos) << files.status();
    return false;
  }
  EXPECT_NE(TouchAll(**files), 0u);
  return FindWeights(**files).ok();
}

// A small model, and the one file of it that is damaged.
struct Victim {
  TempDir dir;
  std::string model;
  std::string file;
  std::string good;
  size_t num_header_bytes = 0;  // where a change of a byte is likely to matter
};

void MakeGguf(Victim& victim) {
  victim.good = ReadAll(OwnGoldenPath("bad_files/good.gguf"));
  victim.file = victim.model = victim.dir.Write("model.gguf", victim.good);
  const auto gguf = GgufFile::Open(victim.file);
  ASSERT_TRUE(gguf.ok()) << gguf.status();
  int64_t num_data_bytes = 0;
  for (const FileTensor& tensor : (*gguf)->tensors()) num_data_bytes += tensor.num_bytes;
  victim.num_header_bytes = victim.good.size() - num_data_bytes;
}

void MakeSafetensors(Victim& victim) {
  victim.dir.Write("config.json", ReadAll(OwnGoldenPath("bad_files/good_model/config.json")));
  victim.good = ReadAll(OwnGoldenPath("bad_files/good_model/model.safetensors"));
  victim.file = victim.dir.Write("model.safetensors", victim.good);
  victim.model = victim.dir.path();
  std::memcpy(&victim.num_header_bytes, victim.good.data(), 8);
  victim.num_header_bytes += 8;
}

void MakeConfig(Victim& victim) {
  victim.dir.Write("model.safetensors",
                   ReadAll(OwnGoldenPath("bad_files/good_model/model.safetensors")));
  victim.good = ReadAll(OwnGoldenPath("bad_files/good_model/config.json"));
  victim.file = victim.dir.Write("config.json", victim.good);
  victim.model = victim.dir.path();
  victim.num_header_bytes = victim.good.size();
}

class DamagedFilesTest : public testing::TestWithParam<void (*)(Victim&)> {};

TEST_P(DamagedFilesTest, EveryPrefixIsAnError) {
  Victim victim;
  GetParam()(victim);
  ASSERT_TRUE(Loads(victim.model));
  size_t size = victim.good.size();
  // What pads the file after its last byte of content does not count.
  while (size > 0 && (victim.good[size - 1] == '\0' || victim.good[size - 1] == '\n')) --size;
  while (size-- > 0) {
    ASSERT_EQ(truncate(victim.file.c_str(), static_cast<off_t>(size)), 0);
    ASSERT_FALSE(Loads(victim.model)) << "cut to " << size << " of " << victim.good.size();
  }
}

TEST_P(DamagedFilesTest, ChangedBytesAreAnErrorOrAModel) {
  Victim victim;
  GetParam()(victim);
  ASSERT_FALSE(victim.good.empty());
  const char* given = std::getenv("QUIRE_TEST_SEED");
  const uint64_t seed =
      given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  std::cout << "QUIRE_TEST_SEED=" << seed << "\n";
  SCOPED_TRACE("QUIRE_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  int num_loaded = 0;
  constexpr int kNumTrials = 4000;
  for (int i = 0; i < kNumTrials; ++i) {
    // In place: making the file anew takes longer than all that is tested here.
    std::fstream file(victim.file, std::ios::in | std::ios::out | std::ios::binary);
    file.write(victim.good.data(), static_cast<std::streamsize>(victim.good.size()));
    const size_t num_changes = 1 + random() % 3;
    for (size_t j = 0; j < num_changes; ++j) {
      const size_t range = random() % 8 != 0 ? victim.num_header_bytes : victim.good.size();
      file.seekp(static_cast<std::streamoff>(random() % range));
      // Numbers that sit at the edges of their types are likelier than others.
      static constexpr unsigned char kEdges[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
      file.put(static_cast<char>(random() % 2 != 0 ? kEdges[random() % 5] : random()));
    }
    file.close();
    num_loaded += Loads(victim.model);
  }
  std::cout << num_loaded << " of " << kNumTrials << " damaged models load\n";
#if !defined(__SANITIZE_ADDRESS__)
  rusage usage;
  ASSERT_EQ(getrusage(RUSAGE_SELF, &usage), 0);
  EXPECT_LT(usage.ru_maxrss, 256 << 10) << "KiB of memory at the peak";
#endif
}

std::string NameOfVictim(const testing::TestParamInfo<void (*)(Victim&)>& victim) {
  static constexpr const char* kNames[] = {"Gguf", "Safetensors", "Config"};
  return kNames[victim.index];
}

INSTANTIATE_TEST_SUITE_P(Files, DamagedFilesTest,
                         testing::Values(MakeGguf, MakeSafetensors, MakeConfig), NameOfVictim);

}  // namespace
}  // namespace quire
