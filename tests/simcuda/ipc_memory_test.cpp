// Memory of cuMemAlloc in other processes, by handle. What holds on a real driver as well is tried
// in tests/conformance/driver_lifetimes_test.cpp and driver_ipc_test.cpp; here is what needs the
// stand-in: who holds how much, who is stopped, whose folder it is.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "driver_fixture.hpp"
#include "support/child_process.hpp"
#include "support/other_user.hpp"

namespace vramlink::simcuda {
namespace {

using test::ChildLink;
using test::ChildProcess;

constexpr std::size_t kBytes = 1000;

class IpcMemory : public DriverTest {
 protected:
  [[nodiscard]] IpcMemoryHandle& handle() const { return words_.at<IpcMemoryHandle>(kHandle); }
  static api::DevicePointer allocate(unsigned char value) {
    api::DevicePointer address = 0;
    EXPECT_STATUS(success, cuMemAlloc_v2(&address, kBytes));
    EXPECT_STATUS(success, cuMemsetD8_v2(address, value, kBytes));
    return address;
  }
  void share(api::DevicePointer address) const {
    EXPECT_STATUS(success, cuIpcGetMemHandle(&handle(), address));
  }
  [[nodiscard]] api::DevicePointer open() const {
    api::DevicePointer address = 0;
    EXPECT_STATUS(success, cuIpcOpenMemHandle_v2(&address, handle(), kIpcLazyPeerAccess));
    return address;
  }
  [[nodiscard]] Status try_open() const {
    api::DevicePointer address = 0;
    return cuIpcOpenMemHandle_v2(&address, handle(), kIpcLazyPeerAccess);
  }
  static int read(api::DevicePointer address) {
    std::array<unsigned char, kBytes> bytes{};
    EXPECT_STATUS(success, cuMemcpyDtoH_v2(bytes.data(), address, kBytes));
    for (const unsigned char byte : bytes) EXPECT_EQ(byte, bytes[0]);
    return bytes[0];
  }
  template <class T>
  static T attribute(api::PointerAttribute attribute, api::DevicePointer address) {
    T value{};
    EXPECT_STATUS(success, cuPointerGetAttribute(&value, attribute, address));
    return value;
  }
  /// How many sockets stand in the folder of the account.
  [[nodiscard]] int socket_count() const {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(directory_.path())) {
      count += entry.is_socket() ? 1 : 0;
    }
    return count;
  }
  /// A child that exports memory filled with 5, and lives on.
  [[nodiscard]] ChildProcess::Body exporter() const {
    return [this](const ChildLink& link) -> int {
      Device device;
      share(allocate(5));
      link.ready();
      link.wait_forever();
    };
  }

