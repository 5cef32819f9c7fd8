// The table of steps and the sources name the same ones.
#include "step_table.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "survivor.hpp"

namespace vramlink::test {
namespace {

std::set<std::string> steps_in(const std::filesystem::path& folder) {
  static const std::regex kStep(R"re(VRAMLINK_STEP\("([^"]*)"\))re");
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".cpp" && entry.path().extension() != ".hpp") continue;
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    for (std::sregex_iterator match(text.begin(), text.end(), kStep), end; match != end; ++match) {
      names.insert((*match)[1].str());
    }
  }
  return names;
}

TEST(StepTable, NamesEveryStepOfTheSourcesAndNoOther) {
  std::set<std::string> listed;
  for (const Step& step : steps()) {
    EXPECT_TRUE(listed.insert(step.name).second) << step.name << " is listed twice";
  }
  EXPECT_EQ(listed, steps_in(std::filesystem::path(VRAMLINK_SOURCE_DIR) / "src"));
}

// Where time is short no step may be left out, and no mode either.
TEST(StepTable, EveryStepIsInTheRotatedCasesOnceAndEveryModeOfBothVictims) {
  for (const Victim victim : {Victim::publisher, Victim::subscriber}) {
    std::multiset<std::string> expected;
    for (const Step& step : steps()) {
      if (step.victim == victim) expected.insert(step.name);
    }
    std::multiset<std::string> rotated;
    std::set<Mode> modes;
    std::vector<StepCase> cases = rotated_cases_of(victim);
    for (const StepCase& one : rotated_stream_cases_of(victim)) {
      EXPECT_TRUE(one.step.only_stream) << one.step.name;
      cases.push_back(one);
    }
    for (const StepCase& one : cases) {
      rotated.insert(one.step.name);
      modes.insert(one.mode);
      EXPECT_FALSE(one.step.only_block && one.mode != Mode::block_queue) << one.step.name;
      EXPECT_FALSE(one.step.only_drop && one.mode == Mode::block_queue) << one.step.name;
      const bool may_evict = one.step.only_evict || one.step.also_evict;
      EXPECT_TRUE(may_evict || one.mode != Mode::evict_latest) << one.step.name;
      EXPECT_TRUE(!one.step.only_evict || one.mode == Mode::evict_latest) << one.step.name;
    }
    EXPECT_EQ(rotated, expected);
    EXPECT_EQ(modes.size(), 4U);
  }
}

}  // namespace
}  // namespace vramlink::test
