// doctor: what was found, and how it is shown.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <vramlink/error.hpp>

#include "json.hpp"

namespace vramlink::cli::doctor {

enum class Verdict : std::uint8_t {
  pass,
  warn,  ///< works, with a loss that the text names
  fail,  ///< does not work though it should
  skip   ///< could not be looked at, or is not there; the text says why
};

/// "pass", "warn", "fail" or "skip".
[[nodiscard]] std::string_view name(Verdict verdict) noexcept;

struct Check {
  std::string id;  ///< one word, the same in every language and version: "files"
  Verdict verdict = Verdict::pass;
  std::string text;    ///< one clause: what was found
  std::string remedy;  ///< what to do, a command where there is one; empty for a pass
};

/// A failed check that says what an error says.
[[nodiscard]] Check failed_check(std::string id, const Error& error);

/// Checks in the order in which they were made, under headings. Each line is printed when its check
/// is done: one that hangs is the one after the last line.
class Findings {
 public:
  /// `json`: nothing is printed until finish(). `strict`: a warning fails, too.
  Findings(bool json, bool strict) noexcept : json_(json), strict_(strict) {}

  /// What follows is about `subject`: "host", or a device's name as the library writes it.
  void begin(std::string subject, const std::string& title);
  void add(Check check);
  /// The last line, or the JSON object with `ready` in it. Returns the exit code.
  [[nodiscard]] int finish(const std::string& ready_text, JsonObject ready);

  [[nodiscard]] std::uint64_t count(Verdict verdict) const noexcept;
  /// Whether `id` of the present subject is there and did not fail.
  [[nodiscard]] bool usable(std::string_view id) const noexcept;

 private:
  struct Entry {
    std::string subject;
    Check check;
  };
  void print_text(const std::string& text);

  bool json_;
  bool strict_;
  bool broken_pipe_ = false;
  std::string subject_;
  std::vector<Entry> entries_;
};

}  // namespace vramlink::cli::doctor
