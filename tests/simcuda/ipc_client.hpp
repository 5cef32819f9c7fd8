// The client's part of handles: gives them out, reads those of others, and fetches what they name.
#pragma once

#include <cstdint>

#include "driver.hpp"
#include "ipc.hpp"

namespace vramlink::simcuda {

/// Before the first offer: lets others ask. May wait without the lock. operating_system if the
/// folder of the account takes no socket.
Status open_ipc() noexcept;
/// An entry for a file that stays the caller's; kNoExport if there are too many.
std::uint32_t offer(int fd) noexcept;
/// To be called before the file is closed. Takes kNoExport too.
void withdraw(std::uint32_t index) noexcept;
/// The handle of an entry; each time the same.
IpcHandle handle_of(IpcUse use, std::uint32_t index, std::uint64_t size_bytes) noexcept;

/// Reads the bytes of a handle. invalid_value: all zeros or all ones; invalid_handle: not one of
/// this use; invalid_context: this process's own.
Status read_handle(const char* bytes, IpcUse use, IpcHandle& handle) noexcept;
/// Whether the handle was made by this user, in the same namespaces of users and mounts.
bool is_of_same_place(const IpcHandle& handle) noexcept;
/// A descriptor of the file behind a handle, the caller's; -1 if it is gone with its process, or
/// taken back, or out of this user's reach.
int fetch(const IpcHandle& handle) noexcept;

}  // namespace vramlink::simcuda
