// See attacher.hpp.
#include "channel/attacher.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/log.hpp"
#include "base/steps.hpp"
#include "base/try.hpp"
#include "channel/attach_error.hpp"
#include "channel/subscriber_core.hpp"
#include "link/names.hpp"
#include "link/peer.hpp"
#include "runtime/end_on_janitor.hpp"

namespace vramlink::inline v0::channel {
namespace {

/// The directory watch tells of a new socket at once; these are for what it cannot tell.
constexpr std::int64_t kRetryBusyNs = 20'000'000;
constexpr std::int64_t kRetryNs = 500'000'000;
constexpr std::int64_t kRetryUnwatchedNs = 100'000'000;

}  // namespace

Attacher::Attacher(std::shared_ptr<runtime::ProcessState> process, os::RuntimeDirectory directory,
                   std::string name, const SubscriberOptions& options)
    : process_(std::move(process)),
      directory_(std::move(directory)),
      name_(std::move(name)),
      options_(options) {}

void Attacher::start(std::weak_ptr<SubscriberCore> core) {
  core_ = std::move(core);
  process_->reactor().post([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->search();
  });
}

void Attacher::stop() noexcept {
  process_->reactor().post([self = shared_from_this()] {
    self->stopped_ = true;
    self->cancel_retry();
    self->stop_watching_directory();
    if (const auto attempt = std::exchange(self->attempt_, nullptr)) attempt->abandon();
  });
}

void Attacher::part_with(const std::shared_ptr<SubscriberSession>& session) {
  process_->reactor().post(
      [self = shared_from_this(), weak = std::weak_ptr(session), link = session->link()] {
        // Frames of it may still be held: its connection goes on, to hear of the publisher's death.
        if (const auto parted = weak.lock()) parted->leave();
        if (!self->attempt_ || !self->attempt_->serves(link)) return;
        self->attempt_.reset();
        if (self->options_.reconnect) self->search();
      });
}

const std::shared_ptr<Parking>& Attacher::parking() {
  if (!parking_) {
    parking_ = runtime::ends_on_janitor(process_, std::make_unique<Parking>(process_->janitor()));
  }
  return parking_;
}

void Attacher::watch_directory() {
  if (directory_watch_id_ != 0) return;
  Result<os::DirectoryWatch> watch = os::DirectoryWatch::open(directory_.path);
  if (watch) {
    directory_watch_ = *std::move(watch);
    const Result<runtime::WatchId> id = process_->reactor().watch(
        directory_watch_.fd(), EPOLLIN, [weak = weak_from_this()](std::uint32_t) {
          if (const auto self = weak.lock()) self->look_at_directory();
        });
    if (id) {
      directory_watch_id_ = *id;
      return;
    }
  }
  directory_watch_ = os::DirectoryWatch();
  // A group's is made by its publisher, who is yet to come.
  if (directory_.group && watch.failed_with(Code::not_found)) return;
  if (!std::exchange(told_of_no_watch_, true)) {
    base::log(LogLevel::warn, name_,
              "no watch on " + directory_.path + " can be had" +
                  (watch ? std::string() : ": " + to_string(watch.error())) +
                  ". A new publisher is looked for every 100 ms instead");
  }
}

void Attacher::stop_watching_directory() noexcept {
  if (directory_watch_id_ != 0) {
    process_->reactor().unwatch(std::exchange(directory_watch_id_, 0));
  }
  directory_watch_ = os::DirectoryWatch();
}

void Attacher::look_at_directory() {
  std::vector<std::string> names;
  const bool incomplete = directory_watch_.drain(names);
  // The directory itself may be gone: search() watches the one that has its name now.
  if (incomplete) stop_watching_directory();
  const std::string wanted = link::socket_file(name_);
  if (!incomplete && std::find(names.begin(), names.end(), wanted) == names.end()) return;
  // Whom we have greeted may be a dead publisher's forked child, which answers nobody: the socket
  // that appeared is another's.
  if (attempt_ && attempt_->under_way()) {
    const std::shared_ptr<AttachAttempt> given_up = std::exchange(attempt_, nullptr);
    given_up->abandon();
  }
  search();
}

void Attacher::search() {
  if (stopped_ || attempt_) return;
  cancel_retry();
  watch_directory();  // before the look, so that a socket that appears meanwhile is reported
  Result<os::Socket> socket = link::connect_to_publisher(directory_, name_);
  const Result<void> greeted = socket ? greet(*std::move(socket)) : Result<void>(socket.error());
  if (greeted) return;
  if (const auto core = core_.lock()) core->attach_failed(greeted.error());
  if (greeted.failed_with(Code::full)) return retry_after(kRetryBusyNs);
  retry_after(directory_watch_id_ != 0 ? kRetryNs : kRetryUnwatchedNs);
}

Result<void> Attacher::greet(os::Socket socket) {
  auto attempt = std::make_shared<AttachAttempt>(shared_from_this(), core_);
  attempt_ = attempt;
  greeted_ns_ = monotonic_ns();
  const Result<void> started = attempt->start(std::move(socket));
  if (!started) {
    attempt_.reset();
    attempt->abandon();
  }
  return started;
}

void Attacher::retry_after(std::int64_t wait_ns) {
  cancel_retry();
  retry_id_ = process_->reactor().at(Deadline::after(std::chrono::nanoseconds(wait_ns)),
                                     [weak = weak_from_this()] {
                                       const auto self = weak.lock();
                                       if (!self) return;
                                       self->retry_id_ = 0;
                                       self->search();
                                     });
}

void Attacher::cancel_retry() {
  if (retry_id_ != 0) process_->reactor().unwatch(std::exchange(retry_id_, 0));
}

void Attacher::ended(const AttachAttempt& attempt, const Error& why, bool was_attached) {
  if (attempt_.get() != &attempt) return;
  attempt_.reset();
  const std::shared_ptr<SubscriberCore> core = core_.lock();
  if (stopped_ || !core) return;
  if (was_attached) {
    if (!options_.reconnect) return;
    // A publisher that lets us in and hangs up at once is not asked as fast as it can answer.
    const bool at_once = monotonic_ns() - greeted_ns_ < kRetryBusyNs;
    return at_once ? retry_after(kRetryBusyNs) : search();
  }
  base::log(LogLevel::info, name_, "attach: " + to_string(why));
  core->attach_failed(why);
  // One that is closing, or whose device has failed, says so until it ends; its successor's socket
  // is reported by the directory.
  retry_after(is_lasting(why) || why.code() == Code::closed ? kRetryNs : kRetryBusyNs);
}

}  // namespace vramlink::inline v0::channel
