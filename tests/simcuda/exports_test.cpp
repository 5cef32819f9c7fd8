// Whether the stand-in answers to everything that the library asks of a driver.
#include <dlfcn.h>

#include "driver_fixture.hpp"

namespace vramlink::simcuda {
namespace {

struct Listed {
  const char* name;
  const char* symbol;
  int version;
};

constexpr Listed kListed[] = {
#define LISTED(member, name, symbol, version, ...) {#name, #symbol, version},
    SIMCUDA_SYMBOLS(LISTED)
#undef LISTED
};

class Exports : public DriverTest {};

TEST_F(Exports, LibraryHasTheNameOfTheDriver) {
  void* by_path = ::dlopen(VRAMLINK_SIMCUDA_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(by_path, nullptr) << ::dlerror();
  void* by_name = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  EXPECT_EQ(by_path, by_name);
}

TEST_F(Exports, EachListedSymbolIsExported) {
  void* library = ::dlopen(VRAMLINK_SIMCUDA_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << ::dlerror();
  for (const Listed& listed : kListed) {
    EXPECT_NE(::dlsym(library, listed.symbol), nullptr) << listed.symbol;
  }
}

TEST_F(Exports, EachListedFunctionIsFoundByNameAndVersion) {
  void* library = ::dlopen(VRAMLINK_SIMCUDA_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << ::dlerror();
  for (const Listed& listed : kListed) {
    void* function = nullptr;
    api::ProcQuery found{};
    EXPECT_STATUS(success, cuGetProcAddress_v2(listed.name, &function, listed.version, 0, &found));
    EXPECT_EQ(found, api::ProcQuery::success) << listed.name;
    EXPECT_EQ(function, ::dlsym(library, listed.symbol)) << listed.symbol;
  }
}

TEST_F(Exports, AnOlderVersionOfAFunctionIsNotGivenOut) {
  void* function = nullptr;
  api::ProcQuery found{};
  EXPECT_STATUS(success, cuGetProcAddress_v2("cuStreamWriteValue64", &function, 11000, 0, &found));
  EXPECT_EQ(found, api::ProcQuery::version_not_sufficient);
  EXPECT_EQ(function, nullptr);
  EXPECT_STATUS(success, cuGetProcAddress_v2("cuMakeCoffee", &function, 13000, 0, &found));
  EXPECT_EQ(found, api::ProcQuery::symbol_not_found);
  EXPECT_STATUS(not_found, cuGetProcAddress("cuMakeCoffee", &function, 13000, 0));
}

TEST_F(Exports, ADriverDoesNotKnowWhatIsNewerThanItself) {
  ::setenv("VRAMLINK_SIMCUDA_DRIVER_VERSION", "11040", 1);
  int version = 0;
  EXPECT_STATUS(success, cuDriverGetVersion(&version));
  EXPECT_EQ(version, 11040);
  void* function = nullptr;
  api::ProcQuery found{};
  EXPECT_STATUS(success, cuGetProcAddress_v2("cuStreamWriteValue64", &function, 13000, 0, &found));
  EXPECT_EQ(found, api::ProcQuery::symbol_not_found);
}

}  // namespace
}  // namespace vramlink::simcuda
