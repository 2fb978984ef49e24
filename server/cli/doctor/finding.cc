#include "server/cli/doctor/finding.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace quire::cli {
namespace {

constexpr char kPlain[] = "\x1b[0m";

const char* NameOf(Finding::Status status) {
  switch (status) {
    case Finding::Status::kOk:
      return "ok";
    case Finding::Status::kWarning:
      return "warning";
    case Finding::Status::kProblem:
      return "problem";
  }
  return "?";
}

const char* ColourOf(Finding::Status status) {
  switch (status) {
    case Finding::Status::kOk:
      return "\x1b[32m";
    case Finding::Status::kWarning:
      return "\x1b[33m";
    case Finding::Status::kProblem:
      return "\x1b[1;31m";
  }
  return "";
}

}  // namespace

Finding Ok(std::string check, std::string seen) {
  return {.check = std::move(check), .seen = std::move(seen)};
}

Finding Warning(std::string check, std::string seen, std::string remedy) {
  return {.check = std::move(check),
          .status = Finding::Status::kWarning,
          .seen = std::move(seen),
          .remedy = std::move(remedy)};
}

Finding Problem(std::string check, std::string seen, std::string remedy, ExitCode code) {
  return {.check = std::move(check),
          .status = Finding::Status::kProblem,
          .seen = std::move(seen),
          .remedy = std::move(remedy),
          .code = code};
}

std::string ToText(const Finding& finding, bool with_colours) {
  const auto one_line = [](const std::string& text) {
    return absl::StrReplaceAll(text, {{"\n", " "}});
  };
  std::string text = absl::StrFormat(
      "%s%-9s%s%-12s%s\n", with_colours ? ColourOf(finding.status) : "", NameOf(finding.status),
      with_colours ? kPlain : "", finding.check, one_line(finding.seen));
  if (!finding.remedy.empty()) {
    absl::StrAppend(&text, std::string(21, ' '), "-> ", one_line(finding.remedy), "\n");
  }
  return text;
}

Json ToJson(const Finding& finding) {
  return {{"check", finding.check},
          {"status", NameOf(finding.status)},
          {"seen", finding.seen},
          {"remedy", finding.remedy}};
}

ExitCode CodeOf(const std::vector<Finding>& findings) {
  for (const Finding& finding : findings) {
    if (finding.status == Finding::Status::kProblem) return finding.code;
  }
  return ExitCode::kOk;
}

}  // namespace quire::cli