  SharedWords words_;
};

TEST_F(IpcMemory, IsTheSameInBothProcesses) {
  ChildProcess importer([&](const ChildLink& link) {
    static_cast<void>(link.wait_go());
    Device device;
    const Ledger before = ledger();
    const api::DevicePointer address = open();
    EXPECT_EQ(ledger().imports, 1U);
    EXPECT_EQ(ledger().allocations, 0U);
    EXPECT_EQ(read(address), 5);
    EXPECT_STATUS(success, cuMemsetD8_v2(address, 6, kBytes));
    EXPECT_STATUS(invalid_value, cuMemsetD8_v2(address, 6, kBytes + 1));
    EXPECT_STATUS(success, cuIpcCloseMemHandle(address));
    EXPECT_EQ(ledger(), before);
    return 0;
  });
  Device device;
  const api::DevicePointer address = allocate(5);
  share(address);
  importer.go();
  EXPECT_EQ(importer.wait(), 0);
  EXPECT_EQ(read(address), 6);
  EXPECT_EQ(test_api().device_bytes_held(0), kUnit);
  EXPECT_STATUS(success, cuMemFree_v2(address));
  EXPECT_EQ(test_api().device_bytes_held(0), 0U);
}

TEST_F(IpcMemory, OneHandleForAnAllocationAndAnotherForTheNext) {
  Device device;
  const api::DevicePointer address = allocate(1);
  IpcMemoryHandle first{};
  IpcMemoryHandle again{};
  EXPECT_STATUS(success, cuIpcGetMemHandle(&first, address));
  EXPECT_STATUS(success, cuIpcGetMemHandle(&again, address + kBytes - 1));
  EXPECT_EQ(std::string(first.reserved, 64), std::string(again.reserved, 64));
  EXPECT_STATUS(invalid_value, cuIpcGetMemHandle(&again, address + kBytes));
  EXPECT_STATUS(success, cuMemFree_v2(address));
  EXPECT_STATUS(invalid_value, cuIpcGetMemHandle(&again, address));
  const api::DevicePointer next = allocate(1);
  EXPECT_STATUS(success, cuIpcGetMemHandle(&again, next));
  EXPECT_NE(std::string(first.reserved, 64), std::string(again.reserved, 64));
  api::DevicePointer opened = 0;
  EXPECT_STATUS(invalid_context, cuIpcOpenMemHandle_v2(&opened, again, kIpcLazyPeerAccess));
  EXPECT_STATUS(success, cuMemFree_v2(next));
}

TEST_F(IpcMemory, OnlyPlainMemoryOfOnesOwnHasAHandle) {
  ChildProcess child(exporter());
  child.wait_ready();
  Device device;
  MappedMemory mapped;
  RegisteredPage page;
  api::DevicePointer managed = 0;
  void* pinned = nullptr;
  EXPECT_STATUS(success, cuMemAllocManaged(&managed, kBytes, 1));
  EXPECT_STATUS(success, cuMemHostAlloc(&pinned, kBytes, 0));
  const api::DevicePointer plain = allocate(1);
  const api::DevicePointer imported = open();
  IpcMemoryHandle made{};
  for (const api::DevicePointer other :
       {mapped.address(), page.address(0), managed,
        static_cast<api::DevicePointer>(reinterpret_cast<std::uintptr_t>(pinned)), imported}) {
    EXPECT_STATUS(invalid_value, cuIpcGetMemHandle(&made, other));
    EXPECT_EQ(attribute<unsigned char>(api::PointerAttribute::is_legacy_ipc_capable, other), 0);
  }
  EXPECT_STATUS(success, cuIpcGetMemHandle(&made, plain));
  EXPECT_EQ(attribute<unsigned char>(api::PointerAttribute::is_legacy_ipc_capable, plain), 1);
  EXPECT_STATUS(invalid_value, cuMemFree_v2(imported));
  EXPECT_STATUS(invalid_value, cuIpcCloseMemHandle(plain));
  EXPECT_STATUS(invalid_value, cuIpcCloseMemHandle(imported + 1));
  EXPECT_STATUS(success, cuIpcCloseMemHandle(imported));
  EXPECT_STATUS(success, cuMemFree_v2(managed));
  EXPECT_STATUS(success, cuMemFreeHost(pinned));
  EXPECT_STATUS(success, cuMemFree_v2(plain));
}

TEST_F(IpcMemory, AnImportTellsWhatItIs) {
  ChildProcess child(exporter());
  child.wait_ready();
  Device device;
  const api::DevicePointer address = open();
  using Attribute = api::PointerAttribute;
  api::DevicePointer start = 0;
  std::size_t size = 0;
  auto types = api::HandleType::posix_file_descriptor;
  void* pool = &size;
  unsigned char capable = 9;
  auto type = api::MemoryType::none;
  std::array attributes{Attribute::range_start_address,   Attribute::range_size,
                        Attribute::allowed_handle_types,  Attribute::mempool_handle,
                        Attribute::is_legacy_ipc_capable, Attribute::memory_type};
  std::array<void*, 6> values{&start, &size, &types, &pool, &capable, &type};
  const auto ask = [&](api::DevicePointer of) {
    EXPECT_STATUS(success,
                  cuPointerGetAttributes(attributes.size(), attributes.data(), values.data(), of));
  };
  ask(address + 7);
  EXPECT_EQ(start, address);
  EXPECT_EQ(size, kBytes);
  EXPECT_EQ(types, api::HandleType::none);
  EXPECT_EQ(pool, nullptr);
  EXPECT_EQ(capable, 0);
  EXPECT_EQ(type, api::MemoryType::device);
  EXPECT_EQ(attribute<int>(Attribute::device_ordinal, address), 0);
  EXPECT_EQ(attribute<api::Context>(Attribute::context, address), device.context);
  EXPECT_STATUS(success, cuIpcCloseMemHandle(address));
  pool = &size;
  capable = 9;
  types = api::HandleType::posix_file_descriptor;
  ask(address);  // nothing is there any more
  EXPECT_EQ(start, 0U);
  EXPECT_EQ(types, api::HandleType::none);
  EXPECT_EQ(pool, nullptr);
  EXPECT_EQ(capable, 0);
  const MappedMemory mapped;
  EXPECT_EQ(attribute<api::HandleType>(Attribute::allowed_handle_types, mapped.address()),
            api::HandleType::posix_file_descriptor);
}

TEST_F(IpcMemory, OpensAreCounted) {
  ChildProcess child(exporter());
  child.wait_ready();
  Device device;
  const Ledger before = ledger();
  const api::DevicePointer first = open();
  EXPECT_EQ(open(), first);
  EXPECT_EQ(ledger().imports, 1U);
  EXPECT_STATUS(success, cuIpcCloseMemHandle(first));
  EXPECT_EQ(read(first), 5);
  EXPECT_STATUS(success, cuIpcCloseMemHandle(first));
  EXPECT_STATUS(invalid_value, cuIpcCloseMemHandle(first));
  EXPECT_EQ(ledger(), before);
  const api::DevicePointer anew = open();
  EXPECT_EQ(read(anew), 5);
  EXPECT_STATUS(success, cuIpcCloseMemHandle(anew));
}

TEST_F(IpcMemory, OneContextOfADeviceOpensIt) {
  ChildProcess child(exporter());
  child.wait_ready();
  Device device;
  const api::DevicePointer address = open();
  api::Context other = nullptr;
  EXPECT_STATUS(success, cuCtxCreate_v2(&other, 0, 0));
  EXPECT_STATUS(invalid_context, try_open());
  EXPECT_STATUS(success, cuCtxSetCurrent(device.context));
  EXPECT_STATUS(success, cuIpcCloseMemHandle(address));
  EXPECT_STATUS(success, cuCtxSetCurrent(other));
  EXPECT_EQ(read(open()), 5);
  EXPECT_STATUS(success, cuCtxDestroy_v2(other));  // and what it had opened
  EXPECT_EQ(ledger().imports, 0U);
}

TEST_F(IpcMemory, WhatIsFreedStaysWithItsImporter) {
  ChildProcess importer([&](const ChildLink& link) {
    static_cast<void>(link.wait_go());
    Device device;
    const api::DevicePointer address = open();
    link.ready();
    static_cast<void>(link.wait_go());
    EXPECT_EQ(read(address), 5);
    EXPECT_STATUS(success, cuIpcCloseMemHandle(address));
    EXPECT_STATUS(invalid_handle, try_open());
    link.ready();
    link.wait_forever();
    return 0;
  });
  Device device;
  const api::DevicePointer address = allocate(5);
  share(address);
  importer.go();
  importer.wait_ready();
  EXPECT_STATUS(success, cuMemFree_v2(address));
  EXPECT_EQ(test_api().device_bytes_held(0), kUnit);
  const api::DevicePointer next = allocate(9);
  EXPECT_EQ(test_api().device_bytes_held(0), 2 * kUnit);
  importer.go();
  importer.wait_ready();
  EXPECT_EQ(test_api().device_bytes_held(0), kUnit);
  EXPECT_STATUS(success, cuMemFree_v2(next));
}

TEST_F(IpcMemory, AStoppedProcessStillGives) {
  ChildProcess child(exporter());
  child.wait_ready();
  child.stop();
  Device device;
  const api::DevicePointer address = open();
  EXPECT_EQ(read(address), 5);
  EXPECT_STATUS(success, cuIpcCloseMemHandle(address));
  child.resume();
}

TEST_F(IpcMemory, ADeadProcessLeavesWhatOthersHave) {
  ChildProcess child(exporter());
  child.wait_ready();
  Device device;
  const api::DevicePointer address = open();
  child.kill();
  EXPECT_EQ(child.wait(), 128 + SIGKILL);
  EXPECT_EQ(open(), address);  // which asks nobody
  EXPECT_STATUS(success, cuIpcCloseMemHandle(address));
  EXPECT_EQ(read(address), 5);
  EXPECT_EQ(test_api().device_bytes_held(0), kUnit);
  EXPECT_STATUS(success, cuIpcCloseMemHandle(address));
  EXPECT_EQ(test_api().device_bytes_held(0), 0U);
  EXPECT_STATUS(invalid_handle, try_open());
}

TEST_F(IpcMemory, ADyingProcessGivesNothing) {
  ::setenv("VRAMLINK_SIMCUDA_TEARDOWN_US", "300000", 1);
  ChildProcess child(exporter());
  child.wait_ready();
  Device device;
  child.kill();
  // Whether its device goes on for a while or not: the answer comes, and is no.
  const std::string files = "/proc/" + std::to_string(child.pid()) + "/fd/0";
  while (std::ifstream(files).is_open()) std::this_thread::yield();
  EXPECT_STATUS(invalid_handle, try_open());
  EXPECT_EQ(child.wait(), 128 + SIGKILL);
}

TEST_F(IpcMemory, ADamagedHandleOpensNothing) {
  ChildProcess child(exporter());
  child.wait_ready();
  Device device;
  const IpcMemoryHandle good = handle();
  for (char& byte : handle().reserved) {
    byte = static_cast<char>(byte ^ 4);
    EXPECT_STATUS(invalid_handle, try_open());
    byte = static_cast<char>(byte ^ 4);
  }
  for (const char value : {'\0', '\xff'}) {
    std::fill_n(handle().reserved, 64, value);
    EXPECT_STATUS(invalid_value, try_open());
  }
  handle() = good;
  api::DevicePointer address = 0;
  EXPECT_STATUS(invalid_value, cuIpcOpenMemHandle_v2(&address, good, 0));
  EXPECT_STATUS(invalid_value, cuIpcOpenMemHandle_v2(nullptr, good, kIpcLazyPeerAccess));
  address = open();
  EXPECT_EQ(read(address), 5);
  EXPECT_STATUS(success, cuIpcCloseMemHandle(address));
}

TEST_F(IpcMemory, AnEventsHandleIsNoMemorys) {
  ChildProcess child([this](const ChildLink& link) -> int {
    Device device;
    api::Event event = nullptr;
    IpcEventHandle made{};
    EXPECT_STATUS(success, cuEventCreate(&event, kEventInterprocess | api::kEventDisableTiming));
    EXPECT_STATUS(success, cuIpcGetEventHandle(&made, event));
    std::copy_n(made.reserved, 64, handle().reserved);
    link.ready();
    link.wait_forever();
  });
  child.wait_ready();
  Device device;
  EXPECT_STATUS(invalid_handle, try_open());
}

TEST_F(IpcMemory, AHiddenDevicesMemoryIsReachedIfDevicesReachEachOther) {
  ::setenv("VRAMLINK_SIMCUDA_DEVICES", "2", 1);
  ChildProcess child(exporter());  // of device 0
  child.wait_ready();
  ChildProcess isolated([this](const ChildLink&) {
    ::setenv("VRAMLINK_SIMCUDA_PEER_ACCESS", "0", 1);
    ::setenv("CUDA_VISIBLE_DEVICES", "1", 1);
    Device device;
    const Ledger before = ledger();
    EXPECT_STATUS(peer_access_unsupported, try_open());
    EXPECT_EQ(ledger(), before);
    return 0;
  });
  EXPECT_EQ(isolated.wait(), 0);
  ::setenv("CUDA_VISIBLE_DEVICES", "1", 1);
  Device device;
  const api::DevicePointer address = open();
  EXPECT_EQ(attribute<int>(api::PointerAttribute::device_ordinal, address), 0);
  EXPECT_EQ(read(address), 5);
  EXPECT_EQ(test_api().device_bytes_held(0), kUnit);
  EXPECT_EQ(test_api().device_bytes_held(1), 0U);
  EXPECT_STATUS(success, cuIpcCloseMemHandle(address));
  ::unsetenv("CUDA_VISIBLE_DEVICES");
}

TEST_F(IpcMemory, EachDeviceOpensItForItself) {
  ::setenv("VRAMLINK_SIMCUDA_DEVICES", "2", 1);
  ChildProcess child(exporter());  // of device 0
  child.wait_ready();
  Device owner(0);
  const api::DevicePointer near = open();
  Device reader(1);
  const api::DevicePointer far = open();
  EXPECT_NE(near, far);
  EXPECT_EQ(attribute<int>(api::PointerAttribute::device_ordinal, far), 0);  // where it lies
  EXPECT_EQ(read(far), 5);
  EXPECT_STATUS(invalid_value, cuMemsetD8Async(near, 1, 8, reader.stream));
  // Peer access is about memory of one's own.
  EXPECT_STATUS(success, cuCtxEnablePeerAccess(owner.context, 0));
  EXPECT_STATUS(success, cuCtxDisablePeerAccess(owner.context));
  EXPECT_EQ(read(far), 5);
  EXPECT_STATUS(success, cuIpcCloseMemHandle(far));
  EXPECT_STATUS(success, cuCtxSetCurrent(owner.context));
  EXPECT_STATUS(success, cuIpcCloseMemHandle(near));
  EXPECT_STATUS(success, cuCtxSetCurrent(reader.context));
}

TEST_F(IpcMemory, WorkThatUsesAClosedImportFaults) {
  ChildProcess child(exporter());
  child.wait_ready();
  Device device;
  RegisteredPage page;
  const api::DevicePointer address = open();
  EXPECT_STATUS(success, cuStreamWaitValue64_v2(device.stream, page.address(0), 1, 0));
  EXPECT_STATUS(success, cuMemsetD8Async(address, 7, kBytes, device.stream));
  EXPECT_STATUS(success, cuIpcCloseMemHandle(address));  // does not wait
  page[0].store(1);
  EXPECT_STATUS(illegal_address, cuStreamSynchronize(device.stream));
  std::quick_exit(::testing::Test::HasFailure() ? 1 : 0);  // nothing can be taken back any more
}

TEST_F(IpcMemory, TheSocketGoesWithItsProcess) {
  {
    ChildProcess killed(exporter());
    killed.wait_ready();
    EXPECT_EQ(socket_count(), 1);
    killed.kill();
    EXPECT_EQ(killed.wait(), 128 + SIGKILL);
  }
  ChildProcess ended([this](const ChildLink&) {
    Device device;
    share(allocate(1));
    EXPECT_EQ(socket_count(), 1);  // without that of the dead
    std::exit(::testing::Test::HasFailure() ? 1 : 0);
    return 0;
  });
  EXPECT_EQ(ended.wait(), 0);
  EXPECT_EQ(socket_count(), 0);
}

TEST_F(IpcMemory, AnotherUserOpensItIfTheFolderIsOpen) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  ASSERT_EQ(::chmod(directory_.path().c_str(), 0777), 0);
  ChildProcess other([this](const ChildLink& link) {
    static_cast<void>(link.wait_go());
    EXPECT_TRUE(test::become_nobody());
    Device device;
    const api::DevicePointer address = open();
    EXPECT_EQ(read(address), 5);
    EXPECT_STATUS(success, cuIpcCloseMemHandle(address));
    return 0;
  });
  Device device;
  const api::DevicePointer address = allocate(5);
  share(address);
  other.go();
  EXPECT_EQ(other.wait(), 0);
  EXPECT_STATUS(success, cuMemFree_v2(address));
}

