#include "server/cli/repeat_sink.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"

namespace quire::cli {
namespace {

constexpr size_t kMaxTextBytes = 200;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Equal for texts that differ in their numbers only: ports, counts, times.
size_t HashWithoutNumbers(std::string_view text) {
  std::string words;
  words.reserve(text.size());
  for (const char c : text) {
    if (!IsDigit(c)) {
      words += c;
    } else if (words.empty() || words.back() != '0') {
      words += '0';
    }
  }
  return std::hash<std::string>()(words);
}

}  // namespace

RepeatSink::RepeatSink(std::shared_ptr<spdlog::sinks::sink> next) : next_(std::move(next)) {
  kinds_.reserve(kMaxKinds);
}

RepeatSink::~RepeatSink() { TellCountsBefore(spdlog::log_clock::time_point::max()); }

void RepeatSink::log(const spdlog::details::log_msg& message) {
  std::lock_guard<std::mutex> lock(mu_);
  TellCountsBefore(message.time - kWindow);
  if (message.level == spdlog::level::warn || message.level == spdlog::level::err) {
    const std::string_view text(message.payload.data(), message.payload.size());
    const size_t hash = HashWithoutNumbers(text) + static_cast<size_t>(message.level);
    const auto known = std::find_if(kinds_.begin(), kinds_.end(),
                                    [hash](const Kind& kind) { return kind.hash == hash; });
    if (known != kinds_.end()) {
      ++known->num_untold;
      return;
    }
    if (kinds_.size() == kMaxKinds) {
      TellCount(kinds_.front());
      kinds_.erase(kinds_.begin());
    }
    kinds_.push_back({.hash = hash,
                      .told_at = message.time,
                      .level = message.level,
                      .text = std::string(text.substr(0, kMaxTextBytes))});
  }
  next_->log(message);
}

void RepeatSink::TellCountsBefore(spdlog::log_clock::time_point told_before) {
  const auto end = std::find_if(kinds_.begin(), kinds_.end(), [told_before](const Kind& kind) {
    return kind.told_at > told_before;
  });
  std::for_each(kinds_.begin(), end, [this](const Kind& kind) { TellCount(kind); });
  kinds_.erase(kinds_.begin(), end);
}

void RepeatSink::TellCount(const Kind& kind) {
  if (kind.num_untold == 0) return;
  const std::string text = absl::StrCat("repeated ", kind.num_untold, " more times: ", kind.text);
  next_->log(spdlog::details::log_msg("quire", kind.level, text));
}

}  // namespace quire::cli
