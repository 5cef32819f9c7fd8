// One mapping a process for each piece of shared memory, however many objects use it.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>

#include <vramlink/result.hpp>

#include "os/shared_segment.hpp"

namespace vramlink::runtime {

/// Mapped memory and whatever keeps it mapped.
struct SharedView {
  std::shared_ptr<void> owner;
  std::byte* data = nullptr;
  std::uint64_t size_bytes = 0;
};

/// Keyed by the memory's own identity (never by address, pid or fd number), so that two subscribers
/// of one channel, or a publisher and a subscriber in one process, use the same addresses. Holds no
/// memory itself: an entry ends with its last user. Thread-safe.
class ImportRegistry {
 public:
  using Map = std::function<Result<SharedView>(os::Access access)>;

  /// The view of `key` if it is mapped already, else what `map` makes, which is remembered. `map`
  /// runs under no lock: it may call a driver, and the reactor takes the registry's lock too. An
  /// importer of the same key waits until it is done, so that two cannot map twice; nobody else
  /// waits. Not from the reactor, and not for the same key from within `map`. A remembered view of
  /// another size is corrupt, and so is a read-only one where `access` is read_write: a peer sent
  /// as a control segment what it sent as payload before.
  [[nodiscard]] Result<SharedView> find_or_map(const os::SegmentKey& key, std::uint64_t size_bytes,
                                               os::Access access, const Map& map);
  /// Remembers writable memory of our own, which a subscriber in this process will meet again.
  /// Never waits for a mapping.
  void remember(const os::SegmentKey& key, const SharedView& view);
  /// Entries whose memory is mapped now. Never waits for a mapping.
  [[nodiscard]] std::size_t size() const;

 private:
  struct Entry {
    std::weak_ptr<void> owner;
    std::byte* data;
    std::uint64_t size_bytes;
    os::Access access;
  };
  class Turn;
  // Under the mutex. What is alive of `key` is put into `owner`.
  [[nodiscard]] std::optional<Result<SharedView>> find(const os::SegmentKey& key,
                                                       std::uint64_t size_bytes, os::Access access,
                                                       std::shared_ptr<void>& owner) const;
  void sweep();

  mutable std::mutex mutex_;
  std::map<os::SegmentKey, Entry> entries_;
  std::set<os::SegmentKey> being_mapped_;
  std::condition_variable mapped_;  ///< something left being_mapped_
};

}  // namespace vramlink::runtime
