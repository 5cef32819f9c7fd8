// Primary contexts, those that programs make, and the stack of current contexts that each thread
// has.
#include <array>

#include "devices.hpp"
#include "driver.hpp"
#include "graphs.hpp"
#include "ipc_events.hpp"
#include "modules.hpp"
#include "ranges.hpp"
#include "streams.hpp"

namespace vramlink::simcuda {
namespace {

constexpr std::size_t kStackMax = 64;
/// How it waits for the device, and whether host memory can be mapped.
constexpr unsigned kContextFlagsKnown = 0x1f;
/// The work of a context that is being destroyed is dropped; never seen by a program.
constexpr int kDiscard = -1;
constexpr Status kPeerAlreadyEnabled = static_cast<Status>(704);
constexpr Status kPeerNotEnabled = static_cast<Status>(705);

struct ContextStack {
  std::array<api::Context, kStackMax> items;
  std::size_t count;
};

thread_local ContextStack stack{};

Context* primary_context_of(api::Device device) noexcept {
  Context* found = nullptr;
  driver.contexts.for_each([&](Context& context) {
    if (context.is_primary && context.device == device) found = &context;
  });
  return found;
}

Context* create_context(api::Device device, bool is_primary) noexcept {
  Context* context = driver.contexts.add();
  if (context == nullptr) return nullptr;
  context->device = device;
  context->is_primary = is_primary;
  device_state.contexts[index_of(*context)].fault.store(0);
  context->stream_slot = take_slot(index_of(*context), device, false);
  if (context->stream_slot == kNoRange) {
    driver.contexts.remove(context);
    return nullptr;
  }
  return context;
}

}  // namespace

std::uint32_t index_of(const Context& context) noexcept {
  return driver.contexts.index_of(&context);
}

Context* find_context(api::Context handle) noexcept { return driver.contexts.find(handle); }

api::Context current_context_handle() noexcept {
  return stack.count == 0 ? nullptr : stack.items[stack.count - 1];
}

Context* current_context() noexcept { return find_context(current_context_handle()); }

Status fault_of(std::uint32_t context) noexcept {
  const int fault = device_state.contexts[context].fault.load();
  return fault == kDiscard ? Status::context_is_destroyed : static_cast<Status>(fault);
}

void destroy_context(Context& context) noexcept {
  const std::uint32_t index = index_of(context);
  const std::uint64_t handle = driver.contexts.handle_of(&context);
  device_state.contexts[index].fault.store(kDiscard);
  ring_bell();
  wait_for_device([&] {
    bool idle = true;
    for_each_slot(index, [&](const StreamSlot&) { idle = false; });
    return idle;
  });
  // Without the lock meanwhile: another thread may have been faster.
  if (driver.contexts.find(handle) == nullptr) return;
  driver.streams.for_each([&](Stream& stream) {
    if (stream.context != index) return;
    device_state.slots[stream.slot].taken = false;
    driver.streams.remove(&stream);
  });
  driver.events.for_each([&](Event& event) {
    if (event.context == index) drop_event(event);
  });
  remove_modules_of(index);
  remove_ranges_of(index);
  device_state.slots[context.stream_slot].taken = false;
  driver.contexts.remove(&context);
}

Status cuDevicePrimaryCtxRetain(api::Context* context, api::Device device) {
  return enter(
      FunctionId::cuDevicePrimaryCtxRetain, Needs::initialized,
      [&] {
        if (context == nullptr) return Status::invalid_value;
        if (!is_device(device)) return Status::invalid_device;
        Context* found = primary_context_of(device);
        if (found == nullptr) found = create_context(device, true);
        if (found == nullptr) return Status::out_of_memory;
        ++found->retain_count;
        *context = to_handle<api::Context>(driver.contexts, found);
        return Status::success;
      },
      out(context), device);
}

Status cuDevicePrimaryCtxRelease_v2(api::Device device) {
  return enter(
      FunctionId::cuDevicePrimaryCtxRelease_v2, Needs::initialized,
      [&] {
        if (!is_device(device)) return Status::invalid_device;
        Context* found = primary_context_of(device);
        if (found == nullptr) return Status::invalid_context;
        if (--found->retain_count == 0) destroy_context(*found);
        return Status::success;
      },
      device);
}

Status cuDevicePrimaryCtxReset_v2(api::Device device) {
  return enter(
      FunctionId::cuDevicePrimaryCtxReset_v2, Needs::initialized,
      [&] {
        if (!is_device(device)) return Status::invalid_device;
        if (Context* found = primary_context_of(device); found != nullptr) destroy_context(*found);
        return Status::success;
      },
      device);
}

Status cuDevicePrimaryCtxGetState(api::Device device, unsigned* flags, int* active) {
  return enter(
      FunctionId::cuDevicePrimaryCtxGetState, Needs::initialized,
      [&] {
        if (flags == nullptr || active == nullptr) return Status::invalid_value;
        if (!is_device(device)) return Status::invalid_device;
        *flags = 0;
        *active = primary_context_of(device) == nullptr ? 0 : 1;
        return Status::success;
      },
      device, out(flags), out(active));
}

Status cuCtxCreate_v2(api::Context* context, unsigned flags, api::Device device) {
  return enter(
      FunctionId::cuCtxCreate_v2, Needs::initialized,
      [&] {
        if (context == nullptr || (flags & ~kContextFlagsKnown) != 0) return Status::invalid_value;
        if (!is_device(device)) return Status::invalid_device;
        if (stack.count == kStackMax) return Status::out_of_memory;
        Context* made = create_context(device, false);
        if (made == nullptr) return Status::out_of_memory;
        made->retain_count = 1;
        *context = to_handle<api::Context>(driver.contexts, made);
        stack.items[stack.count++] = *context;
        return Status::success;
      },
      out(context), flags, device);
}

Status cuCtxDestroy_v2(api::Context context) {
  return enter(
      FunctionId::cuCtxDestroy_v2, Needs::initialized,
      [&] {
        if (context == nullptr) return Status::invalid_value;
        Context* found = find_context(context);
        if (found == nullptr || found->is_primary) return Status::invalid_context;
        // In other threads it stays current, and what they call says that it is destroyed.
        if (current_context_handle() == context) --stack.count;
        destroy_context(*found);
        return Status::success;
      },
      context);
}

Status cuCtxPushCurrent_v2(api::Context context) {
  return enter(
      FunctionId::cuCtxPushCurrent_v2, Needs::initialized,
      [&] {
        if (find_context(context) == nullptr) return Status::invalid_context;
        if (stack.count == kStackMax) return Status::out_of_memory;
        stack.items[stack.count++] = context;
        return Status::success;
      },
      context);
}

Status cuCtxPopCurrent_v2(api::Context* context) {
  return enter(
      FunctionId::cuCtxPopCurrent_v2, Needs::initialized,
      [&] {
        if (stack.count == 0) return Status::invalid_context;
        const api::Context popped = stack.items[--stack.count];
        if (context != nullptr) *context = popped;
        return Status::success;
      },
      out(context));
}

Status cuCtxSetCurrent(api::Context context) {
  return enter(
      FunctionId::cuCtxSetCurrent, Needs::initialized,
      [&] {
        if (context == nullptr) {
          if (stack.count > 0) --stack.count;
          return Status::success;
        }
        if (find_context(context) == nullptr) return Status::invalid_context;
        if (stack.count == 0) ++stack.count;
        stack.items[stack.count - 1] = context;
        return Status::success;
      },
      context);
}

Status cuCtxGetCurrent(api::Context* context) {
  return enter(
      FunctionId::cuCtxGetCurrent, Needs::initialized,
      [&] {
        if (context == nullptr) return Status::invalid_value;
        *context = current_context_handle();
        return Status::success;
      },
      out(context));
}

Status cuCtxGetDevice(api::Device* device) {
  return enter(
      FunctionId::cuCtxGetDevice, Needs::context,
      [&] {
        if (device == nullptr) return Status::invalid_value;
        *device = current_context()->device;
        return Status::success;
      },
      out(device));
}

Status cuCtxSynchronize() {
  return enter(FunctionId::cuCtxSynchronize, Needs::healthy,
               [] { return synchronize_context(index_of(*current_context())); });
}

Status cuCtxEnablePeerAccess(api::Context peer, unsigned flags) {
  return enter(
      FunctionId::cuCtxEnablePeerAccess, Needs::healthy,
      [&] {
        const Context* other = find_context(peer);
        Context& mine = *current_context();
        if (flags != 0) return Status::invalid_value;
        if (other == nullptr || other == &mine) return Status::invalid_context;
        if (other->device == mine.device || !peer_access_possible()) {
          return Status::peer_access_unsupported;
        }
        const std::uint32_t bit = 1U << other->device;
        if ((mine.peers & bit) != 0) return kPeerAlreadyEnabled;
        mine.peers |= bit;
        allow_peer(other->device, mine.device, true);
        return Status::success;
      },
      peer, flags);
}

Status cuCtxDisablePeerAccess(api::Context peer) {
  return enter(
      FunctionId::cuCtxDisablePeerAccess, Needs::healthy,
      [&] {
        const Context* other = find_context(peer);
        Context& mine = *current_context();
        if (other == nullptr) return Status::invalid_context;
        const std::uint32_t bit = 1U << other->device;
        if ((mine.peers & bit) == 0) return kPeerNotEnabled;
        mine.peers &= ~bit;
        bool is_used = false;
        driver.contexts.for_each([&](const Context& user) {
          is_used |= user.device == mine.device && (user.peers & bit) != 0;
        });
        if (!is_used) allow_peer(other->device, mine.device, false);
        return Status::success;
      },
      peer);
}

}  // namespace vramlink::simcuda
