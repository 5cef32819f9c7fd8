// cli: vramlink explain.
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <vramlink/inspect.hpp>
#include <vramlink/runtime.hpp>

#include "commands.hpp"
#include "device.hpp"
#include "exit_status.hpp"
#include "explain/paths.hpp"
#include "explain/trial.hpp"
#include "json.hpp"
#include "stop_signals.hpp"
#include "talk.hpp"

namespace vramlink::cli {
namespace {

using explain::Path;
using explain::Paths;
using explain::Reader;
using explain::State;
using explain::Trial;

constexpr const char* kSchema = "vramlink.explain/1";
constexpr const char* kExplain = "explain";

/// What is known of one channel.
struct Explanation {
  std::string channel;
  std::int32_t owner_pid = 0;      // in its own pid namespace
  ProcessInfo owner{};             // as it is seen from here
  std::optional<DeviceId> device;  // unknown if it does not speak to us
  Paths paths{};
  std::optional<Error> barrier;  // why there is none of them
  std::optional<Trial> trial;

  /// That of `sub` with the same options, as far as is known.
  [[nodiscard]] int exit_code() const {
    if (trial && trial->error) return vramlink::exit_code(trial->error->code());
    if (barrier) return vramlink::exit_code(barrier->code());
    if (paths.any_taken() || paths.open) return kSuccess;
    return vramlink::exit_code(Code::unsupported);
  }
};

struct Note {
  std::string id;
  std::string text;
};

std::string process_text(std::int32_t pid, const std::string& program) {
  return "process " + std::to_string(pid) + (program.empty() ? "" : " (" + program + ")");
}

/// What a namespace that the two do not share means for a channel.
std::string namespace_text(const std::string& kind, const ProcessInfo& owner) {
  const std::string other = "its process is in another " + kind + " namespace: ";
  if (kind == "pid") {
    const std::string here =
        owner.pid > 0 ? "it is process " + std::to_string(owner.pid) + " here; "
                      : "it is not visible here, and before Linux 6.5 its hang-up alone tells that "
                        "it died; ";
    return other + here + "descriptors travel all the same";
  }
  if (kind == "mnt") {
    return other +
           "the runtime directory is shared, so the channel works; other paths may name other "
           "files";
  }
  if (kind == "ipc") return other + "nothing that a channel uses belongs to one";
  if (kind == "user") return other + "users are compared as the kernel numbers them";
  return other + "its clock may differ, and ages of frames mean nothing";
}

std::vector<Note> notes_on(const Explanation& explanation) {
  std::vector<Note> notes;
  for (const std::string& kind : explanation.owner.other_namespaces) {
    notes.push_back({kind + "-namespace", namespace_text(kind, explanation.owner)});
  }
  return notes;
}

Error stopped_error(const std::string& channel, const ProcessInfo& owner) {
  return Error(Code::timed_out, kExplain)
      .about(channel)
      .because("its publisher, " + process_text(owner.pid, owner.program) +
               ", is stopped and answers nobody")
      .remedy("`kill -CONT " + std::to_string(owner.pid) + "`, or end it")
      .peer(owner.pid);
}

/// Why no answer came, where that is worth more than refused paths.
Error no_answer(const Runtime& runtime, const ChannelInfo& info, const ExplainOptions& options) {
  const auto owner = inspect_owner(runtime, info.name);
  if (!owner) return owner.error();
  if (owner->stopped) return stopped_error(info.name, *owner);
  if (info.trouble_error->code() != Code::timed_out) return *info.trouble_error;
  return Error(Code::timed_out, kExplain)
      .about(info.name)
      .because("its publisher, " + process_text(info.owner_pid, info.owner_name) +
               ", did not answer within " + duration_text(options.timeout_ns))
      .remedy("--timeout with more seconds, or look whether it is overloaded")
      .peer(info.owner_pid);
}

bool is_no_answer(Code code) noexcept {
  return code == Code::timed_out || code == Code::full || code == Code::closed ||
         code == Code::peer_gone || code == Code::not_found;
}

std::optional<Error> other_user(const ProcessInfo& owner, const ExplainOptions& options) {
  if (!options.group.empty()) return std::nullopt;  // the library knows whom it trusts then
  if (owner.uid < 0 || owner.uid == static_cast<std::int64_t>(::geteuid())) return std::nullopt;
  return Error(Code::permission_denied, kExplain)
      .because("its publisher runs as uid " + std::to_string(owner.uid) + ", this process as uid " +
               std::to_string(::geteuid()))
      .remedy("run both as one user, or share the channel with a group of users (--group)");
}

/// The device that is to read, or why there is none.
Result<Reader> choose_reader(const Runtime& runtime, const ExplainOptions& options) {
  Reader reader;
  reader.copy_frames = options.copy_frames;
  if (!options.device) return reader;
  const auto device = choose_device(runtime, *options.device, LegacyHandles::if_needed);
  if (!device) return device.error();
  reader.device = device->id;
  return reader;
}

/// Codes: those of inspect_owner and inspect_channel, timed_out, peer_gone.
Result<Explanation> explain_channel(const Runtime& runtime, const std::string& channel,
                                    const ExplainOptions& options, StopSignals& signals) {
  const Deadline deadline = deadline_in(options.timeout_ns);
  Explanation explanation;
  explanation.channel = channel;
  const auto owner = inspect_owner(runtime, channel);
  if (!owner) return owner.error();
  explanation.owner = *owner;
  if (owner->stopped) return stopped_error(channel, *owner);
  explanation.barrier = other_user(*owner, options);
  if (explanation.barrier) {
    explanation.owner_pid = owner->pid;
    explanation.paths = explain::no_paths(*explanation.barrier);
    return explanation;
  }
  const auto info = [&] {
    const StopSignals::Interrupt end(signals, [&signals] { ::_exit(signals.exit_code()); });
    return inspect_channel(runtime, channel, deadline);
  }();
  if (!info) return info.error();
  explanation.owner_pid = info->owner_pid;
  if (!info->responsive && is_no_answer(info->trouble_error->code())) {
    return no_answer(runtime, *info, options);
  }
  if (info->responsive) explanation.device = info->device;
  const auto reader = choose_reader(runtime, options);
  if (!info->responsive) explanation.barrier = info->trouble_error;
  if (!explanation.barrier && !reader) explanation.barrier = reader.error();
  if (explanation.barrier) {
    explanation.paths = explain::no_paths(*explanation.barrier);
    return explanation;
  }
  explanation.paths = explain::find_paths(runtime, info->device, info->statistics.path, *reader);
  if (options.attempt) {
    explanation.trial =
        explain::try_one_frame(runtime, channel, info->device, *reader, deadline, signals);
    explain::apply(*explanation.trial, info->device, *reader, explanation.paths);
  }
  return explanation;
}

std::optional<std::int32_t> parse_pid(const std::string& text) {
  std::int32_t pid = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), pid);
  if (error != std::errc() || end != text.data() + text.size() || pid < 1) return std::nullopt;
  return pid;
}

