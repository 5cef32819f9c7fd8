// What only tests call of the driver's API, beside what the library uses (driver_api.hpp): ordinary
// allocations, kernels, contexts of the caller's own, waiting.
#pragma once

#include "backend/cuda/driver_api.hpp"
#include "simcuda/pool_api.hpp"

namespace vramlink::test::cuda_api {

using namespace cuda::api;  // NOLINT: one vocabulary with the library's list

struct ModuleTag;
struct FunctionTag;
using Module = ModuleTag*;
using Function = FunctionTag*;
using HostFunction = void (*)(void* data);  ///< CUhostFn

using simcuda::kPoolHandleTypes;
using simcuda::kPoolsSupported;
using simcuda::MemoryPoolHandle;
using simcuda::PoolPointer;
using simcuda::PoolProperties;

/// CUipcEventHandle.
struct IpcEventHandle {
  char reserved[64];
};

inline constexpr unsigned kManagedGlobal = 1;      ///< CU_MEM_ATTACH_GLOBAL
inline constexpr unsigned kHostPortable = 1;       ///< CU_MEMHOSTALLOC_PORTABLE
inline constexpr unsigned kEventInterprocess = 4;  ///< CU_EVENT_INTERPROCESS

}  // namespace vramlink::test::cuda_api

/// As VRAMLINK_CUDA_SYMBOLS.
// clang-format off
#define VRAMLINK_CUDA_TEST_SYMBOLS(X) \
  X(primary_ctx_get_state, cuDevicePrimaryCtxGetState, cuDevicePrimaryCtxGetState, 7000, Status(Device device, unsigned* flags, int* active)) \
  X(ctx_create, cuCtxCreate, cuCtxCreate_v2, 3020, Status(Context* context, unsigned flags, Device device)) \
  X(ctx_destroy, cuCtxDestroy, cuCtxDestroy_v2, 4000, Status(Context context)) \
  X(ctx_set_current, cuCtxSetCurrent, cuCtxSetCurrent, 4000, Status(Context context)) \
  X(mem_alloc, cuMemAlloc, cuMemAlloc_v2, 3020, Status(DevicePointer* address, std::size_t size)) \
  X(mem_free, cuMemFree, cuMemFree_v2, 3020, Status(DevicePointer address)) \
  X(mem_alloc_managed, cuMemAllocManaged, cuMemAllocManaged, 6000, Status(DevicePointer* address, std::size_t size, unsigned flags)) \
  X(mem_host_alloc, cuMemHostAlloc, cuMemHostAlloc, 2020, Status(void** address, std::size_t size, unsigned flags)) \
  X(mem_free_host, cuMemFreeHost, cuMemFreeHost, 2000, Status(void* address)) \
  X(mem_pool_create, cuMemPoolCreate, cuMemPoolCreate, 11020, Status(MemoryPoolHandle* pool, const PoolProperties* properties)) \
  X(mem_pool_destroy, cuMemPoolDestroy, cuMemPoolDestroy, 11020, Status(MemoryPoolHandle pool)) \
  X(mem_alloc_from_pool_async, cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, 11020, Status(DevicePointer* address, std::size_t size, MemoryPoolHandle pool, Stream stream)) \
  X(mem_free_async, cuMemFreeAsync, cuMemFreeAsync, 11020, Status(DevicePointer address, Stream stream)) \
  X(mem_pool_export, cuMemPoolExportToShareableHandle, cuMemPoolExportToShareableHandle, 11020, Status(void* shareable, MemoryPoolHandle pool, HandleType type, unsigned long long flags)) \
  X(mem_pool_import, cuMemPoolImportFromShareableHandle, cuMemPoolImportFromShareableHandle, 11020, Status(MemoryPoolHandle* pool, void* shareable, HandleType type, unsigned long long flags)) \
  X(mem_pool_export_pointer, cuMemPoolExportPointer, cuMemPoolExportPointer, 11020, Status(PoolPointer* data, DevicePointer address)) \
  X(mem_pool_import_pointer, cuMemPoolImportPointer, cuMemPoolImportPointer, 11020, Status(DevicePointer* address, MemoryPoolHandle pool, PoolPointer* data)) \
  X(stream_synchronize, cuStreamSynchronize, cuStreamSynchronize, 2000, Status(Stream stream)) \
  X(event_synchronize, cuEventSynchronize, cuEventSynchronize, 2000, Status(Event event)) \
  X(ipc_get_mem_handle, cuIpcGetMemHandle, cuIpcGetMemHandle, 4010, Status(IpcMemoryHandle* handle, DevicePointer address)) \
  X(ipc_open_mem_handle, cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2, 11000, Status(DevicePointer* address, IpcMemoryHandle handle, unsigned flags)) \
  X(ipc_close_mem_handle, cuIpcCloseMemHandle, cuIpcCloseMemHandle, 4010, Status(DevicePointer address)) \
  X(ipc_get_event_handle, cuIpcGetEventHandle, cuIpcGetEventHandle, 4010, Status(IpcEventHandle* handle, Event event)) \
  X(ipc_open_event_handle, cuIpcOpenEventHandle, cuIpcOpenEventHandle, 4010, Status(Event* event, IpcEventHandle handle)) \
  X(launch_host_func, cuLaunchHostFunc, cuLaunchHostFunc, 10000, Status(Stream stream, HostFunction function, void* data)) \
  X(module_load_data, cuModuleLoadData, cuModuleLoadData, 2000, Status(Module* module, const void* image)) \
  X(module_unload, cuModuleUnload, cuModuleUnload, 2000, Status(Module module)) \
  X(module_get_function, cuModuleGetFunction, cuModuleGetFunction, 2000, Status(Function* function, Module module, const char* name)) \
  X(launch_kernel, cuLaunchKernel, cuLaunchKernel, 4000, Status(Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes, Stream stream, void** parameters, void** extra))
// clang-format on
