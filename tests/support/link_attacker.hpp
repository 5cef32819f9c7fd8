// Peers that speak the link by hand, and therefore can speak it wrong.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "os/fd.hpp"
#include "os/lock_file.hpp"
#include "os/shared_segment.hpp"
#include "os/socket.hpp"
#include "wire/codec.hpp"
#include "wire/layout_v1.hpp"

namespace vramlink::test {

/// Channels: one that is attacked, and one that an attacker publishes.
inline constexpr const char* kVictimChannel = "victim";
inline constexpr const char* kFakeChannel = "fake";

/// One connection, from either side. Waiting ends with a failure when the watchdog's time passed.
class RawPeer {
 public:
  /// Connects to a publisher.
  RawPeer(const std::string& directory, const std::string& name);
  explicit RawPeer(os::Socket socket) noexcept : socket_(std::move(socket)) {}

  struct Message {
    std::vector<std::byte> bytes;
    std::vector<os::UniqueFd> fds;

    [[nodiscard]] wire::MessageType type() const;
    template <class M>
    [[nodiscard]] Result<M> as() const {
      return wire::decode<M>(bytes, fds.size());
    }
  };

  /// Any bytes with any descriptors, also more than the protocol has room for. False if the other
  /// side has hung up or its queue is full.
  bool send_bytes(std::span<const std::byte> bytes, std::span<const int> fds = {}) const;
  template <class M>
  bool send(M message, std::span<const int> fds = {}) const {
    return send_bytes(wire::encode(message), fds);
  }
  /// The next message; nothing once the other side has hung up.
  [[nodiscard]] std::optional<Message> next() const;
  /// The code of a REFUSED that is followed by the end.
  [[nodiscard]] std::optional<Code> refusal() const;
  /// Waits until the other side hangs up, whatever it says before.
  void wait_for_end() const;
  void hang_up() { socket_ = os::Socket(); }
  [[nodiscard]] bool connected() const noexcept { return static_cast<bool>(socket_); }

 private:
  os::Socket socket_;
};

/// What an honest subscriber of this process would say.
[[nodiscard]] wire::Hello honest_hello(const std::string& name);

/// A subscriber by hand, through the handshake.
struct RawSubscriber {
  /// Says HELLO and takes the OFFER.
  RawSubscriber(const std::string& directory, const std::string& name, std::uint32_t max_held = 1,
                std::uint32_t queue_depth = 0);
  /// Maps the private segment, says MAPPED and waits for GO.
  void attach();
  [[nodiscard]] wire::Private& words() const { return wire::private_at(mapping.data()); }
  [[nodiscard]] int private_fd() const { return offered.fds.at(1).get(); }

  RawPeer peer;
  RawPeer::Message offered;
  wire::Offer offer{};
  os::Mapping mapping;
};

/// All that a publisher by hand offers; each part may be spoilt before it is sent.
struct Offering {
  static constexpr std::uint32_t kSlots = 4;
  static constexpr std::uint64_t kPitch = 4096;

  Offering();
  /// The three descriptors, as they are now.
  [[nodiscard]] std::vector<int> fds() const;
  [[nodiscard]] wire::Broadcast& broadcast() const { return wire::broadcast_at(shared.data()); }
  [[nodiscard]] wire::Private& words() const { return wire::private_at(own.data()); }
  /// Makes a frame visible as an honest publisher would.
  void publish(std::uint64_t sequence, std::uint32_t slot_index) const;

  os::UniqueFd broadcast_fd;
  os::UniqueFd private_fd;
  os::UniqueFd payload_fd;
  os::Mapping shared;
  os::Mapping own;
  os::Mapping payload;
  unsigned broadcast_seals = os::kFullSeals;
  unsigned private_seals = os::kFullSeals;
  unsigned payload_seals = os::kFullSeals;
  wire::Offer message{};
  wire::Go go{};
};

/// Adds seals, whatever they are.
void seal(int fd, unsigned seals);

/// Owns a name as a publisher would, and answers each connection with a script, one at a time.
class FakePublisher {
 public:
  using Script = std::function<void(RawPeer& peer)>;
  FakePublisher(const std::string& directory, const std::string& name, Script script);
  FakePublisher(const FakePublisher&) = delete;
  FakePublisher& operator=(const FakePublisher&) = delete;
  ~FakePublisher();

 private:
  void run();

  os::LockFile lock_;
  os::Listener listener_;
  os::UniqueFd stop_;
  Script script_;
  std::thread thread_;
};

/// OFFER, MAPPED, GO; false if the peer left before. `before_go` runs when MAPPED has come.
bool offer_all(RawPeer& peer, Offering& offering,
               const std::function<void(Offering&)>& before_go = {});

}  // namespace vramlink::test
