// What our own streams still do, and what must outlive it.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <vramlink/deadline.hpp>

#include "backend/cuda/context.hpp"

namespace vramlink::cuda {

/// Knows our streams of one context. Memory that is unmapped under a running copy faults the whole
/// context, and the driver waits for nothing when it unmaps; so what a destructor would free is
/// kept here until the work that is in our streams by then is complete. Never waits, except where
/// it says so. Thread-safe.
class OwnWork {
 public:
  explicit OwnWork(const PrimaryContext& context) noexcept : context_(context) {}
  OwnWork(const OwnWork&) = delete;
  OwnWork& operator=(const OwnWork&) = delete;

  /// A stream of ours, made here and known from now on. The context is current.
  /// Codes: driver, out_of_memory.
  [[nodiscard]] Result<api::Stream> add_stream();
  /// The stream ends once its work is complete.
  void retire_stream(api::Stream stream) noexcept;

  /// Destroys `thing` now if our streams are idle, else in a later call, on whichever thread that
  /// is: so nothing that the driver frees by a call which stops while a stream waits (registered
  /// pages are; see docs/cuda_notes.md).
  template <class Thing>
  void destroy_later(Thing thing) noexcept {
    if (os::in_forked_child()) {
      // What it holds is the parent's: its destructors do nothing here.
      return;
    }
    sweep();
    bury(std::make_unique<Holder<Thing>>(std::move(thing)));
  }

  /// Destroys what is due.
  void sweep() noexcept;
  /// Waits until nothing is left, at most until the deadline; true if nothing is.
  [[nodiscard]] bool finish(Deadline deadline) noexcept;
  /// Gives up what is left: it is never destroyed. For a context whose work does not end.
  void leak() noexcept;

 private:
  struct Grave {
    virtual ~Grave() = default;
    std::vector<EventHandle> until;
    /// The driver refused to say when the work is complete: it is asked again.
    bool is_undated = true;
  };
  template <class Thing>
  struct Holder final : Grave {
    explicit Holder(Thing held) noexcept : thing(std::move(held)) {}
    Thing thing;
  };

  void bury(std::unique_ptr<Grave> grave) noexcept;
  /// Whether the stream has work that will still be performed. The context is current.
  [[nodiscard]] bool is_busy(api::Stream stream) const noexcept;
  /// Records an event in each stream that has work. By the mutex. Codes: as make_event.
  [[nodiscard]] Result<void> date(Grave& grave);
  /// By the mutex, the context current.
  [[nodiscard]] bool is_over(Grave& grave) noexcept;

  const PrimaryContext& context_;
  std::mutex mutex_;
  std::vector<StreamHandle> streams_;
  std::vector<std::unique_ptr<Grave>> graves_;
};

}  // namespace vramlink::cuda
