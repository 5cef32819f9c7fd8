// An expectation of a fuzzer: a trap, which every sanitizer and the replay report.
#pragma once

namespace vramlink::test {

inline void expect(bool holds) {
  if (!holds) __builtin_trap();
}

}  // namespace vramlink::test
