#include "victims.hpp"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <deque>
#include <optional>

#include "base/steps.hpp"
#include "os/threads.hpp"
#include "scoreboard.hpp"
#include "support/frame_pattern.hpp"

namespace vramlink::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kLong{30};

/// What the hook needs; a hook is a plain function.
struct HookState {
  Scoreboard* board = nullptr;
  const ChildLink* link = nullptr;
  int step_index = -1;
  std::uint32_t occurrence = 0;
  int signal = 0;
  bool gated = false;
};
HookState hook_state;

void hook(const char* step) {
  const int index = index_of_step(step);
  if (index < 0) return;  // the comparison with the sources tells of it
  Scoreboard& board = *hook_state.board;
  Scoreboard::Life& life = board.life[board.lives.load() % kLifeCountMax];
  if (std::strcmp(step, "publish.recent_set") == 0) life.visible_begun.fetch_add(1);
  if (std::strcmp(step, "publish.newest_set") == 0) life.visible.fetch_add(1);
  if (std::strcmp(step, "close.last_sequence_set") == 0) life.end_begun.store(1);
  if (std::strcmp(step, "close.state_set") == 0) life.ended.store(1);
  const std::uint32_t count = board.step_counts[static_cast<std::size_t>(index)].fetch_add(1) + 1;
  if (hook_state.gated && count % 8 == 0 && std::strcmp(step, "take.before_hold") == 0) {
    hook_state.link->ready(kLetItPass);
    static_cast<void>(hook_state.link->wait_go());
  }
  if (index == hook_state.step_index && count == hook_state.occurrence) {
    ::pthread_kill(::pthread_self(), hook_state.signal);  // takes effect before it returns
  }
}

int fault(const char* what, const std::string& why) {
  std::fprintf(stderr, "victim %d: %s: %s\n", ::getpid(), what, why.c_str());
  return kSawFault;
}

int fault(const char* what, const Error& why) { return fault(what, to_string(why)); }

/// One frame; nothing if there was no slot by the deadline.
Result<std::optional<Receipt>> publish_one(Publisher& publisher, std::uint64_t life,
                                           std::uint64_t& sequence) {
  const Deadline soon = Deadline::after(milliseconds(20));
  const auto published = [&]() -> Result<Receipt> {
    const PatternInfo info{life, sequence + 1};
    if (!TestDevice::is_host() && sequence % 5 == 2) {
      return publish_pattern_copy(publisher, info, soon);
    }
    auto frame = publisher.claim(TestDevice::stream(), soon);
    if (frame && (sequence + frame->size_bytes()) % 7 == 3) {
      const WritableFrame abandoned = *std::move(frame);  // and claimed anew
      frame = publisher.claim(TestDevice::stream(), Deadline::after(milliseconds(20)));
    }
    if (!frame) return frame.error();
    return publish_pattern(publisher, *std::move(frame), info);
  }();
  // stale: it was stopped with a claimed frame for so long that other slots came in place.
  if (published.failed_with(Code::full) || published.failed_with(Code::timed_out) ||
      published.failed_with(Code::stale)) {
    return std::optional<Receipt>();
  }
  if (!published) return published.error();
  if (published->sequence() != ++sequence) return Error(Code::corrupt, "sequence of receipt");
  return std::optional<Receipt>(*published);
}

