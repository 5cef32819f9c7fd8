// Names and texts of statuses.
#include "call.hpp"
#include "devices.hpp"

namespace vramlink::simcuda {
namespace {

struct ErrorText {
  int status;
  const char* name;
  const char* text;
};

constexpr std::array kErrors{
    ErrorText{0, "CUDA_SUCCESS", "no error"},
    ErrorText{1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    ErrorText{2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    ErrorText{3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    ErrorText{4, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    ErrorText{46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "the device process is gone"},
    ErrorText{100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    ErrorText{101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    ErrorText{200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    ErrorText{201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    ErrorText{205, "CUDA_ERROR_MAP_FAILED", "mapping of buffer object failed"},
    ErrorText{217, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", "peer access is not supported"},
    ErrorText{218, "CUDA_ERROR_INVALID_PTX", "a PTX compilation failed"},
    ErrorText{304, "CUDA_ERROR_OPERATING_SYSTEM", "a call to the operating system failed"},
    ErrorText{400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    ErrorText{401, "CUDA_ERROR_ILLEGAL_STATE", "illegal state"},
    ErrorText{500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    ErrorText{600, "CUDA_ERROR_NOT_READY", "device not ready"},
    ErrorText{700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    ErrorText{704, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled"},
    ErrorText{705, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", "peer access has not been enabled"},
    ErrorText{709, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    ErrorText{712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "memory is already registered"},
    ErrorText{713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "memory has not been registered"},
    ErrorText{719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    ErrorText{800, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    ErrorText{801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    ErrorText{999, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

const ErrorText* find_error(Status status) noexcept {
  for (const ErrorText& error : kErrors) {
    if (error.status == static_cast<int>(status)) return &error;
  }
  return nullptr;
}

}  // namespace

const char* error_name(Status status) noexcept {
  const ErrorText* error = find_error(status);
  return error == nullptr ? nullptr : error->name;
}

Status cuGetErrorName(Status status, const char** text) {
  return enter(
      FunctionId::cuGetErrorName, Needs::nothing,
      [&] {
        if (text == nullptr) return Status::invalid_value;
        const ErrorText* error = find_error(status);
        *text = error == nullptr ? nullptr : error->name;
        return error == nullptr ? Status::invalid_value : Status::success;
      },
      status, out(text));
}

Status cuGetErrorString(Status status, const char** text) {
  return enter(
      FunctionId::cuGetErrorString, Needs::nothing,
      [&] {
        if (text == nullptr) return Status::invalid_value;
        const ErrorText* error = find_error(status);
        *text = error == nullptr ? nullptr : error->text;
        return error == nullptr ? Status::invalid_value : Status::success;
      },
      status, out(text));
}

}  // namespace vramlink::simcuda
