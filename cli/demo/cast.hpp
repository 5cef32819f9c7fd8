// demo: the three processes, their lives and what they counted.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "child_process.hpp"
#include "demo/report.hpp"
#include "demo/roles.hpp"
#include "options.hpp"

namespace vramlink::cli::demo {

/// One part of the demo over all the processes that play it.
struct Part {
  std::string title;
  std::uint32_t queue_depth = 0;
  std::optional<ChildProcess> child;
  Report newest;             ///< of the present process
  Report before;             ///< frames, torn, lost, skipped, dropped of those that were killed
  std::uint64_t number = 0;  ///< newest test card ever reported

  [[nodiscard]] std::uint64_t frames() const noexcept { return before.frames + newest.frames; }
  [[nodiscard]] std::uint64_t torn() const noexcept { return before.torn + newest.torn; }
  [[nodiscard]] std::uint64_t lost() const noexcept { return before.lost + newest.lost; }
  [[nodiscard]] std::uint64_t skipped() const noexcept { return before.skipped + newest.skipped; }
  [[nodiscard]] std::uint64_t dropped() const noexcept { return before.dropped + newest.dropped; }
  [[nodiscard]] bool running() const noexcept { return child && !child->ended(); }
};

/// A publisher and its subscribers. Every process that it started is gone when it is.
class Cast {
 public:
  static constexpr std::size_t kPartCount = 1 + kSubscriberCount;

  Cast(const DemoOptions& options, const DeviceInfo& device, std::string channel);

  /// Starts all. False: a process could not be started; errno says why.
  [[nodiscard]] bool start();
  /// Takes reports until CLOCK_MONOTONIC reaches `until_ns` or a signal comes; earlier when a child
  /// ended by itself.
  void listen(std::int64_t until_ns);
  /// kill -9 and start again. False as start().
  [[nodiscard]] bool replace(std::size_t part);
  /// Ends all in order: the publisher closes the stream, then the subscribers see its end. Takes
  /// away what a publisher that was killed left in the runtime directory.
  void end();

  [[nodiscard]] const std::array<Part, kPartCount>& parts() const noexcept { return parts_; }
  [[nodiscard]] const Part& publisher() const noexcept { return parts_[0]; }
  [[nodiscard]] const DeviceInfo& device() const noexcept { return device_; }
  [[nodiscard]] const std::string& channel() const noexcept { return channel_; }
  /// The exit code of the first child that did not end as asked, 1 if it has none of its own; 0:
  /// there is none.
  [[nodiscard]] int fault() const noexcept { return fault_; }
  /// Which child that was and how it ended; "" without a fault.
  [[nodiscard]] const std::string& fault_text() const noexcept { return fault_text_; }
  /// True when every subscriber has a frame of the present publisher.
  [[nodiscard]] bool flowing() const noexcept;

 private:
  [[nodiscard]] bool start_part(std::size_t index);
  void take(Part& part);
  void note_fault(int exit_code, std::string text);
  [[nodiscard]] bool any_running() const noexcept;
  void listen_to_ending(std::int64_t until_ns);

  const DemoOptions& options_;
  DeviceInfo device_;
  std::string channel_;
  std::array<Part, kPartCount> parts_;
  bool ending_ = false;
  int fault_ = 0;
  std::string fault_text_;
};

}  // namespace vramlink::cli::demo
