#include "tests/server/http_get.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include <arpa/inet.h>

namespace quire {

HttpReply SendHttp(int port, const std::string& request) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  const timeval patience = {.tv_sec = 60, .tv_usec = 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string all;
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 &&
      send(fd, request.data(), request.size(), MSG_NOSIGNAL) >= 0) {
    char buffer[4096];
    ssize_t n = 0;
    while ((n = recv(fd, buffer, sizeof(buffer), 0)) > 0) all.append(buffer, n);
  }
  close(fd);
  const size_t end = all.find("\r\n\r\n");
  EXPECT_NE(end, std::string::npos) << "no HTTP answer to " << request;
  if (end == std::string::npos) return {};
  return {.head = all.substr(0, end), .body = all.substr(end + 4)};
}

HttpReply HttpGet(int port, const std::string& path) {
  return SendHttp(port, absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: localhost\r\n\r\n"));
}

double ValueOf(const std::string& scrape, const std::string& series) {
  const std::string begin = absl::StrCat("\n", series, " ");
  const size_t at = scrape.find(begin);
  double value = 0;
  if (at == std::string::npos ||
      !absl::SimpleAtod(
          scrape.substr(at + begin.size(), scrape.find('\n', at + 1) - at - begin.size()),
          &value)) {
    ADD_FAILURE() << "no " << series << " in:\n" << scrape;
  }
  return value;
}

}  // namespace quire
