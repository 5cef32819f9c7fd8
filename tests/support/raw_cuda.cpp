#include "support/raw_cuda.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>
#include <utility>

#include "backend/cuda/device_list.hpp"
#include "os/dynamic_library.hpp"

namespace vramlink::test {
namespace {

using cuda_api::DevicePointer;
using cuda_api::Status;

constexpr const char* kLibraryVariable = "VRAMLINK_CUDA_LIBRARY";

const char* chosen_library() {
  const char* library = std::getenv(kLibraryVariable);
  return library != nullptr && *library != '\0' ? library : nullptr;
}

RawCuda::Own kept;

std::string& reason() {
  static std::string text;
  return text;
}

}  // namespace

cuda_api::TestFunctions cuda_api::TestFunctions::find() {
  const auto library = os::DynamicLibrary::open(cuda::Driver::library_name().c_str()).value();
  TestFunctions found;
#define VRAMLINK_CUDA_TEST_FIND(member, name, symbol, version, ...) \
  found.member = reinterpret_cast<decltype(found.member)>(library.find(#symbol));
  VRAMLINK_CUDA_TEST_SYMBOLS(VRAMLINK_CUDA_TEST_FIND)
#undef VRAMLINK_CUDA_TEST_FIND
  return found;
}

RawCuda* RawCuda::get() {
  // Never destroyed: the driver ends with the process.
  static RawCuda* instance = make(reason()).release();
  return instance;
}

const std::string& RawCuda::why_not() {
  static_cast<void>(get());
  return reason();
}

bool RawCuda::require() {
  if (get() != nullptr) return true;
  const auto skip_or_fail = [] {
    if (is_stand_in()) FAIL() << "the stand-in driver cannot be used: " << reason();
    GTEST_SKIP() << reason();
  };
  skip_or_fail();
  return false;
}

RawCuda::Own RawCuda::own() noexcept { return kept; }

std::unique_ptr<RawCuda> RawCuda::make(std::string& why_not) {
  // Two GPUs for the tests that need two, unless the caller wants another number.
  ::setenv("VRAMLINK_SIMCUDA_DEVICES", "2", 0);
  auto driver = cuda::Driver::load();
  if (!driver) {
    why_not = to_string(driver.error());
    return nullptr;
  }
  std::unique_ptr<RawCuda> made(new RawCuda);
  made->driver_ = *driver;
  why_not = "the driver shows no usable GPU";
  const std::vector<cuda::ListedDevice> all = cuda::list_devices(**driver).value();
  for (const cuda::ListedDevice& listed : all) {
    if (!listed.info.usable) {
      why_not = listed.info.why_not;
      continue;
    }
    made->devices_.push_back(listed.device);
    made->ids_.push_back(listed.info.id);
  }
  if (made->devices_.empty()) return nullptr;
  why_not.clear();
  static_cast<TestFunctions&>(*made) = TestFunctions::find();
  made->expect((*driver)->primary_ctx_retain(&made->context_, made->devices_[0]));
  ++kept.contexts;
  static_cast<void>(made->stream());
  static_cast<void>(made->other_stream());
  static_cast<void>(made->foreign_stream());
  made->private_stream_ = made->make_stream();
  made->warm_up();
  return made;
}

bool RawCuda::is_stand_in() { return chosen_library() != nullptr; }

bool RawCuda::is_shared() {
  const char* const shared = std::getenv("VRAMLINK_TEST_GPU_SHARED");
  return !is_stand_in() && shared != nullptr && std::string_view(shared) == "1";
}

/// What the driver keeps after the first use of a thing is there before leaks are counted.
void RawCuda::warm_up() {
  void* host = nullptr;
  expect(mem_host_alloc(&host, 4096, 0));
  expect(mem_free_host(host));
  DevicePointer managed = 0;
  expect(mem_alloc_managed(&managed, 4096, cuda_api::kManagedGlobal));
  expect(mem_free(managed));
  std::byte* memory = allocate(4096);
  write(memory, read(memory, 4096));
  free(memory);
}

cuda_api::Stream RawCuda::make_stream() {
  cuda_api::Stream stream = nullptr;
  expect(driver_->stream_create(&stream, cuda_api::kStreamNonBlocking));
  ++kept.streams;
  return stream;
}

StreamView RawCuda::stream() {
  expect(ctx_set_current(context_));
  if (stream_ == nullptr) stream_ = make_stream();
  return StreamView::cuda(stream_);
}

StreamView RawCuda::other_stream() {
  expect(ctx_set_current(context_));
  if (other_stream_ == nullptr) other_stream_ = make_stream();
  return StreamView::cuda(other_stream_);
}

StreamView RawCuda::foreign_stream() {
  if (foreign_stream_ == nullptr) {
    if (devices_.size() > 1) {
      expect(driver_->primary_ctx_retain(&foreign_context_, devices_[1]));
      expect(ctx_set_current(foreign_context_));
    } else {
      expect(ctx_create(&foreign_context_, 0, devices_[0]));  // current from here on
    }
    ++kept.contexts;
    foreign_stream_ = make_stream();
  }
  expect(ctx_set_current(context_));
  return StreamView::cuda(foreign_stream_);
}

cuda_api::Context RawCuda::foreign_context() {
  static_cast<void>(foreign_stream());
  return foreign_context_;
}

void RawCuda::finish(StreamView stream) {
  expect(ctx_set_current(context_));
  expect(stream_synchronize(raw_stream(stream)));
}

void RawCuda::write(std::byte* target, std::span<const std::byte> bytes) {
  expect(ctx_set_current(context_));
  expect(driver_->memcpy_htod_async(device_pointer(target), bytes.data(), bytes.size(),
                                    private_stream_));
  expect(stream_synchronize(private_stream_));
}

std::vector<std::byte> RawCuda::read(const std::byte* source, std::size_t size_bytes) {
  expect(ctx_set_current(context_));
  std::vector<std::byte> bytes(size_bytes);
  expect(driver_->memcpy_dtoh_async(bytes.data(), device_pointer(source), size_bytes,
                                    private_stream_));
  expect(stream_synchronize(private_stream_));
  return bytes;
}

std::byte* RawCuda::keep_pinned(std::size_t size_bytes) {
  expect(ctx_set_current(context_));
  void* memory = nullptr;
  expect(mem_host_alloc(&memory, size_bytes, cuda_api::kHostPortable));
  ++kept.pinned;
  return static_cast<std::byte*>(memory);
}

std::byte* RawCuda::allocate(std::size_t size_bytes) {
  expect(ctx_set_current(context_));
  DevicePointer address = 0;
  expect(mem_alloc(&address, size_bytes));
  return reinterpret_cast<std::byte*>(address);
}

void RawCuda::free(std::byte* memory) { expect(mem_free(device_pointer(memory))); }

bool RawCuda::is_busy(StreamView stream) {
  const Status status = driver_->stream_query(raw_stream(stream));
  if (status != Status::not_ready) expect(status);
  return status == Status::not_ready;
}

void RawCuda::expect(Status status, const char* file, int line) const {
  if (status == Status::success) return;
  ADD_FAILURE_AT(file, line) << to_string(driver_->error("driver", status));
}

}  // namespace vramlink::test
