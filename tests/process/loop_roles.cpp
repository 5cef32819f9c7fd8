#include "loop_roles.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <initializer_list>
#include <thread>
#include <utility>
#include <vector>

#include <vramlink/vramlink.hpp>

#include "own_gpu.hpp"
#include "support/frame_pattern.hpp"
#include "support/leak_check.hpp"
#include "support/stand_in.hpp"

namespace vramlink::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Codes = std::initializer_list<Code>;

constexpr const char* kName = "loop";
constexpr std::uint64_t kFrameBytes = 4096;
constexpr std::uint64_t kResizedBytes = 8192;
/// Of calls that a fault may keep from ever being done.
constexpr milliseconds kRolePatience{400};
/// Of a stream that waits for a frame; an end of its publisher is told sooner.
constexpr seconds kStreamPatience{10};
/// Of calls that are done at once unless something is broken.
constexpr seconds kSoon{20};
/// Of the publishers; frames tell which one made them.
constexpr std::uint64_t kFirst = 1;
constexpr std::uint64_t kSecond = 2;
/// A subscriber that fails so often in other ways than by an end gives up.
constexpr int kFailuresMax = 4;
/// Attempts, a millisecond apart, to attach to a publisher whose GPU has failed.
constexpr int kRefusalsMax = 5000;
/// For a frame to come, and for one that was taken ahead to be there.
constexpr milliseconds kLook{100};
constexpr milliseconds kLastLook{30};
/// Looks, a millisecond apart, for a stream of its own to give back what it holds.
constexpr int kExhaustedMax = 2000;

// What the public headers say that calls may end with, but for misuse.
constexpr Codes kOpenRuntime{Code::os, Code::resource_exhausted, Code::out_of_memory};
constexpr Codes kOpenGpu{Code::out_of_memory,
                         Code::resource_exhausted,
                         Code::no_driver,
                         Code::no_device,
                         Code::unsupported,
                         Code::driver,
                         Code::os,
                         Code::timed_out};
constexpr Codes kOpenSubscriber{
    Code::not_found, Code::timed_out,   Code::resource_exhausted, Code::no_driver,
    Code::no_device, Code::unsupported, Code::out_of_memory,      Code::driver,
    Code::corrupt,   Code::os};
constexpr Codes kClaim{Code::timed_out, Code::closed, Code::driver, Code::out_of_memory,
                       Code::wrong_state};
constexpr Codes kPublish{Code::closed, Code::driver, Code::out_of_memory, Code::wrong_state};
constexpr Codes kPublishCopy{
    Code::timed_out,          Code::closed, Code::driver, Code::out_of_memory, Code::wrong_state,
    Code::resource_exhausted, Code::os};
constexpr Codes kWait{Code::timed_out, Code::driver};
constexpr Codes kResize{Code::out_of_memory, Code::resource_exhausted, Code::os, Code::driver,
                        Code::closed};
// What is wrong with the way to the next publisher, or to memory that it has resized to, is told
// once.
constexpr Codes kReceive{Code::closed,        Code::peer_gone,   Code::driver,  Code::empty,
                         Code::timed_out,     Code::unsupported, Code::corrupt, Code::wrong_state,
                         Code::out_of_memory, Code::aborted};
constexpr Codes kRelease{Code::driver, Code::out_of_memory, Code::wrong_state};
constexpr Codes kWaitRelease{Code::timed_out, Code::driver, Code::aborted};

/// What an error says that a publisher has sent.
constexpr const char* kOfPublisher = "the publisher answered";

/// Those are part of normal work.
bool is_outcome(Code code) noexcept { return code < Code::not_found; }

void nap() { std::this_thread::sleep_for(milliseconds(1)); }

