// What this process lets others open by the 64 bytes of a handle, and how they get it.
//
// A handle names its process by a random number, an entry of that process's table, and what the
// entry held: memory that was freed since is not mistaken for what took its place. The file behind
// it comes by a socket in the folder of the account (budget.hpp), so whoever may use that folder
// may open a handle. The socket is the device process's: a process that is stopped is asked like
// any other, one that was killed has nothing left to give, and what is asked of it ends with the
// device.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace vramlink::simcuda {

inline constexpr std::uint32_t kExportMax = 4096;
inline constexpr std::uint32_t kNoExport = UINT32_MAX;
inline constexpr std::size_t kIpcHandleBytes = 64;

enum class IpcUse : std::uint32_t { none = 0, memory = 1, event = 2 };

/// The bytes of CUipcMemHandle and CUipcEventHandle.
struct IpcHandle {
  std::uint64_t magic;
  std::uint64_t origin;  ///< the process, and the name of its socket
  std::uint64_t tag;     ///< of the entry
  IpcUse use;
  std::uint32_t index;
  std::uint64_t size_bytes;  ///< of the memory, as its owner asked for it
  std::uint32_t user;
  std::uint32_t user_namespace;
  std::uint32_t mount_namespace;
  std::uint32_t reserved;
  std::uint64_t check;  ///< of all that stands before
};
static_assert(sizeof(IpcHandle) == kIpcHandleBytes);

struct ExportEntry {
  /// 0: nothing. Cleared before `fd` is closed: a reader that sees the same tag before and after it
  /// opened the file has the right one.
  std::atomic<std::uint64_t> tag{0};
  std::atomic<int> fd{-1};
};

/// Steps of the socket's life, in order; the device takes it from wanted to bound, or to failed.
enum class IpcServer : std::uint32_t { none, wanted, bound, ready, failed };

struct IpcExports {
  std::array<ExportEntry, kExportMax> entries;
  std::atomic<IpcServer> server{IpcServer::none};
  int client_pid = 0;
  std::uint64_t origin = 0;
  const char* folder = nullptr;
  std::array<char, 40> first_name{};  ///< until others may find it
};

/// One for each process.
extern IpcExports ipc_exports;

// In the device process (ipc_server.cpp): no libc.

/// Whether there is something for serve_ipc() to do.
bool ipc_is_waiting() noexcept;
/// Makes the socket when it is wanted, and answers what others ask for. Never waits.
void serve_ipc() noexcept;
/// SIGIO: something was asked.
void on_ipc_request(int) noexcept;

}  // namespace vramlink::simcuda
