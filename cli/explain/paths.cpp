// explain: which ways there are, and why not the faster one.
#include "explain/paths.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include <vramlink/diagnose.hpp>
#include <vramlink/inspect.hpp>

#include "device.hpp"
#include "talk.hpp"

namespace vramlink::cli::explain {
namespace {

constexpr std::array<Way, 4> kWays{Way::direct, Way::peer, Way::copy, Way::host};
constexpr const char* kVisible = "CUDA_VISIBLE_DEVICES";

Path refused(Way way, const Error& why) {
  return {way, State::refused, text_without_remedy(why), remedy_of(why)};
}

std::string gpu_option(const DeviceInfo& gpu) { return "--gpu " + std::to_string(gpu.gpu.ordinal); }

std::string visible_text() {
  const char* const visible = std::getenv(kVisible);
  return visible ? " (" + std::string(kVisible) + " is \"" + visible + "\")" : "";
}

/// The ways to one channel whose frames live on a GPU.
class GpuPaths {
 public:
  GpuPaths(const Runtime& runtime, const DeviceId& owner, MemoryPath path, const Reader& reader)
      : runtime_(runtime),
        owner_(owner),
        by_handle_(path == MemoryPath::legacy_handle),
        reader_(reader),
        devices_(runtime.devices()) {
    driver_trouble_ = inspect_driver(runtime).trouble;
    home_ = find(owner);
    home_trouble_ = look_at_home();
    find_others();
  }

  Paths find_all() {
    Paths paths;
    paths.all.push_back(direct());
    paths.all.push_back(peer());
    paths.all.push_back(copy());
    paths.all.push_back(
        {Way::host, State::refused,
         "its frames live on " + to_string(owner_) + ", whose memory the host cannot map",
         "publish in host memory: `vramlink pub --device host`; `vramlink sub` and Downloader copy "
         "frames of a GPU to the host"});
    paths.open = open_;
    return paths;
  }

 private:
  [[nodiscard]] const DeviceInfo* find(const DeviceId& id) const noexcept {
    const auto found = std::find_if(devices_.begin(), devices_.end(),
                                    [&id](const DeviceInfo& each) { return each.id == id; });
    return found == devices_.end() ? nullptr : &*found;
  }

  /// Why this process cannot use the GPU that the frames live on.
  [[nodiscard]] std::optional<Error> look_at_home() const {
    if (driver_trouble_ && driver_trouble_->code() != Code::no_device) return driver_trouble_;
    if (!home_) {
      return Error(Code::no_device, "look for the channel's GPU")
          .about(to_string(owner_))
          .because("this process does not see it" + visible_text())
          .remedy(std::getenv(kVisible) ? "add " + to_string(owner_) + " to " + kVisible
                                        : "give this process that GPU; in a container, --gpus")
          .device(owner_.uuid);
    }
    if (by_handle_) return std::nullopt;  // no process opens one of its own: a trial tells
    if (!home_->usable) {
      return Error(Code::unsupported, "use the channel's GPU")
          .about(device_text(*home_))
          .because(home_->why_not)
          .remedy("vramlink doctor");
    }
    const Result<void> reached = check_reach(runtime_, owner_, owner_);
    if (reached) return std::nullopt;
    return reached.error();
  }

  /// The GPUs other than the channel's that may read: the one that was asked for, else all; of
  /// these the first that reaches the channel's is taken, else the first.
  void find_others() {
    for (const DeviceInfo& each : devices_) {
      if (each.id.is_host() || !each.usable || each.id == owner_) continue;
      if (asks_other_gpu() && each.id != *reader_.device) continue;
      if (!other_) other_ = &each;
      if (home_trouble_) return;  // nobody to ask
      if (by_handle_) {
        other_trouble_ = Error(Code::unsupported, "open memory handle")
                             .about(to_string(each.id))
                             .because(
                                 "the publisher gives its memory by a legacy handle, which is "
                                 "opened on the channel's GPU alone")
                             .remedy("publish without --legacy-handles");
        return;
      }
      const Result<void> reached = check_reach(runtime_, owner_, each.id);
      if (reached) {
        other_ = &each;
        other_trouble_.reset();
        return;
      }
      if (!other_trouble_) other_trouble_ = reached.error();
    }
  }

  [[nodiscard]] bool asks_other_gpu() const noexcept {
    return reader_.device && !reader_.device->is_host() && *reader_.device != owner_;
  }

  [[nodiscard]] Path direct() const {
    if (home_trouble_) return refused(Way::direct, *home_trouble_);
    if (!reader_.device || *reader_.device == owner_) {
      return {Way::direct,
              State::taken,
              device_text(*home_) + " reads the frames where they are" +
                  (by_handle_ ? ", which come by a legacy handle, as the publisher allows" : ""),
              {}};
    }
    return {Way::direct, State::possible,
            device_text(*home_) +
                " could read the frames where they are, but another device is "
                "asked for",
            "leave --device and --gpu out"};
  }

