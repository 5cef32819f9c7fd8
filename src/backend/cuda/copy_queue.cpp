// See copy_queue.hpp.
#include "backend/cuda/copy_queue.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "backend/cuda/plain_copy.hpp"
#include "base/assert.hpp"
#include "base/try.hpp"

namespace vramlink::cuda {

using api::Status;

namespace {
/// Memory of the runtime API, of the virtual memory calls, of the host, and one more context's.
constexpr std::size_t kGraphCountMax = 4;
}  // namespace

// SlotGraph

Result<SlotGraph> SlotGraph::make(const OpenDevice& device, const Source& source, std::byte* target,
                                  std::uint64_t size_bytes, api::Event event,
                                  std::span<api::MemOp> writes) {
  const Driver& driver = device.driver();
  SlotGraph made;
  made.context_ = device.context().get();
  made.context_of_source_ = source.info.context;
  made.from_host_ = source.info.kind != PointerKind::device;
  const api::Context context = made.context_->get();
  made.copy_.source_type = made.from_host_ ? api::MemoryType::host : api::MemoryType::device;
  made.copy_.target_type = api::MemoryType::device;
  made.copy_.target_device = reinterpret_cast<api::DevicePointer>(target);
  made.copy_.width_bytes = size_bytes;
  made.copy_.height = 1;
  made.copy_.depth = 1;
  made.set_source_address(source.address);

  api::Graph graph = nullptr;
  VRAMLINK_CHECK(driver.check("cuGraphCreate", driver.graph_create(&graph, 0)));
  made.graph_.reset({made.context_, graph});
  api::GraphNode wait_node = nullptr;
  VRAMLINK_CHECK(
      driver.check("cuGraphAddEventWaitNode",
                   driver.graph_add_event_wait_node(&wait_node, graph, nullptr, 0, event)));
  VRAMLINK_CHECK(driver.check(
      "cuGraphAddMemcpyNode",
      driver.graph_add_memcpy_node(&made.copy_node_, graph, &wait_node, 1, &made.copy_, context)));
  if (!writes.empty()) {
    const api::BatchMemOpNodeParameters batch{context, static_cast<unsigned>(writes.size()),
                                              writes.data(), 0};
    VRAMLINK_CHECK(driver.check(
        "cuGraphAddBatchMemOpNode",
        driver.graph_add_batch_mem_op_node(&made.write_node_, graph, &made.copy_node_, 1, &batch)));
  }
  api::GraphExec exec = nullptr;
  VRAMLINK_CHECK(
      driver.check("cuGraphInstantiateWithFlags", driver.graph_instantiate(&exec, graph, 0)));
  made.exec_.reset({made.context_, exec});
  // Else the first launch pays for it.
  VRAMLINK_CHECK(driver.check("cuGraphUpload", driver.graph_upload(exec, device.scratch_stream())));
  return made;
}

void SlotGraph::set_source_address(const std::byte* source) noexcept {
  source_ = source;
  if (from_host_) {
    copy_.source_host = source;
  } else {
    copy_.source_device = reinterpret_cast<api::DevicePointer>(source);
  }
}

Status SlotGraph::set_source(const std::byte* source) {
  if (source == source_) return Status::success;
  const std::byte* before = source_;
  set_source_address(source);
  const Status status = context_->driver().graph_exec_memcpy_set(exec_.get().value, copy_node_,
                                                                 &copy_, context_->get());
  if (status != Status::success) set_source_address(before);
  return status;
}

Result<void> SlotGraph::set_writes(std::span<api::MemOp> writes) {
  if (write_node_ == nullptr) return {};
  const Driver& driver = context_->driver();
  const api::BatchMemOpNodeParameters batch{context_->get(), static_cast<unsigned>(writes.size()),
                                            writes.data(), 0};
  return driver.check("cuGraphExecBatchMemOpNodeSetParams",
                      driver.graph_exec_batch_mem_op_set(exec_.get().value, write_node_, &batch));
}

Result<void> SlotGraph::launch(api::Stream stream) {
  const Driver& driver = context_->driver();
  return driver.check("cuGraphLaunch", driver.graph_launch(exec_.get().value, stream));
}

// CudaSlotCopy

Result<std::unique_ptr<CudaSlotCopy>> CudaSlotCopy::make(std::shared_ptr<OpenDevice> device,
                                                         std::byte* target,
                                                         std::uint64_t size_bytes,
                                                         std::span<const backend::WordRef> words) {
  const Driver& driver = device->driver();
  std::unique_ptr<CudaSlotCopy> made(new CudaSlotCopy(std::move(device), target, size_bytes));
  made->writes_.reserve(words.size());
  for (const backend::WordRef& word : words) {
    made->writes_.push_back(
        {api::MemOpType::write_value_64, address_of(word), 0, api::kWriteDefault, 0, 0});
  }
  made->parts_.source_done = VRAMLINK_TRY(make_event(*made->device_->context()));
  // Recorded from the beginning, so that a launch that waits for nothing finds it complete.
  VRAMLINK_CHECK(driver.check(
      "cuEventRecord",
      driver.event_record(made->parts_.source_done.get().value, made->device_->scratch_stream())));
  return made;
}

CudaSlotCopy::~CudaSlotCopy() { device_->own_work().destroy_later(std::move(parts_)); }

Result<SlotGraph*> CudaSlotCopy::graph_for(const Source& source) {
  auto& graphs = parts_.graphs;
  for (SlotGraph& graph : graphs) {
    if (!graph.takes(source.info)) continue;
    const Status status = graph.set_source(source.address);
    if (status == Status::success) return &graph;
    if (status != Status::invalid_value) {
      return device_->driver().error("cuGraphExecMemcpyNodeSetParams", status);
    }
    // Not alike in the driver's eyes: memory that is mapped for reading only is of another kind. A
    // graph for that one may be there, too.
  }
  if (graphs.size() == kGraphCountMax) {
    device_->own_work().destroy_later(std::move(graphs.front()));
    graphs.erase(graphs.begin());
  }
  graphs.push_back(VRAMLINK_TRY(SlotGraph::make(*device_, source, target_, size_bytes_,
                                                parts_.source_done.get().value, writes_)));
  return &graphs.back();
}

void CudaSlotCopy::expect(const Source& source) {
  // A failure shows again in the first launch.
  static_cast<void>(graph_for(source));
}

Result<const Source*> CudaSlotCopy::check_source(const std::byte* address, bool pageable,
                                                 bool& is_new) {
  is_new = false;
  if (address == checked_.address && checked_.info.buffer_id != 0) {
    // The same address may be other memory by now, or none: a copy from there would fault the
    // program's context.
    std::uint64_t buffer_id = 0;
    const Status status =
        device_->driver().pointer_get_attribute(&buffer_id, api::PointerAttribute::buffer_id,
                                                reinterpret_cast<api::DevicePointer>(address));
    if (status == Status::success && buffer_id == checked_.info.buffer_id) return &checked_;
  }
  checked_ = {};
  checked_ = {address, VRAMLINK_TRY(check_copy_side(*device_, CopySide::source, address,
                                                    size_bytes_, pageable))};
  is_new = true;
  return &checked_;
}

Result<void> CudaSlotCopy::launch(api::Stream queue, const api::Stream* source_stream,
                                  const Source& source, std::span<const std::uint64_t> values) {
  VRAMLINK_ASSERT(values.size() == writes_.size());
  const Driver& driver = device_->driver();
  SlotGraph* graph = VRAMLINK_TRY(graph_for(source));
  for (std::size_t i = 0; i < values.size(); ++i) writes_[i].value = values[i];
  VRAMLINK_CHECK(graph->set_writes(writes_));
  if (source_stream != nullptr || waits_for_source_) {
    // Without a source's stream our own one takes the place of the last: that waits for nothing
    // else, while the last one may.
    VRAMLINK_CHECK(driver.check(
        "cuEventRecord", driver.event_record(parts_.source_done.get().value,
                                             source_stream != nullptr ? *source_stream : queue)));
    waits_for_source_ = source_stream != nullptr;
  }
  return graph->launch(queue);
}

// CudaCopyQueue

Result<std::unique_ptr<backend::CopyQueue>> CudaCopyQueue::make(
    std::shared_ptr<OpenDevice> device) {
  const api::Stream stream = VRAMLINK_TRY(device->own_work().add_stream());
  return std::unique_ptr<backend::CopyQueue>(new CudaCopyQueue(std::move(device), stream));
}

CudaCopyQueue::~CudaCopyQueue() {
  if (os::in_forked_child()) return;  // what it has is the parent's
  staging_.end(stream_);
  device_->own_work().retire_stream(stream_);
}

Result<std::unique_ptr<backend::SlotCopy>> CudaCopyQueue::prepare(
    std::byte* target, std::uint64_t size_bytes, std::span<const backend::WordRef> words) {
  const ContextScope scope(*device_->context());
  VRAMLINK_CHECK(scope.entered());
  auto copy = VRAMLINK_TRY(CudaSlotCopy::make(device_, target, size_bytes, words));
  Source likely;
  {
    const std::lock_guard lock(mutex_);
    likely = last_;
  }
  const PointerInfo now = describe(device_->driver(), likely.address);
  if (now.buffer_id != 0 && now.buffer_id == likely.info.buffer_id &&
      now.left_bytes >= size_bytes) {
    copy->expect(likely);
  }
  return std::unique_ptr<backend::SlotCopy>(std::move(copy));
}

void CudaCopyQueue::remember(const Source& source) {
  const std::lock_guard lock(mutex_);
  last_ = source;
}

Result<void> CudaCopyQueue::submit(backend::SlotCopy& copy, StreamView source_stream,
                                   const std::byte* source, std::span<const std::uint64_t> values) {
  return of_work(launch(static_cast<CudaSlotCopy&>(copy), source_stream, source, values));
}

Result<void> CudaCopyQueue::launch(CudaSlotCopy& prepared, StreamView source_stream,
                                   const std::byte* source, std::span<const std::uint64_t> values) {
  const ContextScope scope(*device_->context());
  VRAMLINK_CHECK(scope.entered());
  const bool complete = source_stream.is_already_complete();
  api::Stream before = nullptr;
  if (!complete) before = VRAMLINK_TRY(device_->resolve("copy", source_stream));
  bool is_new = false;
  const Source& checked = *VRAMLINK_TRY(prepared.check_source(source, complete, is_new));
  if (checked.info.kind != PointerKind::unknown) {
    if (is_new) remember(checked);
    return prepared.launch(stream_, complete ? nullptr : &before, checked, values);
  }
  StagingBuffer* staged = VRAMLINK_TRY(staging_.fill(source, prepared.size_bytes()));
  const std::byte* pages = staged->pages.data();
  const Result<void> launched =
      prepared.launch(stream_, nullptr, {pages, describe(device_->driver(), pages)}, values);
  VRAMLINK_CHECK(staging_.give_back(staged, stream_));
  return launched;
}

Result<void> CudaCopyQueue::wait_for(StreamView source_stream) {
  if (source_stream.is_already_complete()) return {};
  const api::Stream before = VRAMLINK_TRY(device_->resolve("copy", source_stream));
  return order_streams(*device_, before, stream_);
}

Result<void> CudaCopyQueue::submit_once(StreamView source_stream, std::byte* target,
                                        const std::byte* source, std::uint64_t size_bytes,
                                        std::span<const backend::WordWrite> writes) {
  return of_work(copy_and_write(source_stream, target, source, size_bytes, writes));
}

Result<void> CudaCopyQueue::copy_and_write(StreamView source_stream, std::byte* target,
                                           const std::byte* source, std::uint64_t size_bytes,
                                           std::span<const backend::WordWrite> writes) {
  const ContextScope scope(*device_->context());
  VRAMLINK_CHECK(scope.entered());
  const PointerInfo info = VRAMLINK_TRY(check_copy_side(
      *device_, CopySide::source, source, size_bytes, source_stream.is_already_complete()));
  VRAMLINK_CHECK(wait_for(source_stream));
  if (info.kind != PointerKind::unknown) {
    VRAMLINK_CHECK(copy_bytes(*device_, stream_, {target, PointerKind::device}, {source, info.kind},
                              size_bytes));
  } else {
    StagingBuffer* staged = VRAMLINK_TRY(staging_.fill(source, size_bytes));
    const Result<void> copied = copy_bytes(*device_, stream_, {target, PointerKind::device},
                                           {staged->pages.data(), PointerKind::pinned}, size_bytes);
    VRAMLINK_CHECK(staging_.give_back(staged, stream_));
    VRAMLINK_CHECK(copied);
  }
  return write_words(*device_, stream_, writes);
}

}  // namespace vramlink::cuda
