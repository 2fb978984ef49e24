#ifndef QUIRE_SERVER_HTTP_LISTENER_H_
#define QUIRE_SERVER_HTTP_LISTENER_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

struct mg_connection;
struct mg_context;

namespace quire {

struct HttpAnswer {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body = "";
};

// Answers GET and HEAD of a few small pages, for Prometheus and for probes: no files, no bodies, no
// connections that stay. Threads of its own, on which the pages are made; each client has half a
// second for its request and to take each part of the answer, and a short queue holds those that
// find all threads busy.
class HttpListener {
 public:
  // Makes the page of a path; nothing: there is none. Called by several threads.
  using Pages = std::function<std::optional<HttpAnswer>(absl::string_view path)>;

  // `listen`: host:port; port 0: any free one. UNAVAILABLE where it cannot be bound; the message
  // names `flag`. REQUIRES: CheckIpv4ListenAddress lets it pass.
  static absl::StatusOr<std::unique_ptr<HttpListener>> Open(absl::string_view flag,
                                                            const std::string& listen, Pages pages);
  // Waits for the pages that are being made.
  ~HttpListener();
  HttpListener(const HttpListener&) = delete;
  HttpListener& operator=(const HttpListener&) = delete;

  const std::string& address() const { return address_; }  // with the port that was taken

 private:
  explicit HttpListener(Pages pages) : pages_(std::move(pages)) {}

  static int OnRequest(mg_connection* connection);
  void Answer(mg_connection* connection) const;

  const Pages pages_;
  mg_context* context_ = nullptr;
  std::string address_;
};

}  // namespace quire

#endif  // QUIRE_SERVER_HTTP_LISTENER_H_
