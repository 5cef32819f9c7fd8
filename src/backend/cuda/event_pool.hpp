// Events that are needed for the length of one call.
#pragma once

#include <array>
#include <atomic>
#include <utility>

#include "backend/cuda/context.hpp"
#include "base/try.hpp"

namespace vramlink::cuda {

/// Keeps a few events between calls, so that steady work creates none. No lock. Thread-safe.
class EventPool {
 public:
  explicit EventPool(const PrimaryContext& context) noexcept : context_(context) {}
  ~EventPool() {
    for (auto& kept : kept_) {
      // Nobody else is here any more.
      EventHandle event({&context_, kept.load(std::memory_order_relaxed)});
      if (event.get().value == nullptr) static_cast<void>(event.release());
    }
  }
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  /// One event for its holder alone; goes back to the pool. Whatever waits for a record of it was
  /// told when the wait was submitted, so the next holder may record it at once.
  class Lease {
   public:
    Lease(EventPool& pool, EventHandle event) noexcept : pool_(pool), event_(std::move(event)) {}
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    ~Lease() { pool_.give_back(std::move(event_)); }
    Lease(Lease&&) = default;
    Lease& operator=(Lease&&) = delete;
    [[nodiscard]] api::Event get() const noexcept { return event_.get().value; }

   private:
    EventPool& pool_;
    EventHandle event_;
  };

  /// The context is current. Codes: driver, out_of_memory.
  [[nodiscard]] Result<Lease> take() {
    for (auto& kept : kept_) {
      // Pairs with the exchange in give_back().
      if (api::Event event = kept.exchange(nullptr, std::memory_order_acq_rel)) {
        return Lease(*this, EventHandle({&context_, event}));
      }
    }
    return Lease(*this, VRAMLINK_TRY(make_event(context_)));
  }

 private:
  void give_back(EventHandle event) noexcept {
    if (!event) return;
    for (auto& kept : kept_) {
      api::Event none = nullptr;
      // Pairs with the exchange in take().
      if (kept.compare_exchange_strong(none, event.get().value, std::memory_order_acq_rel)) {
        static_cast<void>(event.release());
        return;
      }
    }
  }

  const PrimaryContext& context_;
  std::array<std::atomic<api::Event>, 8> kept_{};
};

}  // namespace vramlink::cuda
