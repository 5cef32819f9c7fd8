// demo: how it is shown.
#include "demo/table.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <vector>

#include <vramlink/deadline.hpp>

#include "device.hpp"
#include "json.hpp"
#include "talk.hpp"

namespace vramlink::cli::demo {
namespace {

struct Column {
  const char* heading;
  std::size_t width;
};

// 79 in all: a line that fills a terminal of 80 would take two of its rows.
constexpr std::size_t kTitleWidth = 22;
constexpr auto kColumns = std::to_array<Column>({{"PID", 8},
                                                 {"FRAMES", 7},
                                                 {"FPS", 7},
                                                 {"DROPPED", 8},
                                                 {"TORN", 5},
                                                 {"LOST", 6},
                                                 {"SKIPPED", 8},
                                                 {"AGE P50", 8}});

using Cells = std::array<std::string, kColumns.size()>;

std::string line_of(std::string title, const Cells& cells) {
  title.resize(std::max(kTitleWidth, title.size()), ' ');
  for (std::size_t i = 0; i < cells.size(); ++i) {
    title.append(kColumns[i].width - std::min(kColumns[i].width, cells[i].size()), ' ');
    title += cells[i];
  }
  return title;
}

std::string headings() {
  Cells cells;
  for (std::size_t i = 0; i < cells.size(); ++i) cells[i] = kColumns[i].heading;
  return line_of("PROCESS", cells);
}

std::string size_text(Size size) {
  return std::to_string(size.width) + "x" + std::to_string(size.height);
}

double per_second(Rate rate) { return static_cast<double>(rate.numerator) / rate.denominator; }

double seconds_of(const Story& story) {
  const std::int64_t end_ns = story.end_ns != 0 ? story.end_ns : monotonic_ns();
  return static_cast<double>(end_ns - story.begin_ns) / 1e9;
}

std::uint64_t sum_of(const Cast& cast, std::uint64_t (Part::*count)() const noexcept) noexcept {
  std::uint64_t sum = 0;
  for (const Part& part : cast.parts()) sum += (part.*count)();
  return sum;
}

// The slower of the subscribers; -1: unknown.
std::int64_t age_p50_ns(const Cast& cast) noexcept {
  std::int64_t age_ns = -1;
  for (const Part& part : cast.parts()) age_ns = std::max(age_ns, part.newest.age_p50_ns);
  return age_ns;
}

std::string row(const Part& part, double rate) {
  const bool publisher = part.queue_depth == 0 && part.title == "publisher";
  const std::string pid = part.running() ? std::to_string(part.child->pid()) : "-";
  const std::string frames = std::to_string(part.frames());
  const std::string fps = fixed(rate, rate < 1000 ? 1 : 0);
  // A publisher drops, a subscriber loses or skips: no column is for both.
  if (publisher) {
    return line_of(part.title, {pid, frames, fps, std::to_string(part.dropped()), "", "", "", ""});
  }
  return line_of(part.title,
                 {pid, frames, fps, "", std::to_string(part.torn()), std::to_string(part.lost()),
                  std::to_string(part.skipped()), duration_text(part.newest.age_p50_ns)});
}

}  // namespace

std::uint64_t torn_frames(const Cast& cast) noexcept { return sum_of(cast, &Part::torn); }

bool all_received(const Cast& cast) noexcept {
  return std::all_of(cast.parts().begin(), cast.parts().end(),
                     [](const Part& part) { return part.frames() > 0; });
}

LiveTable::LiveTable(int fd) : fd_(fd), enabled_(can_redraw(fd)) {}

void LiveTable::draw(const Cast& cast, const DemoOptions& options, const Story& story) {
  if (!enabled_) return;
  const std::int64_t now_ns = monotonic_ns();
  const double passed = static_cast<double>(now_ns - drawn_ns_) / 1e9;
  std::vector<std::string> lines;
  lines.push_back(bold(cast.channel(), fd_) + "  RGBA " + size_text(options.size) + ", " +
                  device_text(cast.device()) + ", " + fixed(seconds_of(story), 1) + " s, frame " +
                  std::to_string(cast.publisher().number));
  lines.push_back(bold(headings(), fd_));
  for (std::size_t i = 0; i < Cast::kPartCount; ++i) {
    const std::uint64_t frames = cast.parts()[i].frames();
    if (drawn_ns_ != 0) {
      rates_[i] = static_cast<double>(frames - std::min(frames, frames_before_[i])) / passed;
    }
    frames_before_[i] = frames;
    lines.push_back(row(cast.parts()[i], rates_[i]));
  }
  lines.push_back(story.newest_event);
  std::string text;
  if (drawn_lines_ > 0) text = "\x1b[" + std::to_string(drawn_lines_) + "A";
  for (const std::string& line : lines) text += line + "\x1b[K\n";
  drawn_lines_ = static_cast<std::uint32_t>(lines.size());
  drawn_ns_ = now_ns;
  static_cast<void>(!::write(fd_, text.data(), text.size()));
}

std::string summary_text(const Cast& cast, const DemoOptions& options, const Story& story) {
  std::string received;
  for (std::size_t i = 1; i < Cast::kPartCount; ++i) {
    received += (i > 1 ? " and " : "") + std::to_string(cast.parts()[i].frames());
  }
  std::string text = "demo: RGBA " + size_text(options.size) + " on " + device_text(cast.device()) +
                     ", " + fixed(seconds_of(story), 1) + " s: published " +
                     std::to_string(cast.publisher().frames()) + ", received " + received +
                     "; torn " + std::to_string(torn_frames(cast)) + ", lost " +
                     std::to_string(sum_of(cast, &Part::lost)) + ", skipped " +
                     std::to_string(sum_of(cast, &Part::skipped));
  if (options.crash) {
    text += "; killed " + std::to_string(story.killed) + ", recovered " +
            std::to_string(story.recovered);
    if (story.recovered > 0) text += ", slowest in " + duration_text(story.recovery_max_ns);
  }
  return text + "; publish p50 " + duration_text(cast.publisher().newest.publish_p50_ns) +
         ", age p50 " + duration_text(age_p50_ns(cast));
}

std::string summary_json(const Cast& cast, const DemoOptions& options, const Story& story) {
  std::vector<std::uint64_t> received;
  for (std::size_t i = 1; i < Cast::kPartCount; ++i) received.push_back(cast.parts()[i].frames());
  JsonObject object("vramlink.demo/1");
  object.set("backend", cast.device().id.is_host() ? "host" : "cuda")
      .set("device", to_string(cast.device().id))
      .set("width", options.size.width)
      .set("height", options.size.height)
      .set("fps", per_second(options.rate))
      .set("seconds", seconds_of(story))
      .set("published", cast.publisher().frames())
      .set("dropped", cast.publisher().dropped())
      .set("received", received)
      .set("torn", torn_frames(cast))
      .set("lost", sum_of(cast, &Part::lost))
      .set("skipped", sum_of(cast, &Part::skipped))
      .set("killed", story.killed)
      .set("recovered", story.recovered);
  const auto set_us = [&object](const char* key, std::int64_t ns) {
    if (ns < 0) {
      object.set_null(key);
    } else {
      object.set(key, static_cast<double>(ns) / 1e3);
    }
  };
  set_us("recovery_us_max", story.recovered > 0 ? story.recovery_max_ns : -1);
  set_us("publish_us_p50", cast.publisher().newest.publish_p50_ns);
  set_us("age_us_p50", age_p50_ns(cast));
  if (cast.parts()[1].newest.saved_picture != 0) {
    object.set("picture", options.out);
  } else {
    object.set_null("picture");
  }
  return object.line();
}

}  // namespace vramlink::cli::demo
