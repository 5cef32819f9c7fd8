// Copies, fills and words: the calls that put them into a stream.
#include "operations.hpp"

#include "profiles.hpp"

namespace vramlink::simcuda {
namespace {

constexpr auto kWaitValue32 = static_cast<api::MemOpType>(1);
constexpr auto kWriteValue32 = static_cast<api::MemOpType>(2);
constexpr unsigned kWriteNoBarrier = 1;

bool fits(Side side, AddressKind kind) noexcept {
  switch (side) {
    case Side::any:
      return true;
    case Side::device:  // pinned memory has a device address too
      return kind != AddressKind::pageable;
    case Side::host:
      return kind != AddressKind::device;
  }
  return false;
}

Status locate_copy(const Copy& copy, int device, Located& to, Located& from) noexcept {
  Status status = locate(copy.target, copy.size_bytes, device, true, to);
  if (status == Status::success) {
    const int reader = copy.source_device < 0 ? device : copy.source_device;
    status = locate(copy.source, copy.size_bytes, reader, false, from);
  }
  if (status != Status::success) return status;
  const bool fit = fits(copy.target_side, to.kind) && fits(copy.source_side, from.kind);
  return fit ? Status::success : Status::invalid_value;
}

Status locate_fill(const Fill& fill, int device, Located& to) noexcept {
  if (fill.target % fill.element_bytes != 0) return Status::invalid_value;
  const std::uint64_t size_bytes = fill.count * fill.element_bytes;
  const Status status = locate(fill.target, size_bytes, device, true, to);
  if (status != Status::success) return status;
  return to.kind == AddressKind::pageable ? Status::invalid_value : Status::success;
}

struct WordKind {
  bool is_wait;
  std::uint8_t width_bytes;
};

bool word_kind(api::MemOpType type, WordKind& kind) noexcept {
  const bool is_wait_64 = type == api::MemOpType::wait_value_64;
  const bool is_write_64 = type == api::MemOpType::write_value_64;
  kind = {is_wait_64 || type == kWaitValue32,
          static_cast<std::uint8_t>(is_wait_64 || is_write_64 ? 8 : 4)};
  return kind.is_wait || is_write_64 || type == kWriteValue32;
}

Status locate_word(const api::MemOp& operation, bool in_batch, int device, WordKind& kind,
                   Located& to) noexcept {
  if (!word_kind(operation.operation, kind)) return Status::invalid_value;
  if (kind.width_bytes == 8 && !profile().has_words_64) return Status::not_supported;
  const unsigned flags_max = kind.is_wait ? 3 : kWriteNoBarrier;
  if (operation.flags > flags_max || operation.address % kind.width_bytes != 0) {
    return Status::invalid_value;
  }
  if (in_batch && !kind.is_wait && kind.width_bytes == 8 && operation.flags == kWriteNoBarrier) {
    return Status::invalid_value;
  }
  const Status status = locate(operation.address, kind.width_bytes, device, !kind.is_wait, to);
  if (status != Status::success) return status;
  return to.kind == AddressKind::pageable ? Status::invalid_value : Status::success;
}

}  // namespace

Status to_copy(const api::Memcpy3d& parameters, Copy& copy) noexcept {
  if (parameters.height != 1 || parameters.depth != 1 || parameters.source_y != 0 ||
      parameters.source_z != 0 || parameters.target_y != 0 || parameters.target_z != 0) {
    return Status::not_supported;
  }
  const auto side = [](api::MemoryType type, const void* host, api::DevicePointer device,
                       std::size_t offset, std::uint64_t& address) -> Side {
    const bool is_host = type == api::MemoryType::host;
    address = (is_host ? reinterpret_cast<std::uintptr_t>(host) : device) + offset;
    if (is_host) return Side::host;
    return type == api::MemoryType::device ? Side::device : Side::any;
  };
  const auto known = [](api::MemoryType type) {
    return type == api::MemoryType::host || type == api::MemoryType::device ||
           type == api::MemoryType::unified;
  };
  if (!known(parameters.source_type) || !known(parameters.target_type) ||
      parameters.width_bytes == 0) {
    return Status::invalid_value;
  }
  copy.source_side = side(parameters.source_type, parameters.source_host, parameters.source_device,
                          parameters.source_x_bytes, copy.source);
  copy.target_side = side(parameters.target_type, parameters.target_host, parameters.target_device,
                          parameters.target_x_bytes, copy.target);
  copy.size_bytes = parameters.width_bytes;
  return Status::success;
}

Status add_copy(Submission& submission, const Copy& copy, bool& is_pageable) noexcept {
  Located to;
  Located from;
  const Status status = locate_copy(copy, submission.device(), to, from);
  if (status != Status::success) return status;
  Op& op = submission.add(OpKind::copy);
  op.to = to.place;
  op.from = from.place;
  op.from_device = copy.source_device;
  op.size_bytes = copy.size_bytes;
  is_pageable = to.kind == AddressKind::pageable || from.kind == AddressKind::pageable;
  return Status::success;
}

Status add_fill(Submission& submission, const Fill& fill) noexcept {
  Located to;
  const Status status = locate_fill(fill, submission.device(), to);
  if (status != Status::success) return status;
  Op& op = submission.add(OpKind::fill);
  op.to = to.place;
  op.size_bytes = fill.count * fill.element_bytes;
  op.width_bytes = fill.element_bytes;
  op.value = fill.value;
  return Status::success;
}

Status add_word(Submission& submission, const api::MemOp& operation, bool in_batch) noexcept {
  Located to;
  WordKind kind{};
  const Status status = locate_word(operation, in_batch, submission.device(), kind, to);
  if (status != Status::success) return status;
  Op& op = submission.add(kind.is_wait ? OpKind::wait_word : OpKind::write_word);
  op.to = to.place;
  op.value = operation.value;
  op.width_bytes = kind.width_bytes;
  if (kind.is_wait) op.compare = static_cast<Compare>(operation.flags);
  return Status::success;
}

Status check_copy(const Copy& copy, int device) noexcept {
  Located to;
  Located from;
  return locate_copy(copy, device, to, from);
}

Status check_fill(const Fill& fill, int device) noexcept {
  Located to;
  return locate_fill(fill, device, to);
}

Status check_words(std::span<const api::MemOp> operations, int device) noexcept {
  if (operations.empty() || operations.size() > kBatchMax) return Status::invalid_value;
  for (const api::MemOp& operation : operations) {
    Located to;
    WordKind kind{};
    const Status status = locate_word(operation, true, device, kind, to);
    if (status != Status::success) return status;
  }
  return Status::success;
}

namespace {

enum class Wait : std::uint8_t { if_pageable, always };

/// Waits for what the submission holds; its slot and position outlive a destroyed stream.
Status wait_for(const Submission& submission) noexcept {
  const StreamSlot& slot = submission.slot();
  const std::uint64_t end = submission.end();
  const std::uint32_t context = submission.stream().context;
  if (!wait_for_device([&] { return slot.completed.load() >= end; })) {
    return Status::device_unavailable;
  }
  return fault_of(context);
}

Status submit_copy(const Copy& copy, api::Stream stream, Wait wait) noexcept {
  Submission submission;
  Status status = submission.begin(stream, 1, Stops::stays_behind);
  if (status != Status::success || copy.size_bytes == 0) return status;
  bool is_pageable = false;
  status = add_copy(submission, copy, is_pageable);
  if (status != Status::success) return status;
  submission.commit();
  return wait == Wait::always || is_pageable ? wait_for(submission) : Status::success;
}

Status submit_fill(const Fill& fill, api::Stream stream, Wait wait) noexcept {
  Submission submission;
  Status status = submission.begin(stream, 1, Stops::stays_behind);
  if (status != Status::success || fill.count == 0) return status;
  status = add_fill(submission, fill);
  if (status != Status::success) return status;
  submission.commit();
  return wait == Wait::always ? wait_for(submission) : Status::success;
}

Status submit_word(const api::MemOp& operation, api::Stream stream) noexcept {
  Submission submission;
  Status status = submission.begin(stream, 1, Stops::passes);
  if (status == Status::success) status = add_word(submission, operation, false);
  if (status == Status::success) submission.commit();
  return status;
}

Status copy_call(FunctionId function, const Copy& copy, api::Stream stream, Wait wait) noexcept {
  return enter(
      function, Needs::healthy, [&] { return submit_copy(copy, stream, wait); },
      reinterpret_cast<const void*>(copy.target), reinterpret_cast<const void*>(copy.source),
      copy.size_bytes, stream);
}

Status fill_call(FunctionId function, const Fill& fill, api::Stream stream, Wait wait) noexcept {
  return enter(
      function, Needs::healthy, [&] { return submit_fill(fill, stream, wait); },
      reinterpret_cast<const void*>(fill.target), fill.value, fill.count, stream);
}

Status word_call(FunctionId function, const api::MemOp& operation, api::Stream stream) noexcept {
  return enter(
      function, Needs::healthy, [&] { return submit_word(operation, stream); }, stream,
      reinterpret_cast<const void*>(operation.address), operation.value, operation.flags);
}

std::uint64_t address_of(const void* pointer) noexcept {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

}  // namespace

Status cuMemcpyAsync(api::DevicePointer target, api::DevicePointer source, std::size_t size,
                     api::Stream stream) {
  return copy_call(FunctionId::cuMemcpyAsync, {target, source, size}, stream, Wait::if_pageable);
}

Status cuMemcpyHtoDAsync_v2(api::DevicePointer target, const void* source, std::size_t size,
                            api::Stream stream) {
  return copy_call(FunctionId::cuMemcpyHtoDAsync_v2,
                   {target, address_of(source), size, Side::device, Side::host}, stream,
                   Wait::if_pageable);
}

Status cuMemcpyDtoHAsync_v2(void* target, api::DevicePointer source, std::size_t size,
                            api::Stream stream) {
  return copy_call(FunctionId::cuMemcpyDtoHAsync_v2,
                   {address_of(target), source, size, Side::host, Side::device}, stream,
                   Wait::if_pageable);
}

Status cuMemcpyDtoDAsync_v2(api::DevicePointer target, api::DevicePointer source, std::size_t size,
                            api::Stream stream) {
  return copy_call(FunctionId::cuMemcpyDtoDAsync_v2,
                   {target, source, size, Side::device, Side::device}, stream, Wait::if_pageable);
}

// Each end is checked for its own context's device: what both could use in place is refused if the
// source is not mapped for its owner (driver 580).
Status cuMemcpyPeerAsync(api::DevicePointer target, api::Context target_context,
                         api::DevicePointer source, api::Context source_context, std::size_t size,
                         api::Stream stream) {
  return enter(
      FunctionId::cuMemcpyPeerAsync, Needs::healthy,
      [&] {
        const Context* to = find_context(target_context);
        const Context* from = find_context(source_context);
        if (to == nullptr || from == nullptr) return Status::invalid_context;
        if (to != current_context()) return Status::invalid_value;  // of all that is used here
        return submit_copy({target, source, size, Side::device, Side::device, from->device}, stream,
                           Wait::if_pageable);
      },
      reinterpret_cast<const void*>(target), target_context, reinterpret_cast<const void*>(source),
      source_context, size, stream);
}

Status cuMemcpy(api::DevicePointer target, api::DevicePointer source, std::size_t size) {
  return copy_call(FunctionId::cuMemcpy, {target, source, size}, nullptr, Wait::always);
}

Status cuMemcpyHtoD_v2(api::DevicePointer target, const void* source, std::size_t size) {
  return copy_call(FunctionId::cuMemcpyHtoD_v2,
                   {target, address_of(source), size, Side::device, Side::host}, nullptr,
                   Wait::always);
}

Status cuMemcpyDtoH_v2(void* target, api::DevicePointer source, std::size_t size) {
  return copy_call(FunctionId::cuMemcpyDtoH_v2,
                   {address_of(target), source, size, Side::host, Side::device}, nullptr,
                   Wait::always);
}

Status cuMemcpyDtoD_v2(api::DevicePointer target, api::DevicePointer source, std::size_t size) {
  return copy_call(FunctionId::cuMemcpyDtoD_v2, {target, source, size, Side::device, Side::device},
                   nullptr, Wait::always);
}

Status cuMemsetD8Async(api::DevicePointer target, unsigned char value, std::size_t count,
                       api::Stream stream) {
  return fill_call(FunctionId::cuMemsetD8Async, {target, count, 1, value}, stream,
                   Wait::if_pageable);
}

Status cuMemsetD16Async(api::DevicePointer target, unsigned short value, std::size_t count,
                        api::Stream stream) {
  return fill_call(FunctionId::cuMemsetD16Async, {target, count, 2, value}, stream,
                   Wait::if_pageable);
}

Status cuMemsetD32Async(api::DevicePointer target, unsigned value, std::size_t count,
                        api::Stream stream) {
  return fill_call(FunctionId::cuMemsetD32Async, {target, count, 4, value}, stream,
                   Wait::if_pageable);
}

Status cuMemsetD8_v2(api::DevicePointer target, unsigned char value, std::size_t count) {
  return fill_call(FunctionId::cuMemsetD8_v2, {target, count, 1, value}, nullptr, Wait::always);
}

Status cuMemsetD16_v2(api::DevicePointer target, unsigned short value, std::size_t count) {
  return fill_call(FunctionId::cuMemsetD16_v2, {target, count, 2, value}, nullptr, Wait::always);
}

Status cuMemsetD32_v2(api::DevicePointer target, unsigned value, std::size_t count) {
  return fill_call(FunctionId::cuMemsetD32_v2, {target, count, 4, value}, nullptr, Wait::always);
}

Status cuStreamWriteValue64_v2(api::Stream stream, api::DevicePointer address, std::uint64_t value,
                               unsigned flags) {
  return word_call(FunctionId::cuStreamWriteValue64_v2,
                   {api::MemOpType::write_value_64, address, value, flags, 0, 0}, stream);
}

Status cuStreamWaitValue64_v2(api::Stream stream, api::DevicePointer address, std::uint64_t value,
                              unsigned flags) {
  return word_call(FunctionId::cuStreamWaitValue64_v2,
                   {api::MemOpType::wait_value_64, address, value, flags, 0, 0}, stream);
}

Status cuStreamWriteValue32_v2(api::Stream stream, api::DevicePointer address, std::uint32_t value,
                               unsigned flags) {
  return word_call(FunctionId::cuStreamWriteValue32_v2,
                   {kWriteValue32, address, value, flags, 0, 0}, stream);
}

Status cuStreamWaitValue32_v2(api::Stream stream, api::DevicePointer address, std::uint32_t value,
                              unsigned flags) {
  return word_call(FunctionId::cuStreamWaitValue32_v2, {kWaitValue32, address, value, flags, 0, 0},
                   stream);
}

Status cuStreamBatchMemOp_v2(api::Stream stream, unsigned count, api::MemOp* operations,
                             unsigned flags) {
  return enter(
      FunctionId::cuStreamBatchMemOp_v2, Needs::healthy,
      [&] {
        if (operations == nullptr || count == 0 || count > kBatchMax || flags != 0) {
          return Status::invalid_value;
        }
        Submission submission;
        Status status = submission.begin(stream, count, Stops::passes);
        for (unsigned i = 0; i < count && status == Status::success; ++i) {
          status = add_word(submission, operations[i], true);
        }
        if (status == Status::success) submission.commit();
        return status;
      },
      stream, Words{operations, count}, flags);
}

}  // namespace vramlink::simcuda