/// One program: its GPU, its planted fault, and what its calls may say.
class Program {
 public:
  Program(const LoopOrders& orders, LoopBoard::Program& score) : orders_(orders), score_(score) {
    set_log_sink([](LogLevel, std::string_view, void*) {}, nullptr, LogLevel::warn);
    before_ = current_holdings();
    calls_before_ = stand_in()->total_calls();
    if (orders.fault) {
      EXPECT_TRUE(stand_in()->plant(&*orders.fault));
    }
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  /// Nothing of the library's lives any more.
  ~Program() {
    if (!orders_.fault) {
      EXPECT_EQ(last_error_, "");
    }
    EXPECT_EQ(settled_difference(before_), "") << "behind a fault in " << met();
    score_.calls = static_cast<std::uint32_t>(stand_in()->total_calls() - calls_before_);
    score_.met = static_cast<std::uint32_t>(stand_in()->faults_met());
    stand_in()->clear_failures();
  }

  [[nodiscard]] OwnGpu& gpu() noexcept { return gpu_; }
  [[nodiscard]] const LoopOrders& orders() const noexcept { return orders_; }
  [[nodiscard]] LoopBoard& board() const noexcept { return *orders_.board; }
  void count_frame() noexcept { ++score_.frames; }

  /// Whether the call succeeded; it must not have ended with a code that is not one of `codes`.
  template <class T>
  bool went_well(const char* call, const Result<T>& result, Codes codes) {
    if (result) return true;
    const Code code = result.error().code();
    EXPECT_TRUE(std::find(codes.begin(), codes.end(), code) != codes.end())
        << call << ": " << to_string(result.error()) << "\nbehind a fault in " << met();
    EXPECT_NE(to_string(result.error()), "");
    if (is_outcome(code)) return false;
    // Who has no fault of its own may be told of a peer's.
    if (orders_.fault || to_string(result.error()).find(kOfPublisher) == std::string::npos) {
      ++score_.errors;
      last_error_ = call + (": " + to_string(result.error()));
    }
    return false;
  }
  /// Opens by `open()`, again and again where a peer that has a fault may refuse it.
  template <class Open>
  auto open_in_time(const char* call, Codes codes, const Open& open) {
    if (orders_.fault) return open_twice(call, codes, open);
    auto opened = open();
    for (int i = 0; i < kRefusalsMax && !opened; ++i) {
      nap();
      opened = open();
    }
    static_cast<void>(went_well(call, opened, codes));
    return opened;
  }
  /// Opens by `open()`, and once more if that failed: what failed once is not remembered.
  template <class Open>
  auto open_twice(const char* call, Codes codes, const Open& open) {
    auto opened = open();
    if (went_well(call, opened, codes)) return opened;
    opened = open();
    if (!orders_.fault || orders_.fault->kind != simcuda::FaultKind::sticky) {
      EXPECT_TRUE(opened) << call << ", for the second time: " << to_string(opened.error())
                          << "\nbehind a fault in " << met();
    }
    static_cast<void>(went_well(call, opened, codes));
    return opened;
  }

 private:
  [[nodiscard]] static const char* met() {
    const char* const symbol = stand_in()->last_met();
    return symbol == nullptr ? "nothing" : symbol;
  }

  const LoopOrders& orders_;
  LoopBoard::Program& score_;
  OwnGpu gpu_;
  std::string last_error_;
  Holdings before_;
  std::uint64_t calls_before_ = 0;
};

/// A Runtime and what is opened with it; a failure takes both along, and with them what the process
/// has found out about the GPU.
template <class Object>
struct Opened {
  Runtime runtime;
  Object object;
};

template <class Open>
auto open_with_runtime(const LoopOrders& orders, const Open& open)
    -> Result<Opened<typename decltype(open(std::declval<const Runtime&>()))::value_type>> {
  Result<Runtime> runtime = Runtime::open({orders.directory});
  if (!runtime) return runtime.error();
  auto object = open(*runtime);
  if (!object) return object.error();
  return Opened<typename decltype(object)::value_type>{*runtime, *std::move(object)};
}

/// Publishes in all ways, and waits for what it has published.
class LoopPublisher {
 public:
  LoopPublisher(Program& program, Publisher& publisher, std::uint64_t life)
      : program_(program), publisher_(publisher), life_(life) {}

  void publish_all_ways() {
    publish_in_place();
    abandon();
    copy_from_host();
    copy_from_gpu();
    publish_in_place();
    wait_for_all();
  }

 private:
  std::vector<std::byte> next_bytes() {
    std::vector<std::byte> bytes(publisher_.format().payload_bytes);
    fill_pattern(bytes, ++number_);
    info_ = {life_, number_};
    return bytes;
  }
  [[nodiscard]] FrameInfo info() const {
    return {static_cast<std::int64_t>(number_), std::as_bytes(std::span(&info_, 1)), 0};
  }
  void keep(Result<Receipt> receipt, const char* call, Codes codes) {
    if (!program_.went_well(call, receipt, codes)) return;
    receipts_.push_back(*std::move(receipt));
    program_.count_frame();
  }

