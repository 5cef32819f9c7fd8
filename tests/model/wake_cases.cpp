// The wake model's configurations and rules.
#include "suite.hpp"
#include "wake_scenario.hpp"

namespace vramlink::model {
namespace {

using Rule = WakeRule;
using Word = WakeWord;

Actor killable(Actor actor) {
  actor.can_be_killed = true;
  return actor;
}

Actor stoppable(Actor actor) {
  actor.can_be_stopped = true;
  return actor;
}

// A named scenario and the rules that it shows to be needed.
struct Plan {
  const char* name;
  WakeModel (*build)(const Scenario&);
  std::vector<Rule> rules;
};

using Memory = std::vector<std::pair<Word, int>>;

std::vector<Plan> subscriber_plans() {
  return {
      {"subscriber, publisher of two frames",
       [](const Scenario& s) {
         return WakeModel({s.subscriber(2), s.publisher(2)}, {});
       },
       {Rule::kBellStoreIsSequential, Rule::kNewestStoreIsSequential, Rule::kRecheckNewest,
        Rule::kPublishRings}},
      {"subscriber, two publishing threads",
       [](const Scenario& s) {
         return WakeModel({s.subscriber(2), s.publishing_thread(), s.publishing_thread()},
                          Memory{{Word::kMutex, 1}});
       },
       {}},
      {"subscriber, publisher killed anywhere",
       [](const Scenario& s) {
         return WakeModel({s.subscriber(3), killable(s.publisher(2)),
                           s.reactor(Word::kGone, Rule::kGoneRings, Rule::kReactorAlwaysWakes)},
                          {});
       },
       {}},
      {"subscriber, publisher of one frame killed anywhere",
       [](const Scenario& s) {
         return WakeModel({s.subscriber(1), killable(s.publisher(1)),
                           s.reactor(Word::kGone, Rule::kGoneRings, Rule::kReactorAlwaysWakes)},
                          {});
       },
       {Rule::kRecheckGone, Rule::kGoneRings, Rule::kReactorAlwaysWakes}},
      {"subscriber interrupted, publisher stopped anywhere",
       [](const Scenario& s) {
         return WakeModel(
             {s.subscriber(2), stoppable(s.publisher(2)),
              s.reactor(Word::kInterrupt, Rule::kInterruptRings, Rule::kInterruptAlwaysWakes)},
             {});
       },
       {Rule::kRecheckInterrupt, Rule::kInterruptRings, Rule::kInterruptAlwaysWakes}},
      {"subscriber, publisher closes",
       [](const Scenario& s) {
         return WakeModel({s.subscriber(2), s.publisher(1, true)}, {});
       },
       {Rule::kRecheckState, Rule::kCloseRings}},
      {"subscriber, READY comes late",
       [](const Scenario& s) {
         return WakeModel({s.subscriber(1, true), s.publisher(1), s.stream(Word::kReady)}, {});
       },
       {Rule::kNapUntilReady}},
  };
}

std::vector<Plan> claim_plans() {
  return {
      {"claim, two subscribers release",
       [](const Scenario& s) {
         return WakeModel({s.claim({{Word::kReleased0, Word::kReleased1}, {}}),
                           s.releasing(Word::kReleased0, Word::kFreeBell0),
                           s.releasing(Word::kReleased1, Word::kFreeBell1)},
                          {});
       },
       {Rule::kWaitersIsSequential, Rule::kWaitersBeforeScan, Rule::kBellsBeforeScan,
        Rule::kReleaseIsSequential, Rule::kReleaseRings}},
      {"two claims, one subscriber releases two slots",
       [](const Scenario& s) {
         return WakeModel({s.claim({{Word::kReleased0}, {}}), s.claim({{Word::kReleased1}, {}}),
                           s.releasing(Word::kReleased0, Word::kFreeBell0, 2)},
                          {});
       },
       {Rule::kWaitersIsCount}},
      {"claim, an attempt is given up",
       [](const Scenario& s) {
         return WakeModel({s.claim({{Word::kReleased0}, {}}), s.giving_up()},
                          Memory{{Word::kReleased0, 1}});
       },
       {Rule::kGiveUpRings}},
      {"claim under block, a cursor moves",
       [](const Scenario& s) {
         return WakeModel({s.claim({{Word::kCursor}, {}}), s.moving_cursor()}, {});
       },
       {Rule::kCursorIsSequential, Rule::kCursorRings}},
      {"claim, a stream releases",
       [](const Scenario& s) {
         return WakeModel({s.claim({{Word::kReleased0}, {}, true}), s.releasing_by_stream(),
                           s.stream(Word::kReleased0)},
                          {});
       },
       {Rule::kStreamReleaseRings, Rule::kStreamFlagBeforeRing, Rule::kStreamFlagAfterBells,
        Rule::kNapWhileStreamsRelease}},
      {"claim, a slot is incomplete",
       [](const Scenario& s) {
         return WakeModel({s.claim({{Word::kReady}, {}, false, true}), s.stream(Word::kReady)},
                          Memory{{Word::kEnqueued, 1}});
       },
       {Rule::kNapWhileIncomplete, Rule::kNapDecidedByScan}},
      {"claim, the holder is killed anywhere",
       [](const Scenario& s) {
         return WakeModel(
             {s.claim({{Word::kReleased0}, {Word::kMember}}),
              killable(s.releasing(Word::kReleased0, Word::kFreeBell0)), s.publisher_reactor()},
             {});
       },
       {Rule::kLocalBellBeforeScan, Rule::kMembershipBumps, Rule::kMembershipBeforeBump}},
      {"claim, another thread closes",
       [](const Scenario& s) {
         return WakeModel({s.claim({{Word::kReleased0}, {Word::kState}}), s.closing()}, {});
       },
       {Rule::kCloseBumps}},
  };
}

std::vector<RuleText> rule_texts() {
  const auto text = [](Rule rule, const char* section, const char* words) {
    return RuleText{static_cast<int>(rule), section, words};
  };
  return {
      text(Rule::kBellStoreIsSequential, "7 subscriber", "bell = 1 is seq_cst"),
      text(Rule::kNewestStoreIsSequential, "7 ring", "newest is stored seq_cst"),
      text(Rule::kRecheckNewest, "7 subscriber", "newest is read again after bell = 1"),
      text(Rule::kRecheckGone, "7 subscriber", "gone is read after bell = 1"),
      text(Rule::kRecheckInterrupt, "7 subscriber", "interrupt is read after bell = 1"),
      text(Rule::kRecheckState, "7 subscriber", "state is read after bell = 1"),
      text(Rule::kPublishRings, "7 ring", "publish rings"),
      text(Rule::kCloseRings, "7 ring", "a change of state rings"),
      text(Rule::kGoneRings, "7 ring", "the reactor rings after gone"),
      text(Rule::kInterruptRings, "7 ring", "the reactor rings after an interrupt"),
      text(Rule::kReactorAlwaysWakes, "7 ring", "after gone the wake does not depend on the bell"),
      text(Rule::kInterruptAlwaysWakes, "7 ring",
           "after an interrupt the wake does not depend on the bell"),
      text(Rule::kNapUntilReady, "7", "naps until a submitted frame is READY"),
      text(Rule::kWaitersIsSequential, "7 claim", "claim_waiters is raised seq_cst"),
      text(Rule::kWaitersBeforeScan, "7 claim", "claim_waiters is raised before the scan"),
      text(Rule::kWaitersIsCount, "7 claim", "claim_waiters is a count"),
      text(Rule::kBellsBeforeScan, "7 claim", "free bells are loaded before the scan"),
      text(Rule::kLocalBellBeforeScan, "7 claim", "the local word is loaded before the scan"),
      text(Rule::kReleaseIsSequential, "6 release", "released is stored seq_cst"),
      text(Rule::kReleaseRings, "6 release", "release rings"),
      text(Rule::kGiveUpRings, "6 give_up", "give_up rings"),
      text(Rule::kCursorIsSequential, "6 take", "the cursor is stored seq_cst"),
      text(Rule::kCursorRings, "6 take", "take rings"),
      text(Rule::kStreamReleaseRings, "6 release", "release by stream rings"),
      text(Rule::kStreamFlagBeforeRing, "6 release", "flag 1 is set before the ring"),
      text(Rule::kStreamFlagAfterBells, "7 claim", "flag 1 is read after the bells"),
      text(Rule::kNapWhileStreamsRelease, "7 claim", "naps while a subscriber releases by stream"),
      text(Rule::kNapWhileIncomplete, "7 claim", "naps while a slot is incomplete"),
      text(Rule::kNapDecidedByScan, "7 claim", "incomplete is what the scan saw"),
      text(Rule::kMembershipBumps, "7 claim", "a membership change wakes claims"),
      text(Rule::kMembershipBeforeBump, "7 claim", "the membership changes before the wake"),
      text(Rule::kCloseBumps, "7 claim", "close wakes claims"),
  };
}

Case make_case(const std::string& name, const Plan& plan, Rule left_out) {
  const auto build = plan.build;
  return Case{name, Size::kSmall, static_cast<int>(left_out),
              [build, left_out](Order order, std::size_t state_limit) {
                return explore(build(Scenario(left_out)), order, state_limit);
              }};
}

}  // namespace

Suite wake_suite() {
  Suite suite{"wake", static_cast<int>(Rule::kCount), rule_texts(), {}};
  std::vector<Plan> plans = subscriber_plans();
  for (const Plan& plan : claim_plans()) plans.push_back(plan);
  for (const Plan& plan : plans) suite.cases.push_back(make_case(plan.name, plan, Rule::kNone));
  for (const Plan& plan : plans) {
    for (Rule rule : plan.rules) {
      for (const RuleText& text : suite.rules) {
        if (text.rule == static_cast<int>(rule))
          suite.cases.push_back(make_case(text.text, plan, rule));
      }
    }
  }
  return suite;
}

}  // namespace vramlink::model
