#include "ipc_client.hpp"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "budget.hpp"
#include "descriptor_message.hpp"
#include "devices.hpp"

namespace vramlink::simcuda {
namespace {

constexpr std::uint64_t kHandleMagic = 0x63706964616d6973;
constexpr const char* kNamePattern = "ipc-%016" PRIx64;
constexpr std::size_t kNameLength = 20;

std::uint64_t random_number() noexcept {
  std::uint64_t number = 0;
  while (number == 0) sys::call(SYS_getrandom, sys::arg(&number), sizeof number, 0);
  return number;
}

/// FNV-1a: no bit of a handle can be changed unnoticed.
std::uint64_t check_of(const IpcHandle& handle) noexcept {
  std::uint64_t sum = 0xcbf29ce484222325;
  const auto* bytes = reinterpret_cast<const unsigned char*>(&handle);
  for (std::size_t i = 0; i < offsetof(IpcHandle, check); ++i) {
    sum = (sum ^ bytes[i]) * 0x100000001b3;
  }
  return sum;
}

std::uint32_t namespace_number(const char* path) noexcept {
  struct stat status {};
  return ::stat(path, &status) == 0 ? static_cast<std::uint32_t>(status.st_ino) : 0;
}

/// The folder of the account, and in it the addresses of sockets, whatever the folder's length.
class Folder {
 public:
  Folder() noexcept : fd_(::open(account_folder(), O_PATH | O_DIRECTORY | O_CLOEXEC)) {}
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { ::close(fd_); }

  [[nodiscard]] int fd() const noexcept { return fd_; }
  [[nodiscard]] sockaddr_un address_of(const char* name) const noexcept {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%.32s", fd_, name);
    return address;
  }

 private:
  int fd_;
};

int make_socket() noexcept {
  return static_cast<int>(sys::call(SYS_socket, AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
}

/// Takes away the sockets of processes that died: nobody answers there.
void sweep(const Folder& folder) noexcept {
  const int fd = ::openat(folder.fd(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* const list = fd < 0 ? nullptr : ::fdopendir(fd);
  if (list == nullptr) return;
  while (const dirent* entry = ::readdir(list)) {
    if (std::strncmp(entry->d_name, "ipc-", 4) != 0) continue;
    if (std::strlen(entry->d_name) != kNameLength) continue;
    const sockaddr_un address = folder.address_of(entry->d_name);
    const int socket = make_socket();
    const long result = sys::call(SYS_connect, socket, sys::arg(&address), sizeof address);
    if (result == -ECONNREFUSED) ::unlinkat(folder.fd(), entry->d_name, 0);
    ::close(socket);
  }
  ::closedir(list);
}

std::array<char, 32> name_of(std::uint64_t origin) noexcept {
  std::array<char, 32> name{};
  std::snprintf(name.data(), name.size(), kNamePattern, origin);
  return name;
}

/// Shows the socket that the device has made. By a new name: what a sweep finds is complete.
bool show_socket() noexcept {
  const Folder folder;
  const char* first_name = ipc_exports.first_name.data();
  return ::fchmodat(folder.fd(), first_name, account_file_mode(), 0) == 0 &&
         ::renameat(folder.fd(), first_name, folder.fd(), name_of(ipc_exports.origin).data()) == 0;
}

__attribute__((destructor)) void hide_socket() {
  if (ipc_exports.server.load() != IpcServer::ready || this_process() != Process::owner) return;
  const Folder folder;
  ::unlinkat(folder.fd(), name_of(ipc_exports.origin).data(), 0);
}

}  // namespace

Status open_ipc() noexcept {
  if (ipc_exports.server.load() == IpcServer::none) {
    sweep(Folder());
    ipc_exports.origin = random_number();
    ipc_exports.client_pid = sys::pid();
    ipc_exports.folder = account_folder();
    std::snprintf(ipc_exports.first_name.data(), ipc_exports.first_name.size(), "new-%s",
                  name_of(ipc_exports.origin).data());
    ipc_exports.server.store(IpcServer::wanted);
    ring_bell();
  }
  const auto is_made = [] { return ipc_exports.server.load() != IpcServer::wanted; };
  if (!is_made() && !wait_for_device(is_made)) return Status::device_unavailable;
  if (ipc_exports.server.load() == IpcServer::bound) {
    ipc_exports.server.store(show_socket() ? IpcServer::ready : IpcServer::failed);
  }
  return ipc_exports.server.load() == IpcServer::ready ? Status::success : Status::operating_system;
}

std::uint32_t offer(int fd) noexcept {
  for (std::uint32_t index = 0; index < kExportMax; ++index) {
    ExportEntry& entry = ipc_exports.entries[index];
    if (entry.tag.load() != 0) continue;
    entry.fd.store(fd);
    entry.tag.store(random_number());
    return index;
  }
  return kNoExport;
}

void withdraw(std::uint32_t index) noexcept {
  if (index != kNoExport) ipc_exports.entries[index].tag.store(0);
}

IpcHandle handle_of(IpcUse use, std::uint32_t index, std::uint64_t size_bytes) noexcept {
  IpcHandle handle{};
  handle.magic = kHandleMagic;
  handle.origin = ipc_exports.origin;
  handle.tag = ipc_exports.entries[index].tag.load();
  handle.use = use;
  handle.index = index;
  handle.size_bytes = size_bytes;
  handle.user = ::geteuid();
  handle.user_namespace = namespace_number("/proc/self/ns/user");
  handle.mount_namespace = namespace_number("/proc/self/ns/mnt");
  handle.check = check_of(handle);
  return handle;
}

Status read_handle(const char* bytes, IpcUse use, IpcHandle& handle) noexcept {
  bool is_uniform = true;
  for (std::size_t i = 1; i < kIpcHandleBytes; ++i) is_uniform &= bytes[i] == bytes[0];
  if (is_uniform && (bytes[0] == 0 || bytes[0] == -1)) return Status::invalid_value;
  std::memcpy(&handle, bytes, sizeof handle);
  if (handle.magic != kHandleMagic || handle.check != check_of(handle) || handle.use != use) {
    return Status::invalid_handle;
  }
  return handle.origin == ipc_exports.origin ? Status::invalid_context : Status::success;
}

bool is_of_same_place(const IpcHandle& handle) noexcept {
  return handle.user == ::geteuid() &&
         handle.user_namespace == namespace_number("/proc/self/ns/user") &&
         handle.mount_namespace == namespace_number("/proc/self/ns/mnt");
}

int fetch(const IpcHandle& handle) noexcept {
  // The answer comes through a socket that travels with the question: whoever holds the other end,
  // the kernel included, closes it when it has none.
  std::array<int, 2> ends{-1, -1};
  if (sys::call(SYS_socketpair, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sys::arg(ends.data())) !=
      0) {
    return -1;
  }
  IpcHandle wanted = handle;
  sys::DescriptorMessage question(&wanted, sizeof wanted);
  const Folder folder;
  sockaddr_un address = folder.address_of(name_of(handle.origin).data());
  const int socket = make_socket();
  const long sent = question.send(socket, ends[1], &address, 0);
  ::close(socket);
  ::close(ends[1]);
  char byte = 0;
  sys::DescriptorMessage answer(&byte, sizeof byte);
  long received = -EINTR;
  while (!sys::failed(sent) && received == -EINTR) received = answer.receive(ends[0], 0);
  ::close(ends[0]);
  return received == 1 ? answer.descriptor() : -1;
}

}  // namespace vramlink::simcuda
