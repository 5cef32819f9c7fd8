// See downloader_core.hpp.
#include "channel/downloader_core.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/checked.hpp"
#include "base/try.hpp"
#include "channel/device_wait.hpp"
#include "os/fork_guard.hpp"
#include "runtime/end_on_janitor.hpp"
#include "runtime/runtime_state.hpp"

namespace vramlink::inline v0::channel {
namespace {

constexpr const char* kDownloadFrame = "download frame";
constexpr std::uint64_t kPageBytes = 4096;
constexpr std::uint32_t kWordStride = 8;  // a cache line for each word

static_assert(kDownloadBufferCountMax * kWordStride * sizeof(std::uint64_t) <= kPageBytes);

}  // namespace

Result<std::shared_ptr<DownloaderCore>> DownloaderCore::open(const Runtime& runtime,
                                                             const DeviceId& device,
                                                             std::uint64_t frame_bytes_max,
                                                             const DownloaderOptions& options) {
  VRAMLINK_CHECK(os::require_not_forked("open downloader"));
  if (options.buffer_count < kDownloadBufferCountMin ||
      options.buffer_count > kDownloadBufferCountMax || frame_bytes_max == 0) {
    return Error(Code::invalid_argument, "open downloader")
        .because("a downloader has 1 to 16 buffers of at least one byte")
        .numbers(options.buffer_count, frame_bytes_max);
  }
  std::unique_ptr<DownloaderCore> core(new DownloaderCore(options));
  core->process_ = runtime.state()->process();
  core->backend_ = VRAMLINK_TRY(core->process_->backends().find_any(device));
  core->frame_bytes_max_ = frame_bytes_max;
  VRAMLINK_CHECK(core->make_buffers(frame_bytes_max));
  std::shared_ptr<runtime::ProcessState> process = core->process_;
  return runtime::ends_on_janitor(std::move(process), std::move(core));
}

Result<void> DownloaderCore::make_buffers(std::uint64_t frame_bytes_max) {
  buffers_ = std::vector<Buffer>(options_.buffer_count);
  if (backend_->device().is_host()) return {};
  const auto pitch = base::checked_round_up(frame_bytes_max, kPageBytes);
  const auto all = base::checked_multiply(pitch.value_or(UINT64_MAX), options_.buffer_count);
  const auto total = base::checked_add(all.value_or(UINT64_MAX), kPageBytes);
  if (!pitch || !all || !total) {
    return Error(Code::invalid_argument, "open downloader")
        .because("buffers of that size and number exceed 64 bits")
        .numbers(frame_bytes_max, options_.buffer_count);
  }
  const os::SharedSegment segment =
      VRAMLINK_TRY(os::SharedSegment::create("vramlink-download", *total));
  mapping_ = VRAMLINK_TRY(segment.map(os::Access::read_write, os::Inherit::yes));
  registered_ = VRAMLINK_TRY(backend_->register_words({mapping_.data(), mapping_.size_bytes()}));
  queue_ = VRAMLINK_TRY(backend_->make_copy_queue());
  for (std::uint32_t i = 0; i < options_.buffer_count; ++i) {
    buffers_[i].data = mapping_.data() + kPageBytes + *pitch * i;
  }
  return {};
}

std::optional<std::uint32_t> DownloaderCore::idle_buffer() const noexcept {
  for (std::uint32_t i = 0; i < buffers_.size(); ++i) {
    // Pairs with release(): what read the buffer has been done.
    if (buffers_[i].state.load(std::memory_order_acquire) == State::idle) return i;
  }
  return std::nullopt;
}

Error DownloaderCore::no_buffer() const {
  const bool handed = std::any_of(buffers_.begin(), buffers_.end(), [](const Buffer& buffer) {
    return buffer.state.load(std::memory_order_relaxed) != State::lost;
  });
  if (handed || !failure_) return Error(Code::full, kDownloadFrame);
  return *failure_;
}

Result<void> DownloaderCore::submit(Frame&& frame, StreamView stream) {
  VRAMLINK_CHECK(os::require_not_forked(kDownloadFrame));
  const std::optional<std::uint32_t> index = idle_buffer();
  if (!index) return no_buffer();
  if (!frame.data()) {
    return Error(Code::wrong_state, kDownloadFrame).because("the frame was released or moved");
  }
  if (queue_ && frame.size_bytes() > frame_bytes_max_) {
    return Error(Code::invalid_argument, kDownloadFrame)
        .because("the frame is larger than the downloader's buffers")
        .remedy("open a downloader for the format's payload_bytes")
        .numbers(frame.size_bytes(), frame_bytes_max_);
  }
  if (frame.device() != backend_->device()) {
    return Error(Code::invalid_argument, kDownloadFrame)
        .because("the frame is on " + to_string(frame.device()) + ", the downloader on " +
                 to_string(backend_->device()))
        .remedy("open a downloader on the device that the subscriber reads with");
  }
  Buffer& buffer = buffers_[*index];
  Facts& facts = buffer.facts;
  facts.format = frame.format();
  facts.sequence = frame.sequence();
  facts.epoch = frame.epoch();
  facts.publish_ns = frame.publish_ns();
  facts.media_ns = frame.media_ns();
  facts.flags = frame.flags();
  const std::span<const std::byte> user_data = frame.user_data();
  facts.user_bytes = static_cast<std::uint32_t>(user_data.size());
  std::copy(user_data.begin(), user_data.end(), facts.user_data.begin());
  buffer.size_bytes = frame.size_bytes();
  buffer.frame.emplace(std::move(frame));
  VRAMLINK_CHECK(start_copy(*index, stream));
  submitted_[(submitted_first_ + submitted_count_) % submitted_.size()] = *index;
  ++submitted_count_;
  return {};
}

Result<void> DownloaderCore::start_copy(std::uint32_t index, StreamView stream) {
  Buffer& buffer = buffers_[index];
  if (!queue_) {
    const Result<void> usable = backend_->check_stream(stream);
    if (usable) {
      buffer.state.store(State::copying, std::memory_order_relaxed);
    } else {
      buffer.frame.reset();
    }
    return usable;
  }
  const StreamView own = queue_->stream();
  const auto enqueue = [&]() -> Result<void> {
    VRAMLINK_CHECK(backend_->order(stream, own));
    VRAMLINK_CHECK(backend_->copy(own, buffer.data, buffer.frame->data(), buffer.size_bytes));
    // From here on the device writes to the buffer.
    buffer.state.store(State::lost, std::memory_order_relaxed);
    VRAMLINK_CHECK(give_back(buffer, own));
    const backend::WordWrite done{{registered_.get(), index * kWordStride}, ++buffer.ticket};
    return backend_->signal(own, {&done, 1});
  };
  const Result<void> enqueued = enqueue();
  if (!enqueued) {
    // What is enqueued of it reads the frame: its slot waits, like the buffer.
    if (buffer.state.load(std::memory_order_relaxed) == State::idle) {
      buffer.frame.reset();
    } else {
      failure_ = enqueued.error();
    }
    return enqueued;
  }
  buffer.state.store(State::copying, std::memory_order_relaxed);
  return {};
}

// Before the done word: who sees the copy done can be given the next frame at once.
Result<void> DownloaderCore::give_back(Buffer& buffer, StreamView own) {
  Result<ReleaseReceipt> released = buffer.frame->release(own);
  if (released) {
    buffer.released = *std::move(released);
    buffer.frame.reset();
    return {};
  }
  // A subscriber without stream order: next() gives the slot back.
  if (released.failed_with(Code::wrong_state)) return {};
  return std::move(released).error();
}

bool DownloaderCore::is_copied(const Buffer& buffer, std::uint32_t index) const noexcept {
  if (!queue_) return true;
  // Pairs with the device's store behind the copy.
  return registered_->words()[index * kWordStride].load(std::memory_order_acquire) >= buffer.ticket;
}

Result<void> DownloaderCore::wait_copied(const Buffer& buffer, std::uint32_t index,
                                         Deadline deadline) const {
  return wait_for_device(kDownloadFrame, *backend_, deadline,
                         [&] { return is_copied(buffer, index); });
}

Result<HostFrame> DownloaderCore::next(Deadline deadline) {
  VRAMLINK_CHECK(os::require_not_forked(kDownloadFrame));
  if (submitted_count_ == 0) return Error(Code::empty, kDownloadFrame);
  const std::uint32_t index = submitted_[submitted_first_];
  Buffer& buffer = buffers_[index];
  const Result<void> copied = wait_copied(buffer, index, deadline);
  if (copied.failed_with(Code::timed_out)) return copied.error();
  submitted_first_ = (submitted_first_ + 1) % static_cast<std::uint32_t>(submitted_.size());
  --submitted_count_;
  if (!copied) {
    buffer.state.store(State::lost, std::memory_order_relaxed);
    failure_ = copied.error();
    return copied.error();
  }
  buffer.state.store(State::handed, std::memory_order_relaxed);
  if (queue_) {
    const bool aborted = buffer.frame ? buffer.frame->aborted() : buffer.released->aborted();
    buffer.frame.reset();
    buffer.released.reset();
    if (aborted) {
      buffer.state.store(State::idle, std::memory_order_relaxed);
      return Error(Code::aborted, kDownloadFrame);
    }
  }
  const std::byte* const data = queue_ ? buffer.data : buffer.frame->data();
  return HostFrame(shared_from_this(), index, {data, static_cast<std::size_t>(buffer.size_bytes)});
}

void DownloaderCore::fill(Subscriber& subscriber) {
  while (!outcome_ && idle_buffer()) {
    Result<Frame> frame = subscriber.try_receive();
    if (!frame) {
      // Neither says anything about what comes after the frames that are here.
      if (frame.error().code() == Code::empty || frame.error().code() == Code::resource_exhausted) {
        return;
      }
      outcome_ = std::move(frame).error();
      return;
    }
    Result<void> submitted = submit(*std::move(frame), StreamView::already_complete());
    if (!submitted) outcome_ = std::move(submitted).error();
  }
}

Result<HostFrame> DownloaderCore::receive(Subscriber& subscriber, Deadline deadline) {
  VRAMLINK_CHECK(os::require_not_forked(kDownloadFrame));
  if (submitted_count_ == 0 && !outcome_) {
    if (!idle_buffer()) return no_buffer();
    Frame frame = VRAMLINK_TRY(subscriber.receive(deadline));
    VRAMLINK_CHECK(submit(std::move(frame), StreamView::already_complete()));
  }
  // On the host a frame that is taken ahead only gets old.
  if (options_.ahead && queue_) fill(subscriber);
  if (submitted_count_ > 0) return next(deadline);
  Error outcome = *std::move(outcome_);
  outcome_.reset();
  return outcome;
}

void DownloaderCore::release(std::uint32_t index) noexcept {
  Buffer& buffer = buffers_[index];
  buffer.frame.reset();
  buffer.state.store(State::idle, std::memory_order_release);  // pairs with idle_buffer()
}

bool DownloaderCore::may_end() noexcept {
  if (!queue_) return true;
  // A lost one needs no wait: unregistering its pages does that.
  for (std::uint32_t i = 0; i < buffers_.size(); ++i) {
    const bool copying = buffers_[i].state.load(std::memory_order_relaxed) == State::copying;
    if (copying && !is_copied(buffers_[i], i) && backend_->check_health()) return false;
  }
  return true;
}

}  // namespace vramlink::inline v0::channel
