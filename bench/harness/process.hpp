// What the two sides of a process benchmark need beside vramlink: a shared page, cores, a child.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

namespace vramlink::bench {

/// Zeroed memory that a child forked later shares. Never freed: it lives as long as the program.
template <class T>
[[nodiscard]] T& shared_object();
[[nodiscard]] void* shared_memory(std::size_t size_bytes);
template <class T>
T& shared_object() {
  return *new (shared_memory(sizeof(T))) T();
}

/// Binds the calling thread, and threads that it starts later, to one CPU. False if there is none.
bool pin(int cpu);
/// A CPU of the `index`-th core, counted from 0: two of them share no core, where the machine says
/// which ones do and has as many; else simply that CPU.
[[nodiscard]] int cpu_of_core(int index);
/// For a report: "CPU 0 and CPU 2 of different cores".
[[nodiscard]] std::string describe_cores(int first, int second);
/// Spins for `wait_ns`.
void spin_for(std::int64_t wait_ns) noexcept;

/// A child that ends with the code of `body`. Fork first, open the Runtime afterwards: objects of
/// the library do not survive a fork.
class Child {
 public:
  explicit Child(const std::function<int()>& body);
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child();
  /// The exit code, or 128 + the signal.
  int wait();

 private:
  pid_t pid_ = -1;
};

/// A fresh runtime directory under /tmp, removed with everything in it at the end.
class PrivateDirectory {
 public:
  PrivateDirectory();
  PrivateDirectory(const PrivateDirectory&) = delete;
  PrivateDirectory& operator=(const PrivateDirectory&) = delete;
  ~PrivateDirectory();
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
  pid_t owner_;
};

/// Arguments of every benchmark: --smoke (one short round, for ctest), --json FILE, --rows FILE.
struct Arguments {
  bool smoke = false;
  std::string json_path;
  std::string rows_path;
};
/// Ends the program with 2 and a usage line for anything else.
[[nodiscard]] Arguments parse_arguments(int argc, char** argv);

}  // namespace vramlink::bench
