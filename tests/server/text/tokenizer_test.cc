// What goldens do not show: broken files and arrays, bytes, ids outside, threads, long texts.
#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/server/text/golden.h"

namespace quire {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// A folder with one tokenizer, removed at the end of the test.
class ModelFolder {
 public:
  ModelFolder() {
    std::string pattern = testing::TempDir() + "/quire_text_XXXXXX";
    path_ = mkdtemp(pattern.data());
  }
  ~ModelFolder() { std::filesystem::remove_all(path_); }

  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ + "/" + name, std::ios::binary) << text;
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// A word-level tokenizer in the format of tokenizer.json.
std::string TinyTokenizer(const std::string& decoder, const std::string& vocab) {
  return R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":[],"normalizer":null,)"
         R"("pre_tokenizer":{"type":"WhitespaceSplit"},"post_processor":null,"decoder":)" +
         decoder + R"(,"model":{"type":"WordLevel","unk_token":"a","vocab":)" + vocab + "}}";
}

// "ab" of single characters, with everything in place; tests break one part of it.
TextVocab SmallVocab() {
  TextVocab vocab;
  vocab.model = "gpt2";
  vocab.pre = "gpt-2";
  vocab.tokens = {"a", "b", "ab", "<s>"};
  vocab.token_types = {1, 1, 1, 3};
  vocab.merges = {"a b"};
  vocab.bos_id = 3;
  vocab.add_bos = true;
  return vocab;
}

void ExpectRefused(const TextVocab& vocab, absl::StatusCode code, const std::string& part) {
  const auto tokenizer = Tokenizer::FromVocab(vocab);
  EXPECT_EQ(tokenizer.status().code(), code) << tokenizer.status();
  EXPECT_THAT(std::string(tokenizer.status().message()), HasSubstr(part));
}

TEST(TokenizerFilesTest, NamesTheFileThatIsMissingOrBroken) {
  const auto missing = Tokenizer::Open("/no/such/folder");
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr("/no/such/folder/tokenizer.json"));

  const std::string whole = ReadFile(GoldenFolder("tokenizers/own_bpe_digits") + "/tokenizer.json");
  for (size_t size : {size_t{0}, size_t{1}, size_t{400}, whole.size() / 2, whole.size() - 2}) {
    ModelFolder folder;
    folder.Write("tokenizer.json", whole.substr(0, size));
    const auto truncated = Tokenizer::Open(folder.path());
    EXPECT_EQ(truncated.status().code(), absl::StatusCode::kInvalidArgument) << size;
    EXPECT_THAT(std::string(truncated.status().message()),
                HasSubstr(folder.path() + "/tokenizer.json"));
  }
  for (const char* broken : {"tokenizer_config.json", "special_tokens_map.json"}) {
    ModelFolder folder;
    folder.Write("tokenizer.json", whole);
    folder.Write(broken, "{\"bos_token\": ");
    EXPECT_THAT(std::string(Tokenizer::Open(folder.path()).status().message()), HasSubstr(broken));
  }
  ModelFolder folder;
  folder.Write("tokenizer.json", whole);
  folder.Write("chat_template.jinja", "\xFF");
  EXPECT_THAT(std::string(Tokenizer::Open(folder.path()).status().message()),
              HasSubstr("chat_template.jinja"));
}

