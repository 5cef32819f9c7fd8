// See raw_driver.hpp.
#include "gpu/raw_driver.hpp"

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>

#include "harness/process.hpp"

namespace vramlink::bench {
namespace {

constexpr int kNothingHere = 5;  // as the command's exit code for what is not supported

void* open_library() {
  // The first is what the library under test uses, and may be one that only counts.
  const char* name = "libcuda.so.1";
  for (const char* variable : {"VRAMLINK_CUDA_LIBRARY", "VRAMLINK_BENCH_DRIVER"}) {
    const char* chosen = std::getenv(variable);
    if (chosen && *chosen) name = chosen;
  }
  void* const library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    std::cerr << "no GPU driver: " << ::dlerror() << '\n';
    std::exit(kNothingHere);
  }
  return library;
}

template <class Function>
void find(void* library, const char* symbol, Function*& function) {
  function = reinterpret_cast<Function*>(::dlsym(library, symbol));
  if (function) return;
  std::cerr << "the GPU driver has no " << symbol << '\n';
  std::exit(kNothingHere);
}

/// The third word that looks like a version: "NVRM version: ... Kernel Module  580.159.04  ...".
std::string kernel_release() {
  std::ifstream file("/proc/driver/nvidia/version");
  for (std::string word; file >> word;) {
    if (word.find('.') != std::string::npos &&
        word.find_first_not_of("0123456789.") == std::string::npos) {
      return word;
    }
  }
  return {};
}

}  // namespace

RawDriver::RawDriver() {
  void* const library = open_library();
#define VRAMLINK_BENCH_FIND(member, name, symbol, version, ...) find(library, #symbol, member);
  VRAMLINK_CUDA_SYMBOLS(VRAMLINK_BENCH_FIND)
#undef VRAMLINK_BENCH_FIND
  find(library, "cuCtxSetCurrent", ctx_set_current);
  find(library, "cuStreamSynchronize", stream_synchronize);
  int count = 0;
  if (init(0) != cu::Status::success || device_get_count(&count) != cu::Status::success ||
      count == 0) {
    std::cerr << "the driver shows no GPU\n";
    std::exit(kNothingHere);
  }
  check(device_get(&device_, 0), "cuDeviceGet");
  check(primary_ctx_retain(&context_, device_), "cuDevicePrimaryCtxRetain");
  check(ctx_set_current(context_), "cuCtxSetCurrent");
  cu::Uuid uuid{};
  check(device_get_uuid(&uuid, device_), "cuDeviceGetUuid");
  std::memcpy(id_.uuid.data(), uuid.bytes, sizeof uuid.bytes);
  std::array<char, 256> text{};
  check(device_get_name(text.data(), static_cast<int>(text.size()) - 1, device_),
        "cuDeviceGetName");
  name_ = text.data();
  int version = 0;
  check(driver_get_version(&version), "cuDriverGetVersion");
  release_ = kernel_release();
  if (release_.empty() || std::getenv("VRAMLINK_CUDA_LIBRARY")) {
    release_ = "CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
  }
}

void RawDriver::check(cu::Status status, const char* call) const {
  if (status == cu::Status::success) return;
  const char* text = nullptr;
  get_error_name(status, &text);
  std::cerr << call << " failed: " << (text ? text : "unknown error") << '\n';
  std::exit(1);
}

cu::Stream RawDriver::make_stream() const {
  cu::Stream stream = nullptr;
  check(stream_create(&stream, cu::kStreamNonBlocking), "cuStreamCreate");
  return stream;
}

cu::DevicePointer RawDriver::allocate(std::size_t size_bytes) const {
  cu::DevicePointer address = 0;
  check(mem_alloc(&address, size_bytes), "cuMemAlloc");
  return address;
}

cu::DevicePointer RawDriver::register_host(void* address, std::size_t size_bytes) const {
  check(mem_host_register(address, size_bytes, cu::kRegisterPortable | cu::kRegisterDeviceMap),
        "cuMemHostRegister");
  cu::DevicePointer mapped = 0;
  check(mem_host_get_device_pointer(&mapped, address, 0), "cuMemHostGetDevicePointer");
  return mapped;
}

std::size_t RawDriver::free_bytes() const {
  std::size_t free = 0;
  std::size_t total = 0;
  check(mem_get_info(&free, &total), "cuMemGetInfo");
  return free;
}

void add_gpu_facts(Report& report) {
  struct Facts {
    std::array<char, 256> name{};
    std::array<char, 64> release{};
  };
  auto& facts = shared_object<Facts>();
  Child child([&facts] {
    const RawDriver driver;
    driver.name().copy(facts.name.data(), facts.name.size() - 1);
    driver.release().copy(facts.release.data(), facts.release.size() - 1);
    return 0;
  });
  if (const int code = child.wait(); code != 0) std::exit(code);
  report.add_fact("gpu", facts.name.data());
  report.add_fact("driver", facts.release.data());
}

}  // namespace vramlink::bench
