// errno as an Error: the one mapping of Origin::os.
#pragma once

#include <cerrno>
#include <cstdint>
#include <string>

#include <vramlink/error.hpp>

namespace vramlink::os {

/// The Error of a failed system call. `operation` is static text, the name of the call.
///
/// | errno                                                  | Code               |
/// |--------------------------------------------------------|--------------------|
/// | EACCES, EPERM, EROFS                                   | permission_denied  |
/// | ENOENT                                                 | not_found          |
/// | EEXIST, EADDRINUSE                                     | already_exists     |
/// | EMFILE, ENFILE, ENOSPC, EDQUOT, EFBIG, ENOBUFS, ETOOMANYREFS | resource_exhausted |
/// | ENOMEM                                                 | out_of_memory      |
/// | ECONNREFUSED, EPIPE, ECONNRESET, ENOTCONN, ESRCH       | peer_gone          |
/// | ETIMEDOUT                                              | timed_out          |
/// | ENOSYS, EOPNOTSUPP, ENOPROTOOPT                        | unsupported        |
/// | any other, EINVAL and EBADF among them                 | os                 |
///
/// Outcomes (peer_gone, timed_out) carry no facts and allocate nothing; the others carry the text
/// of the errno as their reason. EMFILE adds a remedy and the numbers of RLIMIT_NOFILE (soft,
/// hard). EAGAIN has no meaning without its call: callers map it before they come here.
[[nodiscard]] Error from_errno(const char* operation, int error_number = errno,
                               const char* file = __builtin_FILE(),
                               std::uint32_t line = __builtin_LINE());

/// The same of a file in the runtime directory, or of that directory: names it, and says what to do
/// where it cannot be written to (EACCES, EPERM, EROFS) or is full (ENOSPC, EDQUOT).
[[nodiscard]] Error from_errno_at(const std::string& path, const char* operation,
                                  int error_number = errno, const char* file = __builtin_FILE(),
                                  std::uint32_t line = __builtin_LINE());

}  // namespace vramlink::os
