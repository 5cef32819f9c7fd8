// doctor: the two processes of a round trip as their parent sees them.
#include "doctor/round_trip.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <vramlink/deadline.hpp>

#include "child_process.hpp"
#include "talk.hpp"
#include "timespec.hpp"

namespace vramlink::cli::doctor {
namespace {

constexpr const char* kId = "round-trip";
constexpr std::int64_t kTripWaitNs = 30'000'000'000;

/// One process and the last that it said.
struct Traveller {
  const char* title;
  std::optional<ChildProcess> child;
  std::optional<TripReport> report{};

  [[nodiscard]] bool running() const noexcept { return child && !child->ended(); }
  [[nodiscard]] bool waited_in_vain() const noexcept {
    return report && (report->exit_code == exit_code(Code::timed_out) ||
                      report->exit_code == exit_code(Code::not_found));
  }
  void take_report() {
    if (auto news = child->take_report<TripReport>()) report = *news;
  }
};

/// Until both have ended. One that fails ends the other.
void listen(Traveller& publisher, Traveller& subscriber, std::int64_t until_ns) {
  const std::array both{&publisher, &subscriber};
  while (publisher.running() || subscriber.running()) {
    std::array<pollfd, 2> fds{};
    for (std::size_t i = 0; i < both.size(); ++i) {
      fds[i] = {both[i]->running() ? both[i]->child->report_fd() : -1, POLLIN, 0};
    }
    const std::int64_t left_ns = std::max<std::int64_t>(until_ns - monotonic_ns(), 0);
    const std::timespec wait = to_timespec(left_ns);
    const int ready = ::ppoll(fds.data(), fds.size(), &wait, nullptr);
    if (ready == 0 || (ready < 0 && errno != EINTR)) return;
    for (std::size_t i = 0; ready > 0 && i < both.size(); ++i) {
      if (fds[i].revents == 0) continue;
      both[i]->take_report();
      Traveller& other = *both[1 - i];
      const bool failed = !both[i]->running() && both[i]->child->exit_code() != 0;
      if (failed && other.running()) other.child->close_control();
    }
  }
}

std::optional<ChildProcess> start(const char* role, const std::string& channel,
                                  const DeviceId& device, const std::string& group) {
  std::vector<std::string> arguments{
      role,       "--channel",      channel, "--parent", std::to_string(::getpid()),
      "--device", to_string(device)};
  if (!group.empty()) arguments.insert(arguments.end(), {"--group", group});
  return ChildProcess::start(arguments);
}

/// Empty if it ended as it should.
std::string trouble(const Traveller& traveller) {
  const std::string who = std::string("the ") + traveller.title;
  if (!traveller.child) return who + " could not be started: " + std::strerror(errno);
  if (!traveller.child->ended()) {
    return who + " did not end within " + duration_text(kTripWaitNs);
  }
  if (traveller.report && traveller.report->trouble[0] != '\0') {
    return who + ": " + traveller.report->trouble.data();
  }
  const int exit_code = traveller.child->exit_code();
  if (exit_code >= kSignalBase) {
    const char* words = ::sigdescr_np(exit_code - kSignalBase);
    return who + " was ended by signal " + std::to_string(exit_code - kSignalBase) +
           (words != nullptr ? std::string(", ") + words : "");
  }
  if (exit_code != 0 || !traveller.report) {
    return who + " ended with exit code " + std::to_string(exit_code);
  }
  return {};
}

Check failed(std::string text) {
  // An error's own remedy stands behind its text.
  constexpr std::string_view kTry = ". Try: ";
  Check check{kId, Verdict::fail, std::move(text), "VRAMLINK_LOG=debug vramlink doctor"};
  if (const std::size_t at = check.text.find(kTry); at != std::string::npos) {
    check.remedy = check.text.substr(at + kTry.size());
    check.text.resize(at);
  }
  return check;
}

}  // namespace

Check check_round_trip(const DeviceId& device, const DeviceId& reader, const std::string& group) {
  const std::string channel = "doctor-" + std::to_string(::getpid());
  const std::int64_t until_ns = monotonic_ns() + kTripWaitNs;
  Traveller publisher{"publisher", start("doctor-publisher", channel, device, group)};
  Traveller subscriber{"subscriber", start("doctor-subscriber", channel, reader, group)};
  listen(publisher, subscriber, until_ns);
  // Who only waited in vain for the other knows less.
  const Traveller* first = &publisher;
  const Traveller* second = &subscriber;
  if (first->waited_in_vain()) std::swap(first, second);
  for (const Traveller* each : {first, second}) {
    if (std::string text = trouble(*each); !text.empty()) return failed(std::move(text));
  }
  const TripReport& sent = *publisher.report;
  const TripReport& got = *subscriber.report;
  if (got.wrong > 0) {
    return failed(std::to_string(got.wrong) + " of " + std::to_string(got.frames) +
                  " frames had bytes that were not sent");
  }
  if (got.frames != sent.frames) {
    return failed(std::to_string(sent.frames) + " frames were sent, " + std::to_string(got.frames) +
                  " arrived");
  }
  return {kId,
          Verdict::pass,
          std::to_string(got.frames) + " frames to another process, every byte; p50 " +
              duration_text(got.age_p50_ns) + ", p99 " + duration_text(got.age_p99_ns),
          {}};
}

}  // namespace vramlink::cli::doctor
