// os: errno as an Error.
#include "os/errno.hpp"

#include <sys/resource.h>

#include <cstring>
#include <string>
#include <utility>

namespace vramlink::os {
namespace {

Code code_of(int error_number) noexcept {
  switch (error_number) {
    case EACCES:
    case EPERM:
    case EROFS:
      return Code::permission_denied;
    case ENOENT:
      return Code::not_found;
    case EEXIST:
    case EADDRINUSE:
      return Code::already_exists;
    case EMFILE:
    case ENFILE:
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case ENOBUFS:
    case ETOOMANYREFS:
      return Code::resource_exhausted;
    case ENOMEM:
      return Code::out_of_memory;
    case ECONNREFUSED:
    case EPIPE:
    case ECONNRESET:
    case ENOTCONN:
    case ESRCH:
      return Code::peer_gone;
    case ETIMEDOUT:
      return Code::timed_out;
    case ENOSYS:
    case EOPNOTSUPP:
    case ENOPROTOOPT:
      return Code::unsupported;
    default:
      return Code::os;
  }
}

/// Static text, thread-safe, unlike that of strerror().
std::string describe(int error_number) {
  const char* text = ::strerrordesc_np(error_number);
  return text != nullptr ? text : "errno " + std::to_string(error_number);
}

Error with_file_limit(Error error) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return std::move(error)
      .remedy("raise RLIMIT_NOFILE (ulimit -n): this process may open " +
              std::to_string(limit.rlim_cur) + " files, its hard limit is " +
              std::to_string(limit.rlim_max))
      .numbers(limit.rlim_cur, limit.rlim_max);
}

/// Static text; null: nothing that the directory could be blamed for.
const char* remedy_at(int error_number) noexcept {
  switch (error_number) {
    case EACCES:
    case EPERM:
    case EROFS:
      return "give this user read and write permission there, or set VRAMLINK_RUNTIME_DIR to a "
             "directory of its own";
    case ENOSPC:
    case EDQUOT:
      return "make room on that file system, or set VRAMLINK_RUNTIME_DIR to a directory on another";
    default:
      return nullptr;
  }
}

}  // namespace

Error from_errno(const char* operation, int error_number, const char* file, std::uint32_t line) {
  const Code code = code_of(error_number);
  Error bare = Error(code, operation, file, line).from(Origin::os, error_number);
  if (code == Code::peer_gone || code == Code::timed_out) return bare;
  Error error = std::move(bare).because(describe(error_number));
  return error_number == EMFILE ? with_file_limit(std::move(error)) : error;
}

Error from_errno_at(const std::string& path, const char* operation, int error_number,
                    const char* file, std::uint32_t line) {
  Error error = from_errno(operation, error_number, file, line).about(path);
  const char* const remedy = remedy_at(error_number);
  if (remedy) return std::move(error).remedy(remedy);
  return error;
}

}  // namespace vramlink::os
