#include "server/cli/access_flags.h"

namespace quire::cli {

std::vector<Flag> AccessFlags(ServerConfig* config) {
  return {
      MakeFlag("--tls-cert", "FILE",
               "Speak TLS, with this chain of certificates (PEM); read again when it changes",
               &config->tls.certificate),
      MakeFlag("--tls-key", "FILE", "The key of its first certificate (PEM, no password)",
               &config->tls.key),
      MakeFlag("--tls-client-ca", "FILE",
               "Let in only clients whose certificate is by one of these (PEM)",
               &config->tls.client_ca),
      MakeFlag("--access-tokens", "FILE",
               "Let in only calls with a token of this file, health checks excepted; SIGHUP reads "
               "it again",
               &config->access_tokens),
      Switch("--allow-plaintext-auth",
             "Let tokens cross a network without TLS, because something else encrypts",
             &config->allow_plaintext_auth),
      MakeFlag("--admin-listen", "HOST:PORT",
               "Where AdminService is: drain, log level, abort; \"\": nowhere, as it is without",
               &config->admin_listen),
  };
}

}  // namespace quire::cli
