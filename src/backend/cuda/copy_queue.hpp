// Copies into slots, each with its words one submission.
//
// | handle        | closed by               | depends on                                        |
// |---------------|-------------------------|---------------------------------------------------|
// | CudaSlotCopy  | OwnWork, once its last  | the OpenDevice, which it holds; its words' pages, |
// |               | launch is complete      | which must outlive it                             |
// | CudaCopyQueue | OwnWork, once its       | the OpenDevice, which it holds                    |
// |               | stream is idle          |                                                   |
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "backend/backend.hpp"
#include "backend/cuda/open_device.hpp"
#include "backend/cuda/pointer.hpp"
#include "backend/cuda/staging.hpp"

namespace vramlink::cuda {

/// A source as it was looked up.
struct Source {
  const std::byte* address = nullptr;
  PointerInfo info;
};

/// One executable graph: wait for an event, copy, write the words. What changes from launch to
/// launch is set in place.
class SlotGraph {
 public:
  /// Codes: driver, out_of_memory.
  [[nodiscard]] static Result<SlotGraph> make(const OpenDevice& device, const Source& source,
                                              std::byte* target, std::uint64_t size_bytes,
                                              api::Event event, std::span<api::MemOp> writes);

  /// Whether the graph can copy from there: the driver lets only memory of one kind and one context
  /// take the place of what a graph was made with.
  [[nodiscard]] bool takes(const PointerInfo& source) const noexcept {
    return from_host_ == (source.kind != PointerKind::device) &&
           context_of_source_ == source.context;
  }
  [[nodiscard]] api::Status set_source(const std::byte* source);
  /// Codes: driver.
  [[nodiscard]] Result<void> set_writes(std::span<api::MemOp> writes);
  [[nodiscard]] Result<void> launch(api::Stream stream);

 private:
  SlotGraph() = default;
  void set_source_address(const std::byte* source) noexcept;

  const PrimaryContext* context_ = nullptr;
  GraphHandle graph_;  // its nodes name what is set in the executable one
  GraphExecHandle exec_;
  api::GraphNode copy_node_ = nullptr;
  api::GraphNode write_node_ = nullptr;  // null without words
  api::Memcpy3d copy_{};
  const std::byte* source_ = nullptr;
  api::Context context_of_source_ = nullptr;
  bool from_host_ = false;
};

class CudaSlotCopy final : public backend::SlotCopy {
 public:
  /// The context is current. Codes: driver, out_of_memory.
  [[nodiscard]] static Result<std::unique_ptr<CudaSlotCopy>> make(
      std::shared_ptr<OpenDevice> device, std::byte* target, std::uint64_t size_bytes,
      std::span<const backend::WordRef> words);
  ~CudaSlotCopy() override;
  CudaSlotCopy(const CudaSlotCopy&) = delete;
  CudaSlotCopy& operator=(const CudaSlotCopy&) = delete;

  [[nodiscard]] std::uint64_t size_bytes() const noexcept { return size_bytes_; }

  /// Makes the graph for such sources now, which the first launch would else do.
  void expect(const Source& source);
  /// What `address` is; kept until another one comes, which `is_new` says. Codes:
  /// invalid_argument.
  [[nodiscard]] Result<const Source*> check_source(const std::byte* address, bool pageable,
                                                   bool& is_new);
  /// Waits for `source_stream` (null: for nothing), copies and writes, on `queue`.
  [[nodiscard]] Result<void> launch(api::Stream queue, const api::Stream* source_stream,
                                    const Source& source, std::span<const std::uint64_t> values);

 private:
  /// What a launch that is under way uses.
  struct Parts {
    EventHandle source_done;
    std::vector<SlotGraph> graphs;  ///< one for each kind of source that came
  };

  CudaSlotCopy(std::shared_ptr<OpenDevice> device, std::byte* target,
               std::uint64_t size_bytes) noexcept
      : device_(std::move(device)), target_(target), size_bytes_(size_bytes) {}
  /// The graph that copies from `source`, set to do so.
  [[nodiscard]] Result<SlotGraph*> graph_for(const Source& source);

  std::shared_ptr<OpenDevice> device_;
  std::byte* target_;
  std::uint64_t size_bytes_;
  std::vector<api::MemOp> writes_;
  Parts parts_;
  bool waits_for_source_ = false;  ///< source_done was last recorded in a stream of the program
  Source checked_;
};

class CudaCopyQueue final : public backend::CopyQueue {
 public:
  /// The context is current. Codes: driver, out_of_memory.
  [[nodiscard]] static Result<std::unique_ptr<backend::CopyQueue>> make(
      std::shared_ptr<OpenDevice> device);
  ~CudaCopyQueue() override;
  CudaCopyQueue(const CudaCopyQueue&) = delete;
  CudaCopyQueue& operator=(const CudaCopyQueue&) = delete;

  [[nodiscard]] StreamView stream() const noexcept override { return StreamView::cuda(stream_); }
  [[nodiscard]] Result<std::unique_ptr<backend::SlotCopy>> prepare(
      std::byte* target, std::uint64_t size_bytes,
      std::span<const backend::WordRef> words) override;
  [[nodiscard]] Result<void> submit(backend::SlotCopy& copy, StreamView source_stream,
                                    const std::byte* source,
                                    std::span<const std::uint64_t> values) override;
  [[nodiscard]] Result<void> submit_once(StreamView source_stream, std::byte* target,
                                         const std::byte* source, std::uint64_t size_bytes,
                                         std::span<const backend::WordWrite> writes) override;

 private:
  CudaCopyQueue(std::shared_ptr<OpenDevice> device, api::Stream stream) noexcept
      : device_(std::move(device)), stream_(stream), staging_(device_) {}
  /// As submit() and submit_once(), with the driver's own codes.
  [[nodiscard]] Result<void> launch(CudaSlotCopy& prepared, StreamView source_stream,
                                    const std::byte* source, std::span<const std::uint64_t> values);
  [[nodiscard]] Result<void> copy_and_write(StreamView source_stream, std::byte* target,
                                            const std::byte* source, std::uint64_t size_bytes,
                                            std::span<const backend::WordWrite> writes);
  /// Orders our stream behind `source_stream`.
  [[nodiscard]] Result<void> wait_for(StreamView source_stream);
  /// Copies that are prepared from now on expect such a source.
  void remember(const Source& source);

  std::shared_ptr<OpenDevice> device_;
  api::Stream stream_;  // owned by the device's OwnWork
  StagingPool staging_;
  std::mutex mutex_;
  Source last_;  // by the mutex
};

}  // namespace vramlink::cuda
