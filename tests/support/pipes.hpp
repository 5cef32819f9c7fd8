// Pipes between a test and its children.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace vramlink::test {

/// The end to read from, then the one to write to; the caller closes both.
inline std::array<int, 2> make_pipe() {
  std::array<int, 2> ends{-1, -1};
  EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0) << std::strerror(errno);
  return ends;
}

}  // namespace vramlink::test
