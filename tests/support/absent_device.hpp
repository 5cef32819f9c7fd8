// A GPU that no machine has.
#pragma once

#include <vramlink/vramlink.hpp>

namespace vramlink::test {

inline constexpr DeviceId kAbsentDevice{{1}};

/// What asking for it gives here: a machine without a driver says that first.
inline Code absent_device_code(const Runtime& runtime) {
  const DriverInfo driver = inspect_driver(runtime);
  return driver.trouble ? driver.trouble->code() : Code::no_device;
}

}  // namespace vramlink::test
