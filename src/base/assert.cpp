// base: the end of a process that found its own bug.
#include "base/assert.hpp"

#include <cstdio>
#include <cstdlib>

namespace vramlink::base {

void assertion_failed(const char* expression, const char* file, int line) noexcept {
  std::fprintf(stderr, "vramlink: %s:%d: this cannot be: !(%s). Please report it.\n", file, line,
               expression);
  std::abort();
}

}  // namespace vramlink::base
