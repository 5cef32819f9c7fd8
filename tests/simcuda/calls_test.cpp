// What the stand-in tells tests: counts, a log, planted failures; and the thread that must not
// call.
#include <pthread.h>

#include <array>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <thread>

#include "driver_fixture.hpp"
#include "support/child_process.hpp"

namespace vramlink::simcuda {
namespace {

class Calls : public DriverTest {};

TEST_F(Calls, AreCountedByNameAndBySymbol) {
  Device device;
  RegisteredPage page;
  EXPECT_EQ(test_api().call_count("cuStreamWriteValue64"), 0U);
  EXPECT_STATUS(success, cuStreamWriteValue64_v2(device.stream, page.address(0), 1, 0));
  EXPECT_EQ(test_api().call_count("cuStreamWriteValue64"), 1U);
  EXPECT_EQ(test_api().call_count("cuStreamWriteValue64_v2"), 1U);
  EXPECT_EQ(test_api().call_count("cuMakeCoffee"), 0U);
  EXPECT_STATUS(success, cuStreamSynchronize(device.stream));
}

TEST_F(Calls, AreLoggedWithArgumentsAndResults) {
  const std::string path = directory_ / "log";
  ::setenv("VRAMLINK_SIMCUDA_LOG", path.c_str(), 1);
  {
    Device device;
    EXPECT_STATUS(invalid_value, cuMemsetD8Async(4096, 7, 16, device.stream));
  }
  std::ifstream file(path);
  std::string text((std::istreambuf_iterator<char>(file)), {});
  const std::string pid = std::to_string(::getpid());
  EXPECT_NE(text.find(pid + " " + pid + " cuInit 0 = 0 CUDA_SUCCESS\n"), std::string::npos) << text;
  EXPECT_NE(text.find("cuMemsetD8Async 0x1000 7 16 0x"), std::string::npos) << text;
  EXPECT_NE(text.find(" = 1 CUDA_ERROR_INVALID_VALUE\n"), std::string::npos) << text;
  EXPECT_NE(text.find("cuDevicePrimaryCtxRetain"), std::string::npos) << text;
  EXPECT_NE(text.find(" -> 0x5c"), std::string::npos) << text;  // the context that it gave
}

/// The lines of a log, without process, thread and status.
class LoggedCalls : public Calls {
 protected:
  LoggedCalls() { ::setenv("VRAMLINK_SIMCUDA_LOG", path_.c_str(), 1); }

  /// The last line of a function.
  [[nodiscard]] std::string line_of(const std::string& symbol) const {
    std::ifstream file(path_);
    std::string found = "no line of " + symbol;
    for (std::string line; std::getline(file, line);) {
      const std::size_t at = line.find(" " + symbol + " ");
      if (at != std::string::npos) found = line.substr(at + 1);
    }
    return found;
  }
  static std::string hex(std::uint64_t value) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "0x%" PRIx64, value);
    return text.data();
  }
  template <class Tag>
  static std::string hex(Tag* pointer) {
    return hex(static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(pointer)));
  }

  const std::string path_ = directory_ / "log";
};

TEST_F(LoggedCalls, ShowTextsAndNumbersThatAreGivenBack) {
  void* function = nullptr;
  api::ProcQuery found{};
  EXPECT_STATUS(success, cuInit(0));
  EXPECT_STATUS(success, cuGetProcAddress_v2("cuMemMap", &function, 12000, 0, &found));
  EXPECT_EQ(line_of("cuGetProcAddress_v2"), "cuGetProcAddress_v2 \"cuMemMap\" " + hex(&function) +
                                                " 12000 0 " + hex(&found) + " -> " + hex(function) +
                                                " -> 0 = 0 CUDA_SUCCESS");
  EXPECT_STATUS(invalid_value, cuGetProcAddress_v2(nullptr, &function, 12000, 0, nullptr));
  EXPECT_EQ(line_of("cuGetProcAddress_v2"), "cuGetProcAddress_v2 0x0 " + hex(&function) +
                                                " 12000 0 0x0 = 1 CUDA_ERROR_INVALID_VALUE");
  std::array<char, 64> name{};
  EXPECT_STATUS(success, cuDeviceGetName(name.data(), 64, 0));
  EXPECT_EQ(line_of("cuDeviceGetName"),
            "cuDeviceGetName " + hex(name.data()) + " 64 0 -> \"Stand-in GPU 0\" = 0 CUDA_SUCCESS");
  api::Uuid uuid{};
  EXPECT_STATUS(success, cuDeviceGetUuid_v2(&uuid, 0));
  EXPECT_EQ(line_of("cuDeviceGetUuid_v2"),
            "cuDeviceGetUuid_v2 " + hex(&uuid) +
                " 0 -> GPU-5c0d0a00-1122-4344-8566-778899aabb00 = 0 CUDA_SUCCESS");
  const char* text = nullptr;
  EXPECT_STATUS(success, cuGetErrorName(Status::not_ready, &text));
  EXPECT_EQ(line_of("cuGetErrorName"),
            "cuGetErrorName 600 " + hex(&text) + " -> \"CUDA_ERROR_NOT_READY\" = 0 CUDA_SUCCESS");
}

