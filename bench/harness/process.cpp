// See process.hpp.
#include "harness/process.hpp"

#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>
#include <string>
#include <string_view>

#include <vramlink/deadline.hpp>

namespace vramlink::bench {

void* shared_memory(std::size_t size_bytes) {
  void* const memory =
      ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    std::cerr << "no shared memory\n";
    std::exit(1);
  }
  return memory;
}

bool pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(cpu), &set);
  return ::sched_setaffinity(0, sizeof set, &set) == 0;
}

namespace {

/// As the kernel lists them; empty if it does not say.
std::string siblings_of(int cpu) {
  std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(cpu) +
                     "/topology/thread_siblings_list");
  std::string siblings;
  std::getline(file, siblings);
  return siblings;
}

}  // namespace

int cpu_of_core(int index) {
  // The siblings of each core name it in the same words; its first CPU stands for it.
  std::set<std::string> cores;
  for (int cpu = 0;; ++cpu) {
    const std::string siblings = siblings_of(cpu);
    if (siblings.empty()) return index;
    if (cores.insert(siblings).second && static_cast<int>(cores.size()) == index + 1) return cpu;
  }
}

std::string describe_cores(int first, int second) {
  const int cpu = cpu_of_core(first);
  const int other = cpu_of_core(second);
  const std::string siblings = siblings_of(cpu);
  const char* const how = siblings.empty()                 ? ", perhaps of one core"
                          : siblings == siblings_of(other) ? " of one core"
                                                           : " of different cores";
  return "CPU " + std::to_string(cpu) + " and CPU " + std::to_string(other) + how;
}

void spin_for(std::int64_t wait_ns) noexcept {
  const std::int64_t end_ns = monotonic_ns() + wait_ns;
  while (monotonic_ns() < end_ns) {
  }
}

Child::Child(const std::function<int()>& body) {
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0) {
    std::cerr << "cannot fork\n";
    std::exit(1);
  }
  if (pid_ != 0) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  ::_exit(body());
}

Child::~Child() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  wait();
}

int Child::wait() {
  int status = 0;
  if (::waitpid(pid_, &status, 0) != pid_) return 1;
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

PrivateDirectory::PrivateDirectory() : path_("/tmp/vramlink-bench-XXXXXX"), owner_(::getpid()) {
  if (!::mkdtemp(path_.data())) {
    std::cerr << "cannot make a directory in /tmp\n";
    std::exit(1);
  }
}

PrivateDirectory::~PrivateDirectory() {
  std::error_code ignored;  // nothing depends on it any more
  if (::getpid() == owner_) std::filesystem::remove_all(path_, ignored);
}

Arguments parse_arguments(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--smoke") {
      arguments.smoke = true;
    } else if (argument == "--json" && i + 1 < argc) {
      arguments.json_path = argv[++i];
    } else if (argument == "--rows" && i + 1 < argc) {
      arguments.rows_path = argv[++i];
    } else {
      std::cerr << "usage: " << argv[0] << " [--smoke] [--json FILE] [--rows FILE]\n";
      std::exit(2);
    }
  }
  return arguments;
}

}  // namespace vramlink::bench
