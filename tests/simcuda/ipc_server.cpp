// The device process's part of handles: a socket that gives away files of the client.
#include <fcntl.h>

#include "descriptor_message.hpp"
#include "device_process.hpp"
#include "ipc.hpp"

namespace vramlink::simcuda {

IpcExports ipc_exports;

namespace {

int server_socket = -1;
std::atomic<bool> is_asked{false};

/// The socket stands in the folder under its first name, for the client to show.
bool make_socket() noexcept {
  const long made = sys::call(SYS_socket, AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (sys::failed(made)) return false;
  server_socket = static_cast<int>(made);
  // Relative: the path of a socket is short, that of a folder need not be.
  sockaddr_un address;
  address.sun_family = AF_UNIX;
  std::size_t length = 0;
  for (; ipc_exports.first_name[length] != 0; ++length) {
    address.sun_path[length] = ipc_exports.first_name[length];
  }
  address.sun_path[length] = 0;
  const auto size_bytes = static_cast<long>(offsetof(sockaddr_un, sun_path) + length + 1);
  if (sys::call(SYS_chdir, sys::arg(ipc_exports.folder)) != 0) return false;
  const bool is_bound = sys::call(SYS_bind, server_socket, sys::arg(&address), size_bytes) == 0;
  sys::call(SYS_chdir, sys::arg("/"));
  return is_bound && sys::call(SYS_fcntl, server_socket, F_SETOWN, sys::call(SYS_getpid)) == 0 &&
         sys::call(SYS_fcntl, server_socket, F_SETFL, O_NONBLOCK | O_ASYNC) == 0;
}

/// Sends the file of an entry; nothing if it is not there any more.
void answer(const IpcHandle& wanted, int reply) noexcept {
  if (wanted.index >= kExportMax || wanted.tag == 0) return;
  const ExportEntry& entry = ipc_exports.entries[wanted.index];
  if (entry.tag.load() != wanted.tag) return;
  const sys::DescriptorPath path(ipc_exports.client_pid, entry.fd.load());
  const long fd = sys::call(SYS_openat, AT_FDCWD, sys::arg(path.text()), O_RDWR | O_CLOEXEC);
  if (sys::failed(fd)) return;
  if (entry.tag.load() == wanted.tag) {
    char byte = 1;
    sys::DescriptorMessage message(&byte, sizeof byte);
    message.send(reply, static_cast<int>(fd), nullptr, MSG_DONTWAIT);
  }
  sys::call(SYS_close, fd);
}

}  // namespace

bool ipc_is_waiting() noexcept {
  return is_asked.load() || ipc_exports.server.load() == IpcServer::wanted;
}

void on_ipc_request(int) noexcept {
  is_asked.store(true);
  device_state.asleep.store(0);  // a futex wait that is about to begin ends at once
}

void serve_ipc() noexcept {
  if (ipc_exports.server.load() == IpcServer::wanted) {
    ipc_exports.server.store(make_socket() ? IpcServer::bound : IpcServer::failed);
    device_state.progress.fetch_add(1);
    sys::futex_wake(device_state.progress, INT_MAX);
  }
  if (!is_asked.exchange(false)) return;
  for (;;) {
    IpcHandle wanted;
    sys::DescriptorMessage message(&wanted, sizeof wanted);
    const long received = message.receive(server_socket, MSG_DONTWAIT);
    if (sys::failed(received)) return;
    const int reply = message.descriptor();
    if (reply < 0) continue;
    if (received == sizeof wanted) answer(wanted, reply);
    sys::call(SYS_close, reply);
  }
}

}  // namespace vramlink::simcuda
