#ifndef QUIRE_TESTS_SERVER_FIELD_CASES_H_
#define QUIRE_TESTS_SERVER_FIELD_CASES_H_

#include <map>
#include <string>

#include "server/server_config.h"

namespace quire {

inline constexpr int kPromptBytes = 20'000;

// Small enough for a test to reach.
ServerLimits LimitsOfCases();

// A request as text format, one with a value just inside the range of a field and one with a value
// just outside, under LimitsOfCases and the model of FakeModelInfo.
struct FieldCase {
  const char* request;  // its type
  std::string inside;
  std::string outside;
};

// By field, named as in field_rules.h.
std::map<std::string, FieldCase> FieldCases();

// Fields of which every value is right, beside flags. Each with a reason.
const std::map<std::string, std::string>& UnboundedFields();

// Parts of such texts.
std::string X(int count);  // "xx..."
std::string Quoted(const std::string& field, const std::string& text);
std::string Params(const std::string& fields);
// A conversation of one message with these fields beside.
std::string Chat(const std::string& fields);

}  // namespace quire

#endif  // QUIRE_TESTS_SERVER_FIELD_CASES_H_