TEST_F(LoggedCalls, ShowMemoryByItsFields) {
  Device device;
  api::MemoryHandle handle = 0;
  const api::AllocationProperties properties = MappedMemory::properties();
  EXPECT_STATUS(success, cuMemCreate(&handle, MappedMemory::kSizeBytes, &properties, 0));
  EXPECT_EQ(line_of("cuMemCreate"), "cuMemCreate " + hex(&handle) +
                                        " 2097152 { type 1 handles 1 device 0 } 0 -> " +
                                        std::to_string(handle) + " = 0 CUDA_SUCCESS");
  MappedMemory memory(handle);
  EXPECT_EQ(line_of("cuMemSetAccess"), "cuMemSetAccess " + std::to_string(memory.address()) +
                                           " 2097152 [ device 0 access 3 ] = 0 CUDA_SUCCESS");
  const int fd = memory.export_fd();
  const std::string exported = line_of("cuMemExportToShareableHandle");
  EXPECT_NE(exported.find(" -> " + std::to_string(fd) + " = 0"), std::string::npos) << exported;
  EXPECT_STATUS(success, cuMemRelease(MappedMemory::import(fd)));
  const std::string imported = line_of("cuMemImportFromShareableHandle");
  EXPECT_NE(imported.find(" " + std::to_string(fd) + " 1 ->"), std::string::npos) << imported;
  ::close(fd);
  api::AllocationProperties given{};
  EXPECT_STATUS(success, cuMemGetAllocationPropertiesFromHandle(&given, handle));
  const std::string of_handle = line_of("cuMemGetAllocationPropertiesFromHandle");
  EXPECT_NE(of_handle.find(" -> { type 1 handles 1 device 0 } = 0"), std::string::npos)
      << of_handle;
  auto type = api::MemoryType::none;
  std::size_t size = 0;
  std::array attributes{api::PointerAttribute::memory_type, api::PointerAttribute::range_size};
  std::array<void*, 2> values{&type, &size};
  const std::string address = hex(memory.address());
  EXPECT_STATUS(success,
                cuPointerGetAttributes(2, attributes.data(), values.data(), memory.address()));
  EXPECT_EQ(line_of("cuPointerGetAttributes"),
            "cuPointerGetAttributes [ 2, 12 ] " + address + " -> 2 2097152 = 0 CUDA_SUCCESS");
  EXPECT_STATUS(success, cuPointerGetAttribute(&type, attributes[0], memory.address()));
  EXPECT_EQ(line_of("cuPointerGetAttribute"),
            "cuPointerGetAttribute [ 2 ] " + address + " -> 2 = 0 CUDA_SUCCESS");
}

