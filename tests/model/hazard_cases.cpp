// The hazard model's rules with their places in the specification, and its configurations.
#include "hazard_model.hpp"
#include "suite.hpp"

namespace vramlink::model {
namespace {

using Rule = HazardRule;

std::vector<RuleText> rule_texts() {
  const auto text = [](Rule rule, const char* section, const char* words) {
    return RuleText{static_cast<int>(rule), section, words};
  };
  return {
      text(Rule::kTagStoreIsSequential, "5 claim 3", "tag = 0 is seq_cst"),
      text(Rule::kScanHoldsAfterTag, "5 claim 3", "holds are scanned after tag = 0"),
      text(Rule::kHoldStoreIsSequential, "6 take", "held = h is seq_cst"),
      text(Rule::kCheckTagAfterHold, "6 take", "the tag is read again under the hold"),
      text(Rule::kFreshHoldNumber, "1, 6 take", "a fresh hold number for every attempt"),
      text(Rule::kReadyUnderHold, "6 receive", "READY is tested under the hold"),
      text(Rule::kTakeAfterGo, "11", "no take before GO"),
      text(Rule::kClaimOnlyComplete, "5 claim 1", "only complete published slots are claimed"),
      text(Rule::kKeepNewestComplete, "5 claim 1", "the newest complete slot is not claimed"),
      text(Rule::kAbandonedWhenComplete, "5 claim 1", "only complete abandoned slots are claimed"),
      text(Rule::kAbandonWritesReady, "5 abandon", "abandon enqueues READY"),
      text(Rule::kAbandonOnClaimStream, "5 abandon", "abandon uses the claim's stream"),
      text(Rule::kAbandonKeepsTagZero, "5 abandon", "the tag of an abandoned slot stays 0"),
      text(Rule::kPublishBehindClaimStream, "5 publish",
           "another stream is ordered behind the claim's"),
      text(Rule::kBroadcastLast, "5 publish 1", "ready is written after the my_ready words"),
      text(Rule::kReadyBeforeVisible, "5 publish 2",
           "READY is enqueued before the frame is visible"),
      text(Rule::kHeaderBeforeNewest, "5 publish 2", "the header is stored before newest"),
      text(Rule::kReadyWordPerSlot, "4", "my_ready has one word for every slot"),
      text(Rule::kWaitOnlyFromFirstTicket, "8",
           "tickets before first_ticket are waited for by CPU"),
      text(Rule::kWatchdogAtEnd, "8, 10", "the watchdog runs when the publisher is gone"),
      text(Rule::kCheckGoneAfterAppend, "8", "gone is tested after the wait was enqueued"),
      text(Rule::kHealthQuery, "10", "a failed context is noticed and told"),
      text(Rule::kFlagBeforeWord, "8 watchdog", "aborted is set before the word is stored"),
      text(Rule::kNoUnsignedMaximum, "8 watchdog", "the watchdog does not store UINT64_MAX"),
      text(Rule::kNoSignedMaximum, "8 watchdog", "the watchdog does not store a maximum once"),
      text(Rule::kCompareExchange, "8 watchdog", "the word is stored by compare-exchange"),
      text(Rule::kVerdictByFlagAtDeath, "8 verdict", "the flag decides after a death"),
      text(Rule::kVerdictByFlagAtDeadline, "8 verdict", "the flag decides after a deadline"),
      text(Rule::kDropOnlyAfterExit, "10", "a dead subscriber's holds count until its pidfd"),
      text(Rule::kRevokedHoldsCount, "9", "a revoked subscriber's holds count until it drained"),
      text(Rule::kLeaseIsOfOneHold, "9", "a lease is that of one hold"),
      text(Rule::kRenewUnderTwo, "9", "fewer than two usable slots are replaced"),
  };
}

class Cases {
 public:
  void add(Size size, const char* name, const HazardOptions& options) {
    const int left_out = static_cast<int>(options.left_out);
    cases_.push_back(Case{name, size, left_out, [options](Order order, std::size_t state_limit) {
                            return explore(HazardModel(options), order, state_limit);
                          }});
  }
  // The options without one rule; the name is the rule's text.
  void leave_out(Rule rule, HazardOptions options) {
    options.left_out = rule;
    for (const RuleText& text : rule_texts()) {
      if (text.rule == static_cast<int>(rule)) add(Size::kSmall, text.text, options);
    }
  }
  std::vector<Case> take() { return std::move(cases_); }

