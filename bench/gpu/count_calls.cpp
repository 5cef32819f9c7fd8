// A library that stands between a program and its GPU driver and counts the calls that open, close
// or allocate: named by VRAMLINK_CUDA_LIBRARY, it passes everything on to libcuda.so.1, or to what
// VRAMLINK_BENCH_DRIVER names.
#include <dlfcn.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace {

/// None of these may stand in the path of a frame. Each has at most six arguments, all of them
/// numbers or pointers, which the calling conventions of x86-64 and AArch64 pass in registers.
constexpr std::array kNames{"cuMemCreate",
                            "cuMemRelease",
                            "cuMemExportToShareableHandle",
                            "cuMemImportFromShareableHandle",
                            "cuMemAddressReserve",
                            "cuMemAddressFree",
                            "cuMemMap",
                            "cuMemUnmap",
                            "cuMemSetAccess",
                            "cuMemAlloc",
                            "cuMemFree",
                            "cuMemAllocHost",
                            "cuMemHostAlloc",
                            "cuMemFreeHost",
                            "cuMemHostRegister",
                            "cuMemHostUnregister",
                            "cuDevicePrimaryCtxRetain",
                            "cuDevicePrimaryCtxRelease",
                            "cuStreamCreate",
                            "cuStreamDestroy",
                            "cuEventCreate",
                            "cuEventDestroy",
                            "cuGraphCreate",
                            "cuGraphDestroy",
                            "cuGraphInstantiateWithFlags",
                            "cuGraphExecDestroy",
                            "cuModuleLoadData",
                            "cuModuleUnload"};

using Word = std::uintptr_t;
using Call = int (*)(Word, Word, Word, Word, Word, Word);
using GetProcAddress = int (*)(const char*, void**, int, std::uint64_t, void*);

std::atomic<std::uint64_t> count{0};
std::array<std::atomic<Call>, kNames.size()> originals{};

template <std::size_t kIndex>
int counted(Word a, Word b, Word c, Word d, Word e, Word f) {
  count.fetch_add(1, std::memory_order_relaxed);
  return originals[kIndex].load(std::memory_order_relaxed)(a, b, c, d, e, f);
}

template <std::size_t... kIndices>
constexpr std::array<Call, kNames.size()> counters(std::index_sequence<kIndices...>) {
  return {&counted<kIndices>...};
}
constexpr std::array kCounters = counters(std::make_index_sequence<kNames.size()>());

void* driver() {
  static void* const library = [] {
    const char* chosen = std::getenv("VRAMLINK_BENCH_DRIVER");
    void* const opened = ::dlopen(chosen && *chosen ? chosen : "libcuda.so.1", RTLD_NOW);
    if (!opened) {
      std::fprintf(stderr, "no GPU driver: %s\n", ::dlerror());
      std::exit(5);
    }
    return opened;
  }();
  return library;
}

void* with_counter(const char* name, void* address) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (std::strcmp(kNames[i], name) != 0) continue;
    originals[i].store(reinterpret_cast<Call>(address), std::memory_order_relaxed);
    return reinterpret_cast<void*>(kCounters[i]);
  }
  return address;
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) int cuDriverGetVersion(int* version) {
  return reinterpret_cast<int (*)(int*)>(::dlsym(driver(), "cuDriverGetVersion"))(version);
}

__attribute__((visibility("default"))) int cuGetProcAddress_v2(const char* name, void** address,
                                                               int version, std::uint64_t flags,
                                                               void* found) {
  static const auto get =
      reinterpret_cast<GetProcAddress>(::dlsym(driver(), "cuGetProcAddress_v2"));
  const int status = get(name, address, version, flags, found);
  if (status == 0 && *address) *address = with_counter(name, *address);
  return status;
}

/// Calls so far that open, close or allocate.
__attribute__((visibility("default"))) std::uint64_t vramlink_bench_call_count() {
  return count.load(std::memory_order_relaxed);
}
}