  void publish_in_place() {
    Result<WritableFrame> frame = publisher_.claim(program_.gpu().stream(), kRolePatience);
    if (!program_.went_well("claim", frame, kClaim)) return;
    if (!program_.gpu().fill(frame->data(), next_bytes())) return;
    keep(publisher_.publish(*std::move(frame), program_.gpu().stream(), info()), "publish",
         kPublish);
  }
  void abandon() {
    const Result<WritableFrame> frame = publisher_.claim(program_.gpu().stream(), kRolePatience);
    if (!program_.went_well("claim", frame, kClaim)) return;
    static_cast<void>(program_.gpu().fill(frame->data(), next_bytes()));
  }
  void copy_from_host() {
    const std::vector<std::byte> bytes = next_bytes();
    keep(publisher_.publish_copy(bytes, StreamView::already_complete(), kRolePatience, info()),
         "publish_copy of host memory", kPublishCopy);
  }
  void copy_from_gpu() {
    const std::vector<std::byte> bytes = next_bytes();
    if (!program_.gpu().fill(program_.gpu().memory(), bytes)) return;
    keep(publisher_.publish_copy({program_.gpu().memory(), bytes.size()}, program_.gpu().stream(),
                                 kRolePatience, info()),
         "publish_copy of the GPU's memory", kPublishCopy);
    wait_for_all();  // the source is used again
  }
  void wait_for_all() {
    for (const Receipt& receipt : receipts_) {
      static_cast<void>(program_.went_well("Receipt::wait", receipt.wait(kRolePatience), kWait));
    }
    receipts_.clear();
  }

  Program& program_;
  Publisher& publisher_;
  std::uint64_t life_;
  std::uint64_t number_ = 0;
  PatternInfo info_;
  std::vector<Receipt> receipts_;
};

/// Of the first GPU's memory, all but what this process holds; a moment later if there are some.
std::uint64_t bytes_of_others() {
  std::uint64_t bytes = 0;
  for (int look = 0; look < 1000; ++look) {
    simcuda::Ledger ledger{};
    stand_in()->ledger(&ledger);
    bytes = stand_in()->device_bytes_held(0) - ledger.device_bytes;
    if (bytes == 0) break;
    nap();
  }
  return bytes;
}

Result<Opened<Publisher>> open_publisher(Program& program) {
  return program.open_twice("Publisher::open", kOpenGpu, [&] {
    return open_with_runtime(program.orders(), [&](const Runtime& runtime) {
      return Publisher::open(
          runtime, kName, Format::bytes(kFrameBytes).value(),
          {.slot_count = 4, .when_full = WhenFull::block, .device = program.gpu().id()});
    });
  });
}

/// Until the subscriber is attached or over, or can never be.
void wait_for_subscriber(Program& program, Publisher& publisher) {
  while (program.board().subscriber_over == 0) {
    const Result<void> there = publisher.wait_for_subscribers(1, milliseconds(50));
    if (!program.went_well("wait_for_subscribers", there, kWait)) {
      if (there.failed_with(Code::driver)) return;
    } else if (program.board().attached != 0) {
      return;
    }
  }
}

/// Receives in all ways, until nothing more can come.
class LoopSubscriber {
 public:
  LoopSubscriber(Program& program, const Runtime& runtime, Subscriber& subscriber)
      : program_(program), subscriber_(subscriber) {
    Result<Downloader> opened = program_.open_twice("Downloader::open", kOpenGpu, [&] {
      return Downloader::open(runtime, program_.gpu().id(), kResizedBytes, {});
    });
    if (opened) downloader_ = *std::move(opened);
  }

  void receive_all() {
    // Each way in its turn; one may have a frame that it took ahead.
    for (int turn = 0, idle = 0; failures_ < kFailuresMax && idle < kWays; ++turn) {
      const bool over = program_.board().second_closed != 0;
      limit_ = Deadline::after(over ? kLastLook : kLook);
      switch (turn % kWays) {
        case 0:
          by_cpu();
          break;
        case 1:
          by_stream(true);
          break;
        case 2:
          downloaded();
          break;
        default:
          by_stream(false);
      }
      idle = nothing_came_ && over ? idle + 1 : 0;
    }
  }

 private:
  /// Whether something came. What did not come is counted, or is reason to go on.
  template <class T>
  bool came(const char* call, const Result<T>& result, Codes codes) {
    nothing_came_ = !result;
    if (result.failed_with(Code::resource_exhausted)) {
      nap();  // a stream has yet to release what it holds
      nothing_came_ = false;
      if (++exhausted_ > kExhaustedMax) ++failures_;  // it never will
      return false;
    }
    if (program_.went_well(call, result, codes)) return true;
    if (!is_outcome(result.error().code())) ++failures_;
    return false;
  }
  void check(std::uint64_t number, std::span<const std::byte> user_data,
             const std::optional<std::vector<std::byte>>& bytes) {
    exhausted_ = 0;
    if (!bytes) return;  // this program's own context is lost
    PatternInfo info;
    ASSERT_EQ(user_data.size(), sizeof info);
    std::memcpy(&info, user_data.data(), sizeof info);
    EXPECT_EQ(info.sequence, number);
    EXPECT_TRUE(has_pattern(*bytes, number)) << "frame " << number << " of life " << info.life;
    program_.count_frame();
    if (info.life == kSecond) ++program_.board().frames_of_second;
  }

