#include "support/stand_in.hpp"

#include <cstdlib>
#include <iterator>

#include "os/dynamic_library.hpp"
#include "support/cuda_test_symbols.hpp"

namespace vramlink::test {

const simcuda::TestApi* stand_in() {
  using Entry = const simcuda::TestApi* (*)();
  static const Entry kEntry = []() -> Entry {
    const char* const path = std::getenv("VRAMLINK_CUDA_LIBRARY");
    if (path == nullptr || *path == '\0') return nullptr;
    static const auto library = os::DynamicLibrary::open(path);
    if (!library) return nullptr;
    return reinterpret_cast<Entry>(library->find(simcuda::kTestApiSymbol));
  }();
  return kEntry == nullptr ? nullptr : kEntry();
}

DriverCalls driver_calls() {
  DriverCalls calls;
#define VRAMLINK_COUNT(member, name, symbol, version, ...) \
  calls[#name] = stand_in()->call_count(#name);
  VRAMLINK_CUDA_SYMBOLS(VRAMLINK_COUNT)
  VRAMLINK_CUDA_TEST_SYMBOLS(VRAMLINK_COUNT)
#undef VRAMLINK_COUNT
  return calls;
}

DriverCalls driver_calls_since(const DriverCalls& before) {
  DriverCalls calls = driver_calls();
  for (auto entry = calls.begin(); entry != calls.end();) {
    entry->second -= before.at(entry->first);
    entry = entry->second != 0 ? std::next(entry) : calls.erase(entry);
  }
  return calls;
}

}  // namespace vramlink::test