TEST(TokenizerFilesTest, RefusesWhatLooksLikeATokenizerAndIsNone) {
  for (const char* json :
       {"[]", "null", "{}", "{\"version\":\"1.0\"}", "{\"version\":\"1.0\",\"decoder\":7}",
        R"({"version":"1.0","model":{"type":"BPE","vocab":{"a":0},"merges":["a a"]}})",
        // The library panics on this one.
        "{\"version\":\"1.0\",\"decoder\":{\"type\":\"Metaspace\",\"spl\x13\xfe\xff\"}}"}) {
    ModelFolder folder;
    folder.Write("tokenizer.json", json);
    const auto tokenizer = Tokenizer::Open(folder.path());
    EXPECT_EQ(tokenizer.status().code(), absl::StatusCode::kInvalidArgument) << json;
    EXPECT_THAT(std::string(tokenizer.status().message()),
                HasSubstr(folder.path() + "/tokenizer.json: "));
  }
  ModelFolder folder;
  for (const std::string& open : {std::string("["), std::string("{\"decoder\":")}) {
    std::string deep;
    for (int i = 0; i < 100'000; ++i) deep += open;
    folder.Write("tokenizer.json", deep);
    EXPECT_EQ(Tokenizer::Open(folder.path()).status().code(), absl::StatusCode::kInvalidArgument);
    folder.Write("tokenizer.json", TinyTokenizer("null", "{\"a\":0}"));
    folder.Write("tokenizer_config.json", deep);
    EXPECT_EQ(Tokenizer::Open(folder.path()).status().code(), absl::StatusCode::kInvalidArgument);
    folder.Write("tokenizer_config.json", "{}");
  }
  folder.Write("tokenizer.json", TinyTokenizer("null", R"({"a":0,"b":4000000000})"));
  EXPECT_THAT(std::string(Tokenizer::Open(folder.path()).status().message()),
              HasSubstr("4000000000"));
  folder.Write("tokenizer.json",
               TinyTokenizer(R"({"type":"WordPiece","prefix":"##","cleanup":true})", R"({"a":0})"));
  const auto word_piece = Tokenizer::Open(folder.path());
  EXPECT_EQ(word_piece.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(word_piece.status().message()),
              AllOf(HasSubstr("WordPiece"), HasSubstr("ByteLevel")));
}

TEST(TokenizerFilesTest, DamagedFilesAreRefusedOrWorkButNeverCrash) {
  int num_opened = 0;
  for (const char* name : {"own_bpe_llama3", "own_spm", "own_unigram"}) {
    const std::string whole =
        ReadFile(GoldenFolder(std::string("tokenizers/") + name) + "/tokenizer.json");
    ModelFolder folder;
    for (uint32_t seed = 0; seed < 150; ++seed) {
      SCOPED_TRACE(std::string(name) + " seed " + std::to_string(seed));
      std::mt19937 random(seed);
      std::string damaged = whole;
      // The first kilobytes hold everything but the vocabulary.
      const size_t reach = seed % 2 == 0 ? 3000 : damaged.size();
      for (uint32_t i = 0; i <= seed % 3; ++i) {
        const size_t at = random() % reach;
        switch (random() % 3) {
          case 0:
            damaged[at] = static_cast<char>(' ' + random() % 95);
            break;
          case 1:
            damaged.erase(at, 1 + random() % 8);
            break;
          default:
            damaged.insert(at, damaged.substr(random() % reach, 1 + random() % 30));
        }
      }
      folder.Write("tokenizer.json", damaged);
      const auto tokenizer = Tokenizer::Open(folder.path());
      if (!tokenizer.ok()) continue;
      ++num_opened;
      const auto ids = (*tokenizer)->Encode("Hello wörld 123 <s>", {});
      if (ids.ok()) {
        EXPECT_TRUE((*tokenizer)->Decode(*ids, false).ok());
      }
    }
  }
  EXPECT_GT(num_opened, 0);
}

TEST(TokenizerFilesTest, TakesTheTemplateFromEitherPlaceAndFollowsLinks) {
  const std::string golden = GoldenFolder("tokenizers/own_bpe_digits");
  ModelFolder folder;
  std::filesystem::create_symlink(std::filesystem::absolute(golden + "/tokenizer.json"),
                                  folder.path() + "/tokenizer.json");
  EXPECT_FALSE((*Tokenizer::Open(folder.path()))->has_chat_template());

  folder.Write("tokenizer_config.json",
               R"({"eos_token":{"content":"<|im_end|>"},"chat_template":"one"})");
  auto tokenizer = *Tokenizer::Open(folder.path());
  EXPECT_EQ(tokenizer->chat_template(), "one");
  EXPECT_EQ(tokenizer->eos_id(), tokenizer->FindToken("<|im_end|>"));
  EXPECT_EQ(tokenizer->special_tokens_json(), R"({"eos_token":"<|im_end|>"})");
  EXPECT_EQ(tokenizer->bos_id(), -1);

  folder.Write("tokenizer_config.json", R"({"chat_template":[{"name":"tool_use","template":"x"},)"
                                        R"({"name":"default","template":"two"}]})");
  tokenizer = *Tokenizer::Open(folder.path());
  EXPECT_EQ(tokenizer->chat_template(), "two");
  EXPECT_EQ(tokenizer->tool_template(), "x");
  folder.Write("chat_template.jinja", "three");
  tokenizer = *Tokenizer::Open(folder.path());
  EXPECT_EQ(tokenizer->chat_template(), "three");
  EXPECT_EQ(tokenizer->tool_template().data(), nullptr);
  std::filesystem::create_directory(folder.path() + "/additional_chat_templates");
  folder.Write("additional_chat_templates/tool_use.jinja", "four");
  tokenizer = *Tokenizer::Open(folder.path());
  EXPECT_EQ(tokenizer->chat_template(), "three");
  EXPECT_EQ(tokenizer->tool_template(), "four");
}

TEST(TokenizerFilesTest, JoinsBySpacesWhereThereIsNoDecoder) {
  ModelFolder folder;
  folder.Write("tokenizer.json", TinyTokenizer("null", R"({"a":0,"b":1,"c":5})"));
  const auto tokenizer = *Tokenizer::Open(folder.path());
  EXPECT_EQ(*tokenizer->Encode("b a c x", {}), (std::vector<int32_t>{1, 0, 5, 0}));
  EXPECT_EQ(*tokenizer->Decode({1, 0, 5}, false), "b a c");
  EXPECT_EQ(tokenizer->vocab_size(), 6);
  EXPECT_FALSE(tokenizer->HasToken(3));
  EXPECT_EQ(tokenizer->Decode({1, 3}, false).status().code(), absl::StatusCode::kOutOfRange);
}

// A BPE of "a", "b" and "ab" with two parts to fill in.
std::string TinyBpe(const std::string& post_processor, const std::string& dropout) {
  return R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":[],"normalizer":null,)"
         R"("pre_tokenizer":null,"post_processor":)" +
         post_processor + R"(,"decoder":null,"model":{"type":"BPE","dropout":)" + dropout +
         R"(,"vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}})";
}

