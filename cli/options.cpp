// cli: the one file that includes CLI11.
#include "options.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <functional>
#include <limits>
#include <memory>
#include <string_view>
#include <utility>

#include <CLI/CLI.hpp>
#include <vramlink/channel.hpp>

#include "exit_status.hpp"
#include "help.hpp"
#include "talk.hpp"

namespace vramlink::cli {
namespace {

constexpr std::size_t kTextColumn = 26;
// Commands that this program runs itself; no help lists them.
constexpr const char* kDemoPublisher = "demo-publisher";
constexpr const char* kDemoSubscriber = "demo-subscriber";
constexpr const char* kDoctorPublisher = "doctor-publisher";
constexpr const char* kDoctorSubscriber = "doctor-subscriber";
constexpr const char* kReaderText =
    "what reads the frames: auto, host, N, UUID; default the channel's own";
constexpr const char* kReaderGpuText = "a GPU: auto, N, UUID";

bool is_hidden(std::string_view name) noexcept {
  return name == kDemoPublisher || name == kDemoSubscriber || name == kDoctorPublisher ||
         name == kDoctorSubscriber;
}

// Examples first, then usage, then one line an option.
class HelpFormatter : public CLI::FormatterBase {
 public:
  std::string make_help(const CLI::App* app, std::string, CLI::AppFormatMode) const override {
    const HelpText* help = find_help(app->get_parent() ? app->get_name() : "");
    if (!help) return {};
    std::string text = "Examples:\n";
    text.append(help->examples).append("\nUsage: vramlink ").append(help->usage).append("\n\n");
    text.append(help->summary).append("\n").append(help->details);
    if (!app->get_parent()) {
      text += "\nCommands:\n";
      for (const HelpText& each : help_texts()) {
        if (!each.command.empty()) append_row(text, std::string(each.command), each.summary);
      }
    }
    text += "\nOptions:\n";
    for (const CLI::Option* option : app->get_options()) {
      if (option->get_positional() || option->get_group().empty()) continue;
      std::string head = option->get_name(false, true);
      std::replace(head.begin(), head.end(), ',', ' ');
      if (option->get_items_expected_max() > 0) head += " " + option->get_type_name();
      append_row(text, head, option->get_description());
    }
    return text;
  }

