#ifndef QUIRE_TESTS_SERVER_HTTP_GET_H_
#define QUIRE_TESTS_SERVER_HTTP_GET_H_

#include <string>

namespace quire {

// What a plain HTTP client gets from 127.0.0.1. Fails the test, with an empty answer, where nothing
// listens or nothing comes within a minute.
struct HttpReply {
  std::string head;  // the status line and the headers
  std::string body;
};
// Sends these bytes and reads to the end of the connection.
HttpReply SendHttp(int port, const std::string& request);
HttpReply HttpGet(int port, const std::string& path);

// The value of a series as it stands in a scrape: "name{label=\"value\"}". Fails the test where
// there is no such line.
double ValueOf(const std::string& scrape, const std::string& series);

}  // namespace quire

#endif  // QUIRE_TESTS_SERVER_HTTP_GET_H_
