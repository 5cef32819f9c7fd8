// The hazard model: slots, tags, tickets, READY words, hold and release words, and who may touch a
// frame when.
//
// Modelled: one publisher (one CPU thread, its reactor, up to two GPU streams) and up to two
// subscribers (one CPU thread, a reactor with the watchdog, one GPU stream). CPU threads run under
// TSO where a case asks for it (see store_buffer.hpp), else sequentially consistent. A GPU stream
// is an in-order queue whose head may run at any time. Payload, READY words of a GPU channel and
// stream releases are written by streams; of a host channel by CPU stores. Deaths come in three
// steps: the CPU stops; later the queued GPU work vanishes; later the pidfd tells. A stopped
// publisher (SIGSTOP) is no step: every wait must end without one more step of the publisher's CPU.
//
// Wider than the protocol, so that more is tested: a reader may attempt any sequence above its
// cursor in any order (receive and queue orders are a part of that), it does not look at READY
// before its hold, and a claim does not skip held slots before it marks them.
//
// Not modelled: wrap-around, headers beyond the ticket, observers, resize, failed enqueues and LOST
// slots, load reordering (ARM).
#pragma once

#include <cstdint>

#include "explorer.hpp"
#include "store_buffer.hpp"

namespace vramlink::model {

// Rules that a case can leave out. The table in hazard_cases.cpp gives the section of each.
enum class HazardRule : std::uint8_t {
  kNone,
  kTagStoreIsSequential,      // claim: tag = 0 is seq_cst
  kScanHoldsAfterTag,         // claim: holds are read after tag = 0; a held slot is not taken
  kHoldStoreIsSequential,     // take: held = h is seq_cst
  kCheckTagAfterHold,         // take: the tag is read again under the hold
  kFreshHoldNumber,           // take: every attempt has its own number
  kReadyUnderHold,            // receive by CPU: READY is tested under the hold
  kTakeAfterGo,               // no take before the publisher counts the subscriber as a member
  kClaimOnlyComplete,         // claim: a published slot only when its READY is there
  kKeepNewestComplete,        // claim: never the newest complete slot
  kAbandonedWhenComplete,     // claim: an abandoned slot only when its READY is there
  kAbandonWritesReady,        // abandon: READY is enqueued
  kAbandonOnClaimStream,      // abandon: on the stream of the claim
  kAbandonKeepsTagZero,       // abandon: the old tag does not come back
  kPublishBehindClaimStream,  // publish on another stream is ordered behind the claim's
  kBroadcastLast,             // publish: ready after all my_ready words
  kReadyBeforeVisible,        // publish: READY is enqueued before the frame is visible
  kHeaderBeforeNewest,        // publish: the ticket is stored before the frame is visible
  kReadyWordPerSlot,          // my_ready has a word for every slot
  kWaitOnlyFromFirstTicket,   // stream wait only for tickets that name our word
  kWatchdogAtEnd,             // death or failure of the publisher starts the watchdog
  kCheckGoneAfterAppend,      // receive by stream: `gone` is tested after the wait was enqueued
  kHealthQuery,               // a failed context of a living publisher is noticed
  kFlagBeforeWord,            // watchdog: aborted is set before the word is stored
  kNoUnsignedMaximum,         // watchdog: not UINT64_MAX
  kNoSignedMaximum,           // watchdog: not INT64_MAX in every word once
  kCompareExchange,  // watchdog: the word is stored only if it did not change since it was read
  kVerdictByFlagAtDeath,     // verdict: by the flag, not by READY (release after a death)
  kVerdictByFlagAtDeadline,  // verdict: by the flag, not by READY (release at a deadline)
  kDropOnlyAfterExit,        // a dead subscriber's holds count until its GPU work has ended
  kRevokedHoldsCount,        // a revoked subscriber's holds count until it says drained
  kLeaseIsOfOneHold,         // evict: only for a hold that a claim has met before
  kRenewUnderTwo,            // evict: a new generation when fewer than two slots are usable
  kCount,
};

enum class Reading : std::uint8_t { kNobody, kByCpu, kReleaseByStream, kByStream };

struct HazardOptions {
  int slot_count = 2;
  int ticket_count = 4;   // claims in all
  int attempt_count = 4;  // takes of each reader, failed ones included
  Reading readers[2] = {Reading::kByCpu, Reading::kNobody};
  HazardRule left_out = HazardRule::kNone;
  bool store_buffers = false;
  bool host_channel = false;       // the publisher's CPU writes payload and READY
  bool two_claims = false;         // two claims outstanding at a time
  bool two_streams = false;        // a claim may be for either of two streams
  bool publish_elsewhere = false;  // a frame may be published on the other stream
  bool abandon = false;
  bool late_join = false;  // the last reader joins at any time
  bool publisher_dies = false;
  bool context_fails = false;      // of the publisher
  bool reader_dies = false;        // the first one
  bool deadline_releases = false;  // a stream wait may reach its deadline at any time
  bool revoke = false;             // the first reader may be revoked at any time
  bool evict = false;              // a hold that a claim meets again may be beyond its lease
  bool reader_stops = false;       // the first one's CPU may stop for ever
};

inline constexpr int kSlotMax = 3;
inline constexpr int kReaderMax = 2;
inline constexpr int kStreamMax = 2;
inline constexpr int kSequenceMax = 6;

// Addresses in the shared memory of the model.
struct Word {
  static constexpr std::uint8_t tag(int slot) { return static_cast<std::uint8_t>(slot); }
  static constexpr std::uint8_t ticket(int slot) { return at(kSlotMax, slot); }
  static constexpr std::uint8_t ready(int slot) { return at(2 * kSlotMax, slot); }
  static constexpr std::uint8_t payload(int slot) { return at(3 * kSlotMax, slot); }
  static constexpr std::uint8_t recent(int sequence) { return at(4 * kSlotMax, sequence - 1); }
  static constexpr std::uint8_t held(int reader, int slot) { return own(reader, 0, slot); }
  static constexpr std::uint8_t released(int reader, int slot) { return own(reader, 1, slot); }
  static constexpr std::uint8_t my_ready(int reader, int slot) { return own(reader, 2, slot); }
  static constexpr std::uint8_t kNewest = 4 * kSlotMax + kSequenceMax;
  static constexpr int kCount = kNewest + 1 + kReaderMax * 3 * kSlotMax;

