// Each function fails where the driver does: before cuInit, without a context, on bad arguments. A
// function that only returned success would tell tests that a mistake was right.
#include <array>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "driver_fixture.hpp"

namespace vramlink::simcuda {
namespace {

struct BadCall {
  const char* symbol;
  Status wanted;
  std::function<Status()> call;
};

#define BAD(symbol, wanted, ...)                                 \
  {                                                              \
#symbol, Status::wanted, [&] { return symbol(__VA_ARGS__); } \
  }

std::set<std::string> listed_symbols() {
  return {
#define LISTED(member, name, symbol, version, ...) #symbol,
      SIMCUDA_SYMBOLS(LISTED)
#undef LISTED
  };
}

void expect_all_fail(const std::vector<BadCall>& calls) {
  for (const BadCall& bad : calls) {
    EXPECT_TRUE(returned(bad.wanted, bad.call(), bad.symbol));
  }
}

/// Calls a function with nothing: zeros and null pointers.
template <class... Arguments>
Status call_with_nothing(Status (*function)(Arguments...)) {
  return function(Arguments{}...);
}

/// What each function says to that in the present state.
std::map<std::string, Status> statuses_of_nothing() {
  return {
#define WITH_NOTHING(member, name, symbol, version, ...) {#symbol, call_with_nothing(&symbol)},
      SIMCUDA_SYMBOLS(WITH_NOTHING)
#undef WITH_NOTHING
  };
}

class BadCalls : public DriverTest {};

TEST_F(BadCalls, NothingWorksBeforeTheStart) {
  // cuInit is the one that would work, and start the driver. These need no driver.
  const std::set<std::string> without_driver{
      "cuInit",           "cuDriverGetVersion",  "cuGetErrorName",
      "cuGetErrorString", "cuGetProcAddress_v2", "cuGetProcAddress"};
#define BEFORE_START(member, name, symbol, version, ...)                                 \
  if (without_driver.count(#symbol) == 0) {                                              \
    EXPECT_TRUE(returned(Status::not_initialized, call_with_nothing(&symbol), #symbol)); \
  }
  SIMCUDA_SYMBOLS(BEFORE_START)
#undef BEFORE_START
}

TEST_F(BadCalls, FewFunctionsWorkWithoutAContext) {
  ASSERT_STATUS(success, cuInit(0));
  // With nothing to do and nothing to give back these succeed; all others say what is wrong.
  const std::set<std::string> working{"cuInit", "cuCtxSetCurrent", "cuDevicePrimaryCtxReset_v2"};
  for (const auto& [symbol, status] : statuses_of_nothing()) {
    EXPECT_EQ(status == Status::success, working.count(symbol) == 1)
        << symbol << " " << name_of(status);
  }
}

TEST_F(BadCalls, WorkNeedsACurrentContext) {
  const Device device;
  RegisteredPage page;
  const api::DevicePointer word = page.address(0);
  std::array<char, 64> bytes{};
  api::Stream stream = nullptr;
  api::Event event = nullptr;
  api::Device ordinal = 0;
  api::DevicePointer address = 0;
  void* memory = nullptr;
  std::size_t size = 0;
  unsigned flags = 0;
  api::MemOp write{api::MemOpType::write_value_64, word, 1, 0, 0, 0};
  Module module = nullptr;
  IpcMemoryHandle memory_handle{};
  const IpcEventHandle event_handle{};
  // Good arguments, in a thread without a context.
  const std::vector<BadCall> calls{
      BAD(cuCtxPopCurrent_v2, invalid_context, nullptr),
      BAD(cuCtxGetDevice, invalid_context, &ordinal),
      BAD(cuCtxSynchronize, invalid_context),
      BAD(cuMemGetInfo_v2, invalid_context, &size, &size),
      BAD(cuMemAlloc_v2, invalid_context, &address, 4096),
      BAD(cuMemAllocManaged, invalid_context, &address, 4096, 1),
      BAD(cuMemAllocHost_v2, invalid_context, &memory, 4096),
      BAD(cuMemHostAlloc, invalid_context, &memory, 4096, 0),
      BAD(cuMemHostGetFlags, invalid_context, &flags, &page[0]),
      BAD(cuMemHostRegister_v2, invalid_context, bytes.data(), bytes.size(), 3),
      BAD(cuMemHostUnregister, invalid_context, &page[0]),
      BAD(cuMemAllocAsync, invalid_context, &address, 64, device.stream),
      BAD(cuMemFreeAsync, invalid_context, word, device.stream),
      BAD(cuStreamCreate, invalid_context, &stream, 0),
      BAD(cuStreamQuery, invalid_context, device.stream),
      BAD(cuStreamWriteValue64_v2, invalid_context, device.stream, word, 1, 0),
      BAD(cuStreamBatchMemOp_v2, invalid_context, device.stream, 1, &write, 0),
      BAD(cuEventCreate, invalid_context, &event, 0),
      BAD(cuMemcpyAsync, invalid_context, word, word, 8, device.stream),
      BAD(cuMemsetD8Async, invalid_context, word, 1, 8, device.stream),
      BAD(cuIpcGetMemHandle, invalid_context, &memory_handle, word),
      BAD(cuIpcOpenMemHandle_v2, invalid_context, &address, memory_handle, kIpcLazyPeerAccess),
      BAD(cuIpcCloseMemHandle, invalid_context, word),
      BAD(cuIpcOpenEventHandle, invalid_context, &event, event_handle),
      BAD(
          cuLaunchHostFunc, invalid_context, device.stream, [](void*) {}, nullptr),
      BAD(cuModuleLoadData, invalid_context, &module, ".version 8.0 .target sm_70"),
  };
  std::thread([&] { expect_all_fail(calls); }).join();
  EXPECT_EQ(page[0].load(), 0U);
}

TEST_F(BadCalls, BadArgumentsAreRefused) {
  const Device device;
  RegisteredPage page;
  const Ledger before = ledger();
  constexpr int kNoDevice = 99;
  constexpr unsigned kNoFlag = 64;
  constexpr api::DevicePointer kNowhere = 4096;
  const auto nothing = [](auto type) {
    return reinterpret_cast<decltype(type)>(std::uintptr_t{0x1234});
  };
  const auto no_context = nothing(api::Context{});
  const auto no_stream = nothing(api::Stream{});
  const auto no_event = nothing(api::Event{});
  const auto no_graph = nothing(api::Graph{});
  const auto no_node = nothing(api::GraphNode{});
  const auto no_exec = nothing(api::GraphExec{});
  const auto no_module = nothing(Module{});
  const auto no_pool = nothing(MemoryPoolHandle{});
  const auto no_function = nothing(Function{});
  constexpr api::MemoryHandle kNoMemory = 0x1234;
  constexpr auto kFd = api::HandleType::posix_file_descriptor;

  int number = 0;
  unsigned flags = 0;
  unsigned long long long_flags = 0;
  std::size_t size = 0;
  float milliseconds = 0;
  const char* text = nullptr;
  void* function = nullptr;
  void* memory = nullptr;
  std::array<char, 64> name{};
  api::Uuid uuid{};
  api::Context context = nullptr;
  api::DevicePointer address = 0;
  api::MemoryHandle handle = 0;
  api::AllocationProperties properties = MappedMemory::properties();
  const api::Location location{api::LocationType::device, 0};
  const api::AccessDescriptor access{location, api::AccessFlags::read};
  api::Stream stream = nullptr;
  api::Event event = nullptr;
  api::Graph graph = nullptr;
  api::GraphNode node = nullptr;
  api::GraphExec exec = nullptr;
  Module module = nullptr;
  Function kernel = nullptr;
  MemoryPoolHandle pool = nullptr;
  const PoolProperties no_properties{};
  PoolPointer pool_pointer{};
  auto access_flags = api::AccessFlags::none;
  api::Location any_location = location;
  IpcMemoryHandle memory_handle{};
  IpcEventHandle event_handle{};
  api::PointerAttribute attribute = api::PointerAttribute::memory_type;
  void* value = &number;
  const api::DevicePointer word = page.address(0);
  api::MemOp write{api::MemOpType::write_value_64, word, 1, 0, 0, 0};
  api::Memcpy3d copy{};
  MemsetNodeParameters fill{word, 0, 1, 1, 8, 1};
  api::BatchMemOpNodeParameters batch{device.context, 1, &write, 0};
  ASSERT_STATUS(success, cuGraphCreate(&graph, 0));
  const api::Graph good_graph = graph;

  const std::vector<BadCall> calls{
      BAD(cuInit, invalid_value, 1),
      BAD(cuDriverGetVersion, invalid_value, nullptr),
      BAD(cuGetProcAddress_v2, invalid_value, nullptr, &function, 12000, 0, nullptr),
      BAD(cuGetProcAddress, invalid_value, "cuInit", &function, 12000, 3),
      BAD(cuGetErrorName, invalid_value, static_cast<Status>(12345), &text),
      BAD(cuGetErrorString, invalid_value, static_cast<Status>(12345), &text),
      BAD(cuDeviceGetCount, invalid_value, nullptr),
      BAD(cuDeviceGet, invalid_device, &number, kNoDevice),
      BAD(cuDeviceGetName, invalid_value, name.data(), 0, 0),
      BAD(cuDeviceGetUuid_v2, invalid_device, &uuid, kNoDevice),
      BAD(cuDeviceGetUuid, invalid_device, &uuid, -1),
      BAD(cuDeviceGetAttribute, invalid_value, &number, static_cast<api::DeviceAttribute>(9999), 0),
      BAD(cuDeviceTotalMem_v2, invalid_device, &size, kNoDevice),
      BAD(cuDeviceCanAccessPeer, invalid_device, &number, 0, kNoDevice),
      BAD(cuDevicePrimaryCtxRetain, invalid_device, &context, kNoDevice),
      BAD(cuDevicePrimaryCtxRelease_v2, invalid_device, kNoDevice),
      BAD(cuDevicePrimaryCtxReset_v2, invalid_device, kNoDevice),
      BAD(cuDevicePrimaryCtxGetState, invalid_device, kNoDevice, &flags, &number),
      BAD(cuCtxCreate_v2, invalid_device, &context, 0, kNoDevice),
      BAD(cuCtxDestroy_v2, invalid_context, no_context),
      BAD(cuCtxPushCurrent_v2, invalid_context, no_context),
      BAD(cuCtxSetCurrent, invalid_context, no_context),
      BAD(cuCtxGetCurrent, invalid_value, nullptr),
      BAD(cuCtxGetDevice, invalid_value, nullptr),
      BAD(cuCtxEnablePeerAccess, invalid_context, device.context, 0),
      BAD(cuCtxDisablePeerAccess, invalid_context, no_context),
      BAD(cuMemGetInfo_v2, invalid_value, nullptr, &size),
      BAD(cuMemGetAllocationGranularity, invalid_value, &size, nullptr, api::Granularity::minimum),
      BAD(cuMemCreate, invalid_value, &handle, kUnit - 1, &properties, 0),
      BAD(cuMemRelease, invalid_value, kNoMemory),
      BAD(cuMemExportToShareableHandle, invalid_value, &number, kNoMemory, kFd, 0),
      BAD(cuMemImportFromShareableHandle, unknown, &handle, reinterpret_cast<void*>(-1L), kFd),
      BAD(cuMemAddressReserve, invalid_value, &address, kUnit - 1, 0, 0, 0),
      BAD(cuMemAddressFree, invalid_value, kUnit, kUnit),
      BAD(cuMemMap, invalid_value, kUnit, kUnit, 0, kNoMemory, 0),
      BAD(cuMemUnmap, invalid_value, kUnit, kUnit),
      BAD(cuMemSetAccess, invalid_value, kUnit, kUnit, &access, 1),
      BAD(cuMemGetAccess, invalid_value, &long_flags, &location, kNowhere),
      BAD(cuMemGetAllocationPropertiesFromHandle, invalid_value, &properties, kNoMemory),
      BAD(cuMemRetainAllocationHandle, invalid_value, &handle, nullptr),
      BAD(cuMemAlloc_v2, invalid_value, &address, 0),
      BAD(cuMemFree_v2, invalid_value, kNowhere),
      BAD(cuMemAllocManaged, invalid_value, &address, 4096, kNoFlag),
      BAD(cuMemAllocHost_v2, invalid_value, &memory, 0),
      BAD(cuMemHostAlloc, invalid_value, &memory, 4096, kNoFlag),
      BAD(cuMemFreeHost, invalid_value, name.data()),
      BAD(cuMemHostGetFlags, invalid_value, &flags, name.data()),
      BAD(cuMemHostRegister_v2, invalid_value, nullptr, 4096, 3),
      BAD(cuMemHostUnregister, host_memory_not_registered, name.data()),
      BAD(cuMemHostGetDevicePointer_v2, invalid_value, &address, name.data(), 0),
      BAD(cuMemGetAddressRange_v2, not_found, &address, &size, kNowhere),
      BAD(cuPointerGetAttribute, invalid_value, &number, attribute, kNowhere),
      BAD(cuPointerGetAttributes, invalid_value, 0, &attribute, &value, word),
      BAD(cuMemcpyAsync, invalid_value, kNowhere, word, 8, device.stream),
      BAD(cuMemcpyHtoDAsync_v2, invalid_value, kNowhere, name.data(), 8, device.stream),
      BAD(cuMemcpyDtoHAsync_v2, invalid_value, name.data(), kNowhere, 8, device.stream),
      BAD(cuMemcpyDtoDAsync_v2, invalid_value, word, kNowhere, 8, device.stream),
      BAD(cuMemcpyPeerAsync, invalid_context, word, no_context, word, device.context, 8,
          device.stream),
      BAD(cuMemcpy, invalid_value, kNowhere, word, 8),
      BAD(cuMemcpyHtoD_v2, invalid_value, kNowhere, name.data(), 8),
      BAD(cuMemcpyDtoH_v2, invalid_value, name.data(), kNowhere, 8),
      BAD(cuMemcpyDtoD_v2, invalid_value, word, kNowhere, 8),
      BAD(cuMemsetD8Async, invalid_value, kNowhere, 1, 8, device.stream),
      BAD(cuMemsetD16Async, invalid_value, word + 1, 1, 8, device.stream),
      BAD(cuMemsetD32Async, invalid_value, word + 2, 1, 8, device.stream),
      BAD(cuMemsetD8_v2, invalid_value, kNowhere, 1, 8),
      BAD(cuMemsetD16_v2, invalid_value, word + 1, 1, 8),
      BAD(cuMemsetD32_v2, invalid_value, word + 2, 1, 8),
      BAD(cuMemPoolCreate, invalid_value, &pool, &no_properties),
      BAD(cuMemPoolDestroy, invalid_value, no_pool),
      BAD(cuMemAllocAsync, invalid_value, &address, 0, device.stream),
      BAD(cuMemAllocFromPoolAsync, invalid_value, &address, 8, no_pool, device.stream),
      BAD(cuMemFreeAsync, invalid_value, kNowhere, device.stream),
      BAD(cuDeviceGetDefaultMemPool, invalid_device, &pool, kNoDevice),
      BAD(cuDeviceGetMemPool, invalid_device, &pool, kNoDevice),
      BAD(cuDeviceSetMemPool, invalid_value, 0, no_pool),
      BAD(cuMemPoolGetAttribute, invalid_value, no_pool, PoolAttribute::used_mem_high, &size),
      BAD(cuMemPoolSetAttribute, invalid_value, no_pool, PoolAttribute::used_mem_high, &size),
      BAD(cuMemPoolTrimTo, invalid_value, no_pool, 0),
      BAD(cuMemPoolSetAccess, invalid_value, no_pool, &access, 1),
      BAD(cuMemPoolGetAccess, invalid_value, &access_flags, no_pool, &any_location),
      BAD(cuMemPoolExportToShareableHandle, invalid_value, &number, no_pool, kFd, 0),
      BAD(cuMemPoolImportFromShareableHandle, invalid_value, &pool, reinterpret_cast<void*>(-1L),
          kFd, 0),
      BAD(cuMemPoolExportPointer, invalid_value, &pool_pointer, word),
      BAD(cuMemPoolImportPointer, invalid_value, &address, no_pool, &pool_pointer),
      BAD(cuStreamCreate, invalid_value, &stream, kNoFlag),
      BAD(cuStreamDestroy_v2, invalid_handle, no_stream),
      BAD(cuStreamQuery, invalid_handle, no_stream),
      BAD(cuStreamSynchronize, invalid_handle, no_stream),
      BAD(cuStreamGetCtx, invalid_handle, no_stream, &context),
      BAD(cuStreamGetFlags, invalid_value, device.stream, nullptr),
      BAD(cuStreamWaitEvent, invalid_handle, device.stream, no_event, 0),
      BAD(cuStreamWriteValue64_v2, invalid_value, device.stream, word + 4, 1, 0),
      BAD(cuStreamWaitValue64_v2, invalid_value, device.stream, word, 1, kNoFlag),
      BAD(cuStreamWriteValue32_v2, invalid_value, device.stream, word + 2, 1, 0),
      BAD(cuStreamWaitValue32_v2, invalid_value, device.stream, word, 1, kNoFlag),
      BAD(cuStreamBatchMemOp_v2, invalid_value, device.stream, 0, &write, 0),
      BAD(cuEventCreate, invalid_value, &event, kNoFlag),
      BAD(cuEventDestroy_v2, invalid_handle, no_event),
      BAD(cuEventRecord, invalid_handle, no_event, device.stream),
      BAD(cuEventQuery, invalid_handle, no_event),
      BAD(cuEventSynchronize, invalid_handle, no_event),
      BAD(cuEventElapsedTime, invalid_handle, &milliseconds, no_event, no_event),
      BAD(cuGraphCreate, invalid_value, &graph, 1),
      BAD(cuGraphDestroy, invalid_value, no_graph),
      BAD(cuGraphAddEmptyNode, invalid_value, &node, no_graph, nullptr, 0),
      BAD(cuGraphAddMemcpyNode, not_supported, &node, good_graph, nullptr, 0, &copy, nullptr),
      BAD(cuGraphAddMemsetNode, invalid_value, &node, no_graph, nullptr, 0, &fill, nullptr),
      BAD(cuGraphAddEventWaitNode, invalid_value, &node, good_graph, nullptr, 0, no_event),
      BAD(cuGraphAddEventRecordNode, invalid_value, &node, good_graph, nullptr, 0, no_event),
      BAD(cuGraphAddBatchMemOpNode, invalid_value, &node, no_graph, nullptr, 0, &batch),
      BAD(cuGraphInstantiateWithFlags, invalid_value, &exec, no_graph, 0),
      BAD(cuGraphExecDestroy, invalid_value, no_exec),
      BAD(cuGraphExecMemcpyNodeSetParams, invalid_value, no_exec, no_node, &copy, nullptr),
      BAD(cuGraphExecBatchMemOpNodeSetParams, invalid_value, no_exec, no_node, &batch),
      BAD(cuGraphExecEventRecordNodeSetEvent, invalid_value, no_exec, no_node, no_event),
      BAD(cuGraphExecEventWaitNodeSetEvent, invalid_value, no_exec, no_node, no_event),
      BAD(cuGraphUpload, invalid_value, no_exec, device.stream),
      BAD(cuGraphLaunch, invalid_value, no_exec, device.stream),
      BAD(cuIpcGetMemHandle, invalid_value, &memory_handle, kNowhere),
      BAD(cuIpcOpenMemHandle_v2, invalid_value, &address, memory_handle, kIpcLazyPeerAccess),
      BAD(cuIpcCloseMemHandle, invalid_value, kNowhere),
      BAD(cuIpcGetEventHandle, invalid_handle, &event_handle, no_event),
      BAD(cuIpcOpenEventHandle, invalid_value, &event, event_handle),
      BAD(cuLaunchHostFunc, invalid_value, device.stream, nullptr, nullptr),
      BAD(cuModuleLoadData, invalid_ptx, &module, "no PTX"),
      BAD(cuModuleUnload, invalid_handle, no_module),
      BAD(cuModuleGetFunction, invalid_handle, &kernel, no_module, "fill"),
      BAD(cuLaunchKernel, invalid_handle, no_function, 1, 1, 1, 1, 1, 1, 0, device.stream, nullptr,
          nullptr),
  };
  expect_all_fail(calls);

  // Whatever is added to the list gets a row.
  std::set<std::string> with_row{"cuCtxPopCurrent_v2", "cuCtxSynchronize"};  // no argument is bad
  for (const BadCall& bad : calls) with_row.insert(bad.symbol);
  EXPECT_EQ(with_row, listed_symbols());

  EXPECT_STATUS(success, cuGraphDestroy(good_graph));
  EXPECT_STATUS(success, cuStreamSynchronize(device.stream));
  EXPECT_EQ(ledger(), before);
  EXPECT_EQ(page[0].load(), 0U);
}

#undef BAD

}  // namespace
}  // namespace vramlink::simcuda
