// The queue model: every sequence once and in order, under the policies block and drop, up to the
// close.
//
// Modelled: one publisher (claim with undo, submit, publish, close; TSO store buffer) and up to two
// subscribers, each queue or latest. READY words are set by streams in any order. The ring recent[]
// has as many entries as there are slots, the tightest that the protocol allows. A hold is one bit
// here (its numbers: hazard model). Sleeping is not modelled here (see wake_model.hpp): who finds
// nothing may look again at any time. Reader stores are all seq_cst in the protocol, so readers
// need no store buffer.
//
// Not modelled: deaths (hazard model), evict, generations (a resize ends one generation as a close
// does), stream releases.
#pragma once

#include <cstdint>

#include "explorer.hpp"
#include "store_buffer.hpp"

namespace vramlink::model {

enum class QueueRule : std::uint8_t {
  kNone,
  kCursorIsLaw,              // block: no slot with a sequence above a queue cursor is claimed
  kCursorAfterTake,          // the cursor is stored after the successful take
  kCursorWithMembership,     // cursor and membership of a newcomer are one step under the mutex
  kUndoRestoresTag,          // an undone claim puts the old tag back
  kRetryAfterUndo,           // a failed take looks at the tag again before it counts a loss
  kTagBeforeRecent,          // publish: the tag is stored before the entry of recent[]
  kReadyInOrder,             // queue waits for READY of the next sequence
  kLastSequenceBeforeState,  // close: last_sequence is stored before state
  kFinishUpToLast,           // closed is end of stream only at last_sequence
  kNoPublishAfterClose,      // a frame claimed before the close is not published after it
  kCount,
};

enum class Delivery : std::uint8_t { kNobody, kQueue, kLatest };

struct QueueOptions {
  int slot_count = 2;
  int frame_count = 4;
  Delivery readers[2] = {Delivery::kQueue, Delivery::kNobody};
  QueueRule left_out = QueueRule::kNone;
  bool block = true;
  bool two_claims = false;
  bool late_join = false;  // the last reader joins at any time
};

struct QueuePublisherSlot {
  std::uint8_t state;  // SlotPhase
  std::uint8_t ticket;
  std::uint8_t sequence;
};

enum class SlotPhase : std::uint8_t { kFree, kClaimed, kSubmitted, kPublished, kAbandoned };

struct QueueState {
  static constexpr int kSlotMax = 3;
  static constexpr int kReaderMax = 2;
  static constexpr std::uint8_t kTag = 0;
  static constexpr std::uint8_t kTicket = kSlotMax;
  static constexpr std::uint8_t kRecent = 2 * kSlotMax;  // sequence * 4 + slot
  static constexpr std::uint8_t kClosed = 3 * kSlotMax;
  static constexpr std::uint8_t kLast = kClosed + 1;
  static constexpr int kWordCount = kLast + 1;

  enum class PublisherAt : std::uint8_t {
    kIdle,
    kMarkSlot,
    kScanHolds,
    kUndo,
    kGrant,
    kWriteTicket,
    kWriteTag,
    kWriteRecent,
    kWriteNewest,
    kCloseFirst,
    kCloseSecond,
    kDone,
  };
  struct Publisher {
    PublisherAt at;
    std::uint8_t slot;
    std::uint8_t reader;
    std::uint8_t found_hold;
    std::uint8_t ticket_count;
    std::uint8_t sequence_count;
    std::uint8_t closed;  // the first store of close was made
    QueuePublisherSlot slots[kSlotMax];
    StoreBuffer<5> buffer;
  };
  enum class ReaderAt : std::uint8_t {
    kAbsent,
    kLookup,
    kCheckState,
    kLoadLast,
    kWaitReady,
    kHold,
    kCheckTag,
    kGiveUp,
    kJudgeLoss,
    kStoreCursor,
    kRelease,
    kDone,
  };
  struct Reader {
    ReaderAt at;
    std::uint8_t slot;
    std::uint8_t sequence;
    std::uint8_t position;  // the reader's own copy of the cursor
    std::uint8_t delivered;
    std::uint8_t lost;
    std::uint8_t first;  // the sequence before the first that it is to get
    std::uint8_t member;
    // Words of its private segment; only seq_cst stores.
    std::uint8_t cursor;
    std::uint8_t holds[kSlotMax];  // 1: held > released
  };

  std::uint8_t memory[kWordCount];
  std::uint8_t newest;           // only the publisher's seq_cst store writes it
  std::uint8_t ready[kSlotMax];  // only streams write it
  Publisher publisher;
  Reader readers[kReaderMax];
};

class QueueModel {
 public:
  using State = QueueState;
  using Steps = Successors<State>;

  explicit QueueModel(const QueueOptions& options) : options_(options) {}
  State initial() const;
  void successors(const State& state, Steps& out) const;
  const char* check(const State& state, const Steps& out) const;

 private:
  bool keeps(QueueRule rule) const { return options_.left_out != rule; }
  bool present(int reader) const { return options_.readers[reader] != Delivery::kNobody; }
  int reader_count() const { return present(1) ? 2 : 1; }
  bool is_queue(int reader) const { return options_.readers[reader] == Delivery::kQueue; }
  std::uint8_t ring_place(int sequence) const {
    return static_cast<std::uint8_t>(State::kRecent + sequence % options_.slot_count);
  }

  // queue_publisher.cpp
  void publisher_steps(const State& state, Steps& out) const;
  void choose_publisher_step(const State& state, Steps& out) const;
  void claim_steps(const State& state, Steps& out) const;
  void publish_steps(const State& state, Steps& out) const;
  void close_steps(const State& state, Steps& out) const;
  void other_publisher_steps(const State& state, Steps& out) const;
  void join_steps(const State& state, Steps& out) const;
  bool is_candidate(const State& state, int slot) const;
  State* publisher_store(const State& state, Steps& out, Step step, int word, int value,
                         StoreOrder order, State::PublisherAt next) const;

  // queue_model.cpp
  void reader_steps(const State& state, Steps& out, int reader) const;
  void lookup_steps(const State& state, Steps& out, int reader) const;
  void queue_lookup(const State& state, Steps& out, int reader) const;
  void wait_ready_step(const State& state, Steps& out, int reader) const;
  void take_steps(const State& state, Steps& out, int reader) const;
  void judge_loss(const State& state, Steps& out, int reader) const;
  void deliver(State& next, Steps& out, int reader) const;

  QueueOptions options_;
};

}  // namespace vramlink::model
