// Handles of memory as a driver has them, and the traps that they are. What becomes of the memory
// when a process ends is in driver_lifetimes_test.cpp.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "conformance/driver_processes.hpp"
#include "os/dynamic_library.hpp"
#include "support/other_user.hpp"

namespace vramlink::test {
namespace {

using cuda_api::PointerAttribute;
using cuda_api::Status;

class DriverIpc : public DriverProcesses {
 protected:
  [[nodiscard]] cuda_api::IpcMemoryHandle& handle() const {
    return page_.at<cuda_api::IpcMemoryHandle>(kHandle);
  }
  /// Memory of this process that holds bytes_of(value); handle() is its.
  [[nodiscard]] std::byte* share(int value) const {
    RawCuda& raw = *RawCuda::get();
    std::byte* const memory = raw.allocate(kShareBytes);
    raw.write(memory, bytes_of(value));
    raw.expect(raw.ipc_get_mem_handle(&handle(), device_pointer(memory)));
    return memory;
  }
  [[nodiscard]] Status open(cuda_api::DevicePointer& address) const {
    RawCuda& raw = *RawCuda::get();
    static_cast<void>(raw.stream());  // makes the context current
    return raw.ipc_open_mem_handle(&address, handle(), cuda_api::kIpcLazyPeerAccess);
  }
  [[nodiscard]] ::testing::AssertionResult opens_nothing() const {
    cuda_api::DevicePointer address = 0;
    const Status status = open(address);
    if (status == Status::invalid_handle || status == Status::invalid_value) {
      return ::testing::AssertionSuccess();
    }
    return gave(Status::invalid_handle, status);
  }
  /// A child that shares memory of bytes_of(5) when it may, and lives on.
  [[nodiscard]] ChildProcess::Body exporter() const {
    return [this](const ChildLink& link) -> int {
      static_cast<void>(link.wait_go());
      static_cast<void>(share(5));
      link.ready();
      link.wait_forever();
    };
  }
  template <class T>
  static T attribute(PointerAttribute attribute, cuda_api::DevicePointer address) {
    // Wide enough for whatever a driver takes the type to be.
    std::uint64_t room = 0;
    RawCuda::get()->expect(
        RawCuda::get()->driver().pointer_get_attribute(&room, attribute, address));
    T value{};
    std::memcpy(&value, &room, sizeof value);
    return value;
  }

