// See driver.hpp.
#include "backend/cuda/driver.hpp"

#include <cstdlib>
#include <utility>

#include "base/log.hpp"
#include "base/try.hpp"
#include "os/dynamic_library.hpp"

namespace vramlink::cuda {
namespace {

using api::Status;

constexpr const char* kLibraryVariable = "VRAMLINK_CUDA_LIBRARY";
constexpr const char* kLibraryDefault = "libcuda.so.1";
constexpr const char* kInstallRemedy = "install NVIDIA's driver, 525 or newer, or use the host";

Code code_of(Status status) noexcept {
  switch (status) {
    case Status::out_of_memory:
      return Code::out_of_memory;
    case Status::no_device:
    case Status::invalid_device:
    case Status::device_unavailable:
      return Code::no_device;
    case Status::not_supported:
    case Status::peer_access_unsupported:
      return Code::unsupported;
    case Status::mps_max_clients_reached:
    case Status::mps_max_connections_reached:
      return Code::resource_exhausted;
    case Status::invalid_context:
    case Status::context_is_destroyed:
    case Status::deinitialized:
    case Status::stream_capture_unsupported:
    case Status::stream_capture_invalidated:
    case Status::stream_capture_isolation:
    case Status::stream_capture_implicit:
    case Status::captured_event:
      return Code::wrong_state;
    default:
      return Code::driver;
  }
}

/// "12.0" of 12000.
std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

template <class Function>
void set(Function*& member, void* address) noexcept {
  member = reinterpret_cast<Function*>(address);
}

/// Asks the driver for the function of that version, and else takes what the library exports.
void* find(const os::DynamicLibrary& library, api::GetProcAddress* get_proc_address,
           const char* name, const char* symbol, int version) noexcept {
  void* address = nullptr;
  if (get_proc_address != nullptr) {
    api::ProcQuery found{};
    // A program may have asked for streams of each thread as its default: we never do.
    const Status status = get_proc_address(name, &address, version, api::kProcLegacyStream, &found);
    if (status == Status::success && address != nullptr) return address;
  }
  return library.find(symbol);
}

Result<void> fill(api::Functions& functions, const os::DynamicLibrary& library,
                  const std::string& name_of_library) {
  api::GetProcAddress* get_proc_address = nullptr;
  set(get_proc_address, library.find(api::kGetProcAddressSymbol));
  const char* missing = nullptr;
#define VRAMLINK_CUDA_LOAD(member, name, symbol, version, ...)                     \
  set(functions.member, find(library, get_proc_address, #name, #symbol, version)); \
  if (functions.member == nullptr && missing == nullptr) missing = #symbol;
  VRAMLINK_CUDA_SYMBOLS(VRAMLINK_CUDA_LOAD)
#undef VRAMLINK_CUDA_LOAD
  if (missing == nullptr) return {};
  return Error(Code::unsupported, "load GPU driver")
      .about(name_of_library)
      .because("it has no function " + std::string(missing))
      .remedy(kInstallRemedy);
}

Result<void> require_version(const os::DynamicLibrary& library, const std::string& name_of_library,
                             int& version) {
  Status (*get_version)(int*) = nullptr;
  set(get_version, library.find("cuDriverGetVersion"));
  if (get_version == nullptr) {
    return Error(Code::no_driver, "load GPU driver")
        .about(name_of_library)
        .because("it is not NVIDIA's driver: it has no function cuDriverGetVersion")
        .remedy(kInstallRemedy);
  }
  if (get_version(&version) == Status::success && version >= api::kDriverVersionMin) return {};
  return Error(Code::unsupported, "load GPU driver")
      .about(name_of_library)
      .because("it offers CUDA " + version_text(version) + ", and 12.0 is the oldest that works")
      .remedy(kInstallRemedy)
      .numbers(static_cast<std::uint64_t>(version),
               static_cast<std::uint64_t>(api::kDriverVersionMin));
}

/// Why cuInit() failed, in words that lead somewhere.
Error initialisation_error(const Driver& driver, const std::string& library, Status status) {
  const auto with = [&](Code code, const char* remedy) {
    const Error plain = driver.error("cuInit", status);
    return Error(code, "start GPU driver")
        .about(library)
        .because(plain.facts()->reason)
        .remedy(remedy)
        .from(Origin::driver, static_cast<std::int32_t>(status));
  };
  switch (status) {
    case Status::no_device:
      return with(Code::no_device,
                  "look at CUDA_VISIBLE_DEVICES and at nvidia-smi, or use the host");
    case Status::stub_library:
      return with(Code::no_driver,
                  "take the toolkit's stubs folder out of LD_LIBRARY_PATH: it has no driver");
    case Status::not_initialized:
      return with(Code::wrong_state,
                  "start a new program with exec: a forked child cannot use the driver that its "
                  "parent has started");
    case Status::system_driver_mismatch:
      return with(Code::no_driver, "reboot: the kernel's part of the driver is another version");
    default:
      return with(Code::no_driver, "see whether nvidia-smi works, or use the host");
  }
}

}  // namespace

std::string Driver::library_name() {
  const char* chosen = std::getenv(kLibraryVariable);
  return chosen != nullptr && *chosen != '\0' ? chosen : kLibraryDefault;
}

Result<std::shared_ptr<const Driver>> Driver::load() { return load(library_name()); }

Result<std::shared_ptr<const Driver>> Driver::load(const std::string& library) {
  const Result<os::DynamicLibrary> opened = os::DynamicLibrary::open(library.c_str());
  if (!opened) {
    return Error(Code::no_driver, "load GPU driver")
        .about(library)
        .because(opened.error().facts()->reason)
        .remedy(kInstallRemedy);
  }
  std::shared_ptr<Driver> driver(new Driver);
  VRAMLINK_CHECK(require_version(*opened, library, driver->version_));
  VRAMLINK_CHECK(fill(*driver, *opened, library));
  if (const Status status = driver->init(0); status != Status::success) {
    return initialisation_error(*driver, library, status);
  }
  return std::shared_ptr<const Driver>(std::move(driver));
}

Error Driver::error(const char* operation, Status status, const char* file,
                    std::uint32_t line) const {
  const char* symbol = nullptr;
  const char* words = nullptr;
  std::string reason;
  if (get_error_name(status, &symbol) == Status::success && symbol != nullptr) reason = symbol;
  if (get_error_string(status, &words) == Status::success && words != nullptr) {
    if (!reason.empty()) reason += ", ";
    reason += words;
  }
  if (reason.empty()) reason = "the driver gives no name";
  return Error(code_of(status), operation, file, line)
      .because(std::move(reason))
      .from(Origin::driver, static_cast<std::int32_t>(status));
}

Error work_error(Error error) {
  const bool is_answer = error.code() == Code::unsupported || error.code() == Code::no_device ||
                         error.code() == Code::resource_exhausted;
  if (!is_answer || error.origin() != Origin::driver || error.facts() == nullptr) return error;
  const ErrorFacts& facts = *error.facts();
  return Error(Code::driver, error.operation(), error.file(), error.line())
      .about(facts.subject)
      .because(facts.reason)
      .remedy(facts.remedy)
      .device(facts.device)
      .from(Origin::driver, error.native());
}

void Driver::report(const char* operation, Status status) const noexcept {
  if (status == Status::success || status == Status::deinitialized) return;
  base::report_failure(operation, error(operation, status));
}

}  // namespace vramlink::cuda
