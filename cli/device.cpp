// cli: from what the user wrote to a device.
#include "device.hpp"

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include <vramlink/diagnose.hpp>

namespace vramlink::cli {
namespace {

constexpr const char* kChooseDevice = "choose device";

/// Why none of the GPUs can be used.
Error no_gpu(const Runtime& runtime, const std::vector<DeviceInfo>& devices) {
  const DriverInfo driver = inspect_driver(runtime);
  if (driver.trouble) return *driver.trouble;
  const auto unusable = std::find_if(devices.begin(), devices.end(), [](const DeviceInfo& each) {
    return !each.id.is_host() && !each.usable;
  });
  return Error(Code::unsupported, kChooseDevice)
      .about(unusable == devices.end() ? "auto" : unusable->name)
      .because(unusable == devices.end() ? "there is no GPU" : unusable->why_not)
      .remedy("`vramlink doctor`, or --device host");
}

Error not_there(const DeviceWish& wish, const std::vector<DeviceInfo>& devices) {
  std::string there;
  for (const DeviceInfo& each : devices) {
    there += (there.empty() ? "" : ", ") + (each.id.is_host() ? "host" : device_text(each));
  }
  return Error(Code::no_device, kChooseDevice)
      .about(wish.kind == DeviceWish::Kind::number ? std::to_string(wish.number)
                                                   : to_string(wish.id))
      .because("this process sees " + there)
      .remedy("one of those; CUDA_VISIBLE_DEVICES may hide others");
}

}  // namespace

std::optional<DeviceWish> parse_gpu_wish(std::string_view text) {
  if (text == "auto") return DeviceWish{DeviceWish::Kind::automatic_gpu, 0, {}};
  DeviceWish wish{DeviceWish::Kind::number, 0, {}};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, wish.number);
  if (error == std::errc() && stop == end) return wish;
  const auto id = parse_device(text);
  if (!id || id->is_host()) return std::nullopt;
  return DeviceWish{DeviceWish::Kind::id, 0, *id};
}

std::optional<DeviceWish> parse_device_wish(std::string_view text) {
  if (text == "auto") return DeviceWish{};
  if (text == "host") return DeviceWish::host();
  return parse_gpu_wish(text);
}

Result<DeviceInfo> choose_device(const Runtime& runtime, const DeviceWish& wish,
                                 LegacyHandles legacy) {
  const std::vector<DeviceInfo> devices =
      wish.kind == DeviceWish::Kind::id && wish.id.is_host()
          ? std::vector<DeviceInfo>{{DeviceId::host(), "host memory", true, {}, {}}}
          : runtime.devices();
  const auto is_meant = [&wish](const DeviceInfo& each) {
    switch (wish.kind) {
      case DeviceWish::Kind::automatic:
      case DeviceWish::Kind::automatic_gpu:
        return !each.id.is_host() && each.usable;
      case DeviceWish::Kind::number:
        return !each.id.is_host() && each.gpu.ordinal == wish.number;
      case DeviceWish::Kind::id:
        break;
    }
    return each.id == wish.id;
  };
  const auto found = std::find_if(devices.begin(), devices.end(), is_meant);
  if (found != devices.end() && (found->usable || legacy != LegacyHandles::never)) return *found;
  if (found != devices.end()) {
    return Error(Code::unsupported, kChooseDevice)
        .about(device_text(*found))
        .because(found->why_not)
        .remedy("`vramlink doctor`, or --device host");
  }
  if (wish.kind == DeviceWish::Kind::automatic) return devices.front();
  const bool any_gpu = devices.size() > 1;
  if (wish.kind == DeviceWish::Kind::automatic_gpu || !any_gpu) return no_gpu(runtime, devices);
  return not_there(wish, devices);
}

std::string device_text(const DeviceInfo& device) {
  if (device.id.is_host()) return "host memory";
  return "GPU " + std::to_string(device.gpu.ordinal) + " (" + device.name + ")";
}

}  // namespace vramlink::cli