  void by_cpu() {
    const Result<Frame> frame = subscriber_.receive(limit_);
    if (!came("receive", frame, kReceive)) return;
    EXPECT_FALSE(frame->aborted());
    check(static_cast<std::uint64_t>(frame->media_ns()), frame->user_data(),
          program_.gpu().read(frame->bytes()));
  }
  void by_stream(bool released) {
    // A frame that is published is waited for by the stream, as long as it takes.
    const StreamView stream = program_.gpu().stream();
    Result<Frame> frame = subscriber_.try_receive(stream, kStreamPatience);
    while (frame.failed_with(Code::empty) && !limit_.has_passed()) {
      nap();
      frame = subscriber_.try_receive(stream, kStreamPatience);
    }
    if (!came("try_receive in a stream", frame, kReceive)) return;
    const auto bytes = program_.gpu().read(frame->bytes());
    if (!frame->aborted()) {
      check(static_cast<std::uint64_t>(frame->media_ns()), frame->user_data(), bytes);
    }
    if (!released) return;
    const Result<ReleaseReceipt> receipt = frame->release(program_.gpu().stream());
    if (!program_.went_well("release", receipt, kRelease)) return;
    static_cast<void>(
        program_.went_well("ReleaseReceipt::wait", receipt->wait(kRolePatience), kWaitRelease));
  }
  void downloaded() {
    if (!downloader_) return by_cpu();
    const Result<HostFrame> frame = downloader_->receive(subscriber_, limit_);
    if (!came("Downloader::receive", frame, kReceive)) return;
    check(static_cast<std::uint64_t>(frame->media_ns()), frame->user_data(),
          std::vector<std::byte>(frame->bytes().begin(), frame->bytes().end()));
  }

  static constexpr int kWays = 4;

  Program& program_;
  Subscriber& subscriber_;
  Deadline limit_ = Deadline::passed();
  std::optional<Downloader> downloader_;
  bool nothing_came_ = false;
  int failures_ = 0;
  int exhausted_ = 0;
};

}  // namespace

int run_first_publisher(const LoopOrders& orders) {
  Program program(orders, orders.board->first);
  Result<Opened<Publisher>> opened = open_publisher(program);
  if (!opened) return 0;
  Publisher& publisher = opened->object;
  wait_for_subscriber(program, publisher);
  LoopPublisher loop(program, publisher, kFirst);
  loop.publish_all_ways();
  static_cast<void>(program.went_well(
      "resize", publisher.resize(Format::bytes(kResizedBytes).value(), kSoon), kResize));
  loop.publish_all_ways();
  static_cast<void>(program.went_well("close", publisher.close(kSoon), kWait));
  return 0;
}

int run_loop_subscriber(const LoopOrders& orders) {
  Program program(orders, orders.board->subscriber);
  {
    Result<Opened<Subscriber>> opened =
        program.open_in_time("Subscriber::open", kOpenSubscriber, [&] {
          return open_with_runtime(orders, [&](const Runtime& runtime) {
            return Subscriber::open(
                runtime, kName, kSoon,
                {.policy = ReceivePolicy::queue(3), .device = program.gpu().id()});
          });
        });
    if (opened) {
      LoopSubscriber loop(program, opened->runtime, opened->object);
      orders.board->attached = 1;
      loop.receive_all();
    }
  }
  orders.board->subscriber_over = 1;
  return 0;
}

int run_second_publisher(const LoopOrders& orders, const ChildLink& link) {
  static_cast<void>(link.wait_go());
  Program program(orders, orders.board->second);
  {
    Result<Opened<Publisher>> opened = open_publisher(program);
    EXPECT_TRUE(opened);
    if (!opened) return 1;
    wait_for_subscriber(program, opened->object);
    LoopPublisher loop(program, opened->object, kSecond);
    loop.publish_all_ways();
    static_cast<void>(program.went_well("close", opened->object.close(kSoon), kWait));
  }
  orders.board->second_closed = 1;
  link.ready();
  static_cast<void>(link.wait_go());  // all others have ended
  EXPECT_EQ(bytes_of_others(), 0U) << "bytes of the GPU's memory that nobody holds";
  return 0;
}

}  // namespace vramlink::test
