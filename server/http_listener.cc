#include "server/http_listener.h"

#include <atomic>
#include <chrono>
#include <civetweb.h>
#include <cstring>
#include <mutex>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "spdlog/spdlog.h"
#include <arpa/inet.h>

namespace quire {
namespace {

const char* ReasonPhrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    default:
      return "Service Unavailable";
  }
}

// What its own log says is of clients that hang up; why it cannot listen is told by us.
int Log(const mg_connection* /*connection*/, const char* message) {
  spdlog::debug("http: {}", message);
  return 1;  // it does nothing further with it
}

// Connects and hangs up. A host by name is this machine's, where it can be listened on.
void Knock(const std::string& address) {
  const size_t colon = address.rfind(':');
  sockaddr_in target = {};
  target.sin_family = AF_INET;
  if (inet_pton(AF_INET, address.substr(0, colon).c_str(), &target.sin_addr) != 1) {
    target.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  }
  uint32_t port = 0;
  if (!absl::SimpleAtoi(address.substr(colon + 1), &port)) return;
  target.sin_port = htons(static_cast<uint16_t>(port));
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  (void)connect(fd, reinterpret_cast<const sockaddr*>(&target), sizeof(target));
  close(fd);
}

}  // namespace

absl::StatusOr<std::unique_ptr<HttpListener>> HttpListener::Open(absl::string_view flag,
                                                                 const std::string& listen,
                                                                 Pages pages) {
  static std::once_flag once;
  std::call_once(once, [] { mg_init_library(MG_FEATURES_DEFAULT); });
  std::unique_ptr<HttpListener> listener(new HttpListener(std::move(pages)));
  mg_callbacks callbacks = {};
  callbacks.begin_request = &OnRequest;
  callbacks.log_message = &Log;
  // A client that says nothing holds a thread until its time is over, so there are more of both
  // than the odd scanner or load balancer takes: they cost little, and a probe that waits its turn
  // ends the process.
  const char* options[] = {"listening_ports",
                           listen.c_str(),
                           "num_threads",
                           "48",
                           "connection_queue",
                           "64",
                           "request_timeout_ms",
                           "500",
                           "max_request_size",
                           "4096",
                           "enable_keep_alive",
                           "no",
                           nullptr};
  listener->context_ = mg_start(&callbacks, listener.get(), options);
  mg_server_port bound = {};
  if (listener->context_ == nullptr || mg_get_server_ports(listener->context_, 1, &bound) != 1) {
    return absl::UnavailableError(absl::StrCat("cannot listen on ", listen,
                                               ": the address is in use, or not an IPv4 address "
                                               "of this machine; choose another with ",
                                               flag, " (port 0: any free one)"));
  }
  listener->address_ = absl::StrCat(listen.substr(0, listen.rfind(':')), ":", bound.port);
  return listener;
}

HttpListener::~HttpListener() {
  if (context_ == nullptr) return;
  std::atomic<bool> is_stopped = false;
  std::thread stop([&] {
    mg_stop(context_);
    is_stopped.store(true);
  });
  // Its thread that accepts looks every 2 s whether it is to stop, and whenever somebody comes.
  while (!is_stopped.load()) {
    Knock(address_);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  stop.join();
}

int HttpListener::OnRequest(mg_connection* connection) {
  static_cast<const HttpListener*>(mg_get_user_context_data(connection))->Answer(connection);
  return 1;  // answered
}

void HttpListener::Answer(mg_connection* connection) const {
  const mg_request_info* request = mg_get_request_info(connection);
  const bool is_head = std::strcmp(request->request_method, "HEAD") == 0;
  HttpAnswer answer{.status = 405, .body = "GET and HEAD only\n"};
  if (is_head || std::strcmp(request->request_method, "GET") == 0) {
    const char* path = request->local_uri == nullptr ? "" : request->local_uri;
    answer = pages_(path).value_or(HttpAnswer{.status = 404, .body = "no such page\n"});
  }
  const std::string head = absl::StrCat(
      "HTTP/1.1 ", answer.status, " ", ReasonPhrase(answer.status),
      "\r\nContent-Type: ", answer.content_type, "\r\nContent-Length: ", answer.body.size(),
      "\r\nCache-Control: no-store\r\nConnection: close\r\n",
      answer.status == 405 ? "Allow: GET, HEAD\r\n" : "", "\r\n");
  mg_write(connection, head.data(), head.size());
  if (!is_head) mg_write(connection, answer.body.data(), answer.body.size());
}

}  // namespace quire