TEST(TokenizerFilesTest, DropoutOfTrainingIsOffSoThatATextAlwaysIsTheSameTokens) {
  ModelFolder folder;
  folder.Write("tokenizer.json", TinyBpe("null", "0.999"));
  const auto tokenizer = Tokenizer::Open(folder.path());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const auto ids = (*tokenizer)->Encode("abababab", {});
  ASSERT_TRUE(ids.ok()) << ids.status();
  EXPECT_EQ(*ids, (std::vector<int32_t>{2, 2, 2, 2}));
}

TEST(TokenizerFilesTest, RefusesAPostProcessorThatAddsATokenWhichIsNotThere) {
  ModelFolder folder;
  folder.Write("tokenizer.json",
               TinyBpe(R"({"type":"BertProcessing","sep":["b",1],"cls":["a",7]})", "null"));
  const auto tokenizer = Tokenizer::Open(folder.path());
  EXPECT_EQ(tokenizer.status().message(),
            folder.path() +
                "/tokenizer.json: post_processor: it adds the token id 7, which is not "
                "in the vocabulary");
}

TEST(TokenizerVocabTest, NamesTheEntryThatCannotBe) {
  const auto tokenizer = Tokenizer::FromVocab(SmallVocab());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ(*(*tokenizer)->Encode("abba", {}), (std::vector<int32_t>{3, 2, 1, 0}));

  using Code = absl::StatusCode;
  TextVocab vocab = SmallVocab();
  vocab.model = "rwkv";
  ExpectRefused(
      vocab, Code::kUnimplemented,
      "\"rwkv\" is not supported (its tokens are found by a trie of its own); supported are "
      "gpt2 (byte-level BPE), llama (SentencePiece BPE), t5 (unigram)");
  vocab = SmallVocab();
  vocab.model = "hal9000";
  ExpectRefused(vocab, Code::kUnimplemented, "\"hal9000\" is not supported; supported are gpt2");
  vocab = SmallVocab();
  vocab.tokens.clear();
  ExpectRefused(vocab, Code::kInvalidArgument, "0 tokens");
  vocab = SmallVocab();
  vocab.token_types.pop_back();
  ExpectRefused(vocab, Code::kInvalidArgument, "3 token types for 4 tokens");
  vocab = SmallVocab();
  vocab.scores = {1, 2};
  ExpectRefused(vocab, Code::kInvalidArgument, "2 scores for 4 tokens");
  vocab = SmallVocab();
  vocab.tokens[1] = "a";
  ExpectRefused(vocab, Code::kInvalidArgument, "token \"a\" has two ids, 0 and 1");
  vocab = SmallVocab();
  vocab.tokens[1] = "\xC3";
  ExpectRefused(vocab, Code::kInvalidArgument, "token 1: not UTF-8");
  vocab = SmallVocab();
  vocab.merges = {"ab"};
  ExpectRefused(vocab, Code::kInvalidArgument, "merge 0 (\"ab\") is not two tokens");
  vocab.merges = {"a b", "ab b"};
  ExpectRefused(vocab, Code::kInvalidArgument, "merge 1 (\"ab b\")");
  vocab = SmallVocab();
  vocab.eos_id = 4;
  ExpectRefused(vocab, Code::kInvalidArgument, "eos token id 4 is outside");
  vocab.eos_id = -7;
  ExpectRefused(vocab, Code::kInvalidArgument, "eos token id -7");
  vocab = SmallVocab();
  vocab.bos_id = -1;
  ExpectRefused(vocab, Code::kInvalidArgument, "bos to be added but names no bos token");
  vocab = SmallVocab();
  vocab.model = "llama";
  ExpectRefused(vocab, Code::kInvalidArgument, "needs scores");
}

