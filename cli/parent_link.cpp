// cli: reports, and ending with the parent.
#include "parent_link.hpp"

#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <ctime>

#include <vramlink/deadline.hpp>

#include "exit_status.hpp"
#include "timespec.hpp"

namespace vramlink::cli {
namespace {

constexpr std::int64_t kReportEveryNs = 50'000'000;
constexpr unsigned kSecondsAfterParent = 2;

// Standard input has ended too by now; this is for a child that does not notice.
void parent_died(int) { ::alarm(kSecondsAfterParent); }

}  // namespace

ParentLink::ParentLink(std::int32_t parent_pid) {
  std::signal(SIGINT, SIG_IGN);  // the terminal sends it to all; the parent decides
  std::signal(SIGTERM, parent_died);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent_pid) ::_exit(kFailure);
}

bool ParentLink::wait_until(std::int64_t time_ns) noexcept {
  while (true) {
    const std::int64_t left_ns = std::max<std::int64_t>(time_ns - monotonic_ns(), 0);
    const std::timespec wait = to_timespec(left_ns);
    pollfd input{STDIN_FILENO, POLLIN, 0};
    const int ready = ::ppoll(&input, 1, &wait, nullptr);
    if (ready == 0) return true;
    if (ready > 0) return false;  // nothing is ever written to it: it ended
    if (errno != EINTR) return false;
  }
}

bool ParentLink::report_due() const noexcept { return monotonic_ns() >= next_report_ns_; }

bool ParentLink::send_bytes(const void* report, std::size_t size) noexcept {
  next_report_ns_ = monotonic_ns() + kReportEveryNs;
  ssize_t written = 0;
  do {
    written = ::write(STDOUT_FILENO, report, size);
  } while (written < 0 && errno == EINTR);
  return written == static_cast<ssize_t>(size);
}

}  // namespace vramlink::cli
