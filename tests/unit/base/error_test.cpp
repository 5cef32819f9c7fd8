#include <gtest/gtest.h>

#include <cerrno>
#include <string>
#include <type_traits>

#include <vramlink/result.hpp>

#include "base/error_table.hpp"
#include "base/try.hpp"

namespace vramlink {
namespace {

TEST(ErrorTable, NamesEachCodeOnceInOrder) {
  std::uint16_t last = 0;
  for (const base::CodeRow& row : base::code_table()) {
    EXPECT_GT(static_cast<std::uint16_t>(row.code), last) << row.name;
    last = static_cast<std::uint16_t>(row.code);
    EXPECT_EQ(name(row.code), row.name);
    EXPECT_EQ(exit_code(row.code), row.exit_code);
    EXPECT_FALSE(row.phrase.empty() || row.meaning.empty() || row.next.empty()) << row.name;
  }
  EXPECT_EQ(base::code_table().size(), 24U);
}

TEST(ErrorTable, GivesTheExitCodesOfTheCommand) {
  EXPECT_EQ(exit_code(Code::empty), 1);
  EXPECT_EQ(exit_code(Code::corrupt), 1);
  EXPECT_EQ(exit_code(Code::invalid_argument), 2);
  EXPECT_EQ(exit_code(Code::not_found), 3);
  EXPECT_EQ(exit_code(Code::timed_out), 4);
  EXPECT_EQ(exit_code(Code::no_driver), 5);
  EXPECT_EQ(exit_code(Code::no_device), 5);
  EXPECT_EQ(exit_code(Code::unsupported), 5);
  EXPECT_EQ(exit_code(Code::peer_gone), 6);
  EXPECT_EQ(exit_code(Code::permission_denied), 7);
  EXPECT_EQ(exit_code(Code::interrupted), 130);
}

TEST(ErrorTable, KnowsWhatItDoesNotKnow) {
  EXPECT_EQ(name(static_cast<Code>(0)), "unknown");
  EXPECT_EQ(name(static_cast<Code>(9999)), "unknown");
  EXPECT_EQ(exit_code(static_cast<Code>(9999)), 1);
}

TEST(Error, OutcomeHasNoFacts) {
  const Error error(Code::timed_out, "receive");
  EXPECT_EQ(error.facts(), nullptr);
  EXPECT_EQ(error.code(), Code::timed_out);
  EXPECT_EQ(error.origin(), Origin::vramlink);
  EXPECT_EQ(error.native(), 0);
  EXPECT_EQ(to_string(error), "receive: timed out");
}

TEST(Error, RemembersItsPlace) {
  const std::uint32_t line = __LINE__ + 1;
  const Error error(Code::empty, "receive");
  EXPECT_EQ(error.line(), line);
  EXPECT_NE(std::string(error.file()).find("error_test.cpp"), std::string::npos);
}

TEST(Error, SaysWhatOnWhatWhyAndWhatToDo) {
  const Error error = Error(Code::permission_denied, "open channel")
                          .about("cam0")
                          .because("owner uid 1000, mode 0600")
                          .remedy("run both sides as one user")
                          .from(Origin::os, EACCES);
  EXPECT_EQ(to_string(error),
            "open channel 'cam0': permission denied: owner uid 1000, mode 0600 (errno 13 EACCES). "
            "Try: run both sides as one user");
  EXPECT_EQ(error.origin(), Origin::os);
  EXPECT_EQ(error.native(), EACCES);
}

TEST(Error, TakesTheSystemsWordsWithoutAReason) {
  EXPECT_EQ(to_string(Error(Code::os, "create memfd").from(Origin::os, EMFILE)),
            "create memfd: system call failed: Too many open files (errno 24 EMFILE)");
  EXPECT_EQ(to_string(Error(Code::os, "create memfd").from(Origin::os, 100000)),
            "create memfd: system call failed (errno 100000)");
  EXPECT_EQ(to_string(Error(Code::driver, "cuMemCreate").from(Origin::driver, 2)),
            "cuMemCreate: driver call failed (CUresult 2)");
}

TEST(Error, ListsPeerAndDevice) {
  std::array<std::uint8_t, 16> uuid{};
  uuid[0] = 0xab;
  const Error error = Error(Code::wrong_device, "attach")
                          .peer(42)
                          .device(uuid)
                          .numbers(7, 8)
                          .from(Origin::driver, 3);
  EXPECT_EQ(to_string(error),
            "attach: wrong device (CUresult 3, peer pid 42, "
            "GPU-ab000000-0000-0000-0000-000000000000)");
  EXPECT_EQ(error.facts()->numbers[0], 7U);
  EXPECT_EQ(error.facts()->numbers[1], 8U);
  EXPECT_EQ(to_string(Error(Code::corrupt, "read").peer(42)), "read: corrupt (peer pid 42)");
  EXPECT_EQ(to_string(Error(static_cast<Code>(999), "read")), "read: unknown error");
}

TEST(Error, CopiesShareFactsUntilOneChanges) {
  const Error first = Error(Code::not_found, "open").about("a");
  const Error copy = first;  // NOLINT(performance-unnecessary-copy-initialization)
  EXPECT_EQ(copy.facts(), first.facts());
  const Error changed = Error(first).about("b");
  EXPECT_EQ(first.facts()->subject, "a");
  EXPECT_EQ(changed.facts()->subject, "b");
}

TEST(Exception, SaysTheLineOfItsError) {
  const Exception exception(Error(Code::full, "claim"));
  EXPECT_STREQ(exception.what(), "claim: no slot is free");
  EXPECT_EQ(exception.error().code(), Code::full);
  static_assert(std::is_nothrow_copy_constructible_v<Exception>);
}

TEST(Result, HoldsAValueOrAnError) {
  Result<int> good = 5;
  EXPECT_TRUE(good);
  EXPECT_EQ(good.value(), 5);
  EXPECT_FALSE(good.failed_with(Code::empty));
  EXPECT_EQ(std::move(good).value_or(6), 5);
  Result<int> bad = Error(Code::empty, "receive");
  EXPECT_FALSE(bad.has_value());
  EXPECT_TRUE(bad.failed_with(Code::empty));
  EXPECT_FALSE(bad.failed_with(Code::full));
  EXPECT_EQ(std::move(bad).value_or(6), 6);
  EXPECT_THROW((void)Result<int>(Error(Code::empty, "receive")).value(), Exception);
}

TEST(ResultDeathTest, SaysWhichErrorNobodyAskedFor) {
  Result<std::string> bad = Error(Code::peer_gone, "receive frame");
  EXPECT_DEATH(static_cast<void>(*bad), "receive frame");
  EXPECT_DEATH(static_cast<void>(bad->size()), "receive frame");
  const Result<std::string> good = std::string("x");
  EXPECT_DEATH(static_cast<void>(good.error()), "of a Result that succeeded");
  const Result<void> done;
  EXPECT_DEATH(static_cast<void>(done.error()), "of a Result that succeeded");
}

// A name for what a temporary Result held must not outlive it.
static_assert(std::is_same_v<decltype(std::declval<Result<std::string>>().value()), std::string>);
static_assert(std::is_same_v<decltype(*std::declval<Result<std::string>>()), std::string>);

TEST(Result, OfVoidHoldsSuccessOrAnError) {
  const Result<void> good;
  EXPECT_TRUE(good);
  EXPECT_FALSE(good.failed_with(Code::empty));
  EXPECT_NO_THROW(good.value());
  const Result<void> bad = Error(Code::full, "claim");
  EXPECT_TRUE(bad.failed_with(Code::full));
  EXPECT_THROW(bad.value(), Exception);
}

Result<int> halved(int value) {
  if (value % 2 != 0) return Error(Code::invalid_argument, "halve");
  return value / 2;
}

Result<int> quartered(int value) {
  const int half = VRAMLINK_TRY(halved(value));
  return VRAMLINK_TRY(halved(half));
}

Result<void> checked_even(int value) {
  VRAMLINK_CHECK(halved(value));
  return {};
}

TEST(Try, PassesValuesAndErrorsOn) {
  EXPECT_EQ(quartered(12).value(), 3);
  EXPECT_TRUE(quartered(6).failed_with(Code::invalid_argument));
  EXPECT_TRUE(quartered(3).failed_with(Code::invalid_argument));
  EXPECT_TRUE(checked_even(2));
  EXPECT_TRUE(checked_even(1).failed_with(Code::invalid_argument));
}

}  // namespace
}  // namespace vramlink