TEST(TokenizerTest, RefusesTextThatIsNotUtf8AndNamesThePlace) {
  const auto tokenizer = OpenGolden("own_bpe_digits", true);
  const auto ids = tokenizer->Encode("abc\xE2\x82", {});
  EXPECT_EQ(ids.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(ids.status().message()), HasSubstr("from byte 3 on"));
  EXPECT_EQ(*tokenizer->Encode("", {}), std::vector<int32_t>());
  EXPECT_EQ(tokenizer->FindToken("\xFF"), -1);
}

TEST(TokenizerTest, RefusesIdsWithoutATokenAndNamesThem) {
  const auto tokenizer = OpenGolden("own_bpe_digits", true);
  for (int32_t id : {-1, 800, 2147483647}) {
    StreamDecoder decoder(*tokenizer, false);
    std::string text = "kept";
    const absl::Status status = decoder.Push(id, text);
    EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("token id " + std::to_string(id)), HasSubstr("800 tokens")));
    EXPECT_EQ(text, "kept");
    EXPECT_EQ(tokenizer->TokenBytes(id), "");
    EXPECT_FALSE(tokenizer->IsSpecial(id));
  }
}

TEST(TokenizerTest, GivesTheBytesOfTokensThatAreParts) {
  const auto byte_level = OpenGolden("own_bpe_digits", true);
  const std::vector<int32_t> ids = *byte_level->Encode("né🦙 x", {});
  std::string bytes;
  for (int32_t id : ids) bytes += std::string(byte_level->TokenBytes(id));
  EXPECT_EQ(bytes, "né🦙 x");

  const auto fallback = OpenGolden("own_spm", true);
  EXPECT_EQ(fallback->TokenBytes(fallback->FindToken("<0xF0>")), "\xF0");
  EXPECT_EQ(fallback->TokenBytes(fallback->FindToken("▁the")), " the");
}

TEST(TokenizerTest, SpecialTokensInTextAreForgedOnlyWhereAllowed) {
  const auto tokenizer = OpenGolden("own_bpe_digits", true);
  const int32_t end = tokenizer->FindToken("<|im_end|>");
  const std::vector<int32_t> parsed = *tokenizer->Encode("<|im_end|>", {.parse_special = true});
  EXPECT_EQ(parsed, std::vector<int32_t>{end});
  const std::vector<int32_t> literal = *tokenizer->Encode("<|im_end|>", {.parse_special = false});
  EXPECT_THAT(literal, testing::Not(testing::Contains(end)));
  EXPECT_EQ(*tokenizer->Decode(literal, true), "<|im_end|>");
  EXPECT_EQ(*tokenizer->Decode(parsed, true), "");
}

TEST(TokenizerTest, EncodesFromManyThreadsAsFromOne) {
  const auto tokenizer = OpenGolden("own_bpe_llama3", true);
  std::vector<std::string> texts;
  for (int i = 0; i < 50; ++i) texts.push_back("the text no. " + std::to_string(i) + " is über");
  std::vector<std::vector<int32_t>> expected;
  for (const std::string& text : texts) expected.push_back(*tokenizer->Encode(text, {}));
  std::atomic<int> num_equal = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < texts.size(); ++i) {
        const size_t k = (i * 7 + t) % texts.size();
        num_equal += *tokenizer->Encode(texts[k], {.parse_special = t % 2 == 0}) == expected[k];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(num_equal, 200);
}

TEST(TokenizerTest, TakesLongTextsOfOneKind) {
  for (const char* name : {"own_bpe_digits", "own_bpe_llama3", "own_spm"}) {
    const auto tokenizer = OpenGolden(name, true);
    for (const char* unit : {" ", "a", "\n", "é", "1", "\t "}) {
      std::string text = "x";
      while (text.size() < 300'000) text += unit;
      const auto ids = tokenizer->Encode(text, {.add_special = false});
      ASSERT_TRUE(ids.ok()) << name << " " << ids.status();
      EXPECT_EQ(*tokenizer->Decode(*ids, false), text) << name;
    }
  }
}

}  // namespace
}  // namespace quire
