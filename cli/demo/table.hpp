// demo: the live table and the summary.
#pragma once

#include <cstdint>
#include <string>

#include "demo/cast.hpp"

namespace vramlink::cli::demo {

/// What happened beside the counting.
struct Story {
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;  ///< 0: it still runs
  std::uint64_t killed = 0;
  std::uint64_t recovered = 0;
  std::int64_t recovery_max_ns = 0;
  std::string newest_event;
};

/// Rewrites itself on a terminal; does nothing elsewhere.
class LiveTable {
 public:
  explicit LiveTable(int fd);
  void draw(const Cast& cast, const DemoOptions& options, const Story& story);

 private:
  int fd_;
  bool enabled_;
  std::uint32_t drawn_lines_ = 0;
  std::array<std::uint64_t, Cast::kPartCount> frames_before_{};
  std::array<double, Cast::kPartCount> rates_{};
  std::int64_t drawn_ns_ = 0;
};

/// A few lines, for people.
[[nodiscard]] std::string summary_text(const Cast& cast, const DemoOptions& options,
                                       const Story& story);
/// One JSON object, "vramlink.demo/1".
[[nodiscard]] std::string summary_json(const Cast& cast, const DemoOptions& options,
                                       const Story& story);
/// Sums over the parts.
[[nodiscard]] std::uint64_t torn_frames(const Cast& cast) noexcept;
[[nodiscard]] bool all_received(const Cast& cast) noexcept;

}  // namespace vramlink::cli::demo
