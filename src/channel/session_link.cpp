// See session_link.hpp.
#include "channel/session_link.hpp"

#include <utility>

#include "base/log.hpp"
#include "base/steps.hpp"
#include "channel/subscriber_session.hpp"

namespace vramlink::inline v0::channel {

SessionLink::SessionLink(std::shared_ptr<link::Connection> connection)
    : connection_(std::move(connection)) {}

void SessionLink::add(const std::shared_ptr<SubscriberSession>& session) {
  const std::lock_guard lock(mutex_);
  std::erase_if(entries_, [](const Entry& entry) {
    return entry.session.expired() && entry.stream_work.expired();
  });
  entries_.push_back({session, session->stream_work()});
  ++living_;
}

bool SessionLink::is_full() {
  const std::lock_guard lock(mutex_);
  return living_ >= kSessionsMax;
}

void SessionLink::part(std::uint64_t generation, wire::ByeReason reason) noexcept {
  bool is_end = reason == wire::ByeReason::failed;
  {
    const std::lock_guard lock(mutex_);
    is_end = --living_ == 0 || is_end;
  }
  const Result<void> sent = is_end ? connection_->send(wire::Bye{{}, generation, reason, 0})
                                   : connection_->send(wire::Detached{{}, generation});
  if (!is_end) VRAMLINK_STEP("follow.detached");
  // A publisher that is gone needs no farewell; one that does not read sees us hang up.
  if (!sent && !sent.failed_with(Code::peer_gone)) {
    base::report_failure("say farewell to publisher", sent.error());
  }
  if (is_end) connection_->close();
}

void SessionLink::leave(std::uint64_t generation) noexcept {
  const Result<void> sent =
      connection_->send(wire::Bye{{}, generation, wire::ByeReason::leaving, 0});
  VRAMLINK_STEP("leave.said");
  if (!sent && !sent.failed_with(Code::peer_gone)) {
    base::report_failure("leave channel", sent.error());
  }
}

std::vector<SessionLink::Entry> SessionLink::entries() {
  const std::lock_guard lock(mutex_);
  return entries_;
}

void SessionLink::set_fate(Fate fate) noexcept {
  for (const Entry& entry : entries()) {
    if (const auto session = entry.session.lock()) {
      session->set_fate(fate);
    } else if (const auto stream_work = entry.stream_work.lock();
               stream_work && fate != Fate::evicted) {
      stream_work->set_gone();  // nobody has the session any more, but a stream waits still
    }
  }
}

void SessionLink::fail(const Error& why) noexcept {
  for (const Entry& entry : entries()) {
    if (const auto session = entry.session.lock()) session->set_failure(why);
  }
}

}  // namespace vramlink::inline v0::channel
