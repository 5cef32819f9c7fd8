// See words.hpp.
#include "backend/cuda/words.hpp"

#include "base/assert.hpp"
#include "base/try.hpp"

namespace vramlink::cuda {

Result<void> Registrations::add(const std::shared_ptr<const PrimaryContext>& context,
                                std::span<std::byte> pages) {
  std::unique_lock lock(mutex_);
  for (auto found = entries_.find(pages.data()); found != entries_.end();
       found = entries_.find(pages.data())) {
    if (found->second.changing) {
      changed_.wait(lock);
      continue;
    }
    if (found->second.size_bytes != pages.size()) {
      return Error(Code::wrong_state, "register pages")
          .because("other pages are registered from the same address on")
          .numbers(pages.size(), found->second.size_bytes);
    }
    ++found->second.users;
    return {};
  }
  entries_.emplace(pages.data(), Entry{pages.size(), 1, true, context});
  lock.unlock();
  const Driver& driver = context->driver();
  const Result<void> registered =
      driver.check("cuMemHostRegister",
                   driver.mem_host_register(pages.data(), pages.size(),
                                            api::kRegisterPortable | api::kRegisterDeviceMap));
  lock.lock();
  if (registered) {
    entries_.find(pages.data())->second.changing = false;
  } else {
    entries_.erase(pages.data());
  }
  lock.unlock();
  changed_.notify_all();
  return registered;
}

void Registrations::remove(std::span<std::byte> pages) noexcept {
  std::shared_ptr<const PrimaryContext> context;  // may be the last user of the context
  {
    const std::lock_guard lock(mutex_);
    Entry& entry = entries_.find(pages.data())->second;
    if (--entry.users != 0) return;
    entry.changing = true;
    context = entry.context;
  }
  {
    const ContextScope scope(*context);
    const Driver& driver = context->driver();
    driver.report("cuMemHostUnregister", driver.mem_host_unregister(pages.data()));
  }
  {
    const std::lock_guard lock(mutex_);
    entries_.erase(pages.data());
  }
  changed_.notify_all();
}

Result<std::unique_ptr<backend::RegisteredWords>> CudaWords::make(
    std::shared_ptr<Registrations> registrations, std::shared_ptr<const PrimaryContext> context,
    std::span<std::byte> pages) {
  const ContextScope scope(*context);
  VRAMLINK_CHECK(scope.entered());
  VRAMLINK_CHECK(registrations->add(context, pages));
  std::unique_ptr<CudaWords> words(
      new CudaWords(std::move(registrations), std::move(context), pages));
  const Driver& driver = words->context_->driver();
  VRAMLINK_CHECK(driver.check("cuMemHostGetDevicePointer", driver.mem_host_get_device_pointer(
                                                               &words->address_, pages.data(), 0)));
  return std::unique_ptr<backend::RegisteredWords>(std::move(words));
}

CudaWords::~CudaWords() {
  if (!os::in_forked_child()) registrations_->remove(pages_);
}

}  // namespace vramlink::cuda
