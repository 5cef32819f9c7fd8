// cli: vramlink ls.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <vramlink/inspect.hpp>
#include <vramlink/runtime.hpp>

#include "commands.hpp"
#include "exit_status.hpp"
#include "json.hpp"
#include "talk.hpp"

namespace vramlink::cli {
namespace {

using namespace std::chrono_literals;

constexpr auto kAnswerWait = 500ms;
constexpr std::size_t kAskersMax = 16;
constexpr std::size_t kColumns = 7;
using Row = std::array<std::string, kColumns>;

std::string rate_text(const ChannelInfo& channel) {
  return channel.frames_per_second > 0 ? fixed(channel.frames_per_second, 1) : "-";
}

std::string device_cell(const ChannelInfo& channel) {
  const bool by_handle = channel.statistics.path == MemoryPath::legacy_handle;
  return to_string(channel.device) + (by_handle ? " (legacy handles)" : "");
}

Row row_of(const ChannelInfo& channel) {
  const std::string program = channel.owner_name.empty() ? "-" : channel.owner_name;
  const std::string pid = channel.owner_pid > 0 ? std::to_string(channel.owner_pid) : "-";
  if (!channel.responsive) return {channel.name, pid, program, "-", channel.trouble, "-", "-"};
  return {channel.name,
          pid,
          program,
          device_cell(channel),
          to_string(channel.format),
          rate_text(channel),
          std::to_string(channel.statistics.subscribers.size())};
}

// Columns as wide as their widest cell; numbers to the right.
std::string table(const std::vector<Row>& rows) {
  constexpr std::array<bool, kColumns> kRight{false, true, false, false, false, true, true};
  std::array<std::size_t, kColumns> widths{};
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < kColumns; ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (std::size_t number = 0; number < rows.size(); ++number) {
    std::string line;
    for (std::size_t i = 0; i < kColumns; ++i) {
      const std::string& cell = rows[number][i];
      const std::string blanks(widths[i] - cell.size(), ' ');
      line += kRight[i] ? blanks + cell : cell + (i + 1 < kColumns ? blanks : "");
      if (i + 1 < kColumns) line += "  ";
    }
    text += (number == 0 ? bold(line, STDOUT_FILENO) : line) + "\n";
  }
  return text;
}

JsonObject object_of(const ChannelInfo& channel) {
  JsonObject object;
  object.set("name", channel.name)
      .set("owner_pid", channel.owner_pid)
      .set("program", channel.owner_name)
      .set("responsive", channel.responsive);
  if (!channel.responsive) return std::move(object.set("trouble", channel.trouble));
  object.set("device", to_string(channel.device))
      .set("path", to_string(channel.statistics.path))
      .set("format", to_string(channel.format));
  if (channel.format.plane_count != 0) {
    object.set("pixel_format", name(channel.format.pixel_format))
        .set("width", channel.format.width)
        .set("height", channel.format.height);
  }
  // Who is behind, and who stood in the way of a claim.
  std::vector<JsonObject> subscribers;
  for (const SubscriberView& view : channel.statistics.subscribers) {
    subscribers.push_back(std::move(JsonObject()
                                        .set("pid", view.pid)
                                        .set("queue_depth", view.queue_depth)
                                        .set("held", view.held)
                                        .set("lag", view.lag)
                                        .set("blocked_claims", view.blocked_claims)
                                        .set("received", view.received)
                                        .set("skipped", view.skipped)
                                        .set("lost", view.lost)
                                        .set("evicted", view.evicted)));
  }
  object.set("dtype", name(channel.format.dtype))
      .set("shape", std::vector<std::uint64_t>(channel.format.shape.begin(),
                                               channel.format.shape.begin() + channel.format.rank))
      .set("payload_bytes", channel.format.payload_bytes)
      .set("slots", channel.slot_count)
      .set("slots_max", channel.statistics.slot_count_max)
      .set("slots_lost", channel.statistics.slots_lost)
      .set("fps", channel.frames_per_second)
      .set("subscribers", static_cast<std::uint64_t>(channel.statistics.subscribers.size()))
      .set("subscriber_list", subscribers)
      .set("published", channel.statistics.published)
      .set("refused_full", channel.statistics.refused_full)
      .set("timed_out", channel.statistics.timed_out)
      .set("subscribers_died", channel.statistics.subscribers_died)
      .set("subscribers_revoked", channel.statistics.subscribers_revoked)
      .set("subscribers_evicted", channel.statistics.subscribers_evicted)
      .set("resizes", channel.statistics.resizes)
      .set("replacements", channel.statistics.replacements)
      .set("growths", channel.statistics.growths)
      .set("legacy_imports", channel.statistics.legacy_imports)
      .set("newest_sequence", channel.newest_sequence);
  if (channel.newest_age_ns < 0) {
    object.set_null("newest_age_us");
  } else {
    object.set("newest_age_us", static_cast<double>(channel.newest_age_ns) / 1e3);
  }
  return object;
}

/// Asks several at a time: one that is stopped takes kAnswerWait, and the others need not wait.
std::vector<Result<ChannelInfo>> ask_all(const Runtime& runtime,
                                         const std::vector<std::string>& names) {
  std::vector<std::optional<Result<ChannelInfo>>> answers(names.size());
  std::atomic<std::size_t> next{0};
  const auto ask = [&] {
    for (std::size_t i = next++; i < names.size(); i = next++) {
      answers[i] = inspect_channel(runtime, names[i], kAnswerWait);
    }
  };
  {
    std::vector<std::jthread> askers;  // this thread is one more
    for (std::size_t i = 1; i < std::min(names.size(), kAskersMax); ++i) askers.emplace_back(ask);
    ask();
  }
  std::vector<Result<ChannelInfo>> all;
  for (auto& answer : answers) all.push_back(*std::move(answer));
  return all;
}

}  // namespace

int run(const LsOptions& options) {
  auto runtime = Runtime::open({.group = options.group});
  if (!runtime) return fail(runtime.error());
  auto names = list_channels(*runtime);
  if (!names) return fail(names.error());
  if (options.names) {
    std::string text;
    for (const std::string& each : *names) text += each + "\n";
    return print_and_finish(text);
  }
  std::vector<ChannelInfo> channels;
  for (Result<ChannelInfo>& channel : ask_all(*runtime, *names)) {
    if (channel) {
      channels.push_back(*std::move(channel));
    } else if (!channel.failed_with(Code::not_found)) {  // it may have ended since it was listed
      return fail(channel.error());
    }
  }
  if (options.json) {
    std::vector<JsonObject> objects;
    for (const ChannelInfo& channel : channels) objects.push_back(object_of(channel));
    JsonObject object("vramlink.ls/1");
    object.set("directory", runtime->directory()).set("channels", objects);
    return print_and_finish(object.line());
  }
  if (channels.empty()) {
    say("no channel in " + runtime->directory());
    return kSuccess;
  }
  std::vector<Row> rows{{"NAME", "PID", "PROGRAM", "DEVICE", "FORMAT", "FPS", "SUBSCRIBERS"}};
  for (const ChannelInfo& channel : channels) rows.push_back(row_of(channel));
  return print_and_finish(table(rows));
}

}  // namespace vramlink::cli