/// A process that owns no channel here: why its channels may be elsewhere.
Error owns_none(const Runtime& runtime, const ProcessInfo& process) {
  std::string reason =
      process_text(process.pid, process.program) + " owns no channel in " + runtime.directory();
  std::string remedy = "set VRAMLINK_RUNTIME_DIR to its folder; `vramlink ls` lists the channels";
  const auto& others = process.other_namespaces;
  if (process.uid >= 0 && process.uid != static_cast<std::int64_t>(::geteuid())) {
    reason += "; it runs as uid " + std::to_string(process.uid) + ", this process as uid " +
              std::to_string(::geteuid()) + ", and each user has a folder of its own";
    remedy = "run both as one user, or share its channels with a group of users (--group)";
  } else if (std::find(others.begin(), others.end(), "mnt") != others.end()) {
    reason += "; it is in another mount namespace, where that folder may be another";
    remedy = "mount one folder into both, and set VRAMLINK_RUNTIME_DIR to it";
  }
  return Error(Code::not_found, kExplain)
      .about(std::to_string(process.pid))
      .because(std::move(reason))
      .remedy(std::move(remedy))
      .peer(process.pid);
}

/// Those that the process owns, in the order of their names. Codes: not_found.
Result<std::vector<std::string>> channels_of(const Runtime& runtime, std::int32_t pid) {
  auto names = list_channels(runtime);
  if (!names) return names;
  std::vector<std::string> owned;
  for (const std::string& each : *names) {
    const auto owner = inspect_owner(runtime, each);
    if (owner && owner->pid == pid) owned.push_back(each);
    if (!owner && !owner.failed_with(Code::not_found)) return owner.error();
  }
  if (!owned.empty()) return owned;
  const auto process = inspect_process(pid);
  if (!process) return process.error();
  return owns_none(runtime, *process);
}

/// A channel of that name goes before a process of that number.
Result<std::vector<std::string>> find_channels(const Runtime& runtime, const std::string& what,
                                               bool& is_pid) {
  const auto pid = parse_pid(what);
  is_pid = pid && inspect_owner(runtime, what).failed_with(Code::not_found);
  if (!is_pid) return std::vector<std::string>{what};
  return channels_of(runtime, *pid);
}

