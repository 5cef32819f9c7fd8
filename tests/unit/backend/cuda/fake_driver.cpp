// A library with the driver's names whose every function returns what FAKE_DRIVER_STATUS says. With
// VRAMLINK_FAKE_BARE it has one function alone.
#include <cstdlib>

#include "backend/cuda/driver_api.hpp"

namespace {

int number_of(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  return text != nullptr ? std::atoi(text) : otherwise;
}

}  // namespace

#ifdef VRAMLINK_FAKE_BARE

extern "C" [[gnu::visibility("default")]] int cuDriverGetVersion(int* version) {
  *version = number_of("FAKE_DRIVER_VERSION", 12000);
  return 0;
}

#else

namespace {
int answer(const char* symbol, void* argument) {
  constexpr char kVersion[] = "cuDriverGetVersion";
  for (int i = 0; symbol[i] == kVersion[i]; ++i) {
    if (kVersion[i] != '\0') continue;
    *static_cast<int*>(argument) = number_of("FAKE_DRIVER_VERSION", 12000);
    return 0;
  }
  return number_of("FAKE_DRIVER_STATUS", 0);
}
}  // namespace

// Arguments are passed in registers: who ignores them needs no declaration of them.
#define VRAMLINK_FAKE(member, name, symbol, version, ...)                \
  extern "C" [[gnu::visibility("default")]] int symbol(void* argument) { \
    return answer(#symbol, argument);                                    \
  }
VRAMLINK_CUDA_SYMBOLS(VRAMLINK_FAKE)

#endif
