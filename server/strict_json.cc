#include "server/strict_json.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace quire {
namespace {

using Json = nlohmann::json;

// Sees every value without keeping one; false ends the reading.
class Checker final : public nlohmann::json_sax<Json> {
 public:
  explicit Checker(size_t max_depth) : max_depth_(max_depth) {}

  bool null() override { return true; }
  bool boolean(bool /*value*/) override { return true; }
  bool number_integer(number_integer_t /*value*/) override { return true; }
  bool number_unsigned(number_unsigned_t /*value*/) override { return true; }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override { return true; }
  bool string(string_t& /*value*/) override { return true; }
  bool binary(binary_t& /*value*/) override { return true; }
  bool start_object(size_t /*size*/) override { return Open(); }
  bool end_object() override { return Close(); }
  bool start_array(size_t /*size*/) override { return Open(); }
  bool end_array() override { return Close(); }
  bool key(string_t& name) override {
    if (keys_.back().insert(name).second) return true;
    return Fail(absl::StrCat("has the key \"", absl::Utf8SafeCHexEscape(name), "\" twice"));
  }
  bool parse_error(size_t position, const std::string& /*last_token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    return Fail(absl::StrCat("is no JSON, from byte ", position, " on"));
  }

  const std::string& why() const { return why_; }

 private:
  bool Open() {
    if (keys_.size() == max_depth_) {
      return Fail(absl::StrCat("is nested deeper than ", max_depth_));
    }
    keys_.emplace_back();
    return true;
  }
  bool Close() {
    keys_.pop_back();
    return true;
  }
  bool Fail(std::string why) {
    why_ = std::move(why);
    return false;
  }

  const size_t max_depth_;
  std::vector<absl::flat_hash_set<std::string>> keys_;  // of what is open; none in lists
  std::string why_;
};

}  // namespace

absl::StatusOr<Json> ParseStrictJson(absl::string_view text, size_t max_depth) {
  Checker checker(max_depth);
  if (!Json::sax_parse(text, &checker)) return absl::InvalidArgumentError(checker.why());
  return Json::parse(text);
}

}  // namespace quire