void set_explanation(JsonObject& object, const Explanation& explanation) {
  object.set("channel", explanation.channel).set("owner_pid", explanation.owner_pid);
  object.set("program", explanation.owner.program);
  if (explanation.device) {
    object.set("device", to_string(*explanation.device));
  } else {
    object.set_null("device");
  }
  std::vector<JsonObject> paths;
  for (const Path& path : explanation.paths.all) {
    JsonObject each;
    each.set("name", explain::name(path.way))
        .set("state", explain::name(path.state))
        .set("reason", path.reason);
    if (path.remedy.empty()) {
      each.set_null("remedy");
    } else {
      each.set("remedy", path.remedy);
    }
    paths.push_back(std::move(each));
  }
  std::vector<JsonObject> notes;
  for (const Note& note : notes_on(explanation)) {
    notes.push_back(std::move(JsonObject().set("id", note.id).set("text", note.text)));
  }
  object.set("paths", paths).set("notes", notes);
  if (!explanation.trial) {
    object.set_null("trial");
    return;
  }
  JsonObject trial;
  if (explanation.trial->error) {
    trial.set_error(*explanation.trial->error);
  } else {
    trial.set("path", explain::name(explanation.trial->way))
        .set("device", to_string(explanation.trial->device))
        .set("sequence", explanation.trial->sequence)
        .set("age_us", static_cast<double>(explanation.trial->age_ns) / 1e3);
  }
  object.set("trial", std::move(trial));
}

Color color_of(State state) noexcept {
  if (state == State::taken) return Color::green;
  return state == State::possible ? Color::yellow : Color::red;
}

std::string lines_of(const Explanation& explanation) {
  constexpr std::size_t kStateWidth = 10;
  constexpr std::size_t kNameWidth = 8;
  std::string head = explanation.channel + ", of " +
                     process_text(explanation.owner_pid, explanation.owner.program);
  if (explanation.device) head += ", on " + to_string(*explanation.device);
  std::string text = bold(head, STDOUT_FILENO) + "\n";
  for (const Path& path : explanation.paths.all) {
    const std::string state(explain::name(path.state));
    std::string name(explain::name(path.way));
    name.resize(kNameWidth, ' ');
    text += "  " + colored(state, color_of(path.state), STDOUT_FILENO) +
            std::string(kStateWidth - state.size(), ' ') + name + path.reason + "\n";
    if (path.remedy.empty()) continue;
    text += std::string(2 + kStateWidth + kNameWidth, ' ') + "try: " + path.remedy + "\n";
  }
  for (const Note& note : notes_on(explanation)) text += "  note: " + note.text + "\n";
  return text;
}

int fail_with_object(const ExplainOptions& options, bool is_pid, const Error& error) {
  const int exit_code = fail(error);
  if (options.json) {
    JsonObject object(kSchema);
    if (is_pid) {
      object.set("pid", *parse_pid(options.what));
    } else {
      object.set("channel", options.what);
    }
    object.set_error(error);
    static_cast<void>(print(object.line()));
  }
  return exit_code;
}

int print_all(const ExplainOptions& options, bool is_pid, const std::vector<Explanation>& all) {
  if (options.json) {
    JsonObject object(kSchema);
    if (is_pid) {
      std::vector<JsonObject> channels;
      for (const Explanation& each : all) {
        JsonObject channel;
        set_explanation(channel, each);
        channels.push_back(std::move(channel));
      }
      object.set("pid", *parse_pid(options.what)).set("channels", channels);
    } else {
      set_explanation(object, all.front());
    }
    return print_and_finish(object.line());
  }
  std::string text;
  for (const Explanation& each : all) text += (text.empty() ? "" : "\n") + lines_of(each);
  return print_and_finish(text);
}

}  // namespace

int run(const ExplainOptions& options) {
  StopSignals signals;
  bool is_pid = false;
  const auto fail_early = [&](const Error& error) {
    return fail_with_object(options, is_pid, error);
  };
  auto runtime = Runtime::open({.group = options.group});
  if (!runtime) return fail_early(runtime.error());
  const auto names = find_channels(*runtime, options.what, is_pid);
  if (!names) return fail_early(names.error());
  std::vector<Explanation> all;
  int exit_code = kSuccess;
  for (const std::string& name : *names) {
    auto explanation = explain_channel(*runtime, name, options, signals);
    if (signals.stopped()) return signals.exit_code();
    if (!explanation) return fail_early(explanation.error());
    const auto& trial = explanation->trial;
    if (trial && trial->error) say(to_string(*trial->error));
    if (exit_code == kSuccess) exit_code = explanation->exit_code();
    all.push_back(*std::move(explanation));
  }
  const int printed = print_all(options, is_pid, all);
  return printed != kSuccess ? printed : exit_code;
}

}  // namespace vramlink::cli
