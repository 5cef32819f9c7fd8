// Memory of pools on its way to another process, as the driver has it: traps that whoever
// shares such memory must know of. Each process is a child, since one of them is to die.
#include <gtest/gtest.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <span>

#include <vramlink/inspect.hpp>
#include <vramlink/runtime.hpp>

#include "os/socket.hpp"
#include "support/child_process.hpp"
#include "support/raw_cuda.hpp"
#include "support/scoped_settings.hpp"
#include "support/temporary_directory.hpp"

namespace vramlink::test {
namespace {

using cuda_api::Status;

constexpr int kNoGpu = 77;
constexpr std::uint8_t kSent = 1;
constexpr std::uint8_t kNoRoom = 78;
constexpr int kNothingCame = 79;
constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr auto kFd = cuda_api::HandleType::posix_file_descriptor;

class DriverPools : public ::testing::Test {
 protected:
  void SetUp() override {
    if (RawCuda::own().contexts != 0) {
      GTEST_SKIP() << "the children would have no driver: run it alone, as ctest does";
    }
    // In a child: this process must not have used a GPU, since it forks.
    ChildProcess child([](const ChildLink&) {
      RawCuda* const raw = RawCuda::get();
      if (raw == nullptr) return kNoGpu;
      int types = 0;
      static_cast<void>(raw->driver().device_get_attribute(&types, cuda_api::kPoolHandleTypes,
                                                           raw->devices()[0]));
      return (types & static_cast<int>(kFd)) != 0 ? 0 : kNoGpu;
    });
    const int code = child.wait();
    if (code == kNoGpu && !RawCuda::is_stand_in()) GTEST_SKIP() << "no GPU here shares pools";
    ASSERT_EQ(code, 0);
  }

  static cuda_api::MemoryPoolHandle make_pool(RawCuda& raw) {
    cuda_api::PoolProperties properties{};
    properties.type = cuda_api::AllocationType::pinned;
    properties.handle_types = kFd;
    properties.location = {cuda_api::LocationType::device, raw.devices()[0]};
    cuda_api::MemoryPoolHandle pool = nullptr;
    raw.expect(raw.mem_pool_create(&pool, &properties));
    return pool;
  }
  static cuda_api::Stream stream(RawCuda& raw) { return raw_stream(raw.stream()); }

  /// Whether another process can import an allocation of that size: 0, what its import gave, or 128
  /// and the signal that it died of. kNoRoom if the GPU has no such memory free.
  int import_elsewhere(std::size_t size_bytes) {
    auto sockets = os::Socket::pair().value();
    ChildProcess exporter([&](const ChildLink& link) {
      RawCuda& raw = *RawCuda::get();
      const cuda_api::MemoryPoolHandle pool = make_pool(raw);
      cuda_api::DevicePointer address = 0;
      if (raw.mem_alloc_from_pool_async(&address, size_bytes, pool, stream(raw)) !=
          Status::success) {
        link.ready(kNoRoom);
        return 0;
      }
      int fd = -1;
      raw.expect(raw.mem_pool_export(&fd, pool, kFd, 0));
      cuda_api::PoolPointer told{};
      raw.expect(raw.mem_pool_export_pointer(&told, address));
      const std::array<int, 1> fds{fd};
      EXPECT_TRUE(sockets.first.send(std::as_bytes(std::span(&told, 1)), fds));
      link.ready(kSent);
      static_cast<void>(link.wait_go());
      raw.expect(raw.mem_free_async(address, stream(raw)));
      raw.finish(raw.stream());
      raw.expect(raw.mem_pool_destroy(pool));
      return 0;
    });
    if (exporter.wait_ready() != kSent) return kNoRoom;
    ChildProcess importer([&](const ChildLink&) {
      ::signal(SIGSEGV, SIG_DFL);
      cuda_api::PoolPointer told{};
      auto received = sockets.second.receive(std::as_writable_bytes(std::span(&told, 1)));
      if (!received || received->fds.empty()) return kNothingCame;
      RawCuda& raw = *RawCuda::get();
      static_cast<void>(raw.stream());  // makes the context current
      cuda_api::MemoryPoolHandle pool = nullptr;
      const auto fd = static_cast<std::intptr_t>(received->fds[0].get());
      raw.expect(raw.mem_pool_import(&pool, reinterpret_cast<void*>(fd), kFd, 0));
      cuda_api::DevicePointer address = 0;
      const Status status = raw.mem_pool_import_pointer(&address, pool, &told);
      if (status != Status::success) return static_cast<int>(status);
      raw.expect(raw.mem_free_async(address, stream(raw)));
      raw.finish(raw.stream());
      raw.expect(raw.mem_pool_destroy(pool));
      return 0;
    });
    const int code = importer.wait();
    exporter.go();
    EXPECT_EQ(exporter.wait(), 0) << "the exporter is to be unharmed";
    return code;
  }

