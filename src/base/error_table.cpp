// base: what each error code means. Rows are appended to, as the enum is.
#include "base/error_table.hpp"

#include <array>

namespace vramlink::base {
namespace {

using enum CodeGroup;

constexpr auto kRows = std::to_array<CodeRow>({
    {Code::empty, outcome, 1, "empty", "nothing new", "nothing new to receive",
     "Do other work and look again, or wait with a deadline."},
    {Code::full, outcome, 1, "full", "no slot is free", "no slot can be claimed now",
     "Drop this frame, or claim with a deadline."},
    {Code::timed_out, outcome, 4, "timed_out", "timed out", "the deadline passed first",
     "Decide whether to wait again; nothing was lost or half done."},
    {Code::closed, outcome, 1, "closed", "closed", "the peer announced the end of the stream",
     "Stop reading; this is the normal end."},
    {Code::peer_gone, outcome, 6, "peer_gone", "the peer is gone",
     "the peer process ended or hung up", "Attach again when the name is served again."},
    {Code::revoked, outcome, 1, "revoked", "revoked", "the owner took the right back",
     "Release what is held and attach again; hold frames for a shorter time."},
    {Code::stale, outcome, 1, "stale", "stale", "an older epoch or generation",
     "Drop the value and take a current one."},
    {Code::interrupted, outcome, 130, "interrupted", "interrupted",
     "interrupt() was called on the object", "Leave the loop."},
    {Code::aborted, outcome, 1, "aborted", "aborted", "the work behind this value never completed",
     "Do not use the bytes."},
    {Code::not_found, environment, 3, "not_found", "not found", "no such channel, file or name",
     "Check the name, and that both sides use one runtime directory."},
    {Code::already_exists, environment, 1, "already_exists", "already exists",
     "another process owns the name", "Choose another name, or end the owner."},
    {Code::permission_denied, environment, 7, "permission_denied", "permission denied",
     "the owner does not admit this user", "Run both sides as one user, or admit the other."},
    {Code::resource_exhausted, environment, 1, "resource_exhausted", "a limit is reached",
     "a limit of vramlink or of the system is reached", "Release something, or raise the limit."},
    {Code::no_driver, environment, 5, "no_driver", "no driver", "the GPU driver cannot be loaded",
     "Run `vramlink doctor`; channels in host memory still work."},
    {Code::no_device, environment, 5, "no_device", "no device", "no device can be used here",
     "Run `vramlink doctor`; channels in host memory still work."},
    {Code::wrong_device, environment, 1, "wrong_device", "wrong device",
     "the two sides use different devices", "Open the device that the error names."},
    {Code::unsupported, environment, 5, "unsupported", "unsupported",
     "the system, driver or device lacks an ability", "Run `vramlink doctor`."},
    {Code::out_of_memory, environment, 1, "out_of_memory", "out of memory",
     "host or device memory ran out", "Use fewer or smaller slots."},
    {Code::os, environment, 1, "os", "system call failed", "a system call failed",
     "See the errno."},
    {Code::driver, environment, 1, "driver", "driver call failed", "a driver call failed",
     "See the CUresult."},
    {Code::incompatible, environment, 1, "incompatible", "incompatible",
     "the two sides speak different versions", "Update the older side."},
    {Code::corrupt, environment, 1, "corrupt", "corrupt",
     "a peer wrote something that the protocol forbids", "End the peer; report it as a bug."},
    {Code::invalid_argument, misuse, 2, "invalid_argument", "invalid argument",
     "an argument is outside what the call accepts", "Correct the call."},
    {Code::wrong_state, misuse, 1, "wrong_state", "wrong state",
     "the object does not allow the call now, or this is a forked child", "Correct the program."},
});

constexpr std::string_view title(CodeGroup group) noexcept {
  switch (group) {
    case outcome:
      return "Outcomes: part of normal work";
    case environment:
      return "Environment: the machine or a peer does not allow it";
    case misuse:
      break;
  }
  return "Misuse: the calling program is wrong";
}

constexpr std::string_view kHead =
    "# Errors\n"
    "\n"
    "<!-- Printed from src/base/error_table.cpp; a unit test compares the two.\n"
    "     To print it again: VRAMLINK_REGENERATE=1 build/dev/tests/unit/unit_tests "
    "--gtest_filter='ErrorsDocument.*' -->\n"
    "\n"
    "A call that can fail returns `Result<T>`: a value or an `Error`. An error holds a code, the\n"
    "operation that was tried and, where they help, facts: subject, reason, remedy, peer pid,\n"
    "device, two numbers, and the errno or CUresult behind it. `to_string(error)` makes one line:\n"
    "\n"
    "    open channel 'cam0': permission denied: owner uid 1000, mode 0600 (errno 13 EACCES). "
    "Try: run both sides as one user\n"
    "\n"
    "Codes and their numbers never change; new ones are appended. The numbers are those of the C\n"
    "interface, where 0 is success. The last column is the exit code of the command `vramlink`;\n"
    "0 is success and 141 ends a broken pipe quietly.\n";

}  // namespace

std::span<const CodeRow> code_table() noexcept { return kRows; }

std::string errors_document() {
  std::string text(kHead);
  for (const CodeGroup group : {outcome, environment, misuse}) {
    text.append("\n## ").append(title(group)).append("\n\n");
    text.append("| code | number | meaning | what to do | exit |\n|---|---|---|---|---|\n");
    for (const CodeRow& row : kRows) {
      if (row.group != group) continue;
      text.append("| `").append(row.name).append("` | ");
      text.append(std::to_string(static_cast<unsigned>(row.code))).append(" | ");
      text.append(row.meaning).append(" | ").append(row.next).append(" | ");
      text.append(std::to_string(row.exit_code)).append(" |\n");
    }
  }
  return text;
}

}  // namespace vramlink::base
