#include "engine/json_file.h"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "engine/mapped_file.h"

namespace quire {
namespace {

using nlohmann::json;

constexpr size_t kMaxFileBytes = size_t{64} << 20;
constexpr size_t kMaxDepth = 64;
constexpr size_t kMaxValues = 1 << 20;

// The parser's words, which quote the text: cut, and with nothing that upsets a terminal.
std::string Shown(absl::string_view words) {
  constexpr size_t kMaxShown = 240;
  std::string shown;
  for (const char c : words.substr(0, kMaxShown)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7F) {
      shown.push_back(c);
    } else {
      absl::StrAppend(&shown, "\\x", absl::Hex(byte, absl::kZeroPad2));
    }
  }
  if (words.size() > kMaxShown) shown += "...";
  return shown;
}

// Walks a document without building it and says what is wrong with it.
class Checker : public nlohmann::json_sax<json> {
 public:
  const std::string& error() const { return error_; }

  bool null() override { return Count(); }
  bool boolean(bool) override { return Count(); }
  bool number_integer(int64_t) override { return Count(); }
  bool number_unsigned(uint64_t) override { return Count(); }
  bool number_float(double, const std::string&) override { return Count(); }
  bool string(std::string&) override { return Count(); }
  bool binary(json::binary_t&) override { return Count(); }
  bool start_object(size_t) override { return Enter(); }
  bool start_array(size_t) override { return Enter(); }
  bool end_object() override { return Leave(); }
  bool end_array() override { return Leave(); }
  bool key(std::string& name) override {
    if (keys_.back().insert(name).second) return true;
    return Fail(absl::StrCat("the key ", Quoted(name), " appears twice in one object"));
  }
  bool parse_error(size_t position, const std::string&, const json::exception& error) override {
    return Fail(absl::StrCat("not valid JSON at byte ", position, ": ", Shown(error.what())));
  }

 private:
  bool Count() {
    if (++num_values_ <= kMaxValues) return true;
    return Fail(absl::StrCat("has more than ", kMaxValues, " values"));
  }
  bool Enter() {
    keys_.emplace_back();
    if (keys_.size() > kMaxDepth) {
      return Fail(absl::StrCat("is nested more than ", kMaxDepth, " levels deep"));
    }
    return Count();
  }
  bool Leave() {
    keys_.pop_back();
    return true;
  }
  bool Fail(std::string error) {
    error_ = std::move(error);
    return false;
  }

  std::vector<absl::flat_hash_set<std::string>> keys_;  // of the objects and arrays that are open
  size_t num_values_ = 0;
  std::string error_;
};

}  // namespace

absl::StatusOr<nlohmann::json> ParseJson(absl::string_view text, absl::string_view where) {
  Checker checker;
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &checker)) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": ", checker.error()));
  }
  return nlohmann::json::parse(text.begin(), text.end(), /*cb=*/nullptr,
                               /*allow_exceptions=*/false);
}

absl::StatusOr<nlohmann::json> ReadJsonObject(const std::string& path) {
  absl::StatusOr<std::string> text = ReadTextFile(path, kMaxFileBytes);
  if (!text.ok()) return text.status();
  absl::StatusOr<nlohmann::json> json = ParseJson(*text, path);
  if (json.ok() && !json->is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected a JSON object, found ", json->type_name()));
  }
  return json;
}

}  // namespace quire
