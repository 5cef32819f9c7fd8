// What the driver says of an address.
#include "memory.hpp"
#include "pools.hpp"
#include "ranges.hpp"

namespace vramlink::simcuda {
namespace {

using Attribute = api::PointerAttribute;

/// Writes a value of the attribute's type; false for an attribute that the address does not have.
bool write_attribute(void* value, Attribute attribute, std::uint64_t address,
                     const Range& range) noexcept {
  const bool is_host = range.kind == RangeKind::host || range.kind == RangeKind::registered;
  const bool is_vmm = range.kind == RangeKind::device && range.context == kNoRange;
  const auto write = [value](auto what) {
    *static_cast<decltype(what)*>(value) = what;
    return true;
  };
  if (attribute == kPoolOfPointer) return write(pool_of(range));
  switch (attribute) {
    case Attribute::context:
      if (range.context == kNoRange) return write(api::Context{});
      return write(to_handle<api::Context>(driver.contexts, &driver.contexts.at(range.context)));
    case Attribute::memory_type:
      return write(is_host ? api::MemoryType::host : api::MemoryType::device);
    case Attribute::device_pointer:
      return write(api::DevicePointer{address});
    case Attribute::host_pointer:
      if (range.kind == RangeKind::device) return false;
      return write(reinterpret_cast<void*>(address));
    case Attribute::buffer_id:
      return write(static_cast<unsigned long long>(range.buffer_id));
    case Attribute::is_managed:
      return write(static_cast<unsigned char>(range.kind == RangeKind::managed ? 1 : 0));
    case Attribute::device_ordinal:
      if (range.device >= 0) return write(range.device);
      return write(range.context == kNoRange ? 0 : driver.contexts.at(range.context).device);
    case Attribute::is_legacy_ipc_capable:
      return write(static_cast<unsigned char>(is_legacy_ipc_capable(range) ? 1 : 0));
    case Attribute::range_start_address:
      return write(api::DevicePointer{range.base});
    case Attribute::range_size:
      return write(std::size_t{range.size_bytes});
    case Attribute::mapped:
      return write(static_cast<unsigned char>(1));
    case Attribute::allowed_handle_types:
      return write(is_vmm ? driver.memories.at(range.memory).properties.requested_handle_types
                          : api::HandleType::none);
    case Attribute::mempool_handle:
      return write(static_cast<void*>(nullptr));
    case Attribute::access_flags: {
      const Context* context = current_context();
      if (context == nullptr) return false;
      return write(
          static_cast<int>(range.access[static_cast<std::size_t>(context->device)].load()));
    }
    case Attribute::mapping_size:
      return is_vmm && write(std::size_t{range.size_bytes});
    case Attribute::mapping_base_address:
      return is_vmm && write(api::DevicePointer{range.base});
  }
  return false;
}

/// What stands for an address that the driver does not know, in the call that asks for many.
bool write_nothing(void* value, Attribute attribute) noexcept {
  if (attribute == kPoolOfPointer) {
    *static_cast<void**>(value) = nullptr;
    return true;
  }
  switch (attribute) {
    case Attribute::is_managed:
    case Attribute::is_legacy_ipc_capable:
    case Attribute::mapped:
      *static_cast<unsigned char*>(value) = 0;
      return true;
    case Attribute::device_ordinal:
      *static_cast<int*>(value) = -2;
      return true;
    case Attribute::memory_type:
    case Attribute::allowed_handle_types:
    case Attribute::access_flags:
      *static_cast<unsigned*>(value) = 0;
      return true;
    case Attribute::context:
    case Attribute::device_pointer:
    case Attribute::host_pointer:
    case Attribute::buffer_id:
    case Attribute::range_start_address:
    case Attribute::range_size:
    case Attribute::mempool_handle:
    case Attribute::mapping_size:
    case Attribute::mapping_base_address:
      *static_cast<std::uint64_t*>(value) = 0;
      return true;
  }
  return false;
}

}  // namespace

Status cuPointerGetAttribute(void* value, api::PointerAttribute attribute,
                             api::DevicePointer address) {
  return enter(
      FunctionId::cuPointerGetAttribute, Needs::initialized,
      [&] {
        const Range* range = find_range(address, 1);
        if (value == nullptr || range == nullptr ||
            !write_attribute(value, attribute, address, *range)) {
          return Status::invalid_value;
        }
        return Status::success;
      },
      AttributeValues{&attribute, &value, 1}, reinterpret_cast<const void*>(address));
}

Status cuPointerGetAttributes(unsigned count, api::PointerAttribute* attributes, void** values,
                              api::DevicePointer address) {
  return enter(
      FunctionId::cuPointerGetAttributes, Needs::initialized,
      [&] {
        if (count == 0 || attributes == nullptr || values == nullptr) return Status::invalid_value;
        const Range* range = find_range(address, 1);
        for (unsigned i = 0; i < count; ++i) {
          if (range != nullptr && write_attribute(values[i], attributes[i], address, *range)) {
            continue;
          }
          if (!write_nothing(values[i], attributes[i])) return Status::invalid_value;
        }
        return Status::success;
      },
      AttributeValues{attributes, values, count}, reinterpret_cast<const void*>(address));
}

Status cuMemGetAddressRange_v2(api::DevicePointer* base, std::size_t* size,
                               api::DevicePointer address) {
  return enter(
      FunctionId::cuMemGetAddressRange_v2, Needs::healthy,
      [&] {
        const Range* range = find_range(address, 1);
        if (range == nullptr) return Status::not_found;
        if (base != nullptr) *base = range->base;
        if (size != nullptr) *size = range->size_bytes;
        return Status::success;
      },
      out(base), out(size), reinterpret_cast<const void*>(address));
}

}  // namespace vramlink::simcuda