 private:
  static constexpr std::uint8_t at(int base, int index) {
    return static_cast<std::uint8_t>(base + index);
  }
  static constexpr std::uint8_t own(int reader, int array, int slot) {
    return at(kNewest + 1 + (reader * 3 + array) * kSlotMax, slot);
  }
};

enum class SlotState : std::uint8_t { kFree, kClaimed, kSubmitted, kPublished, kAbandoned };
// kDead: no CPU any more, its GPU work still runs. kExited: that has ended too.
enum class Life : std::uint8_t { kRuns, kDead, kExited };

enum class StreamOp : std::uint8_t {
  kNothing,
  kRenderBegin,    // payload[slot] is overwritten from here on
  kRenderEnd,      // payload[slot] is frame `value`
  kRecordEvent,    // event[slot] = value
  kWaitEvent,      // until event[slot] = value
  kWritePrivate0,  // my_ready of reader 0
  kWritePrivate1,  // my_ready of reader 1
  kWriteReady,
  kWaitReady,    // until my_ready[slot] >= value
  kReadPayload,  // must see frame `value`
  kRelease,      // released[slot] = value
};

template <int kCapacity>
struct Stream {
  struct Entry {
    StreamOp op;
    std::uint8_t slot;
    std::uint8_t value;
  };
  std::uint8_t count;
  Entry entries[kCapacity];

