#ifndef QUIRE_TESTS_SERVER_TCP_PROXY_H_
#define QUIRE_TESTS_SERVER_TCP_PROXY_H_

#include <mutex>
#include <thread>
#include <vector>

namespace quire {

// Stands between client and server on one connection, and breaks it when a test says so: what the
// server sees of a client that is killed.
class TcpProxy {
 public:
  explicit TcpProxy(int server_port);
  ~TcpProxy();

  int port() const { return port_; }
  void Break();

 private:
  void Accept(int server_port);
  static void Forward(int from, int to);

  int listener_ = -1;
  int port_ = 0;
  std::mutex mu_;
  std::vector<int> sockets_;  // guarded by mu_
  std::thread accept_;
};

}  // namespace quire

#endif  // QUIRE_TESTS_SERVER_TCP_PROXY_H_