  /// Whole blocks of a driver, so that none of them holds anything else.
  static constexpr std::uint64_t kShareBytes = std::uint64_t{4} << 20;
};

TEST_F(DriverIpc, TheExporterItselfCannotOpenAHandle) {
  if (!RawCuda::require()) return;
  std::byte* const memory = share(1);
  cuda_api::DevicePointer address = 0;
  EXPECT_GIVES(invalid_context, open(address));
  EXPECT_EQ(RawCuda::get()->read(memory, kBytes), bytes_of(1));
  RawCuda::get()->free(memory);
}

TEST_F(DriverIpc, AnInteriorPointerHasTheHandleOfItsBase) {
  if (!RawCuda::require()) return;
  std::byte* const memory = share(1);
  cuda_api::IpcMemoryHandle of_inside{};
  RawCuda::get()->expect(
      RawCuda::get()->ipc_get_mem_handle(&of_inside, device_pointer(memory) + 4096));
  EXPECT_TRUE(std::equal(of_inside.reserved, of_inside.reserved + 64, handle().reserved));
  RawCuda::get()->free(memory);
}

TEST_F(DriverIpc, OnlyMemoryOfCuMemAllocHasAHandle) {
  if (!RawCuda::require()) return;
  RawCuda& raw = *RawCuda::get();
  const auto backend = make_backend();
  const auto mapped = backend->allocate(kShareBytes).value();
  void* pinned = nullptr;
  cuda_api::DevicePointer managed = 0;
  static_cast<void>(raw.stream());  // makes the context current
  raw.expect(raw.mem_host_alloc(&pinned, kBytes, 0));
  raw.expect(raw.mem_alloc_managed(&managed, kBytes, cuda_api::kManagedGlobal));
  std::byte* const plain = share(1);
  cuda_api::IpcMemoryHandle made{};
  for (const cuda_api::DevicePointer other :
       {device_pointer(mapped->data()), device_pointer(pinned), managed}) {
    EXPECT_GIVES(invalid_value, raw.ipc_get_mem_handle(&made, other));
    EXPECT_EQ(attribute<bool>(PointerAttribute::is_legacy_ipc_capable, other), false);
  }
  EXPECT_EQ(attribute<bool>(PointerAttribute::is_legacy_ipc_capable, device_pointer(plain)), true);
  using cuda_api::HandleType;
  EXPECT_EQ(
      attribute<HandleType>(PointerAttribute::allowed_handle_types, device_pointer(mapped->data())),
      HandleType::posix_file_descriptor);
  EXPECT_EQ(attribute<HandleType>(PointerAttribute::allowed_handle_types, device_pointer(plain)),
            HandleType::none);
  EXPECT_EQ(attribute<void*>(PointerAttribute::mempool_handle, device_pointer(plain)), nullptr);
  raw.free(plain);
  raw.expect(raw.mem_free(managed));
  raw.expect(raw.mem_free_host(pinned));
}

TEST_F(DriverIpc, ASecondOpenIsCountedAndGivesTheSamePointer) {
  ChildProcess child(exporter());
  if (!RawCuda::require()) return;
  child.go();
  child.wait_ready();
  RawCuda& raw = *RawCuda::get();
  cuda_api::DevicePointer first = 0;
  cuda_api::DevicePointer second = 0;
  EXPECT_GIVES(success, open(first));
  EXPECT_GIVES(success, open(second));
  EXPECT_EQ(first, second);
  EXPECT_GIVES(success, raw.ipc_close_mem_handle(first));
  EXPECT_EQ(raw.read(to_bytes(first), kBytes), bytes_of(5));
  EXPECT_GIVES(success, raw.ipc_close_mem_handle(first));
  EXPECT_NE(raw.ipc_close_mem_handle(first), Status::success);
  expect_health();
}

TEST_F(DriverIpc, AnImportTellsWhereItBegins) {
  ChildProcess child(exporter());
  if (!RawCuda::require()) return;
  child.go();
  child.wait_ready();
  cuda_api::DevicePointer address = 0;
  EXPECT_GIVES(success, open(address));
  using cuda_api::DevicePointer;
  EXPECT_EQ(attribute<DevicePointer>(PointerAttribute::range_start_address, address + 4096),
            address);
  EXPECT_EQ(attribute<std::size_t>(PointerAttribute::range_size, address + 4096), kShareBytes);
  EXPECT_EQ(attribute<void*>(PointerAttribute::mempool_handle, address), nullptr);
  EXPECT_EQ(attribute<cuda_api::HandleType>(PointerAttribute::allowed_handle_types, address),
            cuda_api::HandleType::none);
  EXPECT_GIVES(success, RawCuda::get()->ipc_close_mem_handle(address));
}

TEST_F(DriverIpc, AHandleOfADeadExporterOpensNothing) {
  ChildProcess child(exporter());
  if (!RawCuda::require()) return;
  child.go();
  child.wait_ready();
  child.kill();
  EXPECT_EQ(child.wait(), 128 + SIGKILL);
  cuda_api::DevicePointer address = 0;
  EXPECT_GIVES(invalid_handle, open(address));
  expect_health();
}

TEST_F(DriverIpc, ADamagedHandleIsAnErrorAndDoesNoHarm) {
  ChildProcess child(exporter());
  if (!RawCuda::require()) return;
  child.go();
  child.wait_ready();
  const cuda_api::IpcMemoryHandle good = handle();
  for (char& byte : handle().reserved) byte = static_cast<char>(~byte);
  EXPECT_TRUE(opens_nothing());
  for (const char value : {'\0', '\xff'}) {
    std::fill_n(handle().reserved, 64, value);
    EXPECT_TRUE(opens_nothing());
  }
  expect_health();
  handle() = good;
  cuda_api::DevicePointer address = 0;
  EXPECT_GIVES(success, open(address));
  EXPECT_EQ(RawCuda::get()->read(to_bytes(address), kBytes), bytes_of(5));
  EXPECT_GIVES(success, RawCuda::get()->ipc_close_mem_handle(address));
}

TEST_F(DriverIpc, AHandleOpensWhereItsDeviceIsHidden) {
  ChildProcess child(exporter());  // of the first
  ChildProcess importer([this](const ChildLink& link) -> int {
    static_cast<void>(link.wait_go());
    const char* const set = std::getenv("CUDA_VISIBLE_DEVICES");
    const std::string visible = set == nullptr ? "0,1" : set;
    ::setenv("CUDA_VISIBLE_DEVICES", visible.substr(visible.find(',') + 1).c_str(), 1);
    if (RawCuda::get() == nullptr) return kNoGpu;
    cuda_api::DevicePointer address = 0;
    EXPECT_GIVES(success, open(address));
    EXPECT_EQ(attribute<int>(PointerAttribute::device_ordinal, address), 0);  // the importer's own
    EXPECT_EQ(RawCuda::get()->read(to_bytes(address), kBytes), bytes_of(5));
    end_here();
  });
  if (!RawCuda::require()) return;
  if (RawCuda::get()->devices().size() < 2) {
    GTEST_SKIP() << "one GPU is visible, and this needs two";
  }
  child.go();
  child.wait_ready();
  importer.go();
  EXPECT_EQ(importer.wait(), 0);
}

TEST_F(DriverIpc, AnotherUserOpensAHandle) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  ASSERT_EQ(::chmod(directory_.path().c_str(), 0777), 0);
  ChildProcess other([this](const ChildLink& link) -> int {
    static_cast<void>(link.wait_go());
    // Loaded before, since another user may not be able to read it where it lies.
    EXPECT_TRUE(os::DynamicLibrary::open(cuda::Driver::library_name().c_str()));
    EXPECT_TRUE(become_nobody());
    if (RawCuda::get() == nullptr) return kNoGpu;
    cuda_api::DevicePointer address = 0;
    EXPECT_GIVES(success, open(address));
    EXPECT_EQ(RawCuda::get()->read(to_bytes(address), kBytes), bytes_of(5));
    end_here();
  });
  if (!RawCuda::require()) return;
  if (!faults_are_kept_apart()) GTEST_SKIP() << "under MPS a process of another user hangs";
  std::byte* const memory = share(5);
  other.go();
  const int end = other.wait();
  if (end == kNoGpu && !RawCuda::is_stand_in()) GTEST_SKIP() << "nobody may not use this GPU";
  EXPECT_EQ(end, 0);
  RawCuda::get()->free(memory);
}

}  // namespace
}  // namespace vramlink::test
