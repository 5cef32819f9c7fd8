// See device_list.hpp.
#include "backend/cuda/device_list.hpp"

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "base/try.hpp"

namespace vramlink::cuda {
namespace {

using api::DeviceAttribute;
using api::Status;

/// What a GPU must have, and what to say of one that has not.
struct Need {
  DeviceAttribute attribute;
  const char* why_not;
  bool for_descriptors = false;  ///< legacy handles do without
};

constexpr std::array kNeeds{
    Need{DeviceAttribute::unified_addressing,
         "it has no address space in common with the host; use another GPU or the host"},
    Need{DeviceAttribute::virtual_memory_management_supported,
         "it has no virtual memory management (cuMemCreate), which a virtual GPU may lack; use "
         "another GPU or the host, or allow legacy handles",
         true},
    Need{DeviceAttribute::handle_type_posix_file_descriptor_supported,
         "its memory cannot be exported as a file descriptor, which a virtual GPU or another "
         "kernel driver may not allow; use another GPU or the host, or allow legacy handles",
         true},
    Need{DeviceAttribute::host_register_supported,
         "host memory cannot be registered with it; use another GPU or the host"},
    Need{DeviceAttribute::can_use_64_bit_stream_mem_ops,
         "its streams cannot write and wait for 64-bit words; use another GPU or the host"},
};

struct Obstacle {
  std::string why_not;                ///< the first that was found; empty if nothing is missing
  bool for_descriptors_alone = true;  ///< nothing is missing where memory goes by legacy handles
};

Obstacle find_obstacle(const Driver& driver, api::Device device) {
  Obstacle found;
  int value = 0;
  if (driver.device_get_attribute(&value, DeviceAttribute::compute_mode, device) ==
          Status::success &&
      value == static_cast<int>(api::ComputeMode::prohibited)) {
    return {"its compute mode is prohibited; an administrator can run nvidia-smi -c 0", false};
  }
  for (const Need& need : kNeeds) {
    const auto ask = [&] { return driver.device_get_attribute(&value, need.attribute, device); };
    Status status = ask();
    if (status != Status::success) status = ask();  // what is said here is said once for all
    if (status == Status::success && value != 0) continue;
    found.for_descriptors_alone = found.for_descriptors_alone && need.for_descriptors;
    if (!found.why_not.empty()) continue;
    found.why_not = status == Status::success
                        ? need.why_not
                        : to_string(driver.error("cuDeviceGetAttribute", status));
  }
  return found;
}

/// 0 where the driver does not know the attribute.
std::uint32_t attribute_of(const Driver& driver, api::Device device, DeviceAttribute attribute) {
  int value = 0;
  const Status status = driver.device_get_attribute(&value, attribute, device);
  return status == Status::success ? static_cast<std::uint32_t>(value) : 0;
}

GpuInfo describe(const Driver& driver, api::Device device, int ordinal) {
  const auto ask = [&](DeviceAttribute attribute) {
    return attribute_of(driver, device, attribute);
  };
  GpuInfo info;
  info.ordinal = static_cast<std::uint32_t>(ordinal);
  std::array<char, 32> address{};
  std::snprintf(address.data(), address.size(), "%04x:%02x:%02x.0",
                ask(DeviceAttribute::pci_domain_id), ask(DeviceAttribute::pci_bus_id),
                ask(DeviceAttribute::pci_device_id));
  info.pci_address = address.data();
  std::size_t bytes = 0;
  if (driver.device_total_mem(&bytes, device) == Status::success) info.memory_bytes = bytes;
  info.compute_capability = 10 * ask(DeviceAttribute::compute_capability_major) +
                            ask(DeviceAttribute::compute_capability_minor);
  info.exclusive = ask(DeviceAttribute::compute_mode) ==
                   static_cast<std::uint32_t>(api::ComputeMode::exclusive_process);
  int mps = 0;
  if (driver.device_get_attribute(&mps, DeviceAttribute::mps_enabled, device) == Status::success) {
    info.mps = mps != 0 ? Mps::on : Mps::off;
  }
  return info;
}

Result<ListedDevice> list_device(const Driver& driver, int ordinal) {
  ListedDevice listed;
  VRAMLINK_CHECK(driver.check("cuDeviceGet", driver.device_get(&listed.device, ordinal)));
  api::Uuid uuid{};
  VRAMLINK_CHECK(driver.check("cuDeviceGetUuid", driver.device_get_uuid(&uuid, listed.device)));
  std::memcpy(listed.info.id.uuid.data(), uuid.bytes, sizeof(uuid.bytes));
  std::array<char, 256> name{};
  VRAMLINK_CHECK(driver.check(
      "cuDeviceGetName",
      driver.device_get_name(name.data(), static_cast<int>(name.size()) - 1, listed.device)));
  listed.info.name = name.data();
  listed.info.gpu = describe(driver, listed.device, ordinal);
  Obstacle obstacle = find_obstacle(driver, listed.device);
  listed.shares_handles = obstacle.for_descriptors_alone;
  listed.info.why_not = std::move(obstacle.why_not);
  listed.info.usable = listed.info.why_not.empty();
  return listed;
}

}  // namespace

Result<std::vector<ListedDevice>> list_devices(const Driver& driver) {
  int count = 0;
  VRAMLINK_CHECK(driver.check("cuDeviceGetCount", driver.device_get_count(&count)));
  std::vector<ListedDevice> devices;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    devices.push_back(VRAMLINK_TRY(list_device(driver, ordinal)));
  }
  return devices;
}

DeviceId id_of(const Driver& driver, api::Device device) noexcept {
  api::Uuid uuid{};
  DeviceId id;
  if (driver.device_get_uuid(&uuid, device) == Status::success) {
    std::memcpy(id.uuid.data(), uuid.bytes, sizeof(uuid.bytes));
  }
  return id;
}

}  // namespace vramlink::cuda
