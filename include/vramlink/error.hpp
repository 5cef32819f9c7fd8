// What went wrong, where, why and what to do about it.
#ifndef VRAMLINK_ERROR_HPP
#define VRAMLINK_ERROR_HPP

#include <array>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <string_view>

#include <vramlink/export.hpp>

namespace vramlink::inline v0 {

/// Every outcome other than success. Appended to, never renumbered; 0 is success in the C ABI.
enum class Code : std::uint16_t {
  // Outcomes: part of normal work, created without allocating.
  empty = 1,        ///< nothing new to receive
  full = 2,         ///< no slot can be claimed now
  timed_out = 3,    ///< the deadline passed first
  closed = 4,       ///< the peer announced the end of the stream
  peer_gone = 5,    ///< the peer process ended or hung up
  revoked = 6,      ///< the owner took the right back
  stale = 7,        ///< an older epoch or generation
  interrupted = 8,  ///< interrupt() was called on the object
  aborted = 9,      ///< the work behind this value never completed
  // Environment: the machine or a peer does not allow it.
  not_found = 32,
  already_exists = 33,
  permission_denied = 34,
  resource_exhausted = 35,
  no_driver = 36,
  no_device = 37,
  wrong_device = 38,
  unsupported = 39,
  out_of_memory = 40,
  os = 41,      ///< a system call failed; native() is its errno
  driver = 42,  ///< a driver call failed; native() is its CUresult
  incompatible = 43,
  corrupt = 44,  ///< a peer wrote something that the protocol forbids
  // Misuse: the calling program is wrong.
  invalid_argument = 64,
  wrong_state = 65,
};

/// The stream is over: announced (closed) or by the peer's death (peer_gone).
[[nodiscard]] constexpr bool is_end(Code code) noexcept {
  return code == Code::closed || code == Code::peer_gone;
}

/// Where native() comes from.
enum class Origin : std::uint8_t { vramlink = 0, os = 1, driver = 2 };

/// The name of a code as it is written here, "not_found"; "unknown" for other values. Static text.
[[nodiscard]] VRAMLINK_API std::string_view name(Code code) noexcept;

/// The exit code that the command uses for `code` (docs/errors.md): 1 failed, 2 usage, 3 not found,
/// 4 timeout, 5 unsupported, 6 peer gone, 7 permission, 130 interrupted.
[[nodiscard]] VRAMLINK_API int exit_code(Code code) noexcept;

/// The facts behind an environment or misuse error. Outcomes have none.
struct ErrorFacts {
  std::string subject;                     ///< the channel, file or argument it is about
  std::string reason;                      ///< why, one clause without a full stop
  std::string remedy;                      ///< what to do next, one clause; may be empty
  std::int32_t peer_pid = 0;               ///< 0: no peer involved
  std::array<std::uint8_t, 16> device{};   ///< UUID of the device; all zero: none
  std::array<std::uint64_t, 2> numbers{};  ///< for example wanted and available bytes
};

/// An error value. Copying shares the facts; creating one without facts allocates nothing.
/// Thread-safety: as an int.
class VRAMLINK_API Error {
 public:
  /// `operation` names what was tried and must be static text.
  explicit Error(Code code, const char* operation, const char* file = __builtin_FILE(),
                 std::uint32_t line = __builtin_LINE()) noexcept
      : code_(code), line_(line), operation_(operation), file_(file) {}

  [[nodiscard]] Code code() const noexcept { return code_; }
  [[nodiscard]] Origin origin() const noexcept { return origin_; }
  /// errno or CUresult, by origin(); 0 for Origin::vramlink.
  [[nodiscard]] std::int32_t native() const noexcept { return native_; }
  [[nodiscard]] const char* operation() const noexcept { return operation_; }
  [[nodiscard]] const char* file() const noexcept { return file_; }
  [[nodiscard]] std::uint32_t line() const noexcept { return line_; }
  /// Null for an outcome without facts. Owned by this object and its copies.
  [[nodiscard]] const ErrorFacts* facts() const noexcept { return facts_.get(); }

  // Builders: each returns *this with one fact more. They allocate.
  Error&& about(std::string_view subject) &&;
  Error&& because(std::string reason) &&;
  Error&& remedy(std::string remedy) &&;
  Error&& peer(std::int32_t pid) &&;
  Error&& device(const std::array<std::uint8_t, 16>& uuid) &&;
  Error&& numbers(std::uint64_t first, std::uint64_t second) &&;
  Error&& from(Origin origin, std::int32_t native) && noexcept;

 private:
  ErrorFacts& mutable_facts();

  Code code_;
  Origin origin_ = Origin::vramlink;
  std::int32_t native_ = 0;
  std::uint32_t line_;
  const char* operation_;
  const char* file_;
  std::shared_ptr<ErrorFacts> facts_;
};

/// One line for people: what was tried, on what, why it failed, what to do. Without source
/// position.
[[nodiscard]] VRAMLINK_API std::string to_string(const Error& error);

/// Thrown by Result::value() only.
class VRAMLINK_API Exception : public std::exception {
 public:
  explicit Exception(Error error);
  [[nodiscard]] const char* what() const noexcept override { return text_->c_str(); }
  [[nodiscard]] const Error& error() const noexcept { return error_; }

 private:
  Error error_;
  std::shared_ptr<const std::string> text_;
};

}  // namespace vramlink::inline v0

#endif  // VRAMLINK_ERROR_HPP
