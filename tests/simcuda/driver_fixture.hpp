// A fixture for tests that call the stand-in as a program would.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <thread>

#include "functions.hpp"
#include "simcuda.hpp"
#include "support/shared_page.hpp"
#include "support/temporary_directory.hpp"

namespace vramlink::simcuda {

/// For GoogleTest's messages.
inline std::string name_of(Status status) {
  const char* name = nullptr;
  cuGetErrorName(status, &name);
  return name == nullptr ? std::to_string(static_cast<int>(status)) : name;
}

inline ::testing::AssertionResult returned(Status wanted, Status got, const char* call) {
  if (wanted == got) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << call << " returned " << name_of(got) << " instead of " << name_of(wanted);
}

#define EXPECT_STATUS(wanted, call) \
  EXPECT_TRUE(::vramlink::simcuda::returned(::vramlink::simcuda::Status::wanted, (call), #call))
#define ASSERT_STATUS(wanted, call) \
  ASSERT_TRUE(::vramlink::simcuda::returned(::vramlink::simcuda::Status::wanted, (call), #call))

/// A page of shared memory that is registered with the driver.
class RegisteredPage {
 public:
  explicit RegisteredPage(unsigned flags = 3) {
    void* page =
        ::mmap(nullptr, kSizeBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(page, MAP_FAILED);
    words_ = static_cast<std::atomic<std::uint64_t>*>(page);
    EXPECT_STATUS(success, cuMemHostRegister_v2(page, kSizeBytes, flags));
  }
  RegisteredPage(const RegisteredPage&) = delete;
  RegisteredPage& operator=(const RegisteredPage&) = delete;
  ~RegisteredPage() {
    EXPECT_STATUS(success, cuMemHostUnregister(words_));
    ::munmap(words_, kSizeBytes);
  }

  [[nodiscard]] std::atomic<std::uint64_t>& operator[](std::size_t index) { return words_[index]; }
  [[nodiscard]] api::DevicePointer address(std::size_t index) const {
    return reinterpret_cast<std::uintptr_t>(words_ + index);
  }

  static constexpr std::size_t kSizeBytes = 4096;

 private:
  std::atomic<std::uint64_t>* words_ = nullptr;
};

/// Words that the test and its children share.
class SharedWords : public test::SharedPage {
 public:
  [[nodiscard]] api::DevicePointer address(std::size_t index) const {
    return reinterpret_cast<std::uintptr_t>(&(*this)[index]);
  }
  void register_here() const {
    EXPECT_STATUS(success, cuMemHostRegister_v2(data(), kSizeBytes, 3));
  }
  void unregister() const { EXPECT_STATUS(success, cuMemHostUnregister(data())); }
};

/// Waits for a word that another process, or a device, stores; the test's watchdog ends what hangs.
inline void wait_until(const std::atomic<std::uint64_t>& word, std::uint64_t value) {
  while (word.load() != value) std::this_thread::yield();
}

/// Returns when the device has looked at all queues of this process since the call: whatever could
/// be performed by then has been, up to a few operations of each queue. Needs a current context.
inline void let_device_look() {
  api::Stream stream = nullptr;
  api::Event event = nullptr;
  EXPECT_STATUS(success, cuStreamCreate(&stream, api::kStreamNonBlocking));
  EXPECT_STATUS(success, cuEventCreate(&event, api::kEventDisableTiming));
  for (int i = 0; i < 3; ++i) {
    EXPECT_STATUS(success, cuEventRecord(event, stream));
    EXPECT_STATUS(success, cuStreamSynchronize(stream));
  }
  EXPECT_STATUS(success, cuEventDestroy_v2(event));
  EXPECT_STATUS(success, cuStreamDestroy_v2(stream));
}

/// What an allocation takes of a device, at least.
inline constexpr std::size_t kUnit = std::size_t{2} << 20;
/// The word of the shared page where an IPC handle lies.
inline constexpr std::size_t kHandle = 16;

/// VMM memory of one granule, mapped for device 0.
class MappedMemory {
 public:
  static constexpr std::size_t kSizeBytes = 2 << 20;

  explicit MappedMemory(api::MemoryHandle handle,
                        api::AccessFlags access = api::AccessFlags::read_write)
      : handle_(handle) {
    EXPECT_STATUS(success, cuMemAddressReserve(&address_, kSizeBytes, 0, 0, 0));
    EXPECT_STATUS(success, cuMemMap(address_, kSizeBytes, 0, handle_, 0));
    const api::AccessDescriptor descriptor{{api::LocationType::device, 0}, access};
    EXPECT_STATUS(success, cuMemSetAccess(address_, kSizeBytes, &descriptor, 1));
  }
  MappedMemory() : MappedMemory(create()) {}
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;
  ~MappedMemory() {
    unmap();
    EXPECT_STATUS(success, cuMemAddressFree(address_, kSizeBytes));
    EXPECT_STATUS(success, cuMemRelease(handle_));
  }

  void unmap() {
    if (is_mapped_) {
      EXPECT_STATUS(success, cuMemUnmap(address_, kSizeBytes));
    }
    is_mapped_ = false;
  }

  [[nodiscard]] api::DevicePointer address() const { return address_; }
  [[nodiscard]] api::MemoryHandle handle() const { return handle_; }
  [[nodiscard]] int export_fd() const {
    int fd = -1;
    EXPECT_STATUS(success, cuMemExportToShareableHandle(&fd, handle_,
                                                        api::HandleType::posix_file_descriptor, 0));
    return fd;
  }

  static api::AllocationProperties properties(int device = 0) {
    api::AllocationProperties properties{};
    properties.type = api::AllocationType::pinned;
    properties.requested_handle_types = api::HandleType::posix_file_descriptor;
    properties.location = {api::LocationType::device, device};
    return properties;
  }
  static api::MemoryHandle create() {
    const api::AllocationProperties wanted = properties();
    api::MemoryHandle handle = 0;
    EXPECT_STATUS(success, cuMemCreate(&handle, kSizeBytes, &wanted, 0));
    return handle;
  }
  static api::MemoryHandle import(int fd) {
    api::MemoryHandle handle = 0;
    EXPECT_STATUS(success, cuMemImportFromShareableHandle(
                               &handle, reinterpret_cast<void*>(static_cast<std::intptr_t>(fd)),
                               api::HandleType::posix_file_descriptor));
    return handle;
  }

 private:
  api::MemoryHandle handle_ = 0;
  api::DevicePointer address_ = 0;
  bool is_mapped_ = true;
};

/// Device 0's context, current on this thread, and a stream of it.
class Device {
 public:
  explicit Device(api::Device ordinal = 0) : ordinal_(ordinal) {
    EXPECT_STATUS(success, cuInit(0));
    EXPECT_STATUS(success, cuDevicePrimaryCtxRetain(&context, ordinal));
    EXPECT_STATUS(success, cuCtxPushCurrent_v2(context));
    EXPECT_STATUS(success, cuStreamCreate(&stream, api::kStreamNonBlocking));
  }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  ~Device() {
    if (!is_faulty) {
      EXPECT_STATUS(success, cuStreamDestroy_v2(stream));
    }
    EXPECT_STATUS(success, cuCtxPopCurrent_v2(nullptr));
    EXPECT_STATUS(success, cuDevicePrimaryCtxRelease_v2(ordinal_));
  }

  api::Context context = nullptr;
  api::Stream stream = nullptr;
  bool is_faulty = false;  ///< set by tests that break it

 private:
  api::Device ordinal_;
};

/// Each test is a process of its own under ctest, with an account of its own.
class DriverTest : public ::testing::Test {
 protected:
  DriverTest() { ::setenv("VRAMLINK_SIMCUDA_DIR", directory_.path().c_str(), 1); }
  DriverTest(const DriverTest&) = delete;
  DriverTest& operator=(const DriverTest&) = delete;
  ~DriverTest() override {
    test_api().set_delay(0, 0, 0);
    test_api().clear_failures();
  }

  [[nodiscard]] static const TestApi& test_api() { return *vramlink_simcuda_test_api(); }
  [[nodiscard]] static Ledger ledger() {
    Ledger now{};
    test_api().ledger(&now);
    return now;
  }

  test::TemporaryDirectory directory_;
};

}  // namespace vramlink::simcuda
