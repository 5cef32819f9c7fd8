// See registry.hpp.
#include "runtime/registry.hpp"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "backend/cuda/factory.hpp"
#include "backend/host/factory.hpp"
#include "os/readable.hpp"

namespace vramlink::runtime {
namespace {

constexpr const char* kVariable = "VRAMLINK_CUDA";

std::string_view cuda_setting() {
  const char* text = std::getenv(kVariable);
  return text != nullptr && *text != '\0' ? text : "auto";
}

}  // namespace

BackendRegistry::BackendRegistry()
    : host_info_{DeviceId::host(), "host memory", true, "", {}}, host_(host::create()) {}

BackendRegistry::Gpus BackendRegistry::look_for_gpus() const {
  Gpus gpus;
  gpus.devices.push_back(host_info_);
  if (cuda_setting() == "off") {
    gpus.driver.trouble = Error(Code::no_driver, "look for GPUs")
                              .about(kVariable)
                              .because("it is off, so the GPU driver is not loaded")
                              .remedy("unset it, or use the host");
    return gpus;
  }
  gpus.driver.library = cuda::library_name();
  Result<cuda::Found> found = cuda::find_devices();
  if (!found) {
    gpus.driver.trouble = std::move(found).error();
    return gpus;
  }
  gpus.devices.insert(gpus.devices.end(), found->devices.begin(), found->devices.end());
  gpus.backends = std::move(found->backends);
  gpus.legacy_backends = std::move(found->legacy_backends);
  gpus.driver.version = found->driver_version;
  return gpus;
}

const BackendRegistry::Gpus& BackendRegistry::gpus() const {
  std::call_once(looked_, [this] { gpus_ = look_for_gpus(); });
  return gpus_;
}

const std::vector<DeviceInfo>& BackendRegistry::devices() const { return gpus().devices; }

Result<backend::Backend*> BackendRegistry::find(const DeviceId& device) const {
  for (const auto& candidate : added_) {
    if (candidate->device() == device) return candidate.get();
  }
  if (device.is_host()) return host_.get();
  return find_gpu(device, false);
}

Result<backend::Backend*> BackendRegistry::find_legacy(const DeviceId& device) const {
  if (!device.is_host()) return find_gpu(device, true);
  return Error(Code::unsupported, "open device")
      .about(to_string(device))
      .because("legacy handles are for memory of GPUs")
      .remedy("leave them out");
}

Result<backend::Backend*> BackendRegistry::find_any(const DeviceId& device) const {
  Result<backend::Backend*> found = find(device);
  if (!found.failed_with(Code::unsupported)) return found;
  const Result<backend::Backend*> legacy = find_legacy(device);
  return legacy ? legacy : found;
}

Result<backend::Backend*> BackendRegistry::find_gpu(const DeviceId& device, bool legacy) const {
  const Gpus& all = gpus();
  for (const auto& candidate : legacy ? all.legacy_backends : all.backends) {
    if (candidate->device() == device) return candidate.get();
  }
  if (all.driver.trouble) return Error(*all.driver.trouble).device(device.uuid);
  const auto listed = std::find_if(all.devices.begin(), all.devices.end(),
                                   [&](const DeviceInfo& info) { return info.id == device; });
  if (listed != all.devices.end()) {
    return Error(Code::unsupported, "open device")
        .about(to_string(device))
        .because(listed->why_not)
        .device(device.uuid);
  }
  std::string there;
  for (const DeviceInfo& info : all.devices) there += " " + to_string(info.id);
  return Error(Code::no_device, "open device")
      .about(to_string(device))
      .because("this process sees only:" + there)
      .remedy("look at CUDA_VISIBLE_DEVICES, or use one of those")
      .device(device.uuid);
}

Result<MemoryInfo> BackendRegistry::inspect(const std::byte* address) const {
  if (gpus().devices.size() > 1) return cuda::inspect_memory(address);
  MemoryInfo info;
  info.type = os::is_readable(address, 1) ? MemoryType::host : MemoryType::nothing;
  return info;
}

DriverInfo BackendRegistry::driver() const { return gpus().driver; }

Result<void> BackendRegistry::check_required() const {
  const std::string_view setting = cuda_setting();
  if (setting == "auto" || setting == "off") return {};
  if (setting != "require") {
    return Error(Code::invalid_argument, "open runtime")
        .about(kVariable)
        .because("it is '" + std::string(setting) + "'")
        .remedy("set it to auto, off or require");
  }
  const Gpus& all = gpus();
  const auto is_gpu = [](const DeviceInfo& info) { return info.usable && !info.id.is_host(); };
  if (std::any_of(all.devices.begin(), all.devices.end(), is_gpu)) return {};
  if (all.driver.trouble) return *all.driver.trouble;
  return Error(Code::unsupported, "open runtime")
      .about(kVariable)
      .because("no GPU can be used: " +
               (all.devices.size() > 1 ? all.devices[1].why_not : std::string("none is there")))
      .remedy("run `vramlink doctor`, or unset " + std::string(kVariable));
}

}  // namespace vramlink::runtime
