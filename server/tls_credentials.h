#ifndef QUIRE_SERVER_TLS_CREDENTIALS_H_
#define QUIRE_SERVER_TLS_CREDENTIALS_H_

#include <memory>

#include <grpcpp/security/server_credentials.h>

#include "server/tls_certificates.h"

namespace quire {

// gRPC's credentials of a port whose every handshake shows what `certificates` has then.
// Connections that are open keep theirs. Both outlive the server.
//
// gRPC's own watcher of files takes whatever the files hold, and fails all handshakes while they do
// not belong together.
std::shared_ptr<grpc::ServerCredentials> TlsCredentials(TlsCertificates& certificates);

}  // namespace quire

#endif  // QUIRE_SERVER_TLS_CREDENTIALS_H_
