// demo: supervision of the processes.
#include "demo/cast.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <utility>
#include <vector>

#include <vramlink/channel.hpp>
#include <vramlink/deadline.hpp>
#include <vramlink/runtime.hpp>

#include "exit_status.hpp"

namespace vramlink::cli::demo {
namespace {

constexpr std::int64_t kNsPerSecond = 1'000'000'000;
constexpr std::int64_t kEndWaitNs = 3 * kNsPerSecond;
constexpr std::uint32_t kQueueDepth = 4;

std::string rate_text(Rate rate) {
  return std::to_string(rate.numerator) + "/" + std::to_string(rate.denominator);
}

std::string name_of(const Part& part, pid_t pid) {
  return part.title + " (pid " + std::to_string(pid) + ")";
}

// Whoever opens a name takes away what a dead owner left. Starts threads: only when no process is
// to be started any more.
void sweep(const std::string& channel, const std::string& group) {
  auto runtime = Runtime::open({.group = group});
  const auto format = Format::image(PixelFormat::gray8, 1, 1);
  if (!runtime || !format) return;
  static_cast<void>(!Publisher::open(*runtime, channel, *format));
}

}  // namespace

Cast::Cast(const DemoOptions& options, const DeviceInfo& device, std::string channel)
    : options_(options), device_(device), channel_(std::move(channel)) {
  parts_[0].title = "publisher";
  for (std::size_t i = 1; i < kPartCount; ++i) {
    // The first takes frames in order, the others the newest one.
    parts_[i].queue_depth = i == 1 ? kQueueDepth : 0;
    parts_[i].title = "subscriber " + std::to_string(i) + (i == 1 ? " (queue)" : " (latest)");
  }
}

bool Cast::start() {
  for (std::size_t i = 0; i < kPartCount; ++i) {
    if (!start_part(i)) return false;
  }
  return true;
}

bool Cast::start_part(std::size_t index) {
  Part& part = parts_[index];
  std::vector<std::string> arguments{index == 0 ? "demo-publisher" : "demo-subscriber", "--channel",
                                     channel_, "--parent", std::to_string(::getpid())};
  if (!options_.group.empty()) arguments.insert(arguments.end(), {"--group", options_.group});
  if (index == 0) {
    const std::string size =
        std::to_string(options_.size.width) + "x" + std::to_string(options_.size.height);
    for (const std::string& each :
         {std::string("--size"), size, std::string("--fps"), rate_text(options_.rate),
          std::string("--first"), std::to_string(part.number + 1), std::string("--device"),
          to_string(device_.id)}) {
      arguments.push_back(each);
    }
  } else {
    arguments.insert(arguments.end(), {"--queue", std::to_string(part.queue_depth)});
    if (index == 1) arguments.insert(arguments.end(), {"--out", options_.out});
  }
  part.child = ChildProcess::start(arguments);
  return part.child.has_value();
}

void Cast::note_fault(int exit_code, std::string text) {
  if (fault_ != 0) return;
  fault_ = exit_code;
  fault_text_ = std::move(text);
}

void Cast::take(Part& part) {
  const pid_t pid = part.child->pid();
  const auto report = part.child->take_report<Report>();
  if (report) {
    part.newest = *report;
    part.number = std::max(part.number, report->newest_number);
    return;
  }
  const int exit_code = part.child->exit_code();
  if (exit_code >= kSignalBase) {
    const int number = exit_code - kSignalBase;
    const char* words = ::sigdescr_np(number);
    note_fault(kFailure, name_of(part, pid) + " was ended by signal " + std::to_string(number) +
                             (words != nullptr ? std::string(", ") + words : ""));
  } else if (exit_code != 0) {
    note_fault(exit_code,
               name_of(part, pid) + " ended with exit code " + std::to_string(exit_code));
  } else if (!ending_) {
    note_fault(kFailure, name_of(part, pid) + " ended before it was asked to");
  }
}

void Cast::listen(std::int64_t until_ns) {
  while (fault_ == 0 || ending_) {
    std::array<pollfd, kPartCount> fds;
    for (std::size_t i = 0; i < kPartCount; ++i) {
      fds[i] = {parts_[i].running() ? parts_[i].child->report_fd() : -1, POLLIN, 0};
    }
    const std::int64_t left_ns = std::max<std::int64_t>(until_ns - monotonic_ns(), 0);
    const std::timespec wait{left_ns / kNsPerSecond, left_ns % kNsPerSecond};
    if (::ppoll(fds.data(), fds.size(), &wait, nullptr) <= 0) return;  // time, or a signal
    for (std::size_t i = 0; i < kPartCount; ++i) {
      if (fds[i].revents != 0) take(parts_[i]);
    }
    if (ending_ && !any_running()) return;
  }
}

bool Cast::replace(std::size_t index) {
  Part& part = parts_[index];
  part.child->kill();
  part.before.frames += part.newest.frames;
  part.before.torn += part.newest.torn;
  part.before.lost += part.newest.lost;
  part.before.skipped += part.newest.skipped;
  part.before.dropped += part.newest.dropped;
  part.newest = Report{};
  return start_part(index);
}

bool Cast::flowing() const noexcept {
  if (!publisher().running()) return false;
  const auto life = static_cast<std::uint64_t>(publisher().child->pid());
  return std::all_of(parts_.begin() + 1, parts_.end(), [life](const Part& part) {
    return part.newest.frames > 0 && part.newest.newest_life == life;
  });
}

bool Cast::any_running() const noexcept {
  return std::any_of(parts_.begin(), parts_.end(), [](const Part& part) { return part.running(); });
}

// Signals cut a wait short; here it goes on.
void Cast::listen_to_ending(std::int64_t until_ns) {
  while (any_running() && monotonic_ns() < until_ns) listen(until_ns);
}

void Cast::end() {
  ending_ = true;
  if (parts_[0].child) parts_[0].child->close_control();
  listen_to_ending(monotonic_ns() + kEndWaitNs);
  for (Part& part : parts_) {
    if (part.child) part.child->close_control();
  }
  listen_to_ending(monotonic_ns() + kEndWaitNs);
  for (Part& part : parts_) {
    if (!part.running()) continue;
    note_fault(kFailure, name_of(part, part.child->pid()) + " did not end when asked to");
    part.child->kill();
  }
  if (!parts_[0].child || parts_[0].child->exit_code() != 0) sweep(channel_, options_.group);
}

}  // namespace vramlink::cli::demo
