#include "step_table.hpp"

#include <algorithm>
#include <array>

namespace vramlink::test {
namespace {

constexpr auto kPublisher = Victim::publisher;
constexpr auto kSubscriber = Victim::subscriber;

constexpr Step of_eviction(const char* name, Victim victim) {
  return {name, victim, 2, false, false, false, true};
}

/// Under every policy.
constexpr Step also_evicting(Step step) {
  step.also_evict = true;
  return step;
}

constexpr std::array kSteps{
    Step{"open.locked", kPublisher, 3},
    Step{"open.bound", kPublisher, 3},
    Step{"open.listening", kPublisher, 3},
    Step{"attach.hello_checked", kPublisher, 4},
    Step{"attach.offered", kPublisher, 4},
    Step{"attach.sealed", kPublisher, 4},
    Step{"attach.page_registered", kPublisher, 4, false, false, true},
    also_evicting(Step{"attach.member", kPublisher, 4}),
    Step{"attach.go_sent", kPublisher, 4},
    also_evicting(Step{"claim.before_tag", kPublisher, 80}),
    also_evicting(Step{"claim.tag_cleared", kPublisher, 80}),
    Step{"claim.done", kPublisher, 80},
    also_evicting(Step{"claim.waiting", kPublisher, 3}),
    Step{"publish.before_ready", kPublisher, 80},
    Step{"publish.ready_enqueued", kPublisher, 80},
    Step{"publish.header_written", kPublisher, 80},
    Step{"publish.tag_set", kPublisher, 80},
    Step{"publish.recent_set", kPublisher, 80},
    also_evicting(Step{"publish.newest_set", kPublisher, 80}),
    Step{"wake.bells_taken", kPublisher, 3},
    Step{"abandon.before_ready", kPublisher, 12},
    Step{"abandon.done", kPublisher, 12},
    also_evicting(Step{"detach.removed", kPublisher, 2}),
    Step{"close.last_sequence_set", kPublisher, 3},
    Step{"close.state_set", kPublisher, 3},
    Step{"close.name_free", kPublisher, 3},
    Step{"copy.before_submit", kPublisher, 80, false, false, true},
    Step{"copy.submitted", kPublisher, 80, false, false, true},
    Step{"copy.prepared", kPublisher, 4, false, false, true},
    Step{"resize.built", kPublisher, 3},
    Step{"resize.announced", kPublisher, 3},
    Step{"resize.last_sequence_set", kPublisher, 3},
    also_evicting(Step{"resize.state_set", kPublisher, 3}),
    Step{"resize.in_place", kPublisher, 3},
    Step{"detach.generation", kPublisher, 3},
    of_eviction("evict.quarantined", kPublisher),
    of_eviction("evict.flag_set", kPublisher),
    of_eviction("evict.told", kPublisher),
    of_eviction("renew.built", kPublisher),
    of_eviction("renew.announced", kPublisher),
    of_eviction("renew.in_place", kPublisher),
    Step{"attach.hello_sent", kSubscriber, 4},
    also_evicting(Step{"attach.mapped_all", kSubscriber, 4}),
    Step{"attach.seals_seen", kSubscriber, 4},
    Step{"attach.pages_registered", kSubscriber, 4, false, false, true},
    Step{"take.before_hold", kSubscriber, 60},
    also_evicting(Step{"take.held", kSubscriber, 60}),
    // Only a publisher that overwrites unread frames comes between the look and the hold.
    Step{"take.given_up", kSubscriber, 3, true, false},
    also_evicting(Step{"take.checked", kSubscriber, 60}),
    Step{"take.cursor_set", kSubscriber, 60},
    Step{"follow.moving", kSubscriber, 2},
    Step{"follow.detached", kSubscriber, 2},
    Step{"receive.before_bell", kSubscriber, 10},
    also_evicting(Step{"receive.asleep", kSubscriber, 10}),
    also_evicting(Step{"leave.said", kSubscriber, 2}),
    of_eviction("revoked.heard", kSubscriber),
    Step{"receive.wait_listed", kSubscriber, 20, false, false, true},
    Step{"receive.wait_enqueued", kSubscriber, 20, false, false, true},
    Step{"watchdog.flag_set", kSubscriber, 2, false, false, true},
    Step{"watchdog.word_stored", kSubscriber, 2, false, false, true},
    Step{"release.before_enqueue", kSubscriber, 20, false, false, true},
    Step{"release.enqueued", kSubscriber, 20, false, false, true},
    Step{"release.before_store", kSubscriber, 60},
    also_evicting(Step{"release.stored", kSubscriber, 60}),
    // Rung for a publisher that waits for a slot.
    Step{"release.bell_rung", kSubscriber, 5, false, true},
};
static_assert(kSteps.size() <= kStepCountMax);

}  // namespace

std::span<const Step> steps() noexcept { return kSteps; }

int index_of_step(std::string_view name) noexcept {
  const auto found = std::find_if(kSteps.begin(), kSteps.end(),
                                  [name](const Step& step) { return step.name == name; });
  return found == kSteps.end() ? -1 : static_cast<int>(found - kSteps.begin());
}

}  // namespace vramlink::test
