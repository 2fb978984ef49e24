#ifndef QUIRE_SERVER_CLI_OPEN_FILES_H_
#define QUIRE_SERVER_CLI_OPEN_FILES_H_

namespace quire::cli {

// Lets this process open as many files as it may at most. gRPC 1.51 stops listening for good when
// it cannot accept a connection for want of a file descriptor, and the limit that processes start
// with, often 1024, is one that a single client reaches.
void RaiseOpenFilesLimit();

}  // namespace quire::cli

#endif  // QUIRE_SERVER_CLI_OPEN_FILES_H_
