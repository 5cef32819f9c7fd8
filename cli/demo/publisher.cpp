// demo: the process that draws.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <utility>
#include <vector>

#include <vramlink/channel.hpp>
#include <vramlink/runtime.hpp>

#include "demo/report.hpp"
#include "demo/roles.hpp"
#include "exit_status.hpp"
#include "frame_writer.hpp"
#include "media/test_card.hpp"
#include "talk.hpp"

namespace vramlink::cli::demo {
namespace {

using namespace std::chrono_literals;

constexpr auto kSubscriberWait = 1s;
constexpr auto kEndWait = 1s;
constexpr std::int64_t kFullPauseNs = 200'000;

/// The median of the newest samples.
class Median {
 public:
  void add(std::int64_t value) noexcept { samples_[count_++ % kSize] = value; }

  [[nodiscard]] std::int64_t value() const {
    const std::size_t size = static_cast<std::size_t>(std::min<std::uint64_t>(count_, kSize));
    if (size == 0) return -1;
    std::vector<std::int64_t> sorted(samples_.begin(), samples_.begin() + size);
    std::nth_element(sorted.begin(), sorted.begin() + size / 2, sorted.end());
    return sorted[size / 2];
  }

 private:
  static constexpr std::size_t kSize = 4096;
  std::array<std::int64_t, kSize> samples_{};
  std::uint64_t count_ = 0;
};

class Drawing {
 public:
  Drawing(const DemoChildOptions& options, ParentLink& link, FrameWriter& writer,
          media::TestCard card)
      : options_(options), link_(link), writer_(writer), card_(std::move(card)) {}

  Result<void> run() {
    const std::int64_t begin_ns = monotonic_ns();
    for (std::uint64_t index = 0; link_.wait_until(begin_ns + options_.rate.due_ns(index));
         ++index) {
      auto drawn = draw_one(options_.first_number + index);
      if (!drawn) return drawn;
      if (link_.report_due() && !link_.send(report_)) break;
    }
    return {};
  }

  // What is left when the stream has been closed.
  void send_final() {
    report_.publish_p50_ns = publish_ns_.value();
    report_.final = 1;
    link_.send(report_);
  }

 private:
  Result<void> draw_one(std::uint64_t number) {
    const std::int64_t before_begin_ns = monotonic_ns();
    auto bytes = writer_.begin(Deadline::passed());
    if (bytes.failed_with(Code::full)) return drop_one();
    if (!bytes) return std::move(bytes).error();
    const std::int64_t begin_ns = monotonic_ns() - before_begin_ns;
    card_.draw(number, *bytes);
    FrameInfo info;
    info.media_ns = options_.rate.due_ns(number);
    info.flags = static_cast<std::uint32_t>(::getpid());
    info.user_data = std::as_bytes(std::span(&number, 1));
    const std::int64_t before_publish_ns = monotonic_ns();
    auto receipt = writer_.publish(info, Deadline::passed());
    if (receipt.failed_with(Code::full)) return drop_one();
    if (!receipt) return std::move(receipt).error();
    publish_ns_.add(begin_ns + monotonic_ns() - before_publish_ns);
    ++report_.frames;
    report_.newest_number = number;
    return {};
  }

  Result<void> drop_one() {
    ++report_.dropped;
    if (options_.rate.is_unlimited()) {
      static_cast<void>(link_.wait_until(monotonic_ns() + kFullPauseNs));
    }
    return {};
  }

  const DemoChildOptions& options_;
  ParentLink& link_;
  FrameWriter& writer_;
  media::TestCard card_;
  Median publish_ns_;
  Report report_;
};

}  // namespace

int run_publisher(const DemoChildOptions& options, ParentLink& link) {
  auto format = Format::image(PixelFormat::rgba, options.size.width, options.size.height);
  if (!format) return fail(format.error());
  format->color_matrix = ColorMatrix::rgb;
  format->color_range = ColorRange::full;
  format->rate_numerator = options.rate.numerator;
  format->rate_denominator = options.rate.denominator;
  auto card = media::TestCard::make(*format);
  if (!card) return fail(card.error());
  auto runtime = Runtime::open({.group = options.group});
  if (!runtime) return fail(runtime.error());
  PublisherOptions publisher_options;
  publisher_options.slot_count = kSlotCount;
  publisher_options.device = options.device;
  auto publisher = Publisher::open(*runtime, options.channel, *format, publisher_options);
  if (!publisher) return fail(publisher.error());
  auto writer = FrameWriter::make(*runtime, *publisher, options.device);
  if (!writer) return fail(writer.error());

  // So that the counts begin together. In the demo with crashes one of them may be missing.
  static_cast<void>(!publisher->wait_for_subscribers(kSubscriberCount, kSubscriberWait));
  Drawing drawing(options, link, *writer, *std::move(card));
  const auto drawn = drawing.run();
  const auto closed = publisher->close(kEndWait);
  drawing.send_final();
  if (!drawn) return fail(drawn.error());
  if (!closed && !closed.failed_with(Code::timed_out)) return fail(closed.error());
  return kSuccess;
}

}  // namespace vramlink::cli::demo
