// cli: vramlink demo.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <vramlink/deadline.hpp>
#include <vramlink/runtime.hpp>

#include "commands.hpp"
#include "demo/cast.hpp"
#include "demo/roles.hpp"
#include "demo/table.hpp"
#include "device.hpp"
#include "exit_status.hpp"
#include "parent_link.hpp"
#include "stop_signals.hpp"
#include "talk.hpp"

namespace vramlink::cli {
namespace {

constexpr std::int64_t kRedrawNs = 200'000'000;
constexpr std::int64_t kListenNs = 20'000'000;  // while a recovery is being timed
constexpr std::int64_t kStartWaitNs = 10'000'000'000;
constexpr std::int64_t kCrashEveryNs = 2'000'000'000;
constexpr std::int64_t kQuietEndNs = 500'000'000;  // no crash so late that nothing can recover

/// The parent of the demo: counts, shows, and with --crash kills.
class DemoRun {
 public:
  DemoRun(const DemoOptions& options, const DeviceInfo& device, StopSignals& signals)
      : options_(options),
        signals_(signals),
        cast_(options, device, "demo-" + std::to_string(::getpid())),
        table_(STDERR_FILENO) {}

  int run() {
    story_.begin_ns = monotonic_ns();
    if (!cast_.start()) return failed_to_start();
    if (!wait_for_first_frames()) return finish();
    story_.begin_ns = monotonic_ns();
    const std::int64_t end_ns =
        story_.begin_ns + std::min(options_.seconds_ns, INT64_MAX - story_.begin_ns);
    std::int64_t crash_ns = story_.begin_ns + kCrashEveryNs;
    while (!signals_.stopped() && cast_.fault() == 0 && monotonic_ns() < end_ns) {
      if (options_.crash && monotonic_ns() >= crash_ns) {
        crash_ns += kCrashEveryNs;
        if (monotonic_ns() + kQuietEndNs < end_ns && !crash()) return failed_to_start();
      }
      const std::int64_t step_ns = killed_ns_ ? kListenNs : kRedrawNs;
      std::int64_t until_ns = std::min(monotonic_ns() + step_ns, end_ns);
      if (options_.crash) until_ns = std::min(until_ns, crash_ns);
      cast_.listen(until_ns);
      note_recovery();
      draw_if_due();
    }
    story_.end_ns = monotonic_ns();
    return finish();
  }

 private:
  int failed_to_start() {
    const int error = errno;
    cast_.end();
    return fail(Error(Code::os, "start a process of the demo").from(Origin::os, error));
  }

  bool wait_for_first_frames() {
    const std::int64_t until_ns = monotonic_ns() + kStartWaitNs;
    while (!signals_.stopped() && cast_.fault() == 0 && monotonic_ns() < until_ns) {
      if (cast_.flowing()) return true;
      cast_.listen(monotonic_ns() + kListenNs);
    }
    return false;
  }

  // Publisher, subscriber, publisher, the other subscriber, and so on.
  bool crash() {
    const std::uint64_t turn = story_.killed++;
    const std::size_t part =
        turn % 2 == 0 ? 0 : 1 + static_cast<std::size_t>(turn / 2) % demo::kSubscriberCount;
    story_.newest_event = "killed " + cast_.parts()[part].title + " (pid " +
                          std::to_string(cast_.parts()[part].child->pid()) + ")";
    killed_ns_ = monotonic_ns();
    return cast_.replace(part);
  }

  void note_recovery() {
    if (!killed_ns_ || !cast_.flowing()) return;
    const std::int64_t took_ns = monotonic_ns() - *killed_ns_;
    story_.recovery_max_ns = std::max(story_.recovery_max_ns, took_ns);
    ++story_.recovered;
    story_.newest_event += ", recovered in " + duration_text(took_ns);
    killed_ns_.reset();
  }

  void draw_if_due() {
    if (monotonic_ns() < next_draw_ns_) return;
    next_draw_ns_ = monotonic_ns() + kRedrawNs;
    table_.draw(cast_, options_, story_);
  }

  int finish() {
    if (story_.end_ns == 0) story_.end_ns = monotonic_ns();
    cast_.end();
    table_.draw(cast_, options_, story_);
    const int printed =
        options_.json ? print_and_finish(demo::summary_json(cast_, options_, story_)) : kSuccess;
    if (!options_.json) say(demo::summary_text(cast_, options_, story_));
    const bool saved = cast_.parts()[1].newest.saved_picture != 0;
    if (saved && !options_.json) say("a received frame: " + options_.out);
    if (demo::torn_frames(cast_) > 0) return kFailure;
    if (signals_.stopped()) return signals_.exit_code();
    if (cast_.fault() != 0) {
      say("demo: " + cast_.fault_text());
      return cast_.fault();
    }
    if (!demo::all_received(cast_)) {
      say("demo: no frame arrived within " + duration_text(kStartWaitNs));
      return kFailure;
    }
    if (story_.recovered < story_.killed) {
      say("demo: after " + std::to_string(story_.killed - story_.recovered) +
          " of the kills frames did not flow again");
      return kFailure;
    }
    return printed;
  }

  const DemoOptions& options_;
  StopSignals& signals_;
  demo::Cast cast_;
  demo::LiveTable table_;
  demo::Story story_;
  std::optional<std::int64_t> killed_ns_;
  std::int64_t next_draw_ns_ = 0;
};

// The Runtime goes again before the processes start.
Result<DeviceInfo> choose(const DemoOptions& options) {
  auto runtime = Runtime::open({.group = options.group});
  if (!runtime) return std::move(runtime).error();
  return choose_device(*runtime, options.device);
}

}  // namespace

int run(const DemoOptions& options) {
  StopSignals signals;
  const auto device = choose(options);
  if (!device) return fail(device.error());
  if (options.device.kind == DeviceWish::Kind::automatic) {
    say("demo: frames live on " + device_text(*device) +
        (device->id.is_host() ? ", as no GPU can be used; `vramlink doctor` says why"
                              : "; --host takes host memory"));
  }
  return DemoRun(options, *device, signals).run();
}

int run(const DemoChildOptions& options) {
  ParentLink link(options.parent_pid);
  return options.publisher ? demo::run_publisher(options, link)
                           : demo::run_subscriber(options, link);
}

}  // namespace vramlink::cli
