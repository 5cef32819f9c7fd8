// See dynamic_library.hpp.
#include "os/dynamic_library.hpp"

#include <dlfcn.h>

#include <string>

namespace vramlink::os {

Result<DynamicLibrary> DynamicLibrary::open(const char* name) {
  void* handle = ::dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle != nullptr) return DynamicLibrary(handle);
  const char* reason = ::dlerror();
  return Error(Code::not_found, "load library")
      .about(name)
      .because(reason != nullptr ? std::string(reason) : "the loader gives no reason");
}

void* DynamicLibrary::find(const char* symbol) const noexcept { return ::dlsym(handle_, symbol); }

}  // namespace vramlink::os
