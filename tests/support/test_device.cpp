#include "support/test_device.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "support/raw_cuda.hpp"
#include "support/stand_in.hpp"

namespace vramlink::test {
namespace {

std::string_view chosen() {
  const char* const text = std::getenv("VRAMLINK_TEST_DEVICE");
  return text == nullptr ? std::string_view() : text;
}

/// Before anything looks for a driver, in started programs too.
const bool driver_chosen = [] {
  if (!TestDevice::is_stand_in()) return false;
  ::setenv("VRAMLINK_CUDA_LIBRARY", std::string(chosen()).c_str(), 1);
  ::setenv("VRAMLINK_SIMCUDA_DEVICES", "2", 0);  // as RawCuda wants it, which may come second
  // A device that is never late would leave every wait untried.
  ::setenv("VRAMLINK_SIMCUDA_DELAY_US", "random:7:200", 0);
  return true;
}();

RawCuda& gpu() {
  RawCuda* const raw = RawCuda::get();
  if (raw == nullptr) {
    std::fprintf(stderr, "no GPU for the test: %s\n", RawCuda::why_not().c_str());
    std::abort();
  }
  return *raw;
}

cuda_api::DevicePointer pointer(const std::byte* address) { return device_pointer(address); }

/// Copies the bytes to where they stay until a copy of a stream is done: no test has more than so
/// many under way. Pinned, since a copy out of other memory waits for the stream. Makes the context
/// current.
const std::byte* keep(std::span<const std::byte> bytes) {
  static constexpr std::size_t kPlaces = 256;
  static constexpr std::size_t kPlaceBytes = 16384;
  static std::byte* const places = gpu().keep_pinned(kPlaces * kPlaceBytes);
  static std::atomic<std::size_t> next{0};
  static_cast<void>(gpu().stream());
  if (bytes.size() > kPlaceBytes) std::abort();
  std::byte* const place = places + next++ % kPlaces * kPlaceBytes;
  std::memcpy(place, bytes.data(), bytes.size());
  return place;
}

/// Memory that the driver knows nothing of is the program's own.
bool is_on_device(const std::byte* address) {
  if (TestDevice::is_host()) return false;
  RawCuda& raw = gpu();
  static_cast<void>(raw.stream());  // makes the context current
  unsigned type = 0;
  const cuda_api::Status status = raw.driver().pointer_get_attribute(
      &type, cuda_api::PointerAttribute::memory_type, pointer(address));
  return status == cuda_api::Status::success &&
         type == static_cast<unsigned>(cuda_api::MemoryType::device);
}

}  // namespace

bool TestDevice::is_host() { return chosen().empty() || chosen() == "host"; }
bool TestDevice::is_stand_in() { return !is_host() && chosen() != "gpu"; }

const char* TestDevice::why_not() {
  if (is_host() || RawCuda::get() != nullptr) return "";
  return RawCuda::why_not().c_str();
}

bool TestDevice::require() { return is_host() || RawCuda::require(); }

std::uint64_t TestDevice::bytes_held() {
  if (is_host()) return 0;
  RawCuda& raw = gpu();  // the account is open from here on
  if (is_stand_in()) return stand_in()->device_bytes_held(0);
  static_cast<void>(raw.stream());  // makes the context current
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  raw.expect(raw.driver().mem_get_info(&free_bytes, &total_bytes));
  return total_bytes - free_bytes;
}

DeviceId TestDevice::id() {
  return is_host() || RawCuda::get() == nullptr ? DeviceId::host() : gpu().id();
}

StreamView TestDevice::stream(int number) {
  if (is_host()) return StreamView::already_complete();
  return number == 0 ? gpu().stream() : gpu().other_stream();
}

void TestDevice::finish(StreamView stream) {
  if (!stream.is_already_complete()) gpu().finish(stream);
}

void TestDevice::write(std::byte* target, std::span<const std::byte> bytes) {
  if (is_on_device(target)) return gpu().write(target, bytes);
  std::memcpy(target, bytes.data(), bytes.size());
}

std::vector<std::byte> TestDevice::read(std::span<const std::byte> bytes) {
  if (is_on_device(bytes.data())) return gpu().read(bytes.data(), bytes.size());
  return {bytes.begin(), bytes.end()};
}

void TestDevice::write_in(StreamView stream, std::byte* target, std::span<const std::byte> bytes) {
  if (stream.is_already_complete()) return write(target, bytes);
  gpu().expect(gpu().driver().memcpy_htod_async(pointer(target), keep(bytes), bytes.size(),
                                                raw_stream(stream)));
}

}  // namespace vramlink::test
