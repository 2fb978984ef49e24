#include "server/cli/doctor/version_checks.h"

#include <sys/utsname.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include <google/protobuf/stubs/common.h>
#include <openssl/crypto.h>

#include "server/grpc_endpoint.h"
#include "server/listen_address.h"

namespace quire::cli {

Versions FindVersions() {
  utsname system = {};
  (void)uname(&system);
  return {{"quire", QUIRE_VERSION},
          {"grpc", GrpcVersion()},
          {"protobuf", google::protobuf::internal::VersionString(GOOGLE_PROTOBUF_VERSION)},
          {"openssl", OpenSSL_version(OPENSSL_VERSION_STRING)},
          {"kernel", absl::StrCat(system.sysname, " ", system.release)}};
}

bool IsBefore(absl::string_view version, int major, int minor) {
  const std::vector<absl::string_view> parts = absl::StrSplit(version, '.');
  int first = 0, second = 0;
  if (parts.size() < 2 || !absl::SimpleAtoi(parts[0], &first) ||
      !absl::SimpleAtoi(parts[1], &second)) {
    return false;
  }
  return first != major ? first < major : second < minor;
}

std::vector<Finding> VersionFindings(const Versions& versions, const std::string& listen) {
  std::vector<Finding> findings = {
      Ok("versions", absl::StrJoin(versions, ", ", absl::PairFormatter(" "))),
      Ok("cuda", "this build has no CUDA backend")};
  for (const auto& [name, version] : versions) {
    // CVE-2023-1428, CVE-2023-4785 and CVE-2023-33953: a client that is up to no good stops it.
    if (name != "grpc" || !IsBefore(version, 1, 53) || IsLoopback(listen)) continue;
    findings.push_back(Warning(
        "grpc",
        absl::StrCat("gRPC ", version,
                     " is older than fixes that came with 1.53 and later "
                     "(CVE-2023-1428, -4785, -33953), and --listen ",
                     listen, " can be reached by others"),
        "let trusted networks alone reach it, put a current HTTP/2 proxy before it, or --listen "
        "127.0.0.1:50051"));
  }
  return findings;
}

}  // namespace quire::cli