 private:
  // What is taken here must not be missing where other programs use the stand-in.
  TemporaryDirectory account_;
  ScopedEnvironment own_account_{"VRAMLINK_SIMCUDA_DIR", account_.path()};
};

TEST_F(DriverPools, APointerIsExportedOnlyAfterItsPool) {
  ChildProcess child([](const ChildLink&) {
    RawCuda& raw = *RawCuda::get();
    const cuda_api::MemoryPoolHandle pool = make_pool(raw);
    cuda_api::DevicePointer address = 0;
    raw.expect(raw.mem_alloc_from_pool_async(&address, kMiB, pool, stream(raw)));
    cuda_api::PoolPointer data{};
    EXPECT_EQ(raw.mem_pool_export_pointer(&data, address), Status::invalid_value);
    int fd = -1;
    raw.expect(raw.mem_pool_export(&fd, pool, kFd, 0));
    EXPECT_EQ(raw.mem_pool_export_pointer(&data, address), Status::success);
    const os::UniqueFd owned(fd);
    raw.expect(raw.mem_free_async(address, stream(raw)));
    raw.finish(raw.stream());
    raw.expect(raw.mem_pool_destroy(pool));
    return 0;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(DriverPools, MemoryOfAPoolHasNoPlainHandle) {
  ChildProcess child([](const ChildLink&) {
    RawCuda& raw = *RawCuda::get();
    const cuda_api::MemoryPoolHandle pool = make_pool(raw);
    cuda_api::DevicePointer address = 0;
    raw.expect(raw.mem_alloc_from_pool_async(&address, kMiB, pool, stream(raw)));
    cuda_api::IpcMemoryHandle handle{};
    EXPECT_EQ(raw.ipc_get_mem_handle(&handle, address), Status::invalid_value);
    const TemporaryDirectory directory;
    const Runtime runtime = Runtime::open({.directory = directory.path()}).value();
    const MemoryInfo info =
        inspect_memory(runtime, reinterpret_cast<const void*>(address + 100)).value();
    EXPECT_EQ(info.type, MemoryType::pool) << to_string(info.type);
    EXPECT_EQ(info.device, raw.id());
    EXPECT_EQ(info.offset_bytes, 100U);
    EXPECT_FALSE(info.exports_legacy_handle);
    raw.expect(raw.mem_free_async(address, stream(raw)));
    raw.finish(raw.stream());
    raw.expect(raw.mem_pool_destroy(pool));
    return 0;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(DriverPools, AnImportBeyondALimitKillsTheImporter) {
  // Addresses of the stand-in's memory cost the host nothing until they are written.
  const ScopedEnvironment memory("VRAMLINK_SIMCUDA_MEMORY_MIB", "8192");
  EXPECT_EQ(import_elsewhere(64 * kMiB), 0);
  const int large = import_elsewhere(5248 * kMiB);
  if (large == kNoRoom) GTEST_SKIP() << "the GPU has less than 5248 MiB free";
  EXPECT_EQ(large, 0);
  EXPECT_EQ(import_elsewhere(5250 * kMiB), 128 + SIGSEGV);
}

}  // namespace
}  // namespace vramlink::test
