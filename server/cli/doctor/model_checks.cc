#include "server/cli/doctor/model_checks.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <memory>
#include <unistd.h>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include <openssl/evp.h>

#include "server/cli/model_summary.h"
#include "server/server.h"

namespace quire::cli {
namespace {

namespace fs = std::filesystem;

constexpr char kNoAddress[] = "127.0.0.1:0";  // addresses and access have checks of their own
constexpr int64_t kMaxShards = 4096;          // as engine/ has it
constexpr size_t kReadBytes = 1 << 20;

}  // namespace

Finding ModelFinding(const ServerConfig& config) {
  ServerConfig model_only = config;
  model_only.listen = kNoAddress;
  model_only.metrics_listen.clear();
  model_only.admin_listen.clear();
  model_only.access_tokens.clear();
  model_only.tls = {};
  const absl::StatusOr<ModelInfo> info = Server::Check(model_only);
  if (info.ok()) return Ok("model", absl::StrCat(info->path, ": ", SummaryOf(*info)));
  const ExitCode code = LoadExitCode(info.status());
  return Problem(
      "model", std::string(info.status().message()),
      code == ExitCode::kModelFiles ? RemedyForFiles(info.status().code())
      : code == ExitCode::kResources
          ? "give more memory, or a smaller --kv-cache; quire inspect MODEL tells what a "
            "model takes"
          : "change the flag that is named",
      code);
}

std::vector<std::string> FilesOfModel(const std::string& model_path) {
  std::error_code error;
  std::vector<std::string> files;
  if (fs::is_directory(model_path, error)) {
    for (fs::directory_iterator it(model_path, error), end; it != end; it.increment(error)) {
      const std::string extension = it->path().extension();
      std::error_code gone;
      if ((extension == ".safetensors" || extension == ".json" || extension == ".jinja") &&
          it->is_regular_file(gone)) {
        files.push_back(it->path());
      }
    }
    std::sort(files.begin(), files.end());
    return files;
  }
  // "...-00001-of-00003.gguf", as GgufShards finds the others.
  constexpr size_t kEndLength = sizeof("-00001-of-00003.gguf") - 1;
  int64_t count = 0;
  if (model_path.size() > kEndLength) {
    const absl::string_view end =
        absl::string_view(model_path).substr(model_path.size() - kEndLength);
    if (absl::StartsWith(end, "-00001-of-") && absl::EndsWith(end, ".gguf") &&
        absl::SimpleAtoi(end.substr(10, 5), &count) && count <= kMaxShards) {
      const std::string stem = model_path.substr(0, model_path.size() - kEndLength);
      for (int64_t i = 1; i <= count; ++i) {
        files.push_back(absl::StrFormat("%s-%05d-of-%05d.gguf", stem, i, count));
      }
    }
  }
  if (files.empty()) files.push_back(model_path);
  return files;
}

absl::StatusOr<std::string> Sha256OfFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot open"));
  const auto close_fd = absl::MakeCleanup([fd] { close(fd); });
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(),
                                                                   EVP_MD_CTX_free);
  if (context == nullptr || EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) != 1) {
    return absl::InternalError("OpenSSL has no SHA-256");
  }
  std::vector<char> chunk(kReadBytes);
  while (true) {
    const ssize_t count = read(fd, chunk.data(), chunk.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot read"));
    if (count == 0) break;
    EVP_DigestUpdate(context.get(), chunk.data(), static_cast<size_t>(count));
  }
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int length = 0;
  EVP_DigestFinal_ex(context.get(), digest, &length);
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(digest), length));
}

std::vector<Finding> FileFindings(const std::string& model_path) {
  std::error_code error;
  if (!fs::exists(model_path, error)) return {};  // ModelFinding says so
  std::vector<Finding> findings;
  for (const std::string& path : FilesOfModel(model_path)) {
    const auto size = static_cast<int64_t>(fs::file_size(path, error));
    const absl::StatusOr<std::string> digest =
        error ? absl::StatusOr<std::string>(
                    absl::NotFoundError(absl::StrCat(path, ": ", error.message())))
              : Sha256OfFile(path);
    findings.push_back(digest.ok()
                           ? Ok("file", absl::StrCat(fs::path(path).filename().string(), ": ", size,
                                                     " bytes, sha256 ", *digest))
                           : Problem("file", std::string(digest.status().message()),
                                     "put the file there, readable for the user that serves",
                                     ExitCode::kModelFiles));
  }
  return findings;
}

}  // namespace quire::cli
