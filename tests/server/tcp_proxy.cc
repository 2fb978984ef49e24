#include "tests/server/tcp_proxy.h"

#include <sys/socket.h>
#include <unistd.h>

#include "gtest/gtest.h"
#include <netinet/in.h>

namespace quire {
namespace {

sockaddr_in Loopback(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

}  // namespace

TcpProxy::TcpProxy(int server_port) : listener_(socket(AF_INET, SOCK_STREAM, 0)) {
  sockaddr_in address = Loopback(0);
  EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_EQ(listen(listener_, 1), 0);
  socklen_t size = sizeof(address);
  EXPECT_EQ(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
  port_ = ntohs(address.sin_port);
  accept_ = std::thread([this, server_port] { Accept(server_port); });
}

TcpProxy::~TcpProxy() {
  Break();
  accept_.join();
  for (const int socket : sockets_) close(socket);
  close(listener_);
}

void TcpProxy::Break() {
  shutdown(listener_, SHUT_RDWR);
  std::lock_guard<std::mutex> lock(mu_);
  for (const int socket : sockets_) shutdown(socket, SHUT_RDWR);
}

void TcpProxy::Accept(int server_port) {
  const int client = accept(listener_, nullptr, nullptr);
  if (client < 0) return;
  const int server = socket(AF_INET, SOCK_STREAM, 0);
  {
    std::lock_guard<std::mutex> lock(mu_);
    sockets_ = {client, server};
  }
  const sockaddr_in address = Loopback(server_port);
  EXPECT_EQ(connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  std::thread up([=] { Forward(client, server); });
  Forward(server, client);
  up.join();
}

void TcpProxy::Forward(int from, int to) {
  char buffer[4096];
  for (;;) {
    const ssize_t size = recv(from, buffer, sizeof(buffer), 0);
    if (size <= 0) break;
    if (send(to, buffer, static_cast<size_t>(size), MSG_NOSIGNAL) != size) break;
  }
  shutdown(to, SHUT_RDWR);
}

}  // namespace quire
