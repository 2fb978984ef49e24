#include "server/tls_credentials.h"

#include <mutex>
#include <string>

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>

#include "server/steady_now.h"

namespace quire {
namespace {

class Credentials final : public grpc::ServerCredentials {
 public:
  explicit Credentials(TlsCertificates& certificates)
      : certificates_(certificates),
        credentials_(grpc_ssl_server_credentials_create_with_options(
            grpc_ssl_server_credentials_create_options_using_config_fetcher(
                certificates.asks_clients()
                    ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                    : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE,
                &Credentials::Fetch, this))) {}
  ~Credentials() override { grpc_server_credentials_release(credentials_); }

  void SetAuthMetadataProcessor(
      const std::shared_ptr<grpc::AuthMetadataProcessor>& /*processor*/) override {}

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  // Before each handshake.
  static grpc_ssl_certificate_config_reload_status Fetch(
      void* self, grpc_ssl_server_certificate_config** config) {
    return static_cast<Credentials*>(self)->FetchNew(config);
  }

  grpc_ssl_certificate_config_reload_status FetchNew(grpc_ssl_server_certificate_config** config) {
    const std::shared_ptr<const TlsIdentity> identity = certificates_.Get(SteadyNow());
    std::lock_guard<std::mutex> lock(mu_);
    if (identity == told_) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    const grpc_ssl_pem_key_cert_pair pair = {.private_key = identity->key.c_str(),
                                             .cert_chain = identity->certificate.c_str()};
    // gRPC 1.51 insists on having authorities, also where no client is asked for a certificate.
    const std::string& client_ca =
        certificates_.asks_clients() ? identity->client_ca : identity->certificate;
    *config = grpc_ssl_server_certificate_config_create(client_ca.c_str(), &pair, 1);
    told_ = identity;
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }

  TlsCertificates& certificates_;
  std::mutex mu_;
  std::shared_ptr<const TlsIdentity> told_;  // guarded by mu_: what gRPC was given
  grpc_server_credentials* const credentials_;
};

}  // namespace

std::shared_ptr<grpc::ServerCredentials> TlsCredentials(TlsCertificates& certificates) {
  return std::make_shared<Credentials>(certificates);
}

}  // namespace quire
