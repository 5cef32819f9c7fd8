// cuInit, the devices and their properties.
#include "devices.hpp"

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "budget.hpp"
#include "driver.hpp"
#include "profiles.hpp"

namespace vramlink::simcuda {

Driver driver;
std::array<EventWords, kEventMax> event_words;

namespace {

constexpr std::uint64_t kDefaultMemoryMib = 1024;
constexpr std::uint64_t kDefaultTeardownUs = 3000;
constexpr const char* kDeviceName = "Stand-in GPU";

std::atomic<int> owner_pid{0};
std::array<DeviceSettings, kDeviceMax> visible;
int visible_count = 0;
std::uint64_t memory_bytes = 0;
bool peers = true;
/// The attribute mps_enabled; -1 of drivers that are too old to know it.
int mps = 0;

std::uint64_t number_from(const char* name, std::uint64_t otherwise) noexcept {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == 0) return otherwise;
  char* end = nullptr;
  const std::uint64_t value = std::strtoull(text, &end, 10);
  if (end != text && *end == 0) return value;
  std::fprintf(stderr, "simcuda: %s=%s: not a number\n", name, text);
  std::abort();
}

api::Uuid uuid_of(int number) noexcept {
  // Version 4, as the real ones are; the same on every host, so that tests can name them.
  api::Uuid uuid{{0x5c, 0x0d, 0x0a, 0x00, 0x11, 0x22, 0x43, 0x44, static_cast<char>(0x85), 0x66,
                  0x77, static_cast<char>(0x88), static_cast<char>(0x99), static_cast<char>(0xaa),
                  static_cast<char>(0xbb), 0}};
  uuid.bytes[15] = static_cast<char>(number);
  return uuid;
}

/// Of the part of a GPU that a process has instead.
api::Uuid mig_uuid_of(int number) noexcept {
  api::Uuid uuid = uuid_of(number);
  uuid.bytes[3] = 1;
  return uuid;
}

/// "GPU-" or "MIG-", and the usual groups of hexadecimal digits.
std::array<char, 48> uuid_text(const char* kind, const api::Uuid& uuid) noexcept {
  std::array<char, 48> text{};
  int length = std::snprintf(text.data(), text.size(), "%s", kind);
  for (int i = 0; i < 16; ++i) {
    const bool begins_group = i == 4 || i == 6 || i == 8 || i == 10;
    length +=
        std::snprintf(text.data() + length, text.size() - static_cast<std::size_t>(length),
                      "%s%02x", begins_group ? "-" : "", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

/// The host device that an entry of CUDA_VISIBLE_DEVICES names, or -1.
int device_named(const char* entry, std::size_t length, int count) noexcept {
  const bool is_part = length > 4 && std::strncmp(entry, "MIG-", 4) == 0;
  if (is_part && !profile().is_mig) return -1;
  if (is_part || (length > 4 && std::strncmp(entry, "GPU-", 4) == 0)) {
    int found = -1;
    for (int number = 0; number < count; ++number) {
      const auto text =
          is_part ? uuid_text("MIG-", mig_uuid_of(number)) : uuid_text("GPU-", uuid_of(number));
      if (std::strncmp(text.data(), entry, length) != 0) continue;
      if (found >= 0) return -1;  // an abbreviation of several
      found = number;
    }
    return found;
  }
  int number = 0;
  if (length == 0 || length > 3) return -1;
  for (std::size_t i = 0; i < length; ++i) {
    if (entry[i] < '0' || entry[i] > '9') return -1;
    number = number * 10 + (entry[i] - '0');
  }
  return number < count ? number : -1;
}

int mps_from_environment() noexcept {
  const char* text = std::getenv("VRAMLINK_SIMCUDA_MPS");
  if (text == nullptr || std::strcmp(text, "off") == 0) return 0;
  if (std::strcmp(text, "on") == 0) return 1;
  if (std::strcmp(text, "unknown") == 0) return -1;
  std::fprintf(stderr, "simcuda: VRAMLINK_SIMCUDA_MPS=%s: not on, off or unknown\n", text);
  std::abort();
}

void read_devices() noexcept {
  std::uint64_t count = number_from("VRAMLINK_SIMCUDA_DEVICES", 1);
  if (count > kDeviceMax) count = kDeviceMax;
  memory_bytes = number_from("VRAMLINK_SIMCUDA_MEMORY_MIB", kDefaultMemoryMib) << 20;
  peers = number_from("VRAMLINK_SIMCUDA_PEER_ACCESS", 1) != 0 && !profile().is_mig;
  mps = mps_from_environment();
  visible_count = 0;
  const auto show = [](int number) {
    if (profile().is_mig && visible_count == 1) return;  // a process has one part at most
    visible[static_cast<std::size_t>(visible_count++)] = {
        number, profile().is_mig ? mig_uuid_of(number) : uuid_of(number)};
  };
  const char* list = std::getenv("CUDA_VISIBLE_DEVICES");
  if (list == nullptr) {
    for (int number = 0; number < static_cast<int>(count); ++number) show(number);
    return;
  }
  // The list ends at the first entry that names nothing, or a device for the second time.
  while (visible_count < kDeviceMax) {
    const std::size_t length = std::strcspn(list, ",");
    const int number = device_named(list, length, static_cast<int>(count));
    if (number < 0 || ordinal_of(number) >= 0) return;
    show(number);
    if (list[length] == 0 || profile().is_mig) return;
    list += length + 1;
  }
}

void read_delay() noexcept {
  const char* text = std::getenv("VRAMLINK_SIMCUDA_DELAY_US");
  if (text == nullptr || *text == 0) return;
  unsigned long long seed = 0;
  unsigned long long max_us = 0;
  if (std::sscanf(text, "random:%llu:%llu", &seed, &max_us) == 2) {
    set_delay(0, max_us, seed);
  } else {
    set_delay(number_from("VRAMLINK_SIMCUDA_DELAY_US", 0), 0, 0);
  }
}

struct AttributeValue {
  api::DeviceAttribute attribute;
  int value;
};

using Attribute = api::DeviceAttribute;
constexpr std::array kAttributes{
    AttributeValue{Attribute::multiprocessor_count, 16},
    AttributeValue{Attribute::integrated, 0},
    AttributeValue{Attribute::can_map_host_memory, 1},
    AttributeValue{Attribute::compute_mode, 0},
    AttributeValue{Attribute::pci_device_id, 0},
    AttributeValue{Attribute::async_engine_count, 3},
    AttributeValue{Attribute::unified_addressing, 1},
    AttributeValue{Attribute::pci_domain_id, 0},
    AttributeValue{Attribute::compute_capability_major, 9},
    AttributeValue{Attribute::compute_capability_minor, 0},
    AttributeValue{Attribute::can_use_host_pointer_for_registered_mem, 1},
    AttributeValue{Attribute::host_register_supported, 1},
    AttributeValue{Attribute::virtual_memory_management_supported, 1},
    AttributeValue{Attribute::handle_type_posix_file_descriptor_supported, 1},
    AttributeValue{Attribute::read_only_host_register_supported, 1},
    AttributeValue{Attribute::can_use_64_bit_stream_mem_ops, 1},
    AttributeValue{kPoolsSupported, 1},
    AttributeValue{kPoolHandleTypes, static_cast<int>(api::HandleType::posix_file_descriptor)},
};

/// What the profile has of an attribute that says whether something is supported.
bool is_supported(api::DeviceAttribute attribute) noexcept {
  const Profile& now = profile();
  if (attribute == kPoolsSupported) return now.has_pools;
  if (attribute == kPoolHandleTypes) return now.has_pools && now.exports_fds;
  if (attribute == Attribute::virtual_memory_management_supported) return now.has_mapping;
  if (attribute == Attribute::handle_type_posix_file_descriptor_supported) return now.exports_fds;
  if (attribute == Attribute::can_use_64_bit_stream_mem_ops) return now.has_words_64;
  return true;
}

__attribute__((destructor)) void at_exit() { stop_device(); }

}  // namespace

Process this_process() noexcept {
  const int owner = owner_pid.load(std::memory_order_acquire);
  if (owner == 0) return Process::fresh;
  return owner == sys::pid() ? Process::owner : Process::forked;
}
int device_count() noexcept { return visible_count; }
const DeviceSettings& device_settings(int ordinal) noexcept {
  return visible[static_cast<std::size_t>(ordinal)];
}
int ordinal_of(int number) noexcept {
  for (int i = 0; i < visible_count; ++i) {
    if (visible[static_cast<std::size_t>(i)].number == number) return i;
  }
  return -1;
}
std::uint64_t device_memory_bytes() noexcept { return memory_bytes; }
bool peer_access_possible() noexcept { return peers; }
int driver_version() noexcept {
  return static_cast<int>(number_from("VRAMLINK_SIMCUDA_DRIVER_VERSION",
                                      static_cast<std::uint64_t>(profile().driver_version)));
}

void set_delay(std::uint64_t fixed_us, std::uint64_t random_max_us, std::uint64_t seed) noexcept {
  device_state.delay_seed.store(seed * 2 + 1);
  device_state.delay_ns.store(fixed_us * 1000);
  device_state.delay_max_ns.store(random_max_us * 1000);
}

Status cuInit(unsigned flags) {
  return enter(
      FunctionId::cuInit, Needs::start,
      [&] {
        if (flags != 0) return Status::invalid_value;
        if (this_process() == Process::owner) return Status::success;
        read_devices();
        if (visible_count == 0) return Status::no_device;
        open_account_file();
        read_delay();
        device_state.teardown_ns.store(
            number_from("VRAMLINK_SIMCUDA_TEARDOWN_US", kDefaultTeardownUs) * 1000);
        if (!start_device(number_from("VRAMLINK_SIMCUDA_TRACE", 1) != 0))
          return Status::operating_system;
        owner_pid.store(sys::pid(), std::memory_order_release);
        return Status::success;
      },
      flags);
}

Status cuDriverGetVersion(int* version) {
  return enter(
      FunctionId::cuDriverGetVersion, Needs::nothing,
      [&] {
        if (version == nullptr) return Status::invalid_value;
        *version = driver_version();
        return Status::success;
      },
      out(version));
}

Status cuDeviceGetCount(int* count) {
  return enter(
      FunctionId::cuDeviceGetCount, Needs::initialized,
      [&] {
        if (count == nullptr) return Status::invalid_value;
        *count = visible_count;
        return Status::success;
      },
      out(count));
}

Status cuDeviceGet(api::Device* device, int ordinal) {
  return enter(
      FunctionId::cuDeviceGet, Needs::initialized,
      [&] {
        if (device == nullptr) return Status::invalid_value;
        if (!is_device(ordinal)) return Status::invalid_device;
        *device = ordinal;
        return Status::success;
      },
      out(device), ordinal);
}

Status cuDeviceGetName(char* name, int size, api::Device device) {
  return enter(
      FunctionId::cuDeviceGetName, Needs::initialized,
      [&] {
        if (name == nullptr || size <= 0) return Status::invalid_value;
        if (!is_device(device)) return Status::invalid_device;
        std::snprintf(name, static_cast<std::size_t>(size), "%s %d%s", kDeviceName,
                      device_settings(device).number, profile().is_mig ? " MIG 1g.10gb" : "");
        return Status::success;
      },
      TextOut{name}, size, device);
}

namespace {
Status get_uuid(api::Uuid* uuid, api::Device device) noexcept {
  if (uuid == nullptr) return Status::invalid_value;
  if (!is_device(device)) return Status::invalid_device;
  *uuid = device_settings(device).uuid;
  return Status::success;
}
}  // namespace

Status cuDeviceGetUuid_v2(api::Uuid* uuid, api::Device device) {
  return enter(
      FunctionId::cuDeviceGetUuid_v2, Needs::initialized, [&] { return get_uuid(uuid, device); },
      out(uuid), device);
}

Status cuDeviceGetUuid(api::Uuid* uuid, api::Device device) {
  return enter(
      FunctionId::cuDeviceGetUuid, Needs::initialized,
      [&] {
        const Status status = get_uuid(uuid, device);
        // The older function names the whole GPU.
        if (status == Status::success) *uuid = uuid_of(device_settings(device).number);
        return status;
      },
      out(uuid), device);
}

Status cuDeviceGetAttribute(int* value, api::DeviceAttribute attribute, api::Device device) {
  return enter(
      FunctionId::cuDeviceGetAttribute, Needs::initialized,
      [&] {
        if (value == nullptr) return Status::invalid_value;
        if (!is_device(device)) return Status::invalid_device;
        if (attribute == Attribute::pci_bus_id) {
          *value = device_settings(device).number + 1;
          return Status::success;
        }
        if (attribute == Attribute::mps_enabled && mps >= 0) {
          *value = mps;
          return Status::success;
        }
        for (const AttributeValue& known : kAttributes) {
          if (known.attribute != attribute) continue;
          *value = is_supported(attribute) ? known.value : 0;
          return Status::success;
        }
        return Status::invalid_value;
      },
      out(value), attribute, device);
}

Status cuDeviceTotalMem_v2(std::size_t* bytes, api::Device device) {
  return enter(
      FunctionId::cuDeviceTotalMem_v2, Needs::initialized,
      [&] {
        if (bytes == nullptr) return Status::invalid_value;
        if (!is_device(device)) return Status::invalid_device;
        *bytes = memory_bytes;
        return Status::success;
      },
      out(bytes), device);
}

Status cuDeviceCanAccessPeer(int* can, api::Device device, api::Device peer) {
  return enter(
      FunctionId::cuDeviceCanAccessPeer, Needs::initialized,
      [&] {
        if (can == nullptr) return Status::invalid_value;
        if (!is_device(device) || !is_device(peer)) return Status::invalid_device;
        *can = device != peer && peers ? 1 : 0;
        return Status::success;
      },
      out(can), device, peer);
}

}  // namespace vramlink::simcuda
