#include "ipc_events.hpp"

#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "ipc_client.hpp"

namespace vramlink::simcuda {
namespace {

constexpr std::uint64_t kPageMagic = 0x7665646168736d69;

/// Pages of events that are gone.
std::array<SharedEvent*, kEventMax> retired;
std::uint32_t retired_count = 0;

/// Unmaps them if no queue can use them any more.
void unmap_retired() noexcept {
  const std::uint32_t slot_count = device_state.slot_count.load();
  for (std::uint32_t i = 0; i < slot_count; ++i) {
    const StreamSlot& slot = device_state.slots[i];
    if (slot.completed.load() < slot.tail.load()) return;
  }
  while (retired_count > 0) {
    sys::call(SYS_munmap, sys::arg(retired[--retired_count]), sizeof(SharedEvent));
  }
}

SharedEvent* map_page(int fd) noexcept {
  const long page =
      sys::call(SYS_mmap, 0, sizeof(SharedEvent), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (sys::failed(page)) return nullptr;
  sys::call(SYS_madvise, page, sizeof(SharedEvent), MADV_DONTFORK);
  return reinterpret_cast<SharedEvent*>(page);
}

/// The page behind a descriptor that another process gave; nullptr if it is no event's.
SharedEvent* open_page(int fd) noexcept {
  struct stat status {};
  if (::fstat(fd, &status) != 0 || status.st_size != sizeof(SharedEvent)) return nullptr;
  SharedEvent* page = map_page(fd);
  if (page == nullptr || page->magic == kPageMagic) return page;
  sys::call(SYS_munmap, sys::arg(page), sizeof(SharedEvent));
  return nullptr;
}

}  // namespace

Record last_record(const Event& event) noexcept {
  if (event.shared == nullptr) return {event.counter, event.value, event.recorded_context};
  const std::uint64_t number = event.shared->issued.load();
  if (number == 0) return {};
  return {&event.shared->done[number % event.shared->done.size()], number, event.context};
}

Record next_record(SharedEvent& shared) noexcept {
  const std::uint64_t number = shared.issued.fetch_add(1) + 1;
  return {&shared.done[number % shared.done.size()], number, 0};
}

Status share_event(Event& event) noexcept {
  unmap_retired();
  const auto fd = static_cast<int>(
      sys::call(SYS_memfd_create, sys::arg("simcuda"), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (fd < 0 || ::ftruncate(fd, sizeof(SharedEvent)) != 0 ||
      ::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0 ||
      (event.shared = map_page(fd)) == nullptr) {
    if (fd >= 0) ::close(fd);
    return Status::operating_system;
  }
  event.shared->magic = kPageMagic;
  event.shared_fd = fd;
  return Status::success;
}

void drop_event(Event& event) noexcept {
  if (event.shared != nullptr) {
    withdraw(event.exported);
    if (event.shared_fd >= 0) ::close(event.shared_fd);
    if (retired_count < retired.size()) retired[retired_count++] = event.shared;
    unmap_retired();
  }
  driver.events.remove(&event);
}

Status cuIpcGetEventHandle(IpcEventHandle* handle, api::Event event) {
  return enter(
      FunctionId::cuIpcGetEventHandle, Needs::initialized,
      [&] {
        if (handle == nullptr) return Status::invalid_value;
        if (driver.events.find(event) == nullptr) return Status::invalid_handle;
        const Status status = open_ipc();
        if (status != Status::success) return status;
        Event* found = driver.events.find(event);  // open_ipc() may have waited without the lock
        // Neither an event of one process alone nor another process's.
        if (found == nullptr || found->shared_fd < 0) return Status::invalid_handle;
        if (found->exported == kNoExport) found->exported = offer(found->shared_fd);
        if (found->exported == kNoExport) return Status::out_of_memory;
        const IpcHandle made = handle_of(IpcUse::event, found->exported, sizeof(SharedEvent));
        std::memcpy(handle->reserved, &made, sizeof made);
        return Status::success;
      },
      out(handle), event);
}

Status cuIpcOpenEventHandle(api::Event* event, IpcEventHandle handle) {
  return enter(
      FunctionId::cuIpcOpenEventHandle, Needs::healthy,
      [&] {
        IpcHandle wanted;
        if (event == nullptr) return Status::invalid_value;
        const Status status = read_handle(handle.reserved, IpcUse::event, wanted);
        if (status != Status::success) return status;
        if (!is_of_same_place(wanted)) return Status::map_failed;
        unmap_retired();
        Event* made = driver.events.add();
        if (made == nullptr) return Status::out_of_memory;
        const int fd = fetch(wanted);
        made->context = index_of(*current_context());
        made->flags = kEventInterprocess | api::kEventDisableTiming;
        made->shared = fd < 0 ? nullptr : open_page(fd);
        if (fd >= 0) ::close(fd);
        if (made->shared == nullptr) {
          driver.events.remove(made);
          return Status::invalid_handle;
        }
        *event = to_handle<api::Event>(driver.events, made);
        return Status::success;
      },
      out(event), handle);
}

}  // namespace vramlink::simcuda
