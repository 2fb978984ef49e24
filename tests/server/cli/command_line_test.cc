#include "server/cli/command_line.h"

#include <cstring>
#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/temp_dir.h"

namespace quire::cli {
namespace {

using testing::HasSubstr;

// What came of one reading.
struct Read {
  std::optional<ExitCode> code;
  std::string out, err;
};

Read SetFrom(const Command& command, std::vector<std::string> args, Variables variables = {}) {
  const Given given = {.args = std::move(args),
                       .variables = std::move(variables),
                       .known_variables = KnownVariables({ServeCommand(), GenerateCommand()})};
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Read read;
  read.code = SetFlags(command, given);
  std::cout.flush();
  read.out = testing::internal::GetCapturedStdout();
  read.err = testing::internal::GetCapturedStderr();
  return read;
}

const Flag& FlagNamed(const Command& command, const std::string& name) {
  for (const Flag& flag : command.flags) {
    if (NameOf(flag) == name) return flag;
  }
  ADD_FAILURE() << "no flag " << name;
  return command.flags[0];
}

std::string ValueOf(const Flag& flag) { return absl::StrJoin(flag.get(), ","); }

// Flags of serve that all sources may set.
std::vector<std::string> ServeFlagNames() {
  std::vector<std::string> names;
  for (const Flag& flag : ServeCommand().flags) {
    if (flag.sources == Sources::kAll) names.push_back(NameOf(flag));
  }
  return names;
}

// A text for a flag, and the value that comes of it.
struct Sample {
  std::string text;
  std::string value;
};

// Two texts of different values, found by trying: so that a new flag needs no row in a table here.
std::pair<Sample, Sample> SamplesOf(const std::string& name) {
  const char* const kTexts[] = {"true",    "false", "16",      "32",         "70000", "80000",
                                "3s",      "4s",    "a=int:1", "b=int:2",    "debug", "error",
                                "reserve", "text",  "json",    "optimistic", "5",     "6",
                                "bf16x2",  "a8g32", "int8",    "int4"};
  std::vector<Sample> samples;
  for (const char* text : kTexts) {
    const Command command = ServeCommand();
    const Flag& flag = FlagNamed(command, name);
    if (!flag.set(text).ok()) continue;
    if (samples.empty() || samples[0].value != ValueOf(flag))
      samples.push_back({text, ValueOf(flag)});
    if (samples.size() == 2) return {samples[0], samples[1]};
  }
  ADD_FAILURE() << name << ": fewer than two of the texts above are good; add one";
  return {};
}

// Where a test puts a value.
enum class Source { kFlag, kVariable, kFile };

// The flag's value in a server whose sources say this of it.
std::string ValueFrom(const std::string& name,
                      const std::vector<std::pair<Source, std::string>>& said) {
  const Command command = ServeCommand();
  const Flag& flag = FlagNamed(command, name);
  const std::string key = KeysOf(flag)[0];
  const TempDir dir;
  std::vector<std::string> args;
  Variables variables;
  std::string file;
  if (!flag.is_argument()) variables["QUIRE_MODEL"] = "m";
  for (const auto& [source, text] : said) {
    if (source == Source::kVariable) variables[VariableOf(key)] = text;
    if (source == Source::kFile) file = absl::StrCat(key, " = \"", text, "\"\n");
    if (source == Source::kFlag) {
      args.push_back(flag.is_argument() ? text : absl::StrCat(name, "=", text));
    }
  }
  args.push_back(absl::StrCat("--config=", dir.Write("quire.toml", file)));
  const Read read = SetFrom(command, args, variables);
  EXPECT_FALSE(read.code.has_value()) << read.err;
  return ValueOf(flag);
}

void ExpectFirstWins(Source first, Source second) {
  for (const std::string& name : ServeFlagNames()) {
    SCOPED_TRACE(name);
    const auto [a, b] = SamplesOf(name);
    EXPECT_EQ(ValueFrom(name, {{first, a.text}, {second, b.text}}), a.value);
    EXPECT_EQ(ValueFrom(name, {{first, b.text}, {second, a.text}}), b.value);
  }
}

TEST(Layers, EveryFlagComesBeforeItsVariable) { ExpectFirstWins(Source::kFlag, Source::kVariable); }

TEST(Layers, EveryVariableComesBeforeTheFile) { ExpectFirstWins(Source::kVariable, Source::kFile); }

TEST(Layers, EveryFlagComesBeforeTheFile) { ExpectFirstWins(Source::kFlag, Source::kFile); }

TEST(Layers, EveryKeyOfTheFileComesBeforeTheDefault) {
  for (const std::string& name : ServeFlagNames()) {
    SCOPED_TRACE(name);
    const auto [a, b] = SamplesOf(name);
    EXPECT_EQ(ValueFrom(name, {{Source::kFile, a.text}}), a.value);
    EXPECT_EQ(ValueFrom(name, {{Source::kFile, b.text}}), b.value);
  }
}

TEST(Layers, TheFileIsNamedByAVariableToo) {
  const TempDir dir;
  const Command command = ServeCommand();
  const std::string path = dir.Write("quire.toml", "model = \"m\"\nmax-num-seqs = 7\n");
  EXPECT_FALSE(SetFrom(command, {}, {{"QUIRE_CONFIG", path}}).code.has_value());
  EXPECT_EQ(ValueOf(FlagNamed(command, "--max-num-seqs")), "7");
}

TEST(Layers, TomlsOwnTypesAreTakenAsTheyStand) {
  const TempDir dir;
  const Command command = ServeCommand();
  const std::string path = dir.Write("quire.toml", R"(# a comment
model = 'm'
prefix-caching = false
kv-cache = 0x1000_0000
drain-delay = 2.5
model-alias = ["a", "b, c"]
)");
  EXPECT_FALSE(SetFrom(command, {"--config", path}).code.has_value());
  EXPECT_EQ(ValueOf(FlagNamed(command, "--prefix-caching")), "false");
  EXPECT_EQ(ValueOf(FlagNamed(command, "--kv-cache")), "256MiB");
  EXPECT_EQ(ValueOf(FlagNamed(command, "--drain-delay")), "2500ms");
  EXPECT_THAT(FlagNamed(command, "--model-alias").get(), testing::ElementsAre("a", "b, c"));
}

TEST(Layers, AVariableOfARepeatableFlagIsCutAtCommasAndReplacesTheFile) {
  const TempDir dir;
  const Command command = ServeCommand();
  const std::string path = dir.Write("quire.toml", "model-alias = [\"x\"]\n");
  EXPECT_FALSE(
      SetFrom(command, {"m", "--config", path}, {{"QUIRE_MODEL_ALIAS", "a,b"}}).code.has_value());
  EXPECT_THAT(FlagNamed(command, "--model-alias").get(), testing::ElementsAre("a", "b"));
}

TEST(Layers, WhatIsRequiredMayComeFromAnySource) {
  const TempDir dir;
  const std::string path = dir.Write("quire.toml", "model = \"m\"\n");
  EXPECT_FALSE(SetFrom(ServeCommand(), {"m"}).code.has_value());
  EXPECT_FALSE(SetFrom(ServeCommand(), {}, {{"QUIRE_MODEL", "m"}}).code.has_value());
  EXPECT_FALSE(SetFrom(ServeCommand(), {"--config", path}).code.has_value());
  const Read none = SetFrom(ServeCommand(), {});
  EXPECT_EQ(none.code, ExitCode::kUsage);
  EXPECT_THAT(none.err, HasSubstr("MODEL: is required; QUIRE_MODEL in the environment"));
}

TEST(Layers, OneSettingByTwoNamesIsRefused) {
  const TempDir dir;
  const std::string path = dir.Write("quire.toml", "kv-cache = 1\nkv-cache-bytes = 2\n");
  EXPECT_THAT(SetFrom(ServeCommand(), {"m", "--config", path}).err,
              HasSubstr("quire.toml:2: kv-cache-bytes: is the same setting as the one of"));
  EXPECT_THAT(
      SetFrom(ServeCommand(), {"m"}, {{"QUIRE_KV_CACHE", "1"}, {"QUIRE_KV_CACHE_BYTES", "2"}}).err,
      HasSubstr("QUIRE_KV_CACHE and QUIRE_KV_CACHE_BYTES are the same setting"));
}

TEST(Layers, AWrongValueIsNamedWithItsSource) {
  const struct {
    std::vector<std::string> args;
    Variables variables;
    const char* message;
  } cases[] = {
      {{"--max-num-seqs", "0"}, {}, "quire: --max-num-seqs: \"0\" is not from 1 to"},
      {{"--threads", "1", "--threads", "2"}, {}, "quire: --threads: given 2 times"},
      {{"--config", "/nonexistent"}, {}, "quire: --config: cannot read /nonexistent: No such"},
      {{}, {{"QUIRE_MAX_NUM_SEQS", "a"}}, "quire: QUIRE_MAX_NUM_SEQS: \"a\" is not a size"},
      {{}, {{"QUIRE_REFLECTION", "y"}}, "quire: QUIRE_REFLECTION: \"y\" is not true or false"},
      {{}, {{"QUIRE_CONFIG", "/none"}}, "quire: QUIRE_CONFIG: cannot read /none: No such"},
  };
  for (const auto& [args, variables, message] : cases) {
    std::vector<std::string> all = {"m"};
    all.insert(all.end(), args.begin(), args.end());
    const Read read = SetFrom(ServeCommand(), all, variables);
    EXPECT_EQ(read.code, ExitCode::kUsage) << message;
    EXPECT_THAT(read.err, HasSubstr(message));
  }
}

TEST(Layers, WhatIsWrongInAFileIsNamedWithItsLine) {
  const struct {
    const char* file;
    const char* message;
  } cases[] = {
      {"\nmax-num-seqs = -1\n", "quire.toml:2: max-num-seqs: \"-1\" is not a size"},
      {"max-num-seqs = [1, 2]", "quire.toml:1: max-num-seqs: takes one value, not a list"},
      {"[serve]\nmax-num-seqs = 1", "quire.toml:1: serve is a table"},
      {"a.b = 1", "quire.toml:1: a is a table"},
      {"listen = 2020-01-01", "quire.toml:1: listen is a date or a time"},
      {"model-alias = [[\"a\"]]", "quire.toml:1: model-alias is a list in a list"},
      {"\n\nlisten =", "quire.toml:3: "},
      {"listen = 'a'\nlisten = 'b'", "quire.toml:2: "},
      {"listen = \"\xff\"", "quire.toml:1: "},
      {"config = 'other.toml'", "quire.toml:1: config: cannot stand in a file"},
      {"dry-run = true", "quire.toml:1: dry-run: cannot stand in a file"},
  };
  const TempDir dir;
  for (const auto& [file, message] : cases) {
    const std::string path = dir.Write("quire.toml", file);
    const Read read = SetFrom(ServeCommand(), {"m", "--config", path});
    EXPECT_EQ(read.code, ExitCode::kUsage) << message;
    EXPECT_THAT(read.err, HasSubstr(message));
  }
  const std::string large = dir.Write("large.toml", std::string((1 << 20) + 1, '#'));
  EXPECT_THAT(SetFrom(ServeCommand(), {"m", "--config", large}).err,
              HasSubstr("larger than 1048576 bytes"));
}

TEST(Layers, AnUnknownNameIsToldTheNearestKnownOne) {
  const TempDir dir;
  const std::string path = dir.Write("quire.toml", "model = 'm'\nmax_num_seqs = 1\n");
  EXPECT_THAT(SetFrom(ServeCommand(), {"--config", path}).err,
              HasSubstr("quire.toml:2: max_num_seqs: there is no such setting; the nearest is "
                        "max-num-seqs"));
  const Read variable = SetFrom(ServeCommand(), {"m"}, {{"QUIRE_MAX_NUM_SEQ", "1"}});
  EXPECT_EQ(variable.code, ExitCode::kUsage);
  EXPECT_THAT(variable.err, HasSubstr("QUIRE_MAX_NUM_SEQ in the environment: there is no such "
                                      "setting; the nearest is QUIRE_MAX_NUM_SEQS"));
  EXPECT_THAT(SetFrom(ServeCommand(), {"m", "--max-num-seq=1"}).err,
              HasSubstr("the nearest is --max-num-seqs"));
}

TEST(Layers, AVariableOfAnotherCommandIsNoError) {
  EXPECT_FALSE(SetFrom(GenerateCommand(), {"hello"},
                       {{"QUIRE_MODEL", "m"}, {"QUIRE_LISTEN", "0.0.0.0:1"}, {"QUIRE_CONFIG", "c"}})
                   .code.has_value());
}

TEST(Layers, AVariableForTheAddressYieldsToAModelOnTheCommandLine) {
  const Command command = GenerateCommand();
  const Variables variables = {{"QUIRE_ADDRESS", "elsewhere:1"}, {"QUIRE_MODEL", "not-taken"}};
  EXPECT_FALSE(SetFrom(command, {"--model", "m"}, variables).code.has_value());
  EXPECT_EQ(ValueOf(FlagNamed(command, "--address")), "");
  const Command other = GenerateCommand();
  EXPECT_FALSE(SetFrom(other, {}, variables).code.has_value());
  EXPECT_EQ(ValueOf(FlagNamed(other, "--address")), "elsewhere:1");
  EXPECT_EQ(ValueOf(FlagNamed(other, "--model")), "");
}

// The lines of --print-config without their comments.
std::vector<std::string> WithoutOrigins(const std::string& config) {
  std::vector<std::string> lines = absl::StrSplit(config, '\n', absl::SkipEmpty());
  for (std::string& line : lines) line = line.substr(0, line.find("  # "));
  return lines;
}

TEST(PrintConfig, EachLineTellsWhereTheValueCameFrom) {
  const TempDir dir;
  const std::string path = dir.Write("quire.toml", "\nmax-num-seqs = 9\nlisten = '[::1]:1'\n");
  const Read read = SetFrom(
      ServeCommand(), {"a \"b\"\\\t", "--print-config", "--model-alias=1", "--model-alias=\x7f"},
      {{"QUIRE_CONFIG", path}, {"QUIRE_LISTEN", "[::1]:2"}});
  EXPECT_EQ(read.code, ExitCode::kOk) << read.err;
  EXPECT_THAT(read.out, HasSubstr("model = \"a \\\"b\\\"\\\\\\t\"  # flag\n"));
  EXPECT_THAT(read.out, HasSubstr("model-alias = [1, \"\\u007f\"]  # flag\n"));
  EXPECT_THAT(read.out, HasSubstr("listen = \"[::1]:2\"  # QUIRE_LISTEN\n"));
  EXPECT_THAT(read.out, HasSubstr(absl::StrCat("max-num-seqs = 9  # ", path, ":2\n")));
  EXPECT_THAT(read.out, HasSubstr("max-num-batched-tokens = 512  # default\n"));
  EXPECT_THAT(read.out, HasSubstr("kv-cache = \"auto\"  # default\n"));
  EXPECT_THAT(read.out, HasSubstr("max-message-bytes = \"4MiB\"  # default\n"));
  EXPECT_THAT(read.out, HasSubstr("drain-delay = \"5s\"  # default\n"));
}

TEST(PrintConfig, IsAFileThatSetsTheSame) {
  const TempDir dir;
  std::vector<std::string> args = {"--print-config", "--override-kv=a=float:0.1"};
  std::vector<std::vector<std::string>> all = {args, args};
  for (const std::string& name : ServeFlagNames()) {
    const auto [a, b] = SamplesOf(name);
    const std::string prefix = name == "MODEL" ? "" : name + "=";
    all[0].push_back(prefix + a.text);
    all[1].push_back(prefix + b.text);
  }
  all.push_back({"--print-config", "\xc3\xa9\x01 model"});
  for (const std::vector<std::string>& given : all) {
    const Read first = SetFrom(ServeCommand(), given);
    ASSERT_EQ(first.code, ExitCode::kOk) << first.err;
    const std::string path = dir.Write("quire.toml", first.out);
    const Read second = SetFrom(ServeCommand(), {"--print-config", "--config", path});
    ASSERT_EQ(second.code, ExitCode::kOk) << second.err << first.out;
    EXPECT_EQ(WithoutOrigins(second.out), WithoutOrigins(first.out));
    EXPECT_FALSE(absl::StrContains(second.out, "# default")) << second.out;
  }
}

TEST(PrintConfig, NeedsNoModel) {
  const Read read = SetFrom(ServeCommand(), {"--print-config"});
  EXPECT_EQ(read.code, ExitCode::kOk) << read.err;
  EXPECT_THAT(read.out, HasSubstr("model = \"\"  # default\n"));
}

TEST(PrintConfig, RefusesWhatTomlCannotHold) {
  const Read read = SetFrom(ServeCommand(), {"--print-config", "\xff"});
  EXPECT_EQ(read.code, ExitCode::kUsage);
  EXPECT_THAT(read.err, HasSubstr("model: "));
  EXPECT_THAT(read.err, HasSubstr("is not UTF-8"));
}

TEST(Help, NamesTheDefaultsThatFlagsHave) {
  int compared = 0;
  for (const std::string& name : ServeFlagNames()) {
    const Command command = ServeCommand();
    const Flag& flag = FlagNamed(command, name);
    const size_t start = flag.help.find("(default: ");
    if (start == std::string::npos) continue;
    const std::string rest = flag.help.substr(start + strlen("(default: "));
    const std::string text = rest.substr(0, rest.find_first_of(",)"));
    if (absl::StrContains(text, ' ')) continue;  // words, not a value
    const std::string value = ValueOf(flag);
    EXPECT_TRUE(flag.set(text).ok()) << name << ": " << text;
    EXPECT_EQ(ValueOf(flag), value) << name;
    ++compared;
  }
  EXPECT_GT(compared, 20);
}

TEST(Help, IsPrintedWhateverTheEnvironmentSays) {
  const Read read = SetFrom(ServeCommand(), {"--help"}, {{"QUIRE_NO_SUCH", "1"}});
  EXPECT_EQ(read.code, ExitCode::kOk);
  EXPECT_THAT(read.out, HasSubstr("--print-config"));
}

}  // namespace
}  // namespace quire::cli
