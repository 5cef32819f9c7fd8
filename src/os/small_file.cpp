// os: whole small files.
#include "os/small_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include "os/errno.hpp"
#include "os/fd.hpp"

namespace vramlink::os {

Result<std::string> read_small_file(int fd, std::size_t limit_bytes) {
  std::string content(limit_bytes, '\0');
  std::size_t size_bytes = 0;
  while (size_bytes < limit_bytes) {
    const ssize_t count = ::pread(fd, content.data() + size_bytes, limit_bytes - size_bytes,
                                  static_cast<off_t>(size_bytes));
    if (count == -1 && errno == EINTR) continue;
    if (count == -1) return from_errno("pread");
    if (count == 0) break;
    size_bytes += static_cast<std::size_t>(count);
  }
  content.resize(size_bytes);
  return content;
}

Result<std::string> read_small_file(const std::string& path, std::size_t limit_bytes) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return from_errno("open").about(path);
  auto content = read_small_file(fd.get(), limit_bytes);
  if (!content) return std::move(content).error().about(path);
  return content;
}

}  // namespace vramlink::os
