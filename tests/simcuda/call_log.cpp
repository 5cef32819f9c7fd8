// What the log shows of arguments and results that are more than a number.
#include <cstring>

#include "call.hpp"

namespace vramlink::simcuda {
namespace {

constexpr std::size_t kItemsShown = 16;
constexpr std::size_t kTextShown = 64;

/// A list in brackets; `show` shows an item, with a space before it.
template <class Item, class Show>
void show_list(Call& call, const Item* items, std::size_t count, const Show& show) noexcept {
  call.show_text(" [");
  if (items == nullptr) count = 0;
  for (std::size_t i = 0; i < count && i < kItemsShown; ++i) {
    if (i != 0) call.show_text(",");
    show(items[i]);
  }
  call.show_text(count > kItemsShown ? ", ... ]" : " ]");
}

const char* name_of(api::MemoryType type) noexcept {
  switch (type) {
    case api::MemoryType::host:
      return "host";
    case api::MemoryType::device:
      return "device";
    case api::MemoryType::array:
      return "array";
    case api::MemoryType::unified:
      return "unified";
    case api::MemoryType::none:
      break;
  }
  return "none";
}

void show_location(Call& call, const api::Location& location) noexcept {
  call.show_text(location.type == api::LocationType::device ? " device" : " no device");
  call.show(static_cast<std::int64_t>(location.id));
}

void show_end(Call& call, api::MemoryType type, const void* host, api::DevicePointer device,
              std::size_t x_bytes) noexcept {
  call.show_text(" ");
  call.show_text(name_of(type));
  call.show(type == api::MemoryType::host ? host : reinterpret_cast<const void*>(device));
  if (x_bytes == 0) return;
  call.show_text(" +");
  call.show(std::uint64_t{x_bytes});
}

void show_words(Call& call, const api::MemOp* words, std::size_t count) noexcept {
  show_list(call, words, count, [&call](const api::MemOp& word) {
    switch (static_cast<int>(word.operation)) {
      case 1:
        call.show_text(" wait32");
        break;
      case 2:
        call.show_text(" write32");
        break;
      case static_cast<int>(api::MemOpType::wait_value_64):
        call.show_text(" wait64");
        break;
      case static_cast<int>(api::MemOpType::write_value_64):
        call.show_text(" write64");
        break;
      default:
        call.show_text(" type");
        call.show(static_cast<std::int64_t>(word.operation));
    }
    call.show(reinterpret_cast<const void*>(word.address));
    call.show(word.value);
    if (word.flags == 0) return;
    call.show_text(" flags");
    call.show(std::uint64_t{word.flags});
  });
}

/// A value of the attribute's type.
void show_attribute(Call& call, api::PointerAttribute attribute, const void* value) noexcept {
  const auto as = [value](auto type) {
    std::memcpy(&type, value, sizeof type);
    return type;
  };
  using Attribute = api::PointerAttribute;
  if (attribute == kPoolOfPointer) {
    return call.show(reinterpret_cast<const void*>(as(std::uintptr_t{0})));
  }
  switch (attribute) {
    case Attribute::is_managed:
    case Attribute::is_legacy_ipc_capable:
    case Attribute::mapped:
      return call.show(std::uint64_t{as(static_cast<unsigned char>(0))});
    case Attribute::device_ordinal:
    case Attribute::memory_type:
    case Attribute::allowed_handle_types:
    case Attribute::access_flags:
      return call.show(std::int64_t{as(0)});
    case Attribute::buffer_id:
    case Attribute::range_size:
    case Attribute::mapping_size:
      return call.show(as(std::uint64_t{0}));
    case Attribute::context:
    case Attribute::device_pointer:
    case Attribute::host_pointer:
    case Attribute::range_start_address:
    case Attribute::mempool_handle:
    case Attribute::mapping_base_address:
      return call.show(reinterpret_cast<const void*>(as(std::uintptr_t{0})));
  }
}

void show_bytes(Call& call, const char (&bytes)[64]) noexcept {
  std::array<char, 2 * sizeof bytes + 1> text{};
  for (std::size_t i = 0; i < sizeof bytes; ++i) {
    std::snprintf(text.data() + 2 * i, 3, "%02x", static_cast<unsigned char>(bytes[i]));
  }
  call.show_text(" ");
  call.show_text(text.data());
}

}  // namespace

void show_value(Call& call, const IpcMemoryHandle& handle) noexcept {
  show_bytes(call, handle.reserved);
}
void show_value(Call& call, const IpcEventHandle& handle) noexcept {
  show_bytes(call, handle.reserved);
}

void show_value(Call& call, const char* text) noexcept {
  if (text == nullptr) return call.show(static_cast<const void*>(nullptr));
  std::array<char, kTextShown + 1> shown{};
  std::size_t length = 0;
  for (; length < kTextShown && text[length] != 0; ++length) {
    const char c = text[length];
    shown[length] = c >= ' ' && c <= '~' && c != '"' ? c : '?';
  }
  call.show_text(" \"");
  call.show_text(shown.data());
  call.show_text(text[length] == 0 ? "\"" : "...\"");
}

void show_value(Call& call, Words words) noexcept {
  call.show(std::uint64_t{words.count});
  show_words(call, words.items, words.count);
}

void show_value(Call& call, Accesses accesses) noexcept {
  show_list(call, accesses.items, accesses.count, [&call](const api::AccessDescriptor& access) {
    show_location(call, access.location);
    call.show_text(" access");
    call.show(static_cast<std::int64_t>(access.flags));
  });
}

void show_value(Call& call, Nodes nodes) noexcept {
  show_list(call, nodes.items, nodes.count,
            [&call](api::GraphNode node) { call.show(static_cast<const volatile void*>(node)); });
}

void show_value(Call& call, AttributeValues values) noexcept {
  show_list(call, values.attributes, values.count, [&call](api::PointerAttribute attribute) {
    call.show(static_cast<std::int64_t>(attribute));
  });
}

void show_value(Call& call, TextOut text) noexcept {
  call.show(static_cast<const void*>(text.text));
}

void show_value(Call& call, PoolValue value) noexcept { call.show(value.value); }

void show_value(Call& call, const PoolProperties* properties) noexcept {
  if (properties == nullptr) return call.show(static_cast<const void*>(nullptr));
  call.show_text(" { type");
  call.show(static_cast<std::int64_t>(properties->type));
  call.show_text(" handles");
  call.show(static_cast<std::int64_t>(properties->handle_types));
  show_location(call, properties->location);
  call.show_text(" max");
  call.show(std::uint64_t{properties->size_bytes_max});
  call.show_text(" }");
}

void show_value(Call& call, const api::Location* location) noexcept {
  if (location == nullptr) return call.show(static_cast<const void*>(nullptr));
  show_location(call, *location);
}

void show_value(Call& call, const api::AllocationProperties* properties) noexcept {
  if (properties == nullptr) return call.show(static_cast<const void*>(nullptr));
  call.show_text(" { type");
  call.show(static_cast<std::int64_t>(properties->type));
  call.show_text(" handles");
  call.show(static_cast<std::int64_t>(properties->requested_handle_types));
  show_location(call, properties->location);
  call.show_text(" }");
}

void show_value(Call& call, const api::Memcpy3d* copy) noexcept {
  if (copy == nullptr) return call.show(static_cast<const void*>(nullptr));
  call.show_text(" { from");
  show_end(call, copy->source_type, copy->source_host, copy->source_device, copy->source_x_bytes);
  call.show_text(" to");
  show_end(call, copy->target_type, copy->target_host, copy->target_device, copy->target_x_bytes);
  call.show_text(" width");
  call.show(std::uint64_t{copy->width_bytes});
  call.show_text(" height");
  call.show(std::uint64_t{copy->height});
  call.show_text(" depth");
  call.show(std::uint64_t{copy->depth});
  call.show_text(" }");
}

void show_value(Call& call, const MemsetNodeParameters* fill) noexcept {
  if (fill == nullptr) return call.show(static_cast<const void*>(nullptr));
  call.show_text(" { to");
  call.show(reinterpret_cast<const void*>(fill->target));
  call.show_text(" value");
  call.show(std::uint64_t{fill->value});
  call.show_text(" element");
  call.show(std::uint64_t{fill->element_bytes});
  call.show_text(" width");
  call.show(std::uint64_t{fill->width});
  call.show_text(" height");
  call.show(std::uint64_t{fill->height});
  call.show_text(" }");
}

void show_value(Call& call, const api::BatchMemOpNodeParameters* batch) noexcept {
  if (batch == nullptr) return call.show(static_cast<const void*>(nullptr));
  call.show_text(" {");
  call.show(static_cast<const volatile void*>(batch->context));
  call.show(std::uint64_t{batch->count});
  show_words(call, batch->operations, batch->count);
  call.show_text(" flags");
  call.show(std::uint64_t{batch->flags});
  call.show_text(" }");
}

void show_given(Call& call, AttributeValues values) noexcept {
  call.show_text(" ->");
  for (std::size_t i = 0; i < values.count && i < kItemsShown; ++i) {
    show_attribute(call, values.attributes[i], values.values[i]);
  }
}

void show_given(Call& call, Out<IpcMemoryHandle> handle) noexcept {
  call.show_text(" ->");
  show_value(call, *handle.pointer);
}
void show_given(Call& call, Out<IpcEventHandle> handle) noexcept {
  call.show_text(" ->");
  show_value(call, *handle.pointer);
}

void show_given(Call& call, TextOut text) noexcept {
  call.show_text(" ->");
  show_value(call, text.text);
}

void show_given(Call& call, PoolValue value) noexcept {
  call.show_text(" ->");
  // The first three are ints.
  if (value.attribute <= PoolAttribute::reuse_allow_internal_dependencies) {
    int number = 0;
    std::memcpy(&number, value.value, sizeof number);
    return call.show(std::int64_t{number});
  }
  std::uint64_t number = 0;
  std::memcpy(&number, value.value, sizeof number);
  call.show(number);
}

void show_given(Call& call, Out<api::Uuid> uuid) noexcept {
  std::array<char, 40> text{};
  std::size_t length = 0;
  for (int i = 0; i < 16; ++i) {
    const bool begins_group = i == 4 || i == 6 || i == 8 || i == 10;
    length += static_cast<std::size_t>(
        std::snprintf(text.data() + length, text.size() - length, "%s%02x", begins_group ? "-" : "",
                      static_cast<unsigned char>(uuid.pointer->bytes[i])));
  }
  call.show_text(" -> GPU-");
  call.show_text(text.data());
}

void show_given(Call& call, Out<api::AllocationProperties> properties) noexcept {
  call.show_text(" ->");
  show_value(call, properties.pointer);
}

void show_given(Call& call, Out<float> number) noexcept {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), " -> %.6f", static_cast<double>(*number.pointer));
  call.show_text(text.data());
}

}  // namespace vramlink::simcuda
