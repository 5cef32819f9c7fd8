// publish_copy() on a device: a copy into a slot and its READY words as one submission.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include <vramlink/result.hpp>
#include <vramlink/stream.hpp>

#include "backend/backend.hpp"
#include "channel/generation.hpp"
#include "channel/member.hpp"

namespace vramlink::inline v0::channel {

/// One prepared copy a slot, for one set of stream-ordered members; single calls for any other set.
/// Owned by the Generation, because a copy may be under way when the publisher goes. Thread-safe;
/// a slot's copy is used by the holder of its claim alone.
class SlotCopies {
 public:
  /// Codes: driver, out_of_memory.
  [[nodiscard]] static Result<std::unique_ptr<SlotCopies>> make(const Generation& generation);

  struct Outcome {
    Result<void> submitted;
    /// If it failed: what is behind this stream is behind whatever of it runs all the same.
    StreamView behind = StreamView::already_complete();
    /// It went by single calls: prepare() makes the next ones cheaper.
    bool unprepared = false;
  };
  /// Copies after the work in `source_stream`, then stores the claim's READY words. Codes: as
  /// CopyQueue::submit.
  [[nodiscard]] Outcome submit(std::uint32_t slot_index, std::span<const backend::WordWrite> ready,
                               std::uint64_t set, StreamView source_stream,
                               const std::byte* source);
  /// On the janitor. Codes: as CopyQueue::prepare.
  [[nodiscard]] Result<void> prepare(const Membership& members);

 private:
  struct Plan {
    std::uint64_t set = 0;
    std::vector<std::unique_ptr<backend::SlotCopy>> copies;
  };

  SlotCopies(const Generation& generation, std::unique_ptr<backend::CopyQueue> queue);

  const Generation& generation_;
  const std::unique_ptr<backend::CopyQueue> queue_;
  std::mutex mutex_;
  std::shared_ptr<const Plan> plan_;
};

/// The copies of a generation, made with the first call. Codes: driver, out_of_memory.
[[nodiscard]] Result<SlotCopies*> copies_of(Generation& generation);

/// The words of one READY, in their order: my_ready of every stream-ordered member, then the
/// broadcast one, so that who sees the last sees all.
class ReadyWords {
 public:
  ReadyWords(const Generation& generation, const Membership& members, std::uint32_t slot_index,
             std::uint64_t ticket) noexcept {
    for (const Member* member : members.stream_ordered) {
      writes_[count_++] = {member->my_ready_word(slot_index), ticket};
    }
    writes_[count_++] = {generation.ready_word(slot_index), ticket};
  }
  [[nodiscard]] std::span<const backend::WordWrite> writes() const& noexcept {
    return {writes_.data(), count_};
  }
  [[nodiscard]] std::span<const backend::WordWrite> writes() const&& =
      delete;  // they live in this object

 private:
  std::array<backend::WordWrite, wire::kStreamOrderedCountMax + 1> writes_;
  std::size_t count_ = 0;
};

}  // namespace vramlink::inline v0::channel
