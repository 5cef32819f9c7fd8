// The driver as this process has it: a table of its functions, filled from the list in
// driver_api.hpp, and its errors as ours.
#pragma once

#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include <vramlink/result.hpp>

#include "backend/cuda/driver_api.hpp"

namespace vramlink::cuda {
namespace api {

/// A pointer for each function of the list. Never null in a Driver.
struct Functions {
#define VRAMLINK_CUDA_MEMBER(member, name, symbol, version, ...) \
  std::add_pointer_t<__VA_ARGS__> member = nullptr;
  VRAMLINK_CUDA_SYMBOLS(VRAMLINK_CUDA_MEMBER)
#undef VRAMLINK_CUDA_MEMBER
};

}  // namespace api

/// The answer to a question about work, which is success, not_ready, or the fault of a context that
/// performs nothing any more. So much follows from a fault that it must be said twice: a driver may
/// have trouble of its own with one call.
template <class Ask>
[[nodiscard]] api::Status state_of_work(const Ask& ask) noexcept {
  const api::Status first = ask();
  return first == api::Status::success || first == api::Status::not_ready ? first : ask();
}

/// The error of work that was to be submitted or asked after. What a driver says it cannot do, or
/// has not, is an answer to who opens something; here the driver has failed, whatever it says.
[[nodiscard]] Error work_error(Error error);
template <class T>
[[nodiscard]] Result<T> of_work(Result<T> result) {
  if (result) [[likely]] {
    return result;
  }
  return work_error(std::move(result).error());
}

/// Immutable, shared by everything that calls the driver. The library is never unloaded.
class Driver : public api::Functions {
 public:
  /// What VRAMLINK_CUDA_LIBRARY names, else libcuda.so.1.
  [[nodiscard]] static std::string library_name();
  /// That library, initialised. Costs no context.
  /// Codes: no_driver (none is there, or it does not start), no_device (it runs, and shows no
  /// GPU), unsupported (too old, or a function is missing), driver.
  [[nodiscard]] static Result<std::shared_ptr<const Driver>> load();
  /// The same of a named library.
  [[nodiscard]] static Result<std::shared_ptr<const Driver>> load(const std::string& library);

  /// As cuDriverGetVersion: 12000 is 12.0.
  [[nodiscard]] int version() const noexcept { return version_; }

  /// The Error of a failed call. `operation` is static text, the name of the call.
  ///
  /// | CUresult                                                  | Code             |
  /// |-----------------------------------------------------------|------------------|
  /// | OUT_OF_MEMORY                                             | out_of_memory    |
  /// | NO_DEVICE, INVALID_DEVICE, DEVICE_UNAVAILABLE             | no_device        |
  /// | NOT_SUPPORTED, PEER_ACCESS_UNSUPPORTED                    | unsupported      |
  /// | MPS_MAX_CLIENTS_REACHED, MPS_MAX_CONNECTIONS_REACHED      | resource_exhausted |
  /// | INVALID_CONTEXT, CONTEXT_IS_DESTROYED, DEINITIALIZED, STREAM_CAPTURE_* | wrong_state |
  /// | any other                                                 | driver           |
  [[nodiscard]] Error error(const char* operation, api::Status status,
                            const char* file = __builtin_FILE(),
                            std::uint32_t line = __builtin_LINE()) const;
  /// Nothing, or error().
  [[nodiscard]] Result<void> check(const char* operation, api::Status status,
                                   const char* file = __builtin_FILE(),
                                   std::uint32_t line = __builtin_LINE()) const {
    if (status == api::Status::success) [[likely]] {
      return {};
    }
    return error(operation, status, file, line);
  }
  /// For destructors: logs, unless the driver has ended before us, as it does while a process
  /// exits.
  void report(const char* operation, api::Status status) const noexcept;

 private:
  Driver() = default;
  int version_ = 0;
};

}  // namespace vramlink::cuda
