// Counters. Each is read with relaxed loads: a snapshot is not a cut through one instant.
#ifndef VRAMLINK_STATISTICS_HPP
#define VRAMLINK_STATISTICS_HPP

#include <cstdint>
#include <vector>

#include <vramlink/export.hpp>

namespace vramlink::inline v0 {

/// One subscriber as its publisher sees it. Counts that the subscriber reports itself are marked.
struct SubscriberView {
  std::int32_t pid = 0;              ///< 0: not visible from this pid namespace
  std::uint32_t queue_depth = 0;     ///< 0: latest frame wins
  std::uint32_t held = 0;            ///< slots it holds now, of all generations
  std::uint64_t lag = 0;             ///< newest sequence minus the last that it took
  std::uint64_t blocked_claims = 0;  ///< claims refused or delayed while it held or queued a slot
  std::uint64_t received = 0;        ///< its own report
  std::uint64_t skipped = 0;         ///< its own report
  std::uint64_t lost = 0;            ///< its own report
  bool evicted = false;              ///< it gets no new frames; what it holds it still holds
};

/// How subscribers come by the memory of a channel's slots.
enum class MemoryPath : std::uint8_t {
  shared_memory,  ///< host memory, by file descriptor
  descriptor,     ///< memory of a GPU, by file descriptor
  legacy_handle   ///< memory of a GPU, by a legacy IPC handle of the driver
};

/// For people; the same words as the command's.
[[nodiscard]] VRAMLINK_API const char* to_string(MemoryPath path) noexcept;

struct PublisherStatistics {
  std::uint64_t published = 0;
  std::uint64_t published_bytes = 0;  ///< payload bytes of the published frames
  std::uint64_t abandoned =
      0;  ///< claimed, then dropped by the caller, or published too late (stale)
  std::uint64_t refused_full = 0;  ///< claims that failed with full: frames dropped here
  std::uint64_t timed_out = 0;     ///< claims that failed with timed_out
  std::uint64_t subscribers_ever = 0;
  std::uint64_t subscribers_died = 0;     ///< left without a farewell; slots recovered after proof
  std::uint64_t subscribers_revoked = 0;  ///< thrown out for breaking the protocol
  /// Disconnected because they held a frame for longer than the lease; whatever becomes of them
  /// then is not counted once more.
  std::uint64_t subscribers_evicted = 0;
  std::uint64_t resizes = 0;       ///< changes of format or slots, those that follow among them
  std::uint64_t replacements = 0;  ///< new slots in place of those that evictions had left too few
  std::uint64_t growths = 0;       ///< more slots, because claims found none (slot_count_max)
  MemoryPath path = MemoryPath::shared_memory;
  std::uint64_t legacy_imports = 0;  ///< mappings by legacy handles that subscribers were let into
  std::uint32_t slot_count = 0;      ///< now
  std::uint32_t slot_count_max = 0;  ///< may become, by itself; slot_count: it does not
  std::uint32_t slots_lost = 0;      ///< that evicted subscribers hold, of those now in use
  std::vector<SubscriberView> subscribers;  ///< the present ones, evicted ones that hold among them
};

struct SubscriberStatistics {
  std::uint64_t received = 0;
  std::uint64_t received_bytes = 0;  ///< payload bytes of the received frames
  std::uint64_t skipped = 0;         ///< policy latest: passed over because a newer frame was there
  std::uint64_t lost = 0;            ///< policy queue: overwritten before they could be taken
  std::uint64_t copied = 0;          ///< received frames that were copied to another GPU
  std::uint64_t aborted = 0;         ///< frames whose work never completed
  std::uint64_t connects = 0;        ///< attachments so far; the first counts
  std::uint64_t resizes = 0;         ///< changes of format or slots that were followed
  std::uint64_t legacy_imports = 0;  ///< slots that were mapped by a legacy handle
  std::uint64_t peer_deaths = 0;     ///< attachments that ended with peer_gone
  std::uint64_t revocations = 0;     ///< attachments that ended with revoked
  /// From publish to receive, within 4 percent; -1: no frame yet. Means nothing where publisher and
  /// subscriber live in different time namespaces, whose clocks differ.
  /// Of frames published within 100 us of one another, the first is counted.
  std::int64_t age_p50_ns = -1;
  std::int64_t age_p99_ns = -1;
};

}  // namespace vramlink::inline v0

#endif  // VRAMLINK_STATISTICS_HPP
