// cli: the entry of the command vramlink.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <exception>
#include <new>
#include <variant>

#include "commands.hpp"
#include "exit_status.hpp"
#include "options.hpp"
#include "talk.hpp"

namespace {

/// Takes the place of standard descriptors that are closed, which the next descriptors of this
/// process would get: a socket must not become its standard output. Reading standard input and
/// writing standard output still fail with EBADF; standard error swallows. False: errno says why.
bool fill_standard_descriptors() noexcept {
  constexpr std::array<int, 3> kModes{O_WRONLY, O_RDONLY, O_WRONLY};
  int fd = 0;
  for (const int mode : kModes) {
    const bool closed = ::fcntl(fd, F_GETFD) < 0 && errno == EBADF;
    if (closed && ::open("/dev/null", mode) != fd) return false;  // the lowest that is free
    ++fd;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace vramlink::cli;
  // A closed pipe and a file at its size limit are errors of the write, which name the file.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  if (!fill_standard_descriptors()) return kFailure;  // nobody may be there to be told
  try {
    const auto parsed = parse_command_line(argc, argv);
    if (const int* exit_code = std::get_if<int>(&parsed)) return *exit_code;
    return std::visit([](const auto& options) { return run(options); }, std::get<Command>(parsed));
  } catch (const std::bad_alloc&) {
    say("out of memory");
  } catch (const std::exception& error) {
    say(error.what());
  }
  return kFailure;
}