/// From open to close. Long enough for a second subscriber to come and go.
std::optional<int> live_as_publisher(const Runtime& runtime, const Orders& orders,
                                     Scoreboard& board) {
  static const int kDetached = index_of_step("detach.removed");
  const auto& detached = board.step_counts[static_cast<std::size_t>(kDetached)];
  const std::uint64_t life = board.lives.fetch_add(1) + 1;
  if (life >= kLifeCountMax) return fault("publisher", "its step is never reached");
  auto publisher = Publisher::open(runtime, orders.name, Format::bytes(kPayloadBytes).value(),
                                   publisher_options(orders.mode));
  if (!publisher) {
    static_cast<void>(fault("open publisher", publisher.error()));
    return kCannotOpen;
  }
  static_cast<void>(publisher->wait_for_subscribers(1, Deadline::after(milliseconds(500))));
  const std::uint32_t detached_before = detached.load();
  std::uint64_t sequence = 0;
  std::deque<Receipt> incomplete;
  for (int i = 0; i < 1000 && (i < 40 || detached.load() == detached_before); ++i) {
    // Twice in a life, and again in a long one: smaller frames, then large ones as before.
    if (i == 10 || i == 25 || i % 250 == 249) {
      const std::uint64_t bytes = i == 10 ? kPayloadBytes / 2 : kPayloadBytes;
      // As long as it takes: what a late subscriber would lose with us, the test would miss.
      const auto resized = publisher->resize(Format::bytes(bytes).value(), Deadline::after(kLong),
                                             {.follow_within = kLong});
      if (!resized) return fault("resize", resized.error());
    }
    const auto published = publish_one(*publisher, life, sequence);
    if (!published) return fault("publish", published.error());
    if (*published) incomplete.push_back(**published);
    // At a pace at which others come to hold frames before its life is over.
    if (orders.mode == Mode::evict_latest) {
      os::nap_until(Deadline::after(std::chrono::microseconds(500)));
    }
    while (!incomplete.empty() && incomplete.front().ready()) {
      board.life[life].complete.store(static_cast<std::uint32_t>(incomplete.front().sequence()));
      incomplete.pop_front();
    }
  }
  static_cast<void>(publisher->close(Deadline::after(milliseconds(50))));
  return std::nullopt;
}

/// Receives for a while, and leaves a frame in `held`. Under block_queue no frame may be missing.
std::optional<int> receive_some(Subscriber& subscriber, Mode mode, Scoreboard& board,
                                std::deque<Frame>& held) {
  std::uint64_t last = 0;
  for (int i = 0; i < 50; ++i) {
    // On a device every other one in a stream's order; some streams do not wait for long.
    const bool by_stream = !TestDevice::is_host() && i % 2 == 1;
    TestDevice::finish(TestDevice::stream());  // frames that were dropped in it are given back
    const Deadline deadline = Deadline::after(
        by_stream && i % 4 == 1 ? std::chrono::microseconds(300) : milliseconds(100));
    auto frame = by_stream ? subscriber.receive(TestDevice::stream(), deadline)
                           : subscriber.receive(deadline);
    if (by_stream) TestDevice::finish(TestDevice::stream());
    if (frame.failed_with(Code::timed_out)) continue;
    if (!frame) return fault("receive", frame.error());
    const bool in_order = last == 0 || mode != Mode::block_queue ? frame->sequence() > last
                                                                 : frame->sequence() == last + 1;
    if (!in_order) return fault("receive", "a frame is missing or out of order");
    last = frame->sequence();
    // Now and then slowly, so that a publisher that waits has to wait.
    for (int look = i % 10 == 9 ? 40 : 1; look > 0 && !frame->aborted(); --look) {
      if (!is_whole(*frame)) return fault("receive", "a frame is torn");
    }
    if (by_stream && i % 3 == 0) {
      const auto released = frame->release(TestDevice::stream());
      if (!released) return fault("release", released.error());
      board.received.fetch_add(1);
      continue;
    }
    held.push_back(*std::move(frame));
    if (held.size() == 2) {
      if (!held.front().aborted() && !is_whole(held.front())) {
        return fault("hold", "a held frame is torn");
      }
      held.pop_front();
    }
    board.received.fetch_add(1);
  }
  return std::nullopt;
}

