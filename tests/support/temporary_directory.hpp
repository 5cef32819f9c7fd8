// A directory of its own for a test.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>

namespace vramlink::test {

/// Made by mkdtemp with mode 0700; the destructor removes it with all that is in it. The path is
/// short, because sockets go into it.
class TemporaryDirectory {
 public:
  TemporaryDirectory() : path_("/tmp/vramlink-test-XXXXXX") {
    EXPECT_NE(::mkdtemp(path_.data()), nullptr) << std::strerror(errno);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() {
    std::error_code ignored;  // a test may have removed it
    std::filesystem::remove_all(path_, ignored);
  }

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace vramlink::test