TEST_F(LoggedCalls, ShowWordsAndGraphsByTheirFields) {
  Device device;
  RegisteredPage page;
  MappedMemory memory;
  const std::string stream = hex(device.stream);
  const std::string word = hex(page.address(0));
  std::array<api::MemOp, 2> words{
      api::MemOp{api::MemOpType::write_value_64, page.address(0), 5, 0, 0, 0},
      api::MemOp{api::MemOpType::wait_value_64, page.address(0), 5, 1, 0, 0}};
  const std::string list = "2 [ write64 " + word + " 5, wait64 " + word + " 5 flags 1 ]";
  EXPECT_STATUS(success, cuStreamBatchMemOp_v2(device.stream, 2, words.data(), 0));
  EXPECT_EQ(line_of("cuStreamBatchMemOp_v2"),
            "cuStreamBatchMemOp_v2 " + stream + " " + list + " 0 = 0 CUDA_SUCCESS");
  EXPECT_STATUS(invalid_value, cuStreamBatchMemOp_v2(device.stream, 2, nullptr, 0));
  EXPECT_EQ(line_of("cuStreamBatchMemOp_v2"),
            "cuStreamBatchMemOp_v2 " + stream + " 2 [ ] 0 = 1 CUDA_ERROR_INVALID_VALUE");

  api::Memcpy3d copy{};
  copy.source_type = api::MemoryType::device;
  copy.source_device = memory.address();
  copy.source_x_bytes = 16;
  copy.target_type = api::MemoryType::host;
  copy.target_host = &page[8];
  copy.width_bytes = 64;
  copy.height = 1;
  copy.depth = 1;
  const std::string fields = "{ from device " + hex(memory.address()) + " + 16 to host " +
                             hex(&page[8]) + " width 64 height 1 depth 1 }";
  const api::BatchMemOpNodeParameters batch{device.context, 2, words.data(), 0};
  const std::string of_batch = "{ " + hex(device.context) + " " + list + " flags 0 }";
  const MemsetNodeParameters fill{memory.address(), 0, 5, 4, 256, 1};
  api::Graph graph = nullptr;
  api::GraphNode copy_node = nullptr;
  api::GraphNode words_node = nullptr;
  api::GraphNode fill_node = nullptr;
  api::GraphExec exec = nullptr;
  EXPECT_STATUS(success, cuGraphCreate(&graph, 0));
  EXPECT_STATUS(success,
                cuGraphAddMemcpyNode(&copy_node, graph, nullptr, 0, &copy, device.context));
  EXPECT_EQ(line_of("cuGraphAddMemcpyNode"),
            "cuGraphAddMemcpyNode " + hex(&copy_node) + " " + hex(graph) + " [ ] " + fields + " " +
                hex(device.context) + " -> " + hex(copy_node) + " = 0 CUDA_SUCCESS");
  EXPECT_STATUS(success, cuGraphAddBatchMemOpNode(&words_node, graph, &copy_node, 1, &batch));
  EXPECT_EQ(line_of("cuGraphAddBatchMemOpNode"),
            "cuGraphAddBatchMemOpNode " + hex(&words_node) + " " + hex(graph) + " [ " +
                hex(copy_node) + " ] " + of_batch + " -> " + hex(words_node) + " = 0 CUDA_SUCCESS");
  EXPECT_STATUS(success,
                cuGraphAddMemsetNode(&fill_node, graph, nullptr, 0, &fill, device.context));
  const std::string of_fill = line_of("cuGraphAddMemsetNode");
  EXPECT_NE(
      of_fill.find(" { to " + hex(memory.address()) + " value 5 element 4 width 256 height 1 } "),
      std::string::npos)
      << of_fill;
  EXPECT_STATUS(success, cuGraphInstantiateWithFlags(&exec, graph, 0));
  EXPECT_STATUS(success, cuGraphExecMemcpyNodeSetParams(exec, copy_node, &copy, device.context));
  EXPECT_EQ(line_of("cuGraphExecMemcpyNodeSetParams"),
            "cuGraphExecMemcpyNodeSetParams " + hex(exec) + " " + hex(copy_node) + " " + fields +
                " " + hex(device.context) + " = 0 CUDA_SUCCESS");
  EXPECT_STATUS(success, cuGraphExecBatchMemOpNodeSetParams(exec, words_node, &batch));
  EXPECT_EQ(line_of("cuGraphExecBatchMemOpNodeSetParams"),
            "cuGraphExecBatchMemOpNodeSetParams " + hex(exec) + " " + hex(words_node) + " " +
                of_batch + " = 0 CUDA_SUCCESS");
  EXPECT_STATUS(success, cuGraphExecDestroy(exec));
  EXPECT_STATUS(success, cuGraphDestroy(graph));
  EXPECT_STATUS(success, cuStreamSynchronize(device.stream));
}

TEST_F(LoggedCalls, ShowPoolsByTheirFields) {
  Device device;
  PoolProperties properties{};
  properties.type = api::AllocationType::pinned;
  properties.location = {api::LocationType::device, 0};
  properties.size_bytes_max = 4096;
  MemoryPoolHandle pool = nullptr;
  EXPECT_STATUS(success, cuMemPoolCreate(&pool, &properties));
  EXPECT_EQ(line_of("cuMemPoolCreate"), "cuMemPoolCreate " + hex(&pool) +
                                            " { type 1 handles 0 device 0 max 4096 } -> " +
                                            hex(pool) + " = 0 CUDA_SUCCESS");
  std::uint64_t threshold = 99;
  EXPECT_STATUS(success, cuMemPoolSetAttribute(pool, PoolAttribute::release_threshold, &threshold));
  EXPECT_EQ(line_of("cuMemPoolSetAttribute"), "cuMemPoolSetAttribute " + hex(pool) + " 4 " +
                                                  hex(&threshold) + " -> 99 = 0 CUDA_SUCCESS");
  int reuse = 0;
  EXPECT_STATUS(
      success, cuMemPoolGetAttribute(pool, PoolAttribute::reuse_follow_event_dependencies, &reuse));
  EXPECT_EQ(line_of("cuMemPoolGetAttribute"),
            "cuMemPoolGetAttribute " + hex(pool) + " 1 " + hex(&reuse) + " -> 1 = 0 CUDA_SUCCESS");
  EXPECT_STATUS(success, cuMemPoolDestroy(pool));
}