TEST_F(IpcMemory, AProcessThatChangedItsUserGivesIfItIsDumpable) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  ASSERT_EQ(::chmod(directory_.path().c_str(), 0777), 0);
  for (const bool is_dumpable : {false, true}) {
    ChildProcess other([this, is_dumpable](const ChildLink& link) -> int {
      EXPECT_TRUE(test::become_nobody());
      ::prctl(PR_SET_DUMPABLE, is_dumpable ? 1 : 0);
      return exporter()(link);
    });
    other.wait_ready();
    ChildProcess importer([this, is_dumpable](const ChildLink&) {
      Device device;
      EXPECT_TRUE(returned(is_dumpable ? Status::success : Status::invalid_handle, try_open(), ""));
      return 0;
    });
    EXPECT_EQ(importer.wait(), 0);
  }
}

TEST_F(IpcMemory, KillsAtAnyInstructionLeaveNothingHeld) {
  constexpr std::uint64_t kRounds = 10;
  std::atomic<std::uint64_t>& made_count = words_[0];
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    ChildProcess exporting([&](const ChildLink&) -> int {
      Device device;
      for (;; made_count.fetch_add(1)) {
        const api::DevicePointer address = allocate(5);
        share(address);
        EXPECT_STATUS(success, cuMemFree_v2(address));
      }
    });
    ChildProcess importing([&](const ChildLink& link) -> int {
      Device device;
      for (bool has_told = false;;) {
        api::DevicePointer address = 0;
        // Also of what is freed meanwhile, and while it is written.
        if (cuIpcOpenMemHandle_v2(&address, handle(), kIpcLazyPeerAccess) != Status::success) {
          continue;
        }
        EXPECT_EQ(read(address), 5);
        EXPECT_STATUS(success, cuIpcCloseMemHandle(address));
        if (!has_told) link.ready();
        has_told = true;
      }
    });
    importing.wait_ready();
    const std::uint64_t until = made_count.load() + round * 3;
    while (made_count.load() < until) std::this_thread::yield();
    ChildProcess& first = round % 2 == 0 ? exporting : importing;
    ChildProcess& second = round % 2 == 0 ? importing : exporting;
    first.kill();
    EXPECT_EQ(first.wait(), 128 + SIGKILL);
    second.kill();
    EXPECT_EQ(second.wait(), 128 + SIGKILL);
  }
  Device device;
  EXPECT_EQ(test_api().device_bytes_held(0), 0U);
}

TEST_F(IpcMemory, TheLogShowsHandles) {
  const std::string path = directory_ / "log";
  ::setenv("VRAMLINK_SIMCUDA_LOG", path.c_str(), 1);
  Device device;
  const api::DevicePointer address = allocate(5);
  share(address);
  EXPECT_STATUS(invalid_context, try_open());
  EXPECT_STATUS(success, cuMemFree_v2(address));
  std::string hex;
  for (const char byte : handle().reserved) {
    std::array<char, 3> text{};
    std::snprintf(text.data(), text.size(), "%02x", static_cast<unsigned char>(byte));
    hex += text.data();
  }
  std::ifstream file(path);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  EXPECT_NE(text.find(" -> " + hex + " = 0 CUDA_SUCCESS\n"), std::string::npos) << text;
  EXPECT_NE(text.find(" " + hex + " 1 = 201 CUDA_ERROR_INVALID_CONTEXT\n"), std::string::npos)
      << text;
}

}  // namespace
}  // namespace vramlink::simcuda