  [[nodiscard]] Path no_other(Way way) const {
    if (driver_trouble_ && driver_trouble_->code() != Code::no_device) {
      return refused(way, *driver_trouble_);
    }
    return {way, State::refused, "this process can use no other GPU" + visible_text(), {}};
  }

  Path peer() {
    if (!other_) return no_other(Way::peer);
    if (home_trouble_) {
      open_ = asks_other_gpu();
      return {Way::peer, State::possible,
              "whether " + device_text(*other_) + " reaches " + to_string(owner_) +
                  " by peer access, only a trial tells: the channel's GPU cannot be used here",
              gpu_option(*other_) + " --try"};
    }
    if (other_trouble_) return refused(Way::peer, *other_trouble_);
    const std::string text = device_text(*other_) +
                             " reads the frames where they are, by peer "
                             "access";
    if (asks_other_gpu()) return {Way::peer, State::taken, text, {}};
    return {Way::peer, State::possible, text, gpu_option(*other_)};
  }

  [[nodiscard]] Path copy() const {
    if (!other_) return no_other(Way::copy);
    if (home_trouble_) {
      Path path = refused(Way::copy, *home_trouble_);
      path.reason = "frames are copied from the channel's GPU: " + path.reason;
      return path;
    }
    if (other_trouble_ && other_trouble_->code() != Code::unsupported) {
      return refused(Way::copy, *other_trouble_);
    }
    if (!other_trouble_) {
      return {Way::copy, State::possible,
              "not needed, since " + device_text(*other_) + " reads the frames where they are",
              "CopyFrames::always in SubscriberOptions"};
    }
    const std::string text =
        "each frame is copied to " + device_text(*other_) + " through host memory";
    if (asks_other_gpu() && reader_.copy_frames) return {Way::copy, State::taken, text, {}};
    return {Way::copy, State::possible, text + ", if that is allowed",
            gpu_option(*other_) + " --copy-frames"};
  }

  const Runtime& runtime_;
  DeviceId owner_;
  bool by_handle_;
  const Reader& reader_;
  std::vector<DeviceInfo> devices_;
  std::optional<Error> driver_trouble_;
  const DeviceInfo* home_ = nullptr;
  std::optional<Error> home_trouble_;
  const DeviceInfo* other_ = nullptr;
  std::optional<Error> other_trouble_;  // why `other_` does not reach the channel's
  bool open_ = false;
};

/// The ways to a channel whose frames live in host memory.
Paths host_paths(const Runtime& runtime, const Reader& reader) {
  const std::vector<DeviceInfo> devices = runtime.devices();
  const auto gpu = std::find_if(devices.begin(), devices.end(), [](const DeviceInfo& each) {
    return !each.id.is_host() && each.usable;
  });
  std::string reason = "its frames live in host memory, where the publisher put them";
  std::string remedy = "publish on a GPU: `vramlink pub --gpu N`, or PublisherOptions::device";
  if (gpu == devices.end()) {
    if (const auto trouble = inspect_driver(runtime).trouble) {
      reason += "; and here: " + text_without_remedy(*trouble);
      remedy = remedy_of(*trouble);
    } else {
      reason += "; and no GPU can be used here";
      remedy = "vramlink doctor";
    }
  }
  Paths paths;
  paths.all.push_back({Way::direct, State::refused, reason, remedy});
  paths.all.push_back({Way::peer, State::refused, reason, remedy});
  paths.all.push_back({Way::copy, State::refused,
                       "frames are copied from one GPU to another only, and these live in host "
                       "memory",
                       remedy});
  if (!reader.device || reader.device->is_host()) {
    paths.all.push_back({Way::host, State::taken, "both processes map the same host memory", {}});
  } else {
    paths.all.push_back({Way::host, State::refused,
                         to_string(*reader.device) + " is asked for, which cannot map host memory",
                         "leave --device and --gpu out"});
  }
  return paths;
}

}  // namespace

std::string_view name(State state) noexcept {
  switch (state) {
    case State::taken:
      return "taken";
    case State::possible:
      return "possible";
    case State::refused:
      break;
  }
  return "refused";
}

std::string_view name(Way way) noexcept {
  switch (way) {
    case Way::direct:
      return "direct";
    case Way::peer:
      return "peer";
    case Way::copy:
      return "copy";
    case Way::host:
      break;
  }
  return "host";
}

bool Paths::any_taken() const noexcept {
  return std::any_of(all.begin(), all.end(),
                     [](const Path& each) { return each.state == State::taken; });
}

Path& Paths::of(Way way) noexcept { return all[static_cast<std::size_t>(way)]; }

Paths find_paths(const Runtime& runtime, const DeviceId& owner, MemoryPath path,
                 const Reader& reader) {
  return owner.is_host() ? host_paths(runtime, reader)
                         : GpuPaths(runtime, owner, path, reader).find_all();
}

Paths no_paths(const Error& why) {
  Paths paths;
  for (const Way way : kWays) paths.all.push_back(refused(way, why));
  return paths;
}

}  // namespace vramlink::cli::explain