 private:
  static void append_row(std::string& text, const std::string& head, std::string_view description) {
    text += "  " + head;
    const std::size_t used = 2 + head.size();
    if (used + 1 > kTextColumn) {
      text += "\n" + std::string(kTextColumn, ' ');
    } else {
      text.append(kTextColumn - used, ' ');
    }
    text.append(description).append("\n");
  }
};

[[noreturn]] void refuse(const std::string& option, const std::string& need) {
  throw CLI::ValidationError(option, need);
}

void add_text(CLI::App& app, const std::string& option, const char* type, const char* description,
              std::function<void(const std::string&)> take) {
  app.add_option_function<std::string>(option, std::move(take), description)->type_name(type);
}

// An option whose text parse() turns into a value, or into nothing if it is not one.
template <class Parse, class Take>
void add_parsed(CLI::App& app, const std::string& option, const char* type, const char* description,
                const char* need, Parse parse, Take take) {
  add_text(app, option, type, description, [=](const std::string& text) {
    const auto value = parse(text);
    if (!value) refuse(option, "'" + text + "' is not " + need);
    take(*value);
  });
}

template <class Number>
void add_number(CLI::App& app, const std::string& option, const char* description, Number least,
                Number greatest, std::function<void(Number)> take) {
  add_text(app, option, "N", description, [=](const std::string& text) {
    Number number{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error == std::errc() && end == text.data() + text.size() && number >= least &&
        number <= greatest) {
      take(number);
      return;
    }
    std::string need = "'" + text + "' is not a number from " + std::to_string(least);
    if (greatest != std::numeric_limits<Number>::max()) need += " to " + std::to_string(greatest);
    refuse(option, need);
  });
}

void add_seconds(CLI::App& app, const std::string& option, const char* description,
                 std::int64_t& target) {
  add_parsed(app, option, "SECONDS", description, "a number of seconds", parse_seconds,
             [&target](std::int64_t ns) { target = ns; });
}

void add_color(CLI::App& app) {
  add_text(app, "--color", "WHEN", "auto (default), always or never", [](const std::string& text) {
    if (text == "auto") return set_color_choice(ColorChoice::automatic);
    if (text == "always") return set_color_choice(ColorChoice::always);
    if (text == "never") return set_color_choice(ColorChoice::never);
    refuse("--color", "'" + text + "' is not auto, always or never");
  });
}

/// --device takes any, --gpu never ends on the host; the later one counts.
template <class Wish>
void add_device(CLI::App& app, const char* device_text, const char* gpu_text, Wish& wish) {
  const auto take = [&wish](const DeviceWish& meant) { wish = meant; };
  add_parsed(app, "--device", "WHICH", device_text, "auto, host, a number or a UUID (GPU-...)",
             parse_device_wish, take);
  add_parsed(app, "--gpu", "WHICH", gpu_text, "auto, a number or a UUID (GPU-...)", parse_gpu_wish,
             take);
}

void add_copy_frames(CLI::App& app, bool& copy_frames) {
  app.add_flag("--copy-frames", copy_frames,
               "copy frames to the GPU that reads them where it cannot reach the channel's");
}

// For a process of ours: the name as the library writes it.
void add_device_id(CLI::App& app, DeviceId& device) {
  add_text(app, "--device", "", "", [&device](const std::string& text) {
    auto parsed = parse_device(text);
    if (!parsed) refuse("--device", to_string(parsed.error()));
    device = *parsed;
  });
}

/// Of users, who may be others than this one.
void add_group(CLI::App& app, std::string& group) {
  app.add_option("--group", group, "share with that group of users: its name or number")
      ->type_name("GROUP")
      ->envname("VRAMLINK_GROUP")
      ->check([](const std::string& text) {
        return text.empty() ? std::string("a group has a name or a number") : std::string();
      });
}

CLI::App& add_command(CLI::App& app, const char* name) {
  CLI::App& command = *app.add_subcommand(name);
  command.set_help_flag("-h,--help", "print this text");
  return command;
}

void add_channel(CLI::App& command, std::string& channel) {
  command.add_option("NAME", channel)->required();
}

void add_demo(CLI::App& app, DemoOptions& options) {
  CLI::App& command = add_command(app, "demo");
  add_device(command, "where frames live: auto (default; a GPU if there is one), host, N, UUID",
             "a GPU: auto, N, UUID", options.device);
  command.add_flag_function(
      "--host", [&options](std::int64_t) { options.device = DeviceWish::host(); },
      "host memory, as --device host");
  add_seconds(command, "--seconds", "how long it runs; default 5", options.seconds_ns);
  add_parsed(command, "--size", "WxH", "size of the picture; default 1920x1080",
             "a size such as 1920x1080", parse_size,
             [&options](Size size) { options.size = size; });
  add_parsed(command, "--fps", "RATE", "frames a second; default 60; 0: as fast as possible",
             "a rate such as 60 or 30000/1001", parse_rate,
             [&options](Rate rate) { options.rate = rate; });
  command.add_option("--out", options.out, "where the PNG goes; default vramlink-demo.png")
      ->type_name("FILE");
  command.add_flag("--crash", options.crash,
                   "every 2 seconds kill -9 the publisher or a subscriber, in turn");
  command.add_flag("--json", options.json, "print the summary as one JSON object");
  add_group(command, options.group);
  add_color(command);
}

void add_demo_child(CLI::App& app, DemoChildOptions& options, const char* name) {
  CLI::App& command = *app.add_subcommand(name)->group("");
  command.add_option("--channel", options.channel)->required();
  command.add_option("--parent", options.parent_pid)->required();
  command.add_option("--group", options.group);
  add_device_id(command, options.device);
  command.add_option("--first", options.first_number);
  command.add_option("--queue", options.queue_depth);
  command.add_option("--out", options.out);
  add_parsed(command, "--size", "", "", "a size", parse_size,
             [&options](Size size) { options.size = size; });
  add_parsed(command, "--fps", "", "", "a rate", parse_rate,
             [&options](Rate rate) { options.rate = rate; });
}

void add_source_options(CLI::App& command, media::SourceOptions& source) {
  add_text(command, "--format", "NAME",
           "pixel format of raw frames, NPY or the test card: RGBA, I420",
           [&source](const std::string& text) {
             auto format = parse_pixel_format(text);
             if (!format) refuse("--format", to_string(format.error()));
             source.pixel_format = *format;
           });
  add_parsed(command, "--size", "WxH", "size of raw frames or the test card",
             "a size such as 1920x1080", parse_size, [&source](Size size) {
               source.width = size.width;
               source.height = size.height;
             });
  add_text(command, "--dtype", "NAME", "what NPY elements are, where numpy has no name: bfloat16",
           [&source](const std::string& text) {
             auto dtype = parse_dtype(text);
             if (!dtype) refuse("--dtype", to_string(dtype.error()));
             source.dtype = *dtype;
           });
  command.add_flag("--one-frame", source.one_frame,
                   "the NPY array is one frame; else its first axis counts frames");
}

void add_pub(CLI::App& app, PubOptions& options) {
  CLI::App& command = add_command(app, "pub");
  add_channel(command, options.channel);
  command.add_option("FILE", options.files);
  command.add_flag("--test-card", options.test_card, "draw a moving test card instead of a file");
  add_source_options(command, options.source);
  add_parsed(command, "--fps", "RATE",
             "default: the file's rate, else 30; a pipe's own pace; 0: as fast as possible",
             "a rate such as 60 or 30000/1001", parse_rate,
             [&options](Rate rate) { options.rate = rate; });
  command.add_flag("--loop", options.loop, "start over at the end of the file");
  add_number<std::uint64_t>(command, "--count", "end after N frames", 1, UINT64_MAX,
                            [&options](std::uint64_t count) { options.count = count; });
  add_device(command, "where frames live: host (default), auto, N, UUID",
             "a GPU: auto, N, UUID; frames are uploaded", options.device);
  add_parsed(command, "--legacy-handles", "WHEN",
             "share memory of the GPU by legacy handles: never (default), if-needed, always",
             "never, if-needed or always", parse_legacy_handles,
             [&options](LegacyHandles when) { options.legacy_handles = when; });
  add_parsed(command, "--slots", "N[:MAX]",
             "frames that the channel has room for, and may grow to; default 4",
             "a number from 2 to 64, or two as in 4:16", parse_slots,
             [&options](SlotCounts slots) { options.slots = slots; });
  add_parsed(command, "--policy", "WHAT",
             "when all slots are taken: drop the frame (default), block, evict[:SECONDS]",
             "drop, block, evict or evict:SECONDS", parse_publish_policy,
             [&options](const PublishPolicy& policy) { options.policy = policy; });
  add_number<std::uint32_t>(command, "--wait-subscribers", "begin when N subscribers are there", 0,
                            kSubscriberCountMax,
                            [&options](std::uint32_t count) { options.wait_subscribers = count; });
  add_seconds(command, "--timeout", "how long --wait-subscribers waits; default for ever",
              options.timeout_ns);
  add_seconds(command, "--linger", "how long queues may take to empty at the end; default 5",
              options.linger_ns);
  command.add_flag("--json", options.json, "print the statistics as one JSON object");
  add_group(command, options.group);
  add_color(command);
}

void check_pub(const PubOptions& options) {
  if (options.test_card == !options.files.empty()) {
    refuse("pub", "needs either FILE, or - for standard input, or --test-card");
  }
  const bool pipe = std::count(options.files.begin(), options.files.end(), "-") > 0;
  if (pipe && options.files.size() > 1) refuse("FILE", "- stands alone");
  if (pipe && options.loop) refuse("--loop", "a pipe cannot be read twice");
  if (options.files.size() > 1 && options.source.width) {
    refuse("--size", "raw frames come from one file");
  }
}

void add_sub(CLI::App& app, SubOptions& options) {
  CLI::App& command = add_command(app, "sub");
  add_channel(command, options.channel);
  const auto add_file = [&](const char* option, media::Container container, const char* text) {
    add_text(command, option, "FILE", text, [&options, option, container](const std::string& file) {
      if (options.container) refuse(option, "one file at a time");
      options.container = container;
      options.file = file;
    });
  };
  add_file("--y4m", media::Container::y4m, "write Y4M; - is stdout");
  add_file("--raw", media::Container::raw, "write frames one after another; - is stdout");
  add_file("--npy", media::Container::npy, "write NPY; - is stdout and needs --count");
  add_number<std::uint64_t>(command, "--count", "end after N frames", 1, UINT64_MAX,
                            [&options](std::uint64_t count) { options.count = count; });
  add_parsed(command, "--policy", "WHAT",
             "latest: the newest frame (default); queue:K: in order, up to K behind",
             "latest or queue:1 to queue:63", parse_receive_policy,
             [&options](std::uint32_t depth) { options.queue_depth = depth; });
  add_device(command, kReaderText, kReaderGpuText, options.device);
  add_copy_frames(command, options.copy_frames);
  add_seconds(command, "--timeout", "how long to wait for the channel; default 10",
              options.timeout_ns);
  command.add_flag("--keep", options.keep,
                   "at the end of the stream wait for the next publisher of the name");
  command.add_flag("--json", options.json, "print the statistics as one JSON object");
  add_group(command, options.group);
  add_color(command);
}

void check_sub(const SubOptions& options) {
  if (options.container == media::Container::npy && options.file == "-" && !options.count) {
    refuse("--npy", "the header holds the number of frames, so stdout needs --count");
  }
}

void add_grab(CLI::App& app, GrabOptions& options) {
  CLI::App& command = add_command(app, "grab");
  add_channel(command, options.channel);
  command.add_option("-o,--out", options.out, "where the frame goes; the name says the kind")
      ->type_name("FILE")
      ->required();
  add_device(command, kReaderText, kReaderGpuText, options.device);
  add_copy_frames(command, options.copy_frames);
  add_seconds(command, "--timeout", "how long to wait for the channel and a frame; default 10",
              options.timeout_ns);
  add_group(command, options.group);
  add_color(command);
}

void add_ls(CLI::App& app, LsOptions& options) {
  CLI::App& command = add_command(app, "ls");
  command.add_flag("--json", options.json, "print one JSON object");
  command.add_flag("--names", options.names, "print the names only, one a line");
  add_group(command, options.group);
  add_color(command);
}

void add_doctor(CLI::App& app, DoctorOptions& options) {
  CLI::App& command = add_command(app, "doctor");
  command.add_flag("--strict", options.strict, "exit code 1 after a warning, too");
  command.add_flag("--json", options.json, "print one JSON object");
  add_group(command, options.group);
  add_color(command);
}

void add_doctor_child(CLI::App& app, DoctorChildOptions& options, const char* name) {
  CLI::App& command = *app.add_subcommand(name)->group("");
  command.add_option("--channel", options.channel)->required();
  command.add_option("--parent", options.parent_pid)->required();
  command.add_option("--group", options.group);
  add_device_id(command, options.device);
}

void add_explain(CLI::App& app, ExplainOptions& options) {
  CLI::App& command = add_command(app, "explain");
  command.add_option("NAME", options.what)->required();
  add_device(command, kReaderText, kReaderGpuText, options.device);
  add_copy_frames(command, options.copy_frames);
  command.add_flag("--try", options.attempt,
                   "receive one frame as a subscriber, and say by which path it came");
  add_seconds(command, "--timeout", "how long to wait for answers and the frame; default 10",
              options.timeout_ns);
  command.add_flag("--json", options.json, "print one JSON object");
  add_group(command, options.group);
  add_color(command);
}

struct AllOptions {
  DemoOptions demo;
  DemoChildOptions demo_publisher;
  DemoChildOptions demo_subscriber;
  PubOptions pub;
  SubOptions sub;
  GrabOptions grab;
  LsOptions ls;
  DoctorOptions doctor;
  DoctorChildOptions doctor_publisher;
  DoctorChildOptions doctor_subscriber;
  ExplainOptions explain;
  VersionOptions version;
};

Command chosen(const CLI::App& app, AllOptions& all) {
  const std::string& name = app.get_subcommands().front()->get_name();
  if (name == "demo") return std::move(all.demo);
  if (name == "pub") {
    check_pub(all.pub);
    return std::move(all.pub);
  }
  if (name == "sub") {
    check_sub(all.sub);
    return std::move(all.sub);
  }
  if (name == "grab") return std::move(all.grab);
  if (name == "ls") return all.ls;
  if (name == kDemoPublisher) {
    all.demo_publisher.publisher = true;
    return std::move(all.demo_publisher);
  }
  if (name == kDemoSubscriber) return std::move(all.demo_subscriber);
  if (name == "doctor") return all.doctor;
  if (name == kDoctorPublisher) {
    all.doctor_publisher.publisher = true;
    return std::move(all.doctor_publisher);
  }
  if (name == "explain") return std::move(all.explain);
  if (name == kDoctorSubscriber) return std::move(all.doctor_subscriber);
  return all.version;
}

int usage_error(const CLI::App& app, const std::string& what) {
  const auto commands = app.get_subcommands();
  const std::string command = commands.empty() ? "" : " " + commands.front()->get_name();
  say(what + ". See `vramlink" + command + " --help`");
  return kUsage;
}

}  // namespace

std::variant<Command, int> parse_command_line(int argc, const char* const* argv) {
  CLI::App app("", "vramlink");
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_help_flag("-h,--help", "print this text");
  app.require_subcommand(1);
  AllOptions all;
  add_demo(app, all.demo);
  add_demo_child(app, all.demo_publisher, kDemoPublisher);
  add_demo_child(app, all.demo_subscriber, kDemoSubscriber);
  add_pub(app, all.pub);
  add_sub(app, all.sub);
  add_grab(app, all.grab);
  add_ls(app, all.ls);
  add_doctor(app, all.doctor);
  add_doctor_child(app, all.doctor_publisher, kDoctorPublisher);
  add_doctor_child(app, all.doctor_subscriber, kDoctorSubscriber);
  add_explain(app, all.explain);
  CLI::App& version = add_command(app, "version");
  version.add_flag("--json", all.version.json, "print one JSON object");

  if (argc < 2) {
    std::fputs(app.help().c_str(), stderr);
    return kUsage;
  }
  const std::string_view first = argv[1];
  if (first.starts_with("-") && first != "-h" && first != "--help") {
    return usage_error(app, "a command comes first, not '" + std::string(first) + "'");
  }
  if (!first.starts_with("-") && !find_help(first) && !is_hidden(first)) {
    return usage_error(app, "there is no command '" + std::string(first) + "'");
  }
  try {
    app.parse(argc, argv);
    return chosen(app, all);
  } catch (const CLI::CallForHelp&) {
    return print_and_finish(app.help());
  } catch (const CLI::ParseError& error) {
    std::string what = error.what();
    std::replace(what.begin(), what.end(), '\n', ' ');
    return usage_error(app, what);
  }
}

}  // namespace vramlink::cli
