// Control pages that nobody uses any more, but that a device may write still.
#pragma once

#include <cstddef>
#include <iterator>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "backend/backend.hpp"
#include "runtime/import_registry.hpp"
#include "runtime/janitor.hpp"

namespace vramlink::inline v0::channel {

/// A mapped control segment with the pages of it that a device may write.
struct ControlPages {
  runtime::SharedView view;
  /// Unregistered before the view is unmapped.
  std::vector<std::shared_ptr<backend::RegisteredWords>> registered;
};

/// Registered pages stay so until their channel ends, because unregistering one holds up all
/// submissions of the process. Nobody writes to what comes here any more; so where peers come and
/// go without end, the oldest are let go in bulk. Ends on the janitor. Thread-safe.
class Parking {
 public:
  static constexpr std::size_t kPagesMax = 256;

  explicit Parking(runtime::Janitor& janitor) noexcept : janitor_(janitor) {}

  void keep(ControlPages pages) {
    if (pages.registered.empty()) return;
    auto surplus = std::make_shared<std::vector<ControlPages>>();
    {
      const std::lock_guard lock(mutex_);
      parked_.push_back(std::move(pages));
      if (parked_.size() <= kPagesMax) return;
      const auto half = parked_.begin() + static_cast<std::ptrdiff_t>(kPagesMax / 2);
      surplus->assign(std::make_move_iterator(parked_.begin()), std::make_move_iterator(half));
      parked_.erase(parked_.begin(), half);
    }
    janitor_.post([surplus = std::move(surplus)] { surplus->clear(); });
  }
  /// For tests.
  [[nodiscard]] std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return parked_.size();
  }

 private:
  runtime::Janitor& janitor_;
  mutable std::mutex mutex_;
  std::vector<ControlPages> parked_;
};

}  // namespace vramlink::inline v0::channel
