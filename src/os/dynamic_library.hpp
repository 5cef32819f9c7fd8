// A shared library found at run time. os: the only layer that knows dlopen.
#pragma once

#include <vramlink/result.hpp>

namespace vramlink::os {

/// A library that was loaded. It stays loaded until the process ends, since a driver keeps threads
/// and exit handlers in it; so this is a plain value.
class DynamicLibrary {
 public:
  /// `name` as dlopen takes it: a path, or a name that is searched for. Its symbols serve nobody
  /// else. `not_found`, with the loader's reason.
  [[nodiscard]] static Result<DynamicLibrary> open(const char* name);

  /// Null if the library has no such symbol.
  [[nodiscard]] void* find(const char* symbol) const noexcept;

 private:
  explicit DynamicLibrary(void* handle) noexcept : handle_(handle) {}
  void* handle_;
};

}  // namespace vramlink::os
