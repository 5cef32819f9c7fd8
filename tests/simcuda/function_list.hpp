// The list of all functions that the stand-in exports: those that the library calls, and these,
// which tests and plain programs need. The macro has the form of VRAMLINK_CUDA_SYMBOLS. Declares
// none of them, so that it can stand beside cuda.h, with which a test compares it
// (tests/conformance/driver_api_test.cpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "backend/cuda/driver_api.hpp"
#include "pool_api.hpp"

namespace vramlink::simcuda {

namespace api = cuda::api;
using api::Status;

struct ModuleTag;
struct FunctionTag;
using Module = ModuleTag*;
using Function = FunctionTag*;
/// CUhostFn.
using HostFunction = void (*)(void* data);

using api::IpcMemoryHandle;
using api::kIpcLazyPeerAccess;
/// CUipcEventHandle.
struct IpcEventHandle {
  char reserved[64];
};
inline constexpr unsigned kEventInterprocess = 4;  ///< CU_EVENT_INTERPROCESS

/// CUDA_MEMSET_NODE_PARAMS.
struct MemsetNodeParameters {
  api::DevicePointer target;
  std::size_t pitch;
  unsigned value;
  unsigned element_bytes;
  std::size_t width;
  std::size_t height;
};

}  // namespace vramlink::simcuda

