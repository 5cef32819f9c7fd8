// cli: a child process as its parent sees it.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace vramlink::cli {

/// What is added to a signal's number for the exit code of a child that it ended.
inline constexpr int kSignalBase = 128;

/// A process of this program under a hidden command. Its destructor kills and reaps it.
class ChildProcess {
 public:
  /// Starts `arguments` (after the program's name). Empty if that failed; errno says why.
  [[nodiscard]] static std::optional<ChildProcess> start(const std::vector<std::string>& arguments);
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess();

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  /// Readable when a report waits or the child has ended; -1 when it has been reaped.
  [[nodiscard]] int report_fd() const noexcept { return report_fd_; }
  /// The next report, after report_fd() became readable. Nothing: the child has ended, and its exit
  /// code (128 + the signal if one killed it) is there. What is no report of this kind kills it.
  template <class Report>
  [[nodiscard]] std::optional<Report> take_report() {
    static_assert(std::is_trivially_copyable_v<Report>);
    Report report;
    const std::size_t count = read_bytes(&report, sizeof report);
    if (count == sizeof report && report.magic == Report::kMagic) return report;
    if (count > 0) {
      kill();
    } else {
      reap();
    }
    return std::nullopt;
  }
  [[nodiscard]] bool ended() const noexcept { return pid_ < 0; }
  [[nodiscard]] int exit_code() const noexcept { return exit_code_; }

  /// Asks it to end.
  void close_control() noexcept;
  /// kill -9, and reaps it. Reports not yet read are gone.
  void kill() noexcept;

 private:
  ChildProcess(pid_t pid, int control_fd, int report_fd) noexcept
      : pid_(pid), control_fd_(control_fd), report_fd_(report_fd) {}
  [[nodiscard]] std::size_t read_bytes(void* target, std::size_t size) noexcept;
  void reap() noexcept;

  pid_t pid_ = -1;
  int control_fd_ = -1;
  int report_fd_ = -1;
  int exit_code_ = 0;
};

}  // namespace vramlink::cli
