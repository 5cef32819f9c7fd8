#include "base/log.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/log_relay.hpp"
#include "base/log_settings.hpp"

namespace vramlink {
namespace {

using base::LogSettings;
using base::parse_log_settings;

TEST(LogSettings, DefaultIsWarnToStderr) {
  const LogSettings settings = parse_log_settings("");
  EXPECT_EQ(settings.level, LogLevel::warn);
  EXPECT_FALSE(settings.json);
  EXPECT_EQ(settings.file, "");
  EXPECT_EQ(settings.mistakes, "");
}

TEST(LogSettings, ReadsEveryLevel) {
  for (const auto level :
       {LogLevel::off, LogLevel::warn, LogLevel::info, LogLevel::debug, LogLevel::trace}) {
    EXPECT_EQ(parse_log_settings(base::name(level)).level, level);
  }
  EXPECT_EQ(base::name(static_cast<LogLevel>(9)), "unknown");
}

TEST(LogSettings, ReadsPartsInAnyOrder) {
  const LogSettings settings = parse_log_settings("json,file=a b=c,debug");
  EXPECT_EQ(settings.level, LogLevel::debug);
  EXPECT_TRUE(settings.json);
  EXPECT_EQ(settings.file, "a b=c");
}

TEST(LogSettings, CollectsMistakes) {
  const LogSettings settings = parse_log_settings("loud,,file=,info,");
  EXPECT_EQ(settings.level, LogLevel::info);
  EXPECT_EQ(settings.mistakes, "loud,file=");
}

base::LogLine line(std::string_view subject, std::string_view text) {
  return {LogLevel::info, 1'700'000'000'123'456'789, 42'000'001'999, 77, subject, text};
}

TEST(LogLine, IsForPeople) {
  EXPECT_EQ(base::text_line(line("cam0", "attached")),
            "2023-11-14T22:13:20.123456Z 42.000001 vramlink[77] info cam0: attached");
  EXPECT_EQ(base::sink_line("", "attached"), "attached");
}

TEST(LogLine, IsOneJsonObject) {
  EXPECT_EQ(base::json_line(line("cam0", "say \"\\\"")),
            "{\"time\":\"2023-11-14T22:13:20.123456Z\",\"monotonic_ns\":42000001999,\"pid\":77,"
            "\"level\":\"info\",\"subject\":\"cam0\",\"text\":\"say \\\"\\\\\\\"\"}");
}

TEST(LogLine, KeepsControlCharactersOut) {
  EXPECT_EQ(base::sink_line("a\nb", "\x1b[2J\x7f"), "a\\x0ab: \\x1b[2J\\x7f");
  EXPECT_NE(base::json_line(line("a\nb", "\x1b")).find("a\\u000ab"), std::string::npos);
}

TEST(LogLine, KeepsOnlyValidUtf8) {
  const std::string valid = "\u00e4\u20ac\U0001F600\U0010FFFF";
  EXPECT_EQ(base::sink_line("", valid), valid);
  for (const char* bad : {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x80\x80", "\xed\xa0\x80",
                          "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff"}) {
    EXPECT_EQ(base::sink_line("", bad), std::string(std::string_view(bad).size(), '?'));
  }
  EXPECT_EQ(base::sink_line("", "\xe2\x82"), "??");
  EXPECT_NE(base::json_line(line("", "\xff")).find("\\ufffd"), std::string::npos);
}

struct Captured {
  std::vector<std::string> lines;
  static void sink(LogLevel, std::string_view text, void* user) {
    static_cast<Captured*>(user)->lines.emplace_back(text);
  }
};

TEST(Log, GivesASinkWhatItsLevelAllows) {
  Captured captured;
  set_log_sink(&Captured::sink, &captured, LogLevel::info);
  EXPECT_TRUE(base::log_enabled(LogLevel::info));
  EXPECT_FALSE(base::log_enabled(LogLevel::debug));
  base::log(LogLevel::info, "cam0", "one");
  base::log(LogLevel::debug, "cam0", "two");
  base::log(LogLevel::off, "cam0", "three");
  base::report_failure("close", Error(Code::os, "close").about("fd 3"));
  set_log_sink(&Captured::sink, &captured, LogLevel::off);
  base::log(LogLevel::warn, "cam0", "four");
  base::report_failure("close", Error(Code::os, "close"));
  set_log_sink(nullptr, nullptr, LogLevel::trace);
  EXPECT_EQ(captured.lines,
            (std::vector<std::string>{"cam0: one", "close: close 'fd 3': system call failed"}));
}

TEST(Log, GivesAThreadsLinesToItsHandoffAndNotToTheSink) {
  Captured sink;
  Captured handed;
  set_log_sink(&Captured::sink, &sink, LogLevel::info);
  std::thread([&] {
    base::set_thread_log_handoff(
        [](const base::LogLine& taken, void* user) {
          EXPECT_GT(taken.monotonic_ns, 0);
          Captured::sink(taken.level, base::sink_line(taken.subject, taken.text), user);
        },
        &handed);
    base::log(LogLevel::info, "cam0", "one");
    base::log(LogLevel::debug, "cam0", "below the level");
    base::set_thread_log_handoff(nullptr, nullptr);
    base::log(LogLevel::info, "cam0", "two");
  }).join();
  base::log(LogLevel::info, "cam0", "another thread's");
  set_log_sink(nullptr, nullptr, LogLevel::off);
  EXPECT_EQ(handed.lines, std::vector<std::string>{"cam0: one"});
  EXPECT_EQ(sink.lines, (std::vector<std::string>{"cam0: two", "cam0: another thread's"}));
}

class LogRelayTest : public testing::Test {
 protected:
  LogRelayTest() { set_log_sink(&Captured::sink, &captured_, LogLevel::info); }
  LogRelayTest(const LogRelayTest&) = delete;
  LogRelayTest& operator=(const LogRelayTest&) = delete;
  ~LogRelayTest() override { set_log_sink(nullptr, nullptr, LogLevel::off); }
  static base::LogLine at(std::int64_t monotonic_ns, std::string_view text) {
    return {LogLevel::info, 0, monotonic_ns, 77, "cam0", text};
  }

  Captured captured_;
};

TEST_F(LogRelayTest, AsksOnceForAWriter) {
  base::LogRelay relay;
  EXPECT_TRUE(relay.take(at(1, "one")));
  EXPECT_FALSE(relay.take(at(2, "two")));
  EXPECT_TRUE(captured_.lines.empty());
  relay.write_waiting();
  EXPECT_EQ(captured_.lines, (std::vector<std::string>{"cam0: one", "cam0: two"}));
  EXPECT_TRUE(relay.take(at(3, "three")));
}

TEST_F(LogRelayTest, CountsRepeatsWithinASecond) {
  constexpr std::int64_t kStart = 5'000'000'000;
  {
    base::LogRelay relay;
    for (int i = 0; i < 38; ++i) static_cast<void>(relay.take(at(kStart + i, "again")));
    static_cast<void>(relay.take(at(kStart + 50, "other")));
    static_cast<void>(relay.take(at(kStart + base::LogRelay::kRepeatNs, "again")));
    static_cast<void>(relay.take(at(kStart + base::LogRelay::kRepeatNs + 1, "again")));
  }
  EXPECT_EQ(captured_.lines,
            (std::vector<std::string>{"cam0: again", "cam0: other", "cam0: again ... 37 more",
                                      "cam0: again", "cam0: again ... 1 more"}));
}

TEST_F(LogRelayTest, TellsTheCountOfALineThatOthersPushOut) {
  base::LogRelay relay;
  static_cast<void>(relay.take(at(1, "again")));
  static_cast<void>(relay.take(at(2, "again")));
  for (int i = 0; i < 8; ++i) static_cast<void>(relay.take(at(3 + i, std::to_string(i))));
  relay.write_waiting();
  ASSERT_EQ(captured_.lines.size(), 10U);
  EXPECT_EQ(captured_.lines[8], "cam0: again ... 1 more");
  EXPECT_EQ(captured_.lines[9], "cam0: 7");
}

TEST_F(LogRelayTest, DropsWhatIsTooMuchAndSaysHowMuch) {
  base::LogRelay relay;
  for (std::size_t i = 0; i < base::LogRelay::kWaitingMax + 3; ++i) {
    static_cast<void>(relay.take(at(static_cast<std::int64_t>(i) + 1, std::to_string(i))));
  }
  relay.write_waiting();
  EXPECT_EQ(captured_.lines.size(), base::LogRelay::kWaitingMax);
  static_cast<void>(relay.take(at(1'000, "passes")));
  relay.write_waiting();
  EXPECT_EQ(captured_.lines.back(), "cam0: passes (3 lines before were dropped: the sink is slow)");
}

TEST(Log, SurvivesASinkThatThrows) {
  set_log_sink([](LogLevel, std::string_view, void*) { throw std::runtime_error("no"); }, nullptr,
               LogLevel::trace);
  base::log(LogLevel::warn, "cam0", "one");
  base::log(LogLevel::warn, "cam0", "the lock is free again");
  set_log_sink(nullptr, nullptr, LogLevel::off);
}

TEST(Log, CallsOneSinkAtATimeAndNoneAfterItsReplacement) {
  // Plain numbers: a call that overlaps another, or comes late, is a race that tsan reports.
  int first = 0;
  int second = 0;
  const LogSink count = [](LogLevel, std::string_view, void* user) { ++*static_cast<int*>(user); };
  set_log_sink(count, &first, LogLevel::warn);
  std::vector<std::thread> writers;
  writers.reserve(4);
  for (int i = 0; i < 4; ++i) {
    writers.emplace_back([] {
      for (int line = 0; line < 500; ++line) base::log(LogLevel::warn, "cam0", "line");
    });
  }
  set_log_sink(count, &second, LogLevel::warn);
  const int first_after_replacement = first;
  for (std::thread& writer : writers) writer.join();
  set_log_sink(nullptr, nullptr, LogLevel::off);
  EXPECT_EQ(first, first_after_replacement);
  EXPECT_EQ(first + second, 4 * 500);
}

// VRAMLINK_LOG is read once in a process, so each case has its own.
class LogDeathTest : public testing::Test {
 protected:
  void SetUp() override { testing::FLAGS_gtest_death_test_style = "threadsafe"; }

  [[noreturn]] static void log_under(const char* settings) {
    ::setenv("VRAMLINK_LOG", settings, 1);
    base::log(LogLevel::warn, "cam0", "a warning");
    base::log(LogLevel::info, "cam0", "a remark");
    std::exit(base::log_enabled(LogLevel::info) ? 10 : 11);
  }
};

TEST_F(LogDeathTest, DefaultWritesWarningsToStderr) {
  EXPECT_EXIT(log_under(""), testing::ExitedWithCode(11),
              "^[^\n]*vramlink.[0-9]+. warn cam0: a warning\n$");
}

TEST_F(LogDeathTest, LevelsLetMoreThrough) {
  EXPECT_EXIT(log_under("info,json"), testing::ExitedWithCode(10), "warn.*a warning.*\n.*a remark");
}

TEST_F(LogDeathTest, OffWritesNothing) {
  EXPECT_EXIT(log_under("off"), testing::ExitedWithCode(11), "^$");
}

TEST_F(LogDeathTest, MistakesAreReported) {
  EXPECT_EXIT(log_under("loud"), testing::ExitedWithCode(11), "not understood: loud");
}

TEST_F(LogDeathTest, FileTakesTheLines) {
  const std::string path = testing::TempDir() + "vramlink_log_test.txt";
  std::filesystem::remove(path);
  EXPECT_EXIT(log_under(("info,file=" + path).c_str()), testing::ExitedWithCode(10), "^$");
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  EXPECT_NE(text.find("a warning\n"), std::string::npos) << text;
  EXPECT_NE(text.find("a remark\n"), std::string::npos) << text;
  std::filesystem::remove(path);
}

TEST_F(LogDeathTest, FileThatCannotBeOpenedFallsBackToStderr) {
  EXPECT_EXIT(log_under("file=/nonexistent/folder/log"), testing::ExitedWithCode(11),
              "open log file '/nonexistent/folder/log'.*ENOENT.*\n.*a warning");
}

}  // namespace
}  // namespace vramlink