// clang-format off
#define SIMCUDA_MORE_SYMBOLS(X) \
  X(, cuGetProcAddress, cuGetProcAddress_v2, 12000, Status(const char* name, void** function, int version, std::uint64_t flags, api::ProcQuery* found)) \
  X(, cuGetProcAddress, cuGetProcAddress, 11030, Status(const char* name, void** function, int version, std::uint64_t flags)) \
  X(, cuDeviceGetUuid, cuDeviceGetUuid, 9020, Status(api::Uuid* uuid, api::Device device)) \
  X(, cuDevicePrimaryCtxGetState, cuDevicePrimaryCtxGetState, 7000, Status(api::Device device, unsigned* flags, int* active)) \
  X(, cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2, 11000, Status(api::Device device)) \
  X(, cuCtxCreate, cuCtxCreate_v2, 3020, Status(api::Context* context, unsigned flags, api::Device device)) \
  X(, cuCtxDestroy, cuCtxDestroy_v2, 4000, Status(api::Context context)) \
  X(, cuCtxSetCurrent, cuCtxSetCurrent, 4000, Status(api::Context context)) \
  X(, cuCtxSynchronize, cuCtxSynchronize, 2000, Status()) \
  X(, cuCtxEnablePeerAccess, cuCtxEnablePeerAccess, 4000, Status(api::Context peer, unsigned flags)) \
  X(, cuCtxDisablePeerAccess, cuCtxDisablePeerAccess, 4000, Status(api::Context peer)) \
  X(, cuMemAllocManaged, cuMemAllocManaged, 6000, Status(api::DevicePointer* address, std::size_t size, unsigned flags)) \
  X(, cuMemAllocHost, cuMemAllocHost_v2, 3020, Status(void** address, std::size_t size)) \
  X(, cuMemHostAlloc, cuMemHostAlloc, 2020, Status(void** address, std::size_t size, unsigned flags)) \
  X(, cuMemFreeHost, cuMemFreeHost, 2000, Status(void* address)) \
  X(, cuMemGetAddressRange, cuMemGetAddressRange_v2, 3020, Status(api::DevicePointer* base, std::size_t* size, api::DevicePointer address)) \
  X(, cuMemcpy, cuMemcpy, 4000, Status(api::DevicePointer target, api::DevicePointer source, std::size_t size)) \
  X(, cuMemcpyHtoD, cuMemcpyHtoD_v2, 3020, Status(api::DevicePointer target, const void* source, std::size_t size)) \
  X(, cuMemcpyDtoH, cuMemcpyDtoH_v2, 3020, Status(void* target, api::DevicePointer source, std::size_t size)) \
  X(, cuMemcpyDtoD, cuMemcpyDtoD_v2, 3020, Status(api::DevicePointer target, api::DevicePointer source, std::size_t size)) \
  X(, cuMemsetD8, cuMemsetD8_v2, 3020, Status(api::DevicePointer target, unsigned char value, std::size_t count)) \
  X(, cuMemsetD16, cuMemsetD16_v2, 3020, Status(api::DevicePointer target, unsigned short value, std::size_t count)) \
  X(, cuMemsetD32, cuMemsetD32_v2, 3020, Status(api::DevicePointer target, unsigned value, std::size_t count)) \
  X(, cuMemsetD16Async, cuMemsetD16Async, 3020, Status(api::DevicePointer target, unsigned short value, std::size_t count, api::Stream stream)) \
  X(, cuMemsetD32Async, cuMemsetD32Async, 3020, Status(api::DevicePointer target, unsigned value, std::size_t count, api::Stream stream)) \
  X(, cuMemPoolCreate, cuMemPoolCreate, 11020, Status(MemoryPoolHandle* pool, const PoolProperties* properties)) \
  X(, cuMemPoolDestroy, cuMemPoolDestroy, 11020, Status(MemoryPoolHandle pool)) \
  X(, cuMemAllocAsync, cuMemAllocAsync, 11020, Status(api::DevicePointer* address, std::size_t size, api::Stream stream)) \
  X(, cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, 11020, Status(api::DevicePointer* address, std::size_t size, MemoryPoolHandle pool, api::Stream stream)) \
  X(, cuMemFreeAsync, cuMemFreeAsync, 11020, Status(api::DevicePointer address, api::Stream stream)) \
  X(, cuDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool, 11020, Status(MemoryPoolHandle* pool, api::Device device)) \
  X(, cuDeviceGetMemPool, cuDeviceGetMemPool, 11020, Status(MemoryPoolHandle* pool, api::Device device)) \
  X(, cuDeviceSetMemPool, cuDeviceSetMemPool, 11020, Status(api::Device device, MemoryPoolHandle pool)) \
  X(, cuMemPoolGetAttribute, cuMemPoolGetAttribute, 11020, Status(MemoryPoolHandle pool, PoolAttribute attribute, void* value)) \
  X(, cuMemPoolSetAttribute, cuMemPoolSetAttribute, 11020, Status(MemoryPoolHandle pool, PoolAttribute attribute, void* value)) \
  X(, cuMemPoolTrimTo, cuMemPoolTrimTo, 11020, Status(MemoryPoolHandle pool, std::size_t kept_bytes)) \
  X(, cuMemPoolSetAccess, cuMemPoolSetAccess, 11020, Status(MemoryPoolHandle pool, const api::AccessDescriptor* descriptors, std::size_t count)) \
  X(, cuMemPoolGetAccess, cuMemPoolGetAccess, 11020, Status(api::AccessFlags* flags, MemoryPoolHandle pool, api::Location* location)) \
  X(, cuMemPoolExportToShareableHandle, cuMemPoolExportToShareableHandle, 11020, Status(void* shareable, MemoryPoolHandle pool, api::HandleType type, unsigned long long flags)) \
  X(, cuMemPoolImportFromShareableHandle, cuMemPoolImportFromShareableHandle, 11020, Status(MemoryPoolHandle* pool, void* shareable, api::HandleType type, unsigned long long flags)) \
  X(, cuMemPoolExportPointer, cuMemPoolExportPointer, 11020, Status(PoolPointer* data, api::DevicePointer address)) \
  X(, cuMemPoolImportPointer, cuMemPoolImportPointer, 11020, Status(api::DevicePointer* address, MemoryPoolHandle pool, PoolPointer* data)) \
  X(, cuStreamSynchronize, cuStreamSynchronize, 2000, Status(api::Stream stream)) \
  X(, cuStreamGetFlags, cuStreamGetFlags, 5050, Status(api::Stream stream, unsigned* flags)) \
  X(, cuStreamWriteValue32, cuStreamWriteValue32_v2, 11070, Status(api::Stream stream, api::DevicePointer address, std::uint32_t value, unsigned flags)) \
  X(, cuStreamWaitValue32, cuStreamWaitValue32_v2, 11070, Status(api::Stream stream, api::DevicePointer address, std::uint32_t value, unsigned flags)) \
  X(, cuEventSynchronize, cuEventSynchronize, 2000, Status(api::Event event)) \
  X(, cuEventElapsedTime, cuEventElapsedTime, 2000, Status(float* milliseconds, api::Event start, api::Event end)) \
  X(, cuGraphAddEmptyNode, cuGraphAddEmptyNode, 10000, Status(api::GraphNode* node, api::Graph graph, const api::GraphNode* dependencies, std::size_t count)) \
  X(, cuGraphAddMemsetNode, cuGraphAddMemsetNode, 10000, Status(api::GraphNode* node, api::Graph graph, const api::GraphNode* dependencies, std::size_t count, const MemsetNodeParameters* parameters, api::Context context)) \
  X(, cuGraphAddEventRecordNode, cuGraphAddEventRecordNode, 11010, Status(api::GraphNode* node, api::Graph graph, const api::GraphNode* dependencies, std::size_t count, api::Event event)) \
  X(, cuGraphExecEventRecordNodeSetEvent, cuGraphExecEventRecordNodeSetEvent, 11010, Status(api::GraphExec exec, api::GraphNode node, api::Event event)) \
  X(, cuGraphExecEventWaitNodeSetEvent, cuGraphExecEventWaitNodeSetEvent, 11010, Status(api::GraphExec exec, api::GraphNode node, api::Event event)) \
  X(, cuIpcGetEventHandle, cuIpcGetEventHandle, 4010, Status(IpcEventHandle* handle, api::Event event)) \
  X(, cuIpcOpenEventHandle, cuIpcOpenEventHandle, 4010, Status(api::Event* event, IpcEventHandle handle)) \
  X(, cuLaunchHostFunc, cuLaunchHostFunc, 10000, Status(api::Stream stream, HostFunction function, void* data)) \
  X(, cuModuleLoadData, cuModuleLoadData, 2000, Status(Module* module, const void* image)) \
  X(, cuModuleUnload, cuModuleUnload, 2000, Status(Module module)) \
  X(, cuModuleGetFunction, cuModuleGetFunction, 2000, Status(Function* function, Module module, const char* name)) \
  X(, cuLaunchKernel, cuLaunchKernel, 4000, Status(Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes, api::Stream stream, void** parameters, void** extra))
// clang-format on

#define SIMCUDA_SYMBOLS(X) VRAMLINK_CUDA_SYMBOLS(X) SIMCUDA_MORE_SYMBOLS(X)

namespace vramlink::simcuda {

// The lists name the types of the API without a namespace.
namespace signatures {
using namespace cuda::api;
#define SIMCUDA_SIGNATURE(member, name, symbol, version, ...) \
  using symbol##_signature = std::type_identity_t<__VA_ARGS__>;
SIMCUDA_SYMBOLS(SIMCUDA_SIGNATURE)
#undef SIMCUDA_SIGNATURE
}  // namespace signatures

}  // namespace vramlink::simcuda
