// Own bugs end the process with a line that names them, in release builds too. Never for bytes that
// a peer wrote.
#pragma once

namespace vramlink::base {
[[noreturn]] void assertion_failed(const char* expression, const char* file, int line) noexcept;
}  // namespace vramlink::base

#define VRAMLINK_ASSERT(expression) \
  ((expression) ? void(0) : ::vramlink::base::assertion_failed(#expression, __FILE__, __LINE__))
