// What every exported function passes through: the checks, the log, the counts, planted failures.
#pragma once

#include <array>
#include <cinttypes>
#include <cstdio>
#include <type_traits>

#include "device_process.hpp"
#include "faults.hpp"
#include "functions.hpp"

namespace vramlink::simcuda {

enum class FunctionId : std::uint16_t {
#define SIMCUDA_ID(member, name, symbol, version, ...) symbol,
  SIMCUDA_SYMBOLS(SIMCUDA_ID)
#undef SIMCUDA_ID
      count
};

/// What must hold before a function does anything. `nothing` takes no lock either; `context` is a
/// current one, and `healthy` one that met no fault.
enum class Needs : std::uint8_t { nothing, start, initialized, context, healthy };

/// One call while it runs.
class Call {
 public:
  /// Ends the process if the reactor calls: a driver call may block, and the reactor must not.
  Call(FunctionId function, Needs needs) noexcept;
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() = default;

  /// Not success: what the call returns without doing anything. Takes the lock otherwise.
  [[nodiscard]] Status begin() noexcept;
  /// Lets the lock go again.
  void end() noexcept;
  /// What the call returns, when all is done.
  [[nodiscard]] Status leave(Status status) noexcept;

  [[nodiscard]] bool is_logged() const noexcept;
  void show(std::uint64_t value) noexcept;
  void show(std::int64_t value) noexcept;
  void show(const volatile void* value) noexcept;
  void show_text(const char* text) noexcept;
  void write_log(Status status) noexcept;

 private:
  void append(const char* format, std::uint64_t value) noexcept;

  FunctionId function_;
  Needs needs_;
  MetFaults faults_;
  std::size_t length_ = 0;
  std::array<char, 2048> line_;
};

/// An argument by which the function gives something back; the log shows what.
template <class T>
struct Out {
  const T* pointer;
};
template <class T>
Out<T> out(const T* pointer) noexcept {
  return {pointer};
}

template <class T>
void show_value(Call& call, T value) noexcept {
  if constexpr (std::is_enum_v<T>) {
    call.show(static_cast<std::int64_t>(value));
  } else if constexpr (std::is_pointer_v<T>) {
    call.show(reinterpret_cast<const volatile void*>(value));
  } else if constexpr (std::is_signed_v<T>) {
    call.show(static_cast<std::int64_t>(value));
  } else {
    call.show(static_cast<std::uint64_t>(value));
  }
}
template <class T>
void show_value(Call& call, Out<T> value) noexcept {
  call.show(static_cast<const volatile void*>(value.pointer));
}

template <class T>
void show_given(Call&, T) noexcept {}
template <class T>
void show_given(Call& call, Out<T> value) noexcept {
  if (value.pointer == nullptr) return;
  if constexpr (std::is_integral_v<T> || std::is_pointer_v<T> || std::is_enum_v<T>) {
    call.show_text(" ->");
    show_value(call, *value.pointer);
  }
}

// What is more than a number is shown by its parts (call_log.cpp).

// Arguments that are lists: what a caller says is that long is shown up to a limit.
struct Words {
  const api::MemOp* items;
  std::size_t count;
};
struct Accesses {
  const api::AccessDescriptor* items;
  std::size_t count;
};
struct Nodes {
  const api::GraphNode* items;
  std::size_t count;
};
/// Values that cuPointerGetAttribute and cuPointerGetAttributes give back.
struct AttributeValues {
  const api::PointerAttribute* attributes;
  void* const* values;
  std::size_t count;
};
/// The value of a pool's attribute.
struct PoolValue {
  PoolAttribute attribute;
  const void* value;
};
/// Text that a function gives back.
struct TextOut {
  const char* text;
};

/// The bytes of a handle for another process.
void show_value(Call& call, const IpcMemoryHandle& handle) noexcept;
void show_value(Call& call, const IpcEventHandle& handle) noexcept;
void show_value(Call& call, const char* text) noexcept;
void show_value(Call& call, Words words) noexcept;
void show_value(Call& call, Accesses accesses) noexcept;
void show_value(Call& call, Nodes nodes) noexcept;
void show_value(Call& call, AttributeValues values) noexcept;
void show_value(Call& call, TextOut text) noexcept;
void show_value(Call& call, PoolValue value) noexcept;
void show_value(Call& call, const PoolProperties* properties) noexcept;
void show_value(Call& call, const api::Location* location) noexcept;
void show_value(Call& call, const api::AllocationProperties* properties) noexcept;
void show_value(Call& call, const api::Memcpy3d* copy) noexcept;
void show_value(Call& call, const MemsetNodeParameters* fill) noexcept;
void show_value(Call& call, const api::BatchMemOpNodeParameters* batch) noexcept;

// What stands behind "->".
void show_given(Call& call, AttributeValues values) noexcept;
void show_given(Call& call, Out<IpcMemoryHandle> handle) noexcept;
void show_given(Call& call, Out<IpcEventHandle> handle) noexcept;
void show_given(Call& call, TextOut text) noexcept;
void show_given(Call& call, PoolValue value) noexcept;
void show_given(Call& call, Out<api::Uuid> uuid) noexcept;
void show_given(Call& call, Out<api::AllocationProperties> properties) noexcept;
void show_given(Call& call, Out<float> number) noexcept;

/// Runs `body` under the driver's lock as the function `function`; the rest is for the log.
template <class Body, class... Arguments>
Status enter(FunctionId function, Needs needs, const Body& body, Arguments... arguments) noexcept {
  Call call(function, needs);
  if (call.is_logged()) (show_value(call, arguments), ...);
  Status status = call.begin();
  if (status == Status::success) {
    status = body();
    if (call.is_logged() && status == Status::success) (show_given(call, arguments), ...);
    call.end();
  }
  status = call.leave(status);
  if (call.is_logged()) call.write_log(status);
  return status;
}

/// How often a function was called; 0 for a name that is not known. Both "cuMemFree" and
/// "cuMemFree_v2" count what either counts.
std::uint64_t call_count(const char* name) noexcept;
/// Of a FunctionId as a number.
bool is_function_named(std::uint32_t function, const char* name) noexcept;
const char* symbol_of(std::uint32_t function) noexcept;

/// Finds a function for cuGetProcAddress.
Status find_function(const char* name, void** function, int version,
                     api::ProcQuery* found) noexcept;

}  // namespace vramlink::simcuda