 private:
  std::vector<Case> cases_;
};

HazardOptions reading(Reading first, Reading second = Reading::kNobody) {
  HazardOptions options;
  options.readers[0] = first;
  options.readers[1] = second;
  return options;
}

HazardOptions with(HazardOptions options, void (*change)(HazardOptions&)) {
  change(options);
  return options;
}

const HazardOptions kCpu = reading(Reading::kByCpu);
const HazardOptions kCpuTso = with(kCpu, [](auto& o) { o.store_buffers = true; });
const HazardOptions kHostTso = with(kCpuTso, [](auto& o) { o.host_channel = true; });
const HazardOptions kReleases = reading(Reading::kReleaseByStream);
const HazardOptions kStream = reading(Reading::kByStream);

void add_small(Cases& cases) {
  const Size small = Size::kSmall;
  cases.add(small, "CPU reader, TSO",
            with(kCpuTso, [](auto& o) { o.ticket_count = 3, o.attempt_count = 3; }));
  cases.add(small, "host channel, CPU reader, TSO",
            with(kHostTso, [](auto& o) { o.ticket_count = 3, o.attempt_count = 3; }));
  cases.add(small, "two CPU readers", with(reading(Reading::kByCpu, Reading::kByCpu), [](auto& o) {
              o.ticket_count = 3, o.attempt_count = 2;
            }));
  cases.add(small, "release by stream, abandon, two streams",
            with(kReleases, [](auto& o) { o.ticket_count = 3, o.abandon = o.two_streams = true; }));
  cases.add(small, "published on another stream",
            with(kReleases, [](auto& o) { o.ticket_count = 3, o.publish_elsewhere = true; }));
  cases.add(small, "stream reader joins late", with(kStream, [](auto& o) { o.late_join = true; }));
  cases.add(small, "stream reader, publisher dies", with(kStream, [](auto& o) {
              o.ticket_count = o.attempt_count = 3, o.publisher_dies = o.late_join = true;
            }));
  cases.add(small, "stream reader, context fails", with(kStream, [](auto& o) {
              o.ticket_count = o.attempt_count = 3, o.context_fails = true;
            }));
  cases.add(small, "stream reader, deadlines", with(kStream, [](auto& o) {
              o.ticket_count = o.attempt_count = 4, o.deadline_releases = true;
            }));
  cases.add(small, "stream reader, publisher dies, deadlines, 3 frames", with(kStream, [](auto& o) {
              o.ticket_count = o.attempt_count = 3, o.publisher_dies = o.deadline_releases = true;
            }));
  cases.add(small, "releasing reader dies", with(kReleases, [](auto& o) {
              o.ticket_count = 4, o.attempt_count = 3, o.reader_dies = true;
            }));
  cases.add(small, "reader is revoked", with(kReleases, [](auto& o) {
              o.ticket_count = 4, o.attempt_count = 3, o.revoke = true;
            }));
  cases.add(small, "reader is evicted", with(kReleases, [](auto& o) {
              o.ticket_count = 4, o.attempt_count = 3, o.evict = true;
            }));
  cases.add(small, "reader is evicted, TSO",
            with(kCpuTso, [](auto& o) { o.ticket_count = o.attempt_count = 3, o.evict = true; }));
  cases.add(small, "stopped reader is evicted", with(kCpu, [](auto& o) {
              o.ticket_count = 4, o.attempt_count = 3, o.evict = o.reader_stops = true;
            }));
  cases.add(small, "CPU reader, 3 slots, TSO, abandon",
            with(kCpuTso, [](auto& o) { o.slot_count = 3, o.abandon = true; }));
  cases.add(small, "host channel, CPU reader joins late, 3 slots, TSO",
            with(kHostTso, [](auto& o) { o.slot_count = 3, o.late_join = true; }));
  cases.add(small, "two CPU readers, TSO",
            with(reading(Reading::kByCpu, Reading::kByCpu),
                 [](auto& o) { o.ticket_count = 3, o.attempt_count = 2, o.store_buffers = true; }));
  cases.add(small, "CPU and stream reader",
            with(reading(Reading::kByCpu, Reading::kByStream),
                 [](auto& o) { o.ticket_count = 3, o.attempt_count = 2, o.late_join = true; }));
}

void add_full(Cases& cases) {
  const Size full = Size::kFull;
  cases.add(full, "CPU reader, TSO, 6 frames",
            with(kCpuTso, [](auto& o) { o.ticket_count = o.attempt_count = 6; }));
  cases.add(full, "two CPU readers, 3 slots",
            with(reading(Reading::kByCpu, Reading::kByCpu),
                 [](auto& o) { o.slot_count = 3, o.ticket_count = 3, o.attempt_count = 2; }));
  cases.add(full, "3 slots, two claims, any stream", with(kReleases, [](auto& o) {
              o.slot_count = 3, o.attempt_count = 2, o.two_claims = o.two_streams = true;
            }));
  cases.add(full, "3 slots, two claims, any stream, abandon", with(kReleases, [](auto& o) {
              o.slot_count = 3, o.ticket_count = 3, o.attempt_count = 2;
              o.two_claims = o.two_streams = o.abandon = true;
            }));
  cases.add(full, "3 slots, stream reader, two claims, any stream", with(kStream, [](auto& o) {
              o.slot_count = 3, o.ticket_count = o.attempt_count = 3;
              o.two_claims = o.two_streams = o.late_join = true;
            }));
  cases.add(full, "stream reader, publisher dies, deadlines", with(kStream, [](auto& o) {
              o.publisher_dies = o.deadline_releases = o.late_join = true;
            }));
  cases.add(full, "stream reader, both die", with(kStream, [](auto& o) {
              o.late_join = o.deadline_releases = true;
              o.publisher_dies = o.reader_dies = true;
            }));
  cases.add(full, "two stream readers, one dies",
            with(reading(Reading::kByStream, Reading::kByStream),
                 [](auto& o) { o.ticket_count = 3, o.attempt_count = 2, o.reader_dies = true; }));
  cases.add(full, "stream reader is evicted, deadlines", with(kStream, [](auto& o) {
              o.ticket_count = 4, o.attempt_count = 3, o.deadline_releases = o.evict = true;
            }));
  cases.add(full, "two readers, 3 slots, one is stopped and evicted",
            with(reading(Reading::kByCpu, Reading::kByCpu), [](auto& o) {
              o.slot_count = 3, o.ticket_count = 3, o.attempt_count = 1;
              o.evict = o.reader_stops = true;
            }));
  cases.add(full, "stream reader, TSO, deadlines, revoked", with(kStream, [](auto& o) {
              o.ticket_count = o.attempt_count = 3;
              o.store_buffers = o.deadline_releases = o.revoke = true;
            }));
}

void add_left_out(Cases& cases) {
  const auto lost = [&cases](Rule rule, const HazardOptions& options,
                             void (*change)(HazardOptions&)) {
    cases.leave_out(rule, with(options, change));
  };
  cases.leave_out(Rule::kTagStoreIsSequential, kCpuTso);
  cases.leave_out(Rule::kScanHoldsAfterTag, kCpu);
  cases.leave_out(Rule::kHoldStoreIsSequential, kCpuTso);
  cases.leave_out(Rule::kCheckTagAfterHold, kCpu);
  cases.leave_out(Rule::kFreshHoldNumber, kCpu);
  cases.leave_out(Rule::kReadyUnderHold, kCpu);
  lost(Rule::kTakeAfterGo, kCpu, [](auto& o) { o.late_join = true; });
  lost(Rule::kClaimOnlyComplete, kCpu, [](auto& o) { o.two_streams = true; });
  cases.leave_out(Rule::kKeepNewestComplete, kCpu);
  lost(Rule::kAbandonedWhenComplete, kCpu, [](auto& o) { o.abandon = o.two_streams = true; });
  lost(Rule::kAbandonWritesReady, kCpu, [](auto& o) { o.abandon = true; });
  lost(Rule::kAbandonOnClaimStream, kCpu, [](auto& o) { o.abandon = true; });
  lost(Rule::kAbandonKeepsTagZero, kReleases, [](auto& o) { o.abandon = true, o.slot_count = 3; });
  lost(Rule::kPublishBehindClaimStream, kCpu, [](auto& o) { o.publish_elsewhere = true; });
  lost(Rule::kBroadcastLast, kStream, [](auto& o) { o.publisher_dies = true; });
  lost(Rule::kBroadcastLast, kStream, [](auto& o) { o.two_claims = o.two_streams = true; });
  cases.leave_out(Rule::kReadyBeforeVisible, kStream);
  cases.leave_out(Rule::kHeaderBeforeNewest, kCpu);
  lost(Rule::kReadyWordPerSlot, kStream,
       [](auto& o) { o.two_claims = o.two_streams = true, o.slot_count = 3; });
  lost(Rule::kWaitOnlyFromFirstTicket, kStream, [](auto& o) { o.late_join = true; });
  lost(Rule::kWatchdogAtEnd, kStream, [](auto& o) { o.publisher_dies = true; });
  lost(Rule::kCheckGoneAfterAppend, kStream, [](auto& o) { o.publisher_dies = true; });
  lost(Rule::kHealthQuery, kStream, [](auto& o) { o.context_fails = true; });
  lost(Rule::kFlagBeforeWord, kStream, [](auto& o) { o.publisher_dies = true; });
  lost(Rule::kNoUnsignedMaximum, kStream, [](auto& o) { o.publisher_dies = true; });
  lost(Rule::kNoSignedMaximum, kStream, [](auto& o) { o.publisher_dies = true; });
  lost(Rule::kCompareExchange, kStream, [](auto& o) { o.deadline_releases = true; });
  lost(Rule::kVerdictByFlagAtDeath, kStream, [](auto& o) { o.publisher_dies = true; });
  lost(Rule::kVerdictByFlagAtDeadline, kStream, [](auto& o) { o.deadline_releases = true; });
  lost(Rule::kDropOnlyAfterExit, kReleases, [](auto& o) { o.reader_dies = true; });
  lost(Rule::kRevokedHoldsCount, kReleases, [](auto& o) { o.revoke = true; });
  lost(Rule::kRevokedHoldsCount, kReleases, [](auto& o) { o.evict = true; });
  lost(Rule::kLeaseIsOfOneHold, kCpu, [](auto& o) { o.evict = true; });
  lost(Rule::kRenewUnderTwo, kCpu, [](auto& o) { o.evict = o.reader_stops = true; });
}

}  // namespace

Suite hazard_suite() {
  Cases cases;
  add_small(cases);
  add_full(cases);
  add_left_out(cases);
  return Suite{"hazard", static_cast<int>(Rule::kCount), rule_texts(), cases.take()};
}

}  // namespace vramlink::model
