// Whole files that are small: /proc entries and lock files.
#pragma once

#include <cstddef>
#include <string>

#include <vramlink/result.hpp>

namespace vramlink::os {

/// What `fd` holds from its beginning on, at most `limit_bytes`; does not move the file position of
/// a seekable file.
[[nodiscard]] Result<std::string> read_small_file(int fd, std::size_t limit_bytes = 4096);

/// The same for a path. The error is about the path.
[[nodiscard]] Result<std::string> read_small_file(const std::string& path,
                                                  std::size_t limit_bytes = 4096);

}  // namespace vramlink::os