TEST_F(LoggedCalls, ShowLongListsUpToALimit) {
  Device device;
  RegisteredPage page;
  std::array<api::MemOp, 40> words{};
  words.fill({api::MemOpType::write_value_64, page.address(0), 5, 0, 0, 0});
  EXPECT_STATUS(success, cuStreamBatchMemOp_v2(device.stream, 40, words.data(), 0));
  const std::string line = line_of("cuStreamBatchMemOp_v2");
  EXPECT_NE(line.find(" 40 [ write64 "), std::string::npos) << line;
  EXPECT_NE(line.find(", ... ] 0 = 0 CUDA_SUCCESS"), std::string::npos) << line;
  EXPECT_STATUS(success, cuStreamSynchronize(device.stream));
}

TEST_F(Calls, CanBeMadeToFail) {
  Device device;
  const api::AllocationProperties properties = MappedMemory::properties();
  const Ledger before = ledger();
  const auto create = [&] {
    api::MemoryHandle handle = 0;
    const Status status = cuMemCreate(&handle, MappedMemory::kSizeBytes, &properties, 0);
    if (status == Status::success) {
      EXPECT_STATUS(success, cuMemRelease(handle));
    }
    return status;
  };
  EXPECT_STATUS(success, create());
  EXPECT_TRUE(test_api().fail_calls("cuMemCreate", 2, 2, static_cast<int>(Status::out_of_memory)));
  EXPECT_STATUS(success, create());
  EXPECT_STATUS(out_of_memory, create());
  EXPECT_STATUS(out_of_memory, create());
  EXPECT_STATUS(success, create());
  EXPECT_TRUE(test_api().fail_calls("cuMemCreate", 1, 9, static_cast<int>(Status::out_of_memory)));
  test_api().clear_failures();
  EXPECT_STATUS(success, create());
  EXPECT_FALSE(test_api().fail_calls("cuMakeCoffee", 1, 1, 1));
  EXPECT_EQ(ledger(), before);
}

TEST_F(Calls, CanBeMadeToFailByTheEnvironment) {
  ::setenv("VRAMLINK_SIMCUDA_FAIL", "cuStreamCreate:2:1:2", 1);
  Device device;
  api::Stream stream = nullptr;
  EXPECT_STATUS(out_of_memory, cuStreamCreate(&stream, 0));
  EXPECT_STATUS(success, cuStreamCreate(&stream, 0));
  EXPECT_STATUS(success, cuStreamDestroy_v2(stream));
}

TEST_F(Calls, OfTheReactorEndTheProcess) {
  test::ChildProcess child([](const test::ChildLink&) {
    ::signal(SIGABRT, SIG_DFL);
    Device device;
    std::thread reactor([] {
      ::pthread_setname_np(::pthread_self(), "vl-reactor");
      int count = 0;
      (void)cuDeviceGetCount(&count);
    });
    reactor.join();
    return 0;
  });
  EXPECT_EQ(child.wait(), 128 + SIGABRT);
}

TEST_F(Calls, OfManyThreadsDoNotDisturbEachOther) {
  Device device;
  const Ledger before = ledger();
  test_api().set_delay(0, 50, 42);
  std::array<std::thread, 4> threads;
  for (std::thread& thread : threads) {
    thread = std::thread([&] {
      EXPECT_STATUS(success, cuCtxSetCurrent(device.context));
      RegisteredPage page;
      MappedMemory memory;
      api::Stream stream = nullptr;
      api::Event event = nullptr;
      EXPECT_STATUS(success, cuStreamCreate(&stream, api::kStreamNonBlocking));
      EXPECT_STATUS(success, cuEventCreate(&event, api::kEventDisableTiming));
      for (unsigned i = 1; i <= 50; ++i) {
        unsigned value = 0;
        EXPECT_STATUS(success, cuMemsetD32Async(memory.address(), i, 1, stream));
        EXPECT_STATUS(success, cuEventRecord(event, stream));
        EXPECT_STATUS(success, cuStreamWaitEvent(device.stream, event, 0));
        EXPECT_STATUS(success, cuMemcpyDtoHAsync_v2(&value, memory.address(), 4, stream));
        EXPECT_EQ(value, i);
      }
      EXPECT_STATUS(success, cuStreamSynchronize(stream));
      EXPECT_STATUS(success, cuEventDestroy_v2(event));
      EXPECT_STATUS(success, cuStreamDestroy_v2(stream));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_STATUS(success, cuStreamSynchronize(device.stream));
  EXPECT_EQ(ledger(), before);
}

}  // namespace
}  // namespace vramlink::simcuda
