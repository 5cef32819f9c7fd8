// cli: a child's end of the two pipes to its parent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace vramlink::cli {

/// Standard input ends when the child shall end, standard output takes reports. If the parent dies,
/// the child ends by the first, and two seconds later by a signal in any case.
class ParentLink {
 public:
  /// Ends the process if the parent is gone already.
  explicit ParentLink(std::int32_t parent_pid);

  /// Waits until CLOCK_MONOTONIC reaches `time_ns`; false if the child shall end.
  [[nodiscard]] bool wait_until(std::int64_t time_ns) noexcept;
  /// True when the next report is due.
  [[nodiscard]] bool report_due() const noexcept;
  /// False if the parent does not listen any more.
  template <class Report>
  bool send(const Report& report) noexcept {
    static_assert(std::is_trivially_copyable_v<Report> && sizeof(Report) <= kReportBytesMax);
    return send_bytes(&report, sizeof report);
  }

 private:
  /// PIPE_BUF: written whole, so that reports never mix.
  static constexpr std::size_t kReportBytesMax = 4096;
  bool send_bytes(const void* report, std::size_t size) noexcept;

  std::int64_t next_report_ns_ = 0;
};

}  // namespace vramlink::cli
