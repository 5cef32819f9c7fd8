// What the three models hand to model_main.cpp: their rules, and the cases that are to be explored.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "explorer.hpp"

namespace vramlink::model {

// A rule that can be left out: an enum value of the model that has it, and where the specification
// says it.
struct RuleText {
  int rule;
  const char* section;
  const char* text;
};

enum class Size : std::uint8_t { kSmall, kFull };

// One configuration. left_out == 0: as specified, must be clean; else a violation must be found.
struct Case {
  std::string name;
  Size size;
  int left_out;
  std::function<Outcome(Order, std::size_t state_limit)> run;
};

struct Suite {
  const char* name;
  int rule_count;  // of the enum, kNone included
  std::vector<RuleText> rules;
  std::vector<Case> cases;
};

Suite hazard_suite();
Suite queue_suite();
Suite wake_suite();

}  // namespace vramlink::model
