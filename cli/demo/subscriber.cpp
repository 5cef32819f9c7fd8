// demo: the processes that check every byte.
#include <chrono>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include <vramlink/channel.hpp>
#include <vramlink/host_copy.hpp>
#include <vramlink/runtime.hpp>

#include "demo/report.hpp"
#include "demo/roles.hpp"
#include "exit_status.hpp"
#include "media/picture.hpp"
#include "media/png_file.hpp"
#include "media/test_card.hpp"
#include "talk.hpp"

namespace vramlink::cli::demo {
namespace {

using namespace std::chrono_literals;

constexpr auto kAttachWait = 10s;
constexpr auto kReceiveStep = 50ms;

class Checking {
 public:
  Checking(const DemoChildOptions& options, ParentLink& link, Subscriber& subscriber,
           Downloader& downloader)
      : options_(options), link_(link), subscriber_(subscriber), downloader_(downloader) {}

  Result<void> run() {
    while (true) {
      auto frame = downloader_.receive(subscriber_, kReceiveStep);
      if (frame) {
        check(*frame);
        newest_ = *std::move(frame);
      } else if (frame.failed_with(Code::closed)) {
        return {};
      } else if (!frame.failed_with(Code::timed_out) && !frame.failed_with(Code::peer_gone)) {
        return std::move(frame).error();
      }
      if (!link_.report_due()) continue;
      if (!link_.wait_until(0) || !link_.send(report())) return {};
    }
  }

  Result<void> save_picture() {
    if (options_.out.empty() || !newest_) return {};
    auto picture = media::to_picture(newest_->format(), newest_->bytes());
    if (!picture) return std::move(picture).error();
    auto written = media::write_png(options_.out, *picture);
    report_.saved_picture = written ? 1 : 0;
    return written;
  }

  void send_final() {
    report_.final = 1;
    link_.send(report());
  }

 private:
  void check(const HostFrame& frame) {
    if (!card_ || card_->format() != frame.format()) {
      auto card = media::TestCard::make(frame.format());
      if (card) card_ = *std::move(card);
    }
    // The number beside the frame must be the number in its bytes.
    std::uint64_t number = 0;
    const auto user_data = frame.user_data();
    if (user_data.size() == sizeof number) std::memcpy(&number, user_data.data(), sizeof number);
    const bool whole =
        card_ && user_data.size() == sizeof number && card_->matches(number, frame.bytes());
    ++report_.frames;
    report_.newest_number = number;
    report_.newest_life = frame.flags();
    if (whole) return;
    if (++report_.torn == 1) {
      say("frame " + std::to_string(frame.sequence()) + " is not test card " +
          std::to_string(number));
    }
  }

  const Report& report() {
    const SubscriberStatistics statistics = subscriber_.statistics();
    report_.lost = statistics.lost;
    report_.skipped = statistics.skipped;
    report_.age_p50_ns = statistics.age_p50_ns;
    report_.age_p99_ns = statistics.age_p99_ns;
    return report_;
  }

  const DemoChildOptions& options_;
  ParentLink& link_;
  Subscriber& subscriber_;
  Downloader& downloader_;
  std::optional<media::TestCard> card_;
  std::optional<HostFrame> newest_;
  Report report_;
};

}  // namespace

int run_subscriber(const DemoChildOptions& options, ParentLink& link) {
  auto runtime = Runtime::open({.group = options.group});
  if (!runtime) return fail(runtime.error());
  SubscriberOptions subscriber_options;
  subscriber_options.policy = ReceivePolicy::queue(options.queue_depth);
  subscriber_options.held_count_max = 3;
  auto subscriber = Subscriber::open(*runtime, options.channel, kAttachWait, subscriber_options);
  if (!subscriber) return fail(subscriber.error());
  // One is kept for the picture, one is checked, one is on its way.
  auto downloader =
      Downloader::open(*runtime, subscriber->device(), subscriber->format().payload_bytes,
                       {.buffer_count = 3, .ahead = options.queue_depth > 0});
  if (!downloader) return fail(downloader.error());
  Checking checking(options, link, *subscriber, *downloader);
  const auto checked = checking.run();
  const auto saved = checking.save_picture();
  checking.send_final();
  if (!checked) return fail(checked.error());
  return saved ? kSuccess : fail(saved.error());
}

}  // namespace vramlink::cli::demo