  void push(StreamOp op, int slot, int value) {
    if (count == kCapacity)
      std::abort();  // the capacity below is an upper bound of what a case can enqueue
    entries[count++] = Entry{op, static_cast<std::uint8_t>(slot), static_cast<std::uint8_t>(value)};
  }
  Entry pop() {
    const Entry head = entries[0];
    for (int index = 1; index < count; ++index) entries[index - 1] = entries[index];
    entries[--count] = Entry{};
    return head;
  }
  bool contains(StreamOp op, int slot) const {
    for (int index = 0; index < count; ++index) {
      if (entries[index].op == op && entries[index].slot == slot) return true;
    }
    return false;
  }
};

enum class PublisherAt : std::uint8_t {
  kIdle,
  kMarkSlot,
  kScanHeld,
  kScanReleased,
  kGrant,
  kUndo,  // claim, under the mutex
  kHostBegin,
  kHostEnd,
  kHostReady,  // writing a host frame
  kWriteTicket,
  kWriteTag,
  kWriteRecent,
  kWriteNewest,
  kSubmitLate,
};

struct PublisherSlot {
  SlotState state;
  std::uint8_t ticket;
  std::uint8_t sequence;
  std::uint8_t stream;
  std::uint8_t members;  // bit j: reader j was a member at the claim
  std::uint8_t event;    // the last ticket that passed the event behind the claim's stream
};

struct Publisher {
  PublisherAt at;
  std::uint8_t slot;
  std::uint8_t reader;
  std::uint8_t held;  // the value that the scan has loaded
  std::uint8_t found_hold;
  std::uint8_t ticket_count;
  std::uint8_t sequence_count;
  Life life;
  std::uint8_t context_failed;
  std::uint8_t had_complete;               // a complete frame was visible once
  std::uint8_t met[kReaderMax][kSlotMax];  // the hold that a claim met last
  PublisherSlot slots[kSlotMax];
  StoreBuffer<5> buffer;
  Stream<21> streams[kStreamMax];
};

enum class ReaderAt : std::uint8_t {
  kAbsent,
  kIdle,
  kHold,
  kCheckTag,
  kGiveUp,
  kDecide,
  kReadOnce,
  kReadAgain,
  kRelease,
  kAppendWait,
  kEnqueueWait,
  kCheckGone,
  kEnqueueRead,
};
enum class WatchdogAt : std::uint8_t { kIdle, kLoadReady, kSetFlag, kStoreWord };

struct Watchdog {
  WatchdogAt at;
  std::uint8_t pass_due;   // `gone` is set, the list has not been walked yet
  std::uint8_t pending;    // bit i: the entry of slot i is to be looked at
  std::uint8_t timed_out;  // bit i: the deadline of the entry of slot i has fired
  std::uint8_t slot;
  std::uint8_t ticket;
  std::uint8_t seen;  // my_ready as it was read
};

struct Reader {
  ReaderAt at;
  std::uint8_t slot;
  std::uint8_t sequence;
  std::uint8_t ticket;
  std::uint8_t cursor;
  std::uint8_t hold_number;
  std::uint8_t member;
  std::uint8_t first_ticket;
  std::uint8_t revoked;
  std::uint8_t overdue;  // a lease is over, and the publisher's reactor is told
  std::uint8_t stopped;
  std::uint8_t gone;
  Life life;
  std::uint8_t aborted;             // bit t: the frame of ticket t carries the sticky flag
  std::uint8_t in_use[kSlotMax];    // ticket of a frame held with a passed tag check
  std::uint8_t awaited[kSlotMax];   // wait list: ticket that the stream waits for
  std::uint8_t bad_read[kSlotMax];  // ticket of a frame that the stream read unfinished
  Watchdog watchdog;
  StoreBuffer<3> buffer;
  Stream<9> stream;
};

struct HazardState {
  std::uint8_t memory[Word::kCount];
  Publisher publisher;
  Reader readers[kReaderMax];
};

class HazardModel {
 public:
  using State = HazardState;
  using Steps = Successors<State>;

  explicit HazardModel(const HazardOptions& options) : options_(options) {}
  State initial() const;
  void successors(const State& state, Steps& out) const;
  const char* check(const State& state, const Steps& out) const;

 private:
  bool keeps(HazardRule rule) const { return options_.left_out != rule; }
  StoreOrder order(bool sequential) const;
  bool present(int reader) const { return options_.readers[reader] != Reading::kNobody; }
  int reader_count() const { return present(1) ? 2 : 1; }
  bool waits_by_stream(int reader) const { return options_.readers[reader] == Reading::kByStream; }

  // hazard_publisher.cpp
  void publisher_steps(const State& state, Steps& out) const;
  void choose_publisher_step(const State& state, Steps& out) const;
  void claim_steps(const State& state, Steps& out) const;
  void end_scan(State& state) const;
  void meet(const State& state, Steps& out, const State& met) const;
  void grant_steps(const State& state, Steps& out) const;
  void publish_steps(const State& state, Steps& out) const;
  void host_steps(const State& state, Steps& out) const;
  void submit(State& state, int slot, int stream) const;
  void abandon(State& state, int slot) const;
  void publisher_gpu_steps(const State& state, Steps& out) const;
  bool is_candidate(const State& state, int slot) const;
  int newest_complete_slot(const State& state) const;
  State* publisher_store(const State& state, Steps& out, Step step, int word, int value,
                         bool sequential,
                         PublisherAt next) const;  // null: the store cannot be made yet

  // hazard_reader.cpp
  void reader_steps(const State& state, Steps& out, int reader) const;
  void take_steps(const State& state, Steps& out, int reader) const;
  void decide_step(const State& state, Steps& out, int reader) const;
  void read_steps(const State& state, Steps& out, int reader) const;
  void stream_receive_steps(const State& state, Steps& out, int reader) const;
  void reader_gpu_step(const State& state, Steps& out, int reader) const;
  void watchdog_steps(const State& state, Steps& out, int reader) const;
  void watchdog_start_steps(const State& state, Steps& out, int reader) const;
  bool wait_is_over(const State& state, int reader) const;
  int hold_value(const Reader& reader) const;
  int my_ready_word(int reader, int slot) const;

  // hazard_model.cpp
  void drain_steps(const State& state, Steps& out) const;
  void membership_steps(const State& state, Steps& out) const;
  void eviction_steps(const State& state, Steps& out) const;
  int usable_slots(const State& state) const;
  bool is_held(const State& state, int reader, int slot) const {
    return state.memory[Word::held(reader, slot)] > state.memory[Word::released(reader, slot)];
  }
  void fault_steps(const State& state, Steps& out) const;
  bool visible_complete_frame(const State& state) const;
  bool claim_is_stuck(const State& state) const;

  HazardOptions options_;
};

}  // namespace vramlink::model
