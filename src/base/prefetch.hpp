// Asking for a cache line before it is needed. Hints only: nothing depends on them.
#pragma once

namespace vramlink::base {

inline void prefetch_for_read(const void* line) noexcept { __builtin_prefetch(line, 0); }

/// Asks for the line exclusively, so that a later store does not wait for other cores to give it
/// up. The builtin alone would fetch it shared on x86-64, where PREFETCHW is no part of the
/// baseline; every 64-bit processor accepts it, as a no-op at the least (Intel SDM, PREFETCHW).
inline void prefetch_for_write(const void* line) noexcept {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
#else
  __builtin_prefetch(line, 1);
#endif
}

}  // namespace vramlink::base
