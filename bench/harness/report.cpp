// See report.hpp. The one file of the benchmarks that includes nlohmann/json.hpp.
#include "harness/report.hpp"

#include <cstdio>
#include <fstream>
#include <iostream>
#include <thread>
#include <utility>

#include <nlohmann/json.hpp>

namespace vramlink::bench {
namespace {

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

std::string kernel() {
  std::ifstream file("/proc/sys/kernel/osrelease");
  std::string release;
  std::getline(file, release);
  return release;
}

std::string fixed(double value, int digits = 2) {
  char text[48];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

double microseconds(std::int64_t value_ns) { return static_cast<double>(value_ns) / 1000.0; }

bool say_if_failed(std::ofstream& file, const std::string& path) {
  file.close();
  if (!file) std::cerr << "cannot write " << path << '\n';
  return static_cast<bool>(file);
}

}  // namespace

std::string Target::text() const {
  switch (kind_) {
    case Kind::times_floor:
      return "<= " + fixed(value_) + " x";
    case Kind::floor_plus_us:
      return "<= +" + fixed(value_);
    case Kind::at_most:
      return "<= " + fixed(value_, value_ == static_cast<std::int64_t>(value_) ? 0 : 2);
    case Kind::none:
      break;
  }
  return "";
}

bool Target::reached(double value, double floor) const noexcept {
  switch (kind_) {
    case Kind::times_floor:
      return floor > 0 && value <= floor * value_;
    case Kind::floor_plus_us:
      return floor > 0 && value <= floor + value_;
    case Kind::at_most:
      return value <= value_;
    case Kind::none:
      break;
  }
  return true;
}

void Report::add(std::string row, const Samples& samples, std::string floor, Target target) {
  rows_.push_back({std::move(row), std::move(floor), "us", samples.count(),
                   microseconds(samples.percentile(0.5)), microseconds(samples.percentile(0.99)),
                   microseconds(samples.percentile(0.999)), microseconds(samples.percentile(1.0)),
                   target});
}

void Report::add_value(std::string row, double value, std::string unit, Target target) {
  rows_.push_back({std::move(row), "", std::move(unit), 1, value, value, value, value, target});
}

void Report::add_fact(std::string name, std::string value) {
  facts_.emplace_back(std::move(name), std::move(value));
}

const Report::Row* Report::find(std::string_view row) const {
  for (const Row& candidate : rows_) {
    if (candidate.name == row) return &candidate;
  }
  return nullptr;
}

double Report::floor_of(const Row& row) const {
  const Row* const floor = find(row.floor);
  return floor && !row.floor.empty() ? floor->p50 : 0;
}

double Report::ratio(std::string_view row) const {
  const Row* const measured = find(row);
  const double floor = measured ? floor_of(*measured) : 0;
  return floor > 0 ? measured->p50 / floor : 0;
}

const char* Report::verdict(const Row& row) const {
  if (!row.target.is_set()) return "";
  return row.target.reached(row.p50, floor_of(row)) ? "reached" : "MISSED";
}

bool Report::print(const Arguments& arguments) const {
  std::printf("%s\n%s, Linux %s, %u CPUs", question_.c_str(), cpu_model().c_str(), kernel().c_str(),
              std::thread::hardware_concurrency());
  for (const auto& [name, value] : facts_) std::printf(", %s %s", name.c_str(), value.c_str());
  std::printf("; microseconds\n%-52s %8s %9s %9s %9s %10s %8s\n", "", "n", "p50", "p99", "p99.9",
              "max", "x floor");
  for (const Row& row : rows_) {
    const double times = ratio(row.name);
    const std::string unit = row.unit == "us" ? "" : " " + row.unit;
    const std::string target =
        row.target.is_set() ? "  " + row.target.text() + unit + " " + verdict(row) : "";
    if (!unit.empty()) {
      std::printf("%-52s %8s %9s%s%s\n", row.name.c_str(), "", fixed(row.p50).c_str(), unit.c_str(),
                  target.c_str());
      continue;
    }
    std::printf("%-52s %8zu %9s %9s %9s %10s %8s%s\n", row.name.c_str(), row.count,
                fixed(row.p50).c_str(), fixed(row.p99).c_str(), fixed(row.p999).c_str(),
                fixed(row.max).c_str(), times > 0 ? fixed(times).c_str() : "", target.c_str());
  }
  const bool json = arguments.json_path.empty() || write_json(arguments.json_path);
  return (arguments.rows_path.empty() || write_rows(arguments.rows_path)) && json;
}

bool Report::write_json(const std::string& path) const {
  const auto ns = [](double us) { return static_cast<std::int64_t>(us * 1000.0 + 0.5); };
  nlohmann::json rows = nlohmann::json::array();
  for (const Row& row : rows_) {
    nlohmann::json object = {{"name", row.name}, {"n", row.count}};
    if (row.unit == "us") {
      object.update({{"floor", row.floor},
                     {"p50_ns", ns(row.p50)},
                     {"p99_ns", ns(row.p99)},
                     {"p999_ns", ns(row.p999)},
                     {"max_ns", ns(row.max)},
                     {"ratio_to_floor", ratio(row.name)}});
    } else {
      object.update({{"value", row.p50}, {"unit", row.unit}});
    }
    if (row.target.is_set()) {
      object.update(
          {{"target", row.target.text()}, {"reached", row.target.reached(row.p50, floor_of(row))}});
    }
    rows.push_back(std::move(object));
  }
  nlohmann::json object = {{"schema", "vramlink.bench/1"},
                           {"question", question_},
                           {"commit", VRAMLINK_COMMIT},
                           {"cpu", cpu_model()},
                           {"cpus", std::thread::hardware_concurrency()},
                           {"kernel", kernel()},
                           {"rows", rows}};
  for (const auto& [name, value] : facts_) object[name] = value;
  std::ofstream file(path);
  file << object.dump(2) << '\n';
  return say_if_failed(file, path);
}

bool Report::write_rows(const std::string& path) const {
  std::ofstream file(path);
  for (const Row& row : rows_) {
    const double times = ratio(row.name);
    const std::string unit = row.unit == "us" ? "" : " " + row.unit;
    file << row.name << '\t' << row.count << '\t' << fixed(row.p50) << unit << '\t'
         << (unit.empty() ? fixed(row.p99) : "") << '\t' << (times > 0 ? fixed(floor_of(row)) : "")
         << '\t' << (times > 0 ? fixed(times) : "") << '\t' << row.target.text() << '\t'
         << verdict(row) << '\n';
  }
  return say_if_failed(file, path);
}

}  // namespace vramlink::bench
