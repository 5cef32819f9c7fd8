// Settings of the process that a test changes and that come back at its end.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <vector>

namespace vramlink::test {

/// Lowers RLIMIT_NOFILE so far that not one more descriptor, or `spare_count` more, can be opened.
class FileLimit {
 public:
  explicit FileLimit(int spare_count = 0) {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    // dup() returns the lowest free descriptor, so below the last of these all others are in use.
    std::vector<int> opened;
    for (int i = 0; i <= spare_count; ++i) opened.push_back(::dup(STDERR_FILENO));
    for (const int fd : opened) ::close(fd);
    rlimit lowered = before_;
    lowered.rlim_cur = static_cast<rlim_t>(opened.back());
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &lowered), 0);
  }
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;
  ~FileLimit() { ::setrlimit(RLIMIT_NOFILE, &before_); }

  [[nodiscard]] static rlim_t current() {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur;
  }

 private:
  rlimit before_{};
};

/// Sets one environment variable, or unsets it.
class ScopedEnvironment {
 public:
  ScopedEnvironment(const char* name, const std::optional<std::string>& value) : name_(name) {
    if (const char* before = ::getenv(name)) before_ = before;
    set(value);
  }
  ScopedEnvironment(const ScopedEnvironment&) = delete;
  ScopedEnvironment& operator=(const ScopedEnvironment&) = delete;
  ~ScopedEnvironment() { set(before_); }

 private:
  void set(const std::optional<std::string>& value) {
    if (value) {
      ::setenv(name_, value->c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }

  const char* name_;
  std::optional<std::string> before_;
};

/// In a child: writing to files fails with EFBIG beyond `size_bytes` from now on.
inline void limit_file_size(rlim_t size_bytes) {
  ::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{size_bytes, size_bytes};
  EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
}

}  // namespace vramlink::test
