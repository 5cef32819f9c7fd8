// The text in a lock file: small, for people and for LockFile. Private to this layer.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include <vramlink/result.hpp>

#include "os/lock_file.hpp"

namespace vramlink::os {

inline constexpr std::size_t kLockNameMaxBytes = 255;
inline constexpr std::size_t kLockTextMaxBytes = 512;

/// `invalid_argument` for a name that is empty, too long or not one printable line.
[[nodiscard]] Result<std::string> format_lock_text(const LockFile::Owner& owner);

/// The owner, or nothing if `text` is not exactly what format_lock_text() writes.
[[nodiscard]] std::optional<LockFile::Owner> parse_lock_text(std::string_view text);

}  // namespace vramlink::os
