// What connecting and listening share. Private to this layer.
#pragma once

#include <cstddef>
#include <string>

#include <vramlink/result.hpp>

#include "os/fd.hpp"

namespace vramlink::os::detail {

/// `invalid_argument`, with the numbers (bytes, limit), for a path that no socket can have.
[[nodiscard]] Result<void> check_path_length(const char* operation, const std::string& path,
                                             std::size_t size_max_bytes);

/// connect() and bind() with a path that check_path_length() accepted: 0, or -1 and errno.
[[nodiscard]] int connect_to(int fd, const std::string& path) noexcept;
[[nodiscard]] int bind_to(int fd, const std::string& path) noexcept;

/// A SOCK_SEQPACKET socket: nonblocking, close-on-exec, without an address.
[[nodiscard]] Result<UniqueFd> open_unix_socket();

}  // namespace vramlink::os::detail
