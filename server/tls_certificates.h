#ifndef QUIRE_SERVER_TLS_CERTIFICATES_H_
#define QUIRE_SERVER_TLS_CERTIFICATES_H_

#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/status/status.h"

#include "scheduler/request.h"
#include "server/tls_files.h"

namespace quire {

// What does the server show to new connections? The files as they were when they were last right:
// whoever replaces them writes one after the other, and in between they do not belong together.
//
// Any thread.
class TlsCertificates {
 public:
  static constexpr TimeUs kRefresh = 5'000'000;

  explicit TlsCertificates(TlsFiles files) : files_(std::move(files)) {}

  bool is_on() const { return files_.is_on(); }
  bool asks_clients() const { return !files_.client_ca.empty(); }

  // Reads the files now. Where they are wrong all stays as it was, and the message says what is
  // wrong. Says in the log what is new.
  absl::Status Load();
  // What a handshake is to show; looks at the files again, if the last time is kRefresh ago. `now`:
  // SteadyNow. REQUIRES: Load succeeded once.
  std::shared_ptr<const TlsIdentity> Get(TimeUs now);

 private:
  absl::Status LoadLocked(TimeUs now);

  const TlsFiles files_;
  std::mutex mu_;  // guards all below
  std::shared_ptr<const TlsIdentity> identity_;
  TimeUs looked_at_ = 0;
  std::string told_;  // what was wrong the last time
};

}  // namespace quire

#endif  // QUIRE_SERVER_TLS_CERTIFICATES_H_
