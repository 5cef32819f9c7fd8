// The account of device memory on this host: what all processes hold, exact also after a death.
//
// One file, VRAMLINK_SIMCUDA_DIR/account, has an entry for each piece of memory. Whoever holds the
// memory, by handle or by mapping, holds a read lock on the entry's byte; the kernel takes a dead
// process's locks away (open file description locks: a forked child that still has the descriptor
// keeps them, as it keeps a real driver's). An entry that nobody locks is free, whatever it says.
// No lock is held for longer than one system call, so a process may be stopped or killed anywhere.
#pragma once

#include <cstdint>

namespace vramlink::simcuda {

/// What an entry says: changes with every use of the entry, so that nobody mistakes one for
/// another.
using AccountTag = std::uint64_t;

struct AccountEntry {
  std::uint32_t index = 0;
  AccountTag tag = 0;
};

/// In cuInit. Ends the process if the folder cannot be used, and says so.
void open_account_file() noexcept;
/// The folder of the account, by its whole path.
const char* account_folder() noexcept;
/// The mode of a file in it that all who may use the folder share.
unsigned account_file_mode() noexcept;
/// Bytes that living processes hold on a device of the host.
std::uint64_t bytes_held(int device_number) noexcept;
/// A new entry that this process holds; false without room for it: under `limit_bytes` on the
/// device, or in the table.
bool open_account(int device_number, std::uint64_t size_bytes, std::uint64_t limit_bytes,
                  AccountEntry& entry) noexcept;
/// Holds another process's entry too; false if it is no longer the same.
bool join_account(const AccountEntry& entry) noexcept;
/// The entry as it is now, for another process to join.
AccountEntry account_entry(std::uint32_t index) noexcept;
/// Whether any process holds it.
bool is_account_held(std::uint32_t index) noexcept;
/// Lets go, once for each open_account() and join_account().
void leave_account(std::uint32_t index) noexcept;

}  // namespace vramlink::simcuda