/// Holds what it may until it is disconnected for it, comes in again, and reads on.
std::optional<int> hold_too_long(Subscriber& subscriber, Scoreboard& board,
                                 std::deque<Frame>& held) {
  const auto are_whole = [&] {
    return std::all_of(held.begin(), held.end(),
                       [](const Frame& frame) { return is_whole(frame); });
  };
  for (int again = -1; again < 3;) {
    auto frame = subscriber.receive(Deadline::after(milliseconds(100)));
    if (!are_whole()) return fault("hold", "a held frame is torn");
    if (frame) {
      if (!is_whole(*frame)) return fault("receive", "a frame is torn");
      board.received.fetch_add(1);
      if (again >= 0) {
        ++again;
      } else {
        held.push_back(*std::move(frame));
      }
    } else if (frame.failed_with(Code::revoked)) {
      again = 0;
    } else if (frame.failed_with(Code::resource_exhausted)) {
      os::nap_until(Deadline::after(milliseconds(1)));
    } else if (!frame.failed_with(Code::timed_out)) {
      return fault("receive", frame.error());
    }
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::string> Orders::arguments() const {
  return {directory,
          name,
          std::to_string(static_cast<int>(mode)),
          step,
          std::to_string(occurrence),
          std::to_string(signal)};
}

Orders Orders::parse(const std::vector<std::string>& arguments) {
  Orders orders;
  orders.directory = arguments.at(0);
  orders.name = arguments.at(1);
  orders.mode = static_cast<Mode>(std::stoi(arguments.at(2)));
  orders.step = arguments.at(3);
  orders.occurrence = static_cast<std::uint32_t>(std::stoul(arguments.at(4)));
  orders.signal = std::stoi(arguments.at(5));
  return orders;
}

PublisherOptions publisher_options(Mode mode) {
  PublisherOptions options;
  options.device = TestDevice::id();
  options.slot_count = slot_count_of(mode);
  options.when_full = mode == Mode::block_queue    ? WhenFull::block
                      : mode == Mode::evict_latest ? WhenFull::evict
                                                   : WhenFull::drop;
  options.lease = milliseconds(2);
  return options;
}

SubscriberOptions subscriber_options(Mode mode) {
  SubscriberOptions options;
  const bool is_latest = mode == Mode::drop_latest || mode == Mode::evict_latest;
  options.policy = is_latest ? ReceivePolicy::latest() : ReceivePolicy::queue(kQueueDepth);
  options.held_count_max = 2;
  return options;
}

void install_hook(const Orders& orders, const ChildLink& link, Scoreboard* board) {
  static Scoreboard own;  // counts for a victim that nobody looks at
  hook_state.board = board == nullptr ? &own : board;
  hook_state.link = &link;
  hook_state.step_index = orders.step.empty() ? -1 : index_of_step(orders.step);
  hook_state.occurrence = orders.occurrence;
  hook_state.signal = orders.signal;
  hook_state.gated = orders.step == "take.given_up";
  base::step_hook.store(&hook);
}

int run_publisher(const Orders& orders, const ChildLink& link) {
  const SharedScoreboard board = SharedScoreboard::adopt(SpawnedProcess::kSharedFd);
  install_hook(orders, link, &*board);
  const auto runtime = Runtime::open({orders.directory});
  if (!runtime) return fault("open runtime", runtime.error());
  while (true) {
    if (const auto code = live_as_publisher(*runtime, orders, *board)) return *code;
  }
}

int run_orderly_publisher(const Orders& orders, const ChildLink& link) {
  const auto runtime = Runtime::open({orders.directory});
  if (!runtime) return fault("open runtime", runtime.error());
  auto publisher = Publisher::open(*runtime, orders.name, Format::bytes(kPayloadBytes).value(),
                                   publisher_options(orders.mode));
  if (!publisher) return fault("open publisher", publisher.error());
  link.ready();
  std::uint64_t sequence = 0;
  while (link.wait_go() != 0) {
    const auto published = publish_one(*publisher, 0, sequence);
    if (!published) return fault("publish", published.error());
    // Complete, so that drop has a slot for the next one.
    if (*published) static_cast<void>((*published)->wait(Deadline::after(kLong)));
    link.ready(published->has_value() ? 1 : 2);
  }
  const auto closed = publisher->close(Deadline::after(kLong));
  return closed ? 0 : fault("close", closed.error());
}

int run_subscriber(const Orders& orders, const ChildLink& link) {
  const SharedScoreboard board = SharedScoreboard::adopt(SpawnedProcess::kSharedFd);
  install_hook(orders, link, &*board);
  const auto runtime = Runtime::open({orders.directory});
  if (!runtime) return fault("open runtime", runtime.error());
  while (true) {
    board->lives.fetch_add(1);
    auto subscriber = Subscriber::open(*runtime, orders.name, Deadline::after(seconds(60)),
                                       subscriber_options(orders.mode));
    if (!subscriber) return fault("open subscriber", subscriber.error());
    std::deque<Frame> held;
    const auto code = orders.mode == Mode::evict_latest
                          ? hold_too_long(*subscriber, *board, held)
                          : receive_some(*subscriber, orders.mode, *board, held);
    if (code) return *code;
    board->leaving.fetch_add(1);
    { const Subscriber leaving = *std::move(subscriber); }
    held.clear();
    board->left.fetch_add(1);
  }
}

}  // namespace vramlink::test
