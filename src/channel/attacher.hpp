// How a subscriber finds its publisher and comes back to it.
//
//   searching --connect--> greeting --OFFER--> mapping --MAPPED, GO--> attached --EOF, exit-->
//   searching any failure --> searching, after a pause or when the socket appears anew
//   attached --OFFER, MAPPED, GO--> attached, to one more generation
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <vramlink/channel.hpp>
#include <vramlink/result.hpp>

#include "channel/subscriber_session.hpp"
#include "link/connection.hpp"
#include "os/directory_watch.hpp"
#include "os/group_directory.hpp"
#include "runtime/process_state.hpp"

namespace vramlink::inline v0::channel {

class SubscriberCore;
class AttachAttempt;

/// Runs on the reactor, but for mapping, which runs on the janitor. Owned by its SubscriberCore,
/// which it refers to weakly.
class Attacher : public std::enable_shared_from_this<Attacher> {
 public:
  Attacher(std::shared_ptr<runtime::ProcessState> process, os::RuntimeDirectory directory,
           std::string name, const SubscriberOptions& options);

  /// Begins to search. Once.
  void start(std::weak_ptr<SubscriberCore> core);
  /// No session and no error is reported after the handlers that run now. From any thread.
  void stop() noexcept;
  /// The session will not be read any more, perhaps before its connection told of the end: looks
  /// for the next publisher. From any thread.
  void part_with(const std::shared_ptr<SubscriberSession>& session);

  [[nodiscard]] const std::string& name() const noexcept { return name_; }

 private:
  friend class AttachAttempt;
  /// Of this subscriber's sessions. On the janitor alone.
  [[nodiscard]] const std::shared_ptr<Parking>& parking();
  void search();
  void watch_directory();
  void stop_watching_directory() noexcept;
  void look_at_directory();
  [[nodiscard]] Result<void> greet(os::Socket socket);
  void retry_after(std::int64_t wait_ns);
  void cancel_retry();
  // From the attempt, on the reactor.
  void ended(const AttachAttempt& attempt, const Error& why, bool was_attached);

  const std::shared_ptr<runtime::ProcessState> process_;
  const os::RuntimeDirectory directory_;
  const std::string name_;
  const SubscriberOptions options_;
  std::weak_ptr<SubscriberCore> core_;

  std::shared_ptr<Parking> parking_;

  // On the reactor's thread only.
  os::DirectoryWatch directory_watch_;
  runtime::WatchId directory_watch_id_ = 0;
  bool told_of_no_watch_ = false;
  runtime::WatchId retry_id_ = 0;
  std::int64_t greeted_ns_ = 0;  ///< the last HELLO
  std::shared_ptr<AttachAttempt> attempt_;
  bool stopped_ = false;
};

/// One connection to one publisher.
class AttachAttempt : public std::enable_shared_from_this<AttachAttempt> {
 public:
  AttachAttempt(std::shared_ptr<Attacher> attacher, std::weak_ptr<SubscriberCore> core);
  /// On any thread: what was mapped and came to no session is left to the janitor.
  ~AttachAttempt();
  AttachAttempt(const AttachAttempt&) = delete;
  AttachAttempt& operator=(const AttachAttempt&) = delete;

  /// Connects the handlers and says HELLO. Codes: os, resource_exhausted, peer_gone.
  [[nodiscard]] Result<void> start(os::Socket socket);
  /// Lets go without a report. A session that came of it goes on.
  void abandon() noexcept;
  /// No session has come of it yet.
  [[nodiscard]] bool under_way() const noexcept;
  /// Its sessions are those of this link.
  [[nodiscard]] bool serves(const std::shared_ptr<SessionLink>& link) const noexcept {
    return link_ == link;
  }
  /// The connection is over. Idempotent.
  void on_end(const Error& why);

 private:
  [[nodiscard]] Result<void> watch_publisher();
  void on_message(link::Message message);
  [[nodiscard]] Result<void> handle(link::Message message);
  [[nodiscard]] Result<void> on_offer(link::Message message);
  void expire();
  // On the janitor's thread.
  [[nodiscard]] Result<void> map(const wire::Offer& offer, std::vector<os::UniqueFd> fds);
  [[nodiscard]] Result<void> check_offer(const wire::Offer& offer) const;
  [[nodiscard]] Result<void> map_broadcast(const wire::Offer& offer, os::UniqueFd fd);
  [[nodiscard]] Result<void> map_private(const wire::Offer& offer, os::UniqueFd fd);
  [[nodiscard]] Result<void> map_payload(const wire::Offer& offer, os::UniqueFd fd);
  /// Memory of a GPU: in place where the reader reaches it, else as far as copies are allowed.
  [[nodiscard]] Result<void> import_from_gpu(const wire::Offer& offer, os::UniqueFd fd);
  /// What is mapped already, where the descriptor tells; else a mapping of our own. Codes: as
  /// Backend::import_memory.
  [[nodiscard]] Result<runtime::SharedView> import_payload(backend::Backend& reader,
                                                           const wire::Offer& offer,
                                                           os::UniqueFd fd) const;
  [[nodiscard]] Result<backend::Backend*> find_of_kind(const DeviceId& device,
                                                       wire::MemoryKind kind) const;
  [[nodiscard]] Result<backend::Backend*> find_backend(const wire::Offer& offer) const;
  [[nodiscard]] Result<void> register_pages();
  [[nodiscard]] Result<void> finish(const wire::Go& go);
  [[nodiscard]] Result<void> check_go(const wire::Go& go);
  void hang_up() noexcept;
  void drop_parts();
  void on_failure(const Error& why);
  void run_on_janitor(std::function<Result<void>(AttachAttempt&)> step);

  const std::weak_ptr<Attacher> attacher_;
  const std::weak_ptr<SubscriberCore> core_;
  const std::shared_ptr<runtime::ProcessState> process_;
  std::shared_ptr<link::Connection> connection_;

  // Set by start(), before anything else can happen.
  std::string name_;
  std::uint32_t asked_depth_ = 0;
  std::uint32_t asked_max_held_ = 0;
  bool asked_stream_order_ = false;
  std::optional<DeviceId> asked_device_;
  CopyFrames asked_copies_ = CopyFrames::never;
  runtime::WatchId timer_ = 0;
  std::shared_ptr<SessionLink> link_;

  // On the reactor's thread only: which messages have come.
  bool watches_exit_ = false;
  bool offered_ = false;          ///< an offer waits for its GO
  bool went_ = false;             ///< the first GO has come
  std::uint64_t generation_ = 0;  ///< of the last offer; 0: none yet

  // On the janitor's thread only, between OFFER and GO.
  SubscriberSession::Parts parts_;
  os::SharedSegment private_segment_;
  wire::Offer offer_{};
  std::uint64_t epoch_ = 0;  ///< of the first offer that came to a session

  mutable std::mutex mutex_;
  bool attached_ = false;
  bool ended_ = false;
  /// We gave up before there was a session: the publisher honours no hold of ours.
  bool left_ = false;
};

}  // namespace vramlink::inline v0::channel
