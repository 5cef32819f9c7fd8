// The table that a benchmark prints, and the same as JSON.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/process.hpp"
#include "harness/samples.hpp"

namespace vramlink::bench {

/// What a row must reach, beside its floor of the same run. A value.
class Target {
 public:
  Target() noexcept = default;
  /// p50 is at most `times` that of the floor.
  [[nodiscard]] static Target times_floor(double times) { return {Kind::times_floor, times}; }
  /// p50 is at most the floor's and so many microseconds.
  [[nodiscard]] static Target floor_plus_us(double us) { return {Kind::floor_plus_us, us}; }
  /// p50, or the value, is at most this, in the row's own unit.
  [[nodiscard]] static Target at_most(double value) { return {Kind::at_most, value}; }

  [[nodiscard]] bool is_set() const noexcept { return kind_ != Kind::none; }
  /// "<= 1.30 x", "<= +0.60", "<= 250".
  [[nodiscard]] std::string text() const;
  [[nodiscard]] bool reached(double value, double floor) const noexcept;

 private:
  enum class Kind : std::uint8_t { none, times_floor, floor_plus_us, at_most };
  Target(Kind kind, double value) noexcept : kind_(kind), value_(value) {}
  Kind kind_ = Kind::none;
  double value_ = 0;
};

/// One question's answer. Rows that have a floor show their ratio to it; both come from one run.
class Report {
 public:
  explicit Report(std::string question) : question_(std::move(question)) {}

  void add(std::string row, const Samples& samples, std::string floor = "", Target target = {});
  /// A quantity that is counted, not timed.
  void add_value(std::string row, double value, std::string unit, Target target = {});
  /// A fact about where this ran: "driver", "580.159.04".
  void add_fact(std::string name, std::string value);
  /// The p50 of a row over that of its floor; 0 if either is missing.
  [[nodiscard]] double ratio(std::string_view row) const;

  /// The table to stdout; what the arguments ask for also to files: an object with machine and
  /// commit, and the rows as lines with tabs between n, p50, p99, floor, ratio, target and verdict.
  /// Returns false, after saying why, if a file could not be written. A target that was missed is
  /// told, and is no failure.
  [[nodiscard]] bool print(const Arguments& arguments) const;

 private:
  struct Row {
    std::string name;
    std::string floor;
    std::string unit;
    std::size_t count;
    double p50, p99, p999, max;  ///< in the row's unit
    Target target;
  };
  [[nodiscard]] const Row* find(std::string_view row) const;
  [[nodiscard]] double floor_of(const Row& row) const;
  [[nodiscard]] const char* verdict(const Row& row) const;
  [[nodiscard]] bool write_json(const std::string& path) const;
  [[nodiscard]] bool write_rows(const std::string& path) const;

  std::string question_;
  std::vector<std::pair<std::string, std::string>> facts_;
  std::vector<Row> rows_;
};

}  // namespace vramlink::bench
