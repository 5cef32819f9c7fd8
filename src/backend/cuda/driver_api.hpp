// The part of the driver's API that is used here, declared by ourselves: no toolkit is needed. The
// names are ours, because cuda.h renames its functions by macros; a test compares each declaration
// with cuda.h where there is one (tests/conformance/driver_api_test.cpp).
#pragma once

#include <cstddef>
#include <cstdint>

namespace vramlink::cuda::api {

/// CUresult. The driver may return numbers that are not named here.
enum class Status : int {
  success = 0,
  invalid_value = 1,
  out_of_memory = 2,
  not_initialized = 3,
  deinitialized = 4,
  stub_library = 34,
  call_requires_newer_driver = 36,
  device_unavailable = 46,
  no_device = 100,
  invalid_device = 101,
  device_not_licensed = 102,
  invalid_image = 200,
  invalid_context = 201,
  map_failed = 205,
  unmap_failed = 206,
  already_mapped = 208,
  not_mapped = 211,
  ecc_uncorrectable = 214,
  unsupported_limit = 215,
  peer_access_unsupported = 217,
  invalid_ptx = 218,
  nvlink_uncorrectable = 220,
  shared_object_symbol_not_found = 302,
  shared_object_init_failed = 303,
  operating_system = 304,
  invalid_handle = 400,
  illegal_state = 401,
  not_found = 500,
  not_ready = 600,
  illegal_address = 700,
  launch_out_of_resources = 701,
  launch_timeout = 702,
  primary_context_active = 708,
  context_is_destroyed = 709,
  assert_failed = 710,
  host_memory_already_registered = 712,
  host_memory_not_registered = 713,
  hardware_stack_error = 714,
  illegal_instruction = 715,
  misaligned_address = 716,
  invalid_address_space = 717,
  invalid_pc = 718,
  launch_failed = 719,
  not_permitted = 800,
  not_supported = 801,
  system_not_ready = 802,
  system_driver_mismatch = 803,
  compat_not_supported_on_device = 804,
  mps_connection_failed = 805,
  mps_rpc_failure = 806,
  mps_server_not_ready = 807,
  mps_max_clients_reached = 808,
  mps_max_connections_reached = 809,
  mps_client_terminated = 810,
  stream_capture_unsupported = 900,
  stream_capture_invalidated = 901,
  stream_capture_isolation = 905,
  stream_capture_implicit = 906,
  captured_event = 907,
  timeout = 909,
  graph_exec_update_failure = 910,
  external_device = 911,
  unknown = 999,
};

// Opaque; only pointers to them exist.
struct ContextTag;
struct StreamTag;
struct EventTag;
struct GraphTag;
struct GraphNodeTag;
struct GraphExecTag;
struct ArrayTag;

using Device = int;
using DevicePointer = unsigned long long;
using MemoryHandle = unsigned long long;
using Context = ContextTag*;
using Stream = StreamTag*;
using Event = EventTag*;
using Graph = GraphTag*;
using GraphNode = GraphNodeTag*;
using GraphExec = GraphExecTag*;
using Array = ArrayTag*;

struct Uuid {
  char bytes[16];
};

enum class DeviceAttribute : int {
  multiprocessor_count = 16,
  integrated = 18,
  can_map_host_memory = 19,
  compute_mode = 20,
  pci_bus_id = 33,
  pci_device_id = 34,
  async_engine_count = 40,
  unified_addressing = 41,
  pci_domain_id = 50,
  compute_capability_major = 75,
  compute_capability_minor = 76,
  can_use_host_pointer_for_registered_mem = 91,
  host_register_supported = 99,
  virtual_memory_management_supported = 102,
  handle_type_posix_file_descriptor_supported = 103,
  read_only_host_register_supported = 113,
  can_use_64_bit_stream_mem_ops = 122,
  mps_enabled = 133,  ///< newer than 12.0: older drivers say invalid_value
};

/// CUipcMemHandle.
struct IpcMemoryHandle {
  char reserved[64];
};
inline constexpr unsigned kIpcLazyPeerAccess = 1;  ///< CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS

enum class ComputeMode : int { shared = 0, prohibited = 2, exclusive_process = 3 };

enum class MemoryType : unsigned { none = 0, host = 1, device = 2, array = 3, unified = 4 };

enum class PointerAttribute : int {
  context = 1,
  memory_type = 2,
  device_pointer = 3,
  host_pointer = 4,
  buffer_id = 7,
  is_managed = 8,
  device_ordinal = 9,
  is_legacy_ipc_capable = 10,
  range_start_address = 11,
  range_size = 12,
  mapped = 13,
  allowed_handle_types = 14,
  access_flags = 16,
  mempool_handle = 17,
  mapping_size = 18,
  mapping_base_address = 19,
};

enum class LocationType : int { invalid = 0, device = 1 };
enum class AllocationType : int { invalid = 0, pinned = 1 };
enum class HandleType : int { none = 0, posix_file_descriptor = 1 };
enum class Granularity : int { minimum = 0, recommended = 1 };
enum class AccessFlags : int { none = 0, read = 1, read_write = 3 };

struct Location {
  LocationType type;
  int id;
};

struct AllocationProperties {
  AllocationType type;
  HandleType requested_handle_types;
  Location location;
  void* win32_handle_meta_data;
  struct {
    unsigned char compression_type;
    unsigned char gpu_direct_rdma_capable;
    unsigned short usage;
    unsigned char reserved[4];
  } flags;
};

struct AccessDescriptor {
  Location location;
  AccessFlags flags;
};

// Of cuMemHostRegister.
inline constexpr unsigned kRegisterPortable = 1;
inline constexpr unsigned kRegisterDeviceMap = 2;
inline constexpr unsigned kRegisterReadOnly = 8;
// Of cuStreamCreate and cuEventCreate.
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDisableTiming = 2;
/// The values of CU_STREAM_LEGACY and CU_STREAM_PER_THREAD, which are pointers.
inline constexpr std::uintptr_t kStreamLegacy = 1;
inline constexpr std::uintptr_t kStreamPerThread = 2;
// Of cuStreamWaitValue64 and cuStreamWriteValue64.
inline constexpr unsigned kWaitGreaterOrEqual = 0;
inline constexpr unsigned kWriteDefault = 0;
// Of cuGetProcAddress.
inline constexpr std::uint64_t kProcLegacyStream = 1;

enum class ProcQuery : int { success = 0, symbol_not_found = 1, version_not_sufficient = 2 };

enum class MemOpType : int { wait_value_64 = 4, write_value_64 = 5 };

/// CUstreamBatchMemOpParams: a union of 48 bytes whose wait and write members have one layout.
struct MemOp {
  MemOpType operation;
  DevicePointer address;
  std::uint64_t value;
  unsigned flags;
  DevicePointer alias;  ///< set by the driver in its own copy only
  std::uint64_t padding;
};

struct BatchMemOpNodeParameters {
  Context context;
  unsigned count;
  MemOp* operations;
  unsigned flags;
};

/// CUDA_MEMCPY3D. For plain bytes: width_bytes, and 1 as height and depth.
struct Memcpy3d {
  std::size_t source_x_bytes;
  std::size_t source_y;
  std::size_t source_z;
  std::size_t source_lod;
  MemoryType source_type;
  const void* source_host;
  DevicePointer source_device;
  Array source_array;
  void* reserved0;
  std::size_t source_pitch;
  std::size_t source_height;

  std::size_t target_x_bytes;
  std::size_t target_y;
  std::size_t target_z;
  std::size_t target_lod;
  MemoryType target_type;
  void* target_host;
  DevicePointer target_device;
  Array target_array;
  void* reserved1;
  std::size_t target_pitch;
  std::size_t target_height;

  std::size_t width_bytes;
  std::size_t height;
  std::size_t depth;
};

/// What cuGetProcAddress_v2 is; it finds all others.
using GetProcAddress = Status(const char* symbol, void** function, int version, std::uint64_t flags,
                              ProcQuery* found);
inline constexpr const char* kGetProcAddressSymbol = "cuGetProcAddress_v2";
/// The oldest driver that is supported: 525, CUDA 12.0.
inline constexpr int kDriverVersionMin = 12000;

}  // namespace vramlink::cuda::api

/// All functions that are called, and no others, since a driver must have each of them:
/// X(member, name, symbol, version, signature). `name` and `version` are what cuGetProcAddress is
/// asked for, `symbol` is what the library exports. Each version is the first one with this
/// signature, and none is newer than 12.0. What only tests and benchmarks call has lists of its
/// own.
// clang-format off
#define VRAMLINK_CUDA_SYMBOLS(X) \
  X(init, cuInit, cuInit, 2000, Status(unsigned flags)) \
  X(driver_get_version, cuDriverGetVersion, cuDriverGetVersion, 2020, Status(int* version)) \
  X(get_error_name, cuGetErrorName, cuGetErrorName, 6000, Status(Status status, const char** text)) \
  X(get_error_string, cuGetErrorString, cuGetErrorString, 6000, Status(Status status, const char** text)) \
  X(device_get_count, cuDeviceGetCount, cuDeviceGetCount, 2000, Status(int* count)) \
  X(device_get, cuDeviceGet, cuDeviceGet, 2000, Status(Device* device, int ordinal)) \
  X(device_get_name, cuDeviceGetName, cuDeviceGetName, 2000, Status(char* name, int size, Device device)) \
  X(device_get_uuid, cuDeviceGetUuid, cuDeviceGetUuid_v2, 11040, Status(Uuid* uuid, Device device)) \
  X(device_get_attribute, cuDeviceGetAttribute, cuDeviceGetAttribute, 2000, Status(int* value, DeviceAttribute attribute, Device device)) \
  X(device_total_mem, cuDeviceTotalMem, cuDeviceTotalMem_v2, 3020, Status(std::size_t* bytes, Device device)) \
  X(device_can_access_peer, cuDeviceCanAccessPeer, cuDeviceCanAccessPeer, 4000, Status(int* can, Device device, Device peer)) \
  X(primary_ctx_retain, cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 7000, Status(Context* context, Device device)) \
  X(primary_ctx_release, cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, 11000, Status(Device device)) \
  X(ctx_push_current, cuCtxPushCurrent, cuCtxPushCurrent_v2, 4000, Status(Context context)) \
  X(ctx_pop_current, cuCtxPopCurrent, cuCtxPopCurrent_v2, 4000, Status(Context* context)) \
  X(ctx_get_current, cuCtxGetCurrent, cuCtxGetCurrent, 4000, Status(Context* context)) \
  X(ctx_get_device, cuCtxGetDevice, cuCtxGetDevice, 2000, Status(Device* device)) \
  X(mem_get_info, cuMemGetInfo, cuMemGetInfo_v2, 3020, Status(std::size_t* free_bytes, std::size_t* total_bytes)) \
  X(mem_get_allocation_granularity, cuMemGetAllocationGranularity, cuMemGetAllocationGranularity, 10020, Status(std::size_t* granularity, const AllocationProperties* properties, Granularity option)) \
  X(mem_create, cuMemCreate, cuMemCreate, 10020, Status(MemoryHandle* handle, std::size_t size, const AllocationProperties* properties, unsigned long long flags)) \
  X(mem_release, cuMemRelease, cuMemRelease, 10020, Status(MemoryHandle handle)) \
  X(mem_export_to_shareable_handle, cuMemExportToShareableHandle, cuMemExportToShareableHandle, 10020, Status(void* shareable, MemoryHandle handle, HandleType type, unsigned long long flags)) \
  X(mem_import_from_shareable_handle, cuMemImportFromShareableHandle, cuMemImportFromShareableHandle, 10020, Status(MemoryHandle* handle, void* shareable, HandleType type)) \
  X(mem_address_reserve, cuMemAddressReserve, cuMemAddressReserve, 10020, Status(DevicePointer* address, std::size_t size, std::size_t alignment, DevicePointer hint, unsigned long long flags)) \
  X(mem_address_free, cuMemAddressFree, cuMemAddressFree, 10020, Status(DevicePointer address, std::size_t size)) \
  X(mem_map, cuMemMap, cuMemMap, 10020, Status(DevicePointer address, std::size_t size, std::size_t offset, MemoryHandle handle, unsigned long long flags)) \
  X(mem_unmap, cuMemUnmap, cuMemUnmap, 10020, Status(DevicePointer address, std::size_t size)) \
  X(mem_set_access, cuMemSetAccess, cuMemSetAccess, 10020, Status(DevicePointer address, std::size_t size, const AccessDescriptor* descriptors, std::size_t count)) \
  X(mem_get_access, cuMemGetAccess, cuMemGetAccess, 10020, Status(unsigned long long* flags, const Location* location, DevicePointer address)) \
  X(mem_get_allocation_properties, cuMemGetAllocationPropertiesFromHandle, cuMemGetAllocationPropertiesFromHandle, 10020, Status(AllocationProperties* properties, MemoryHandle handle)) \
  X(mem_alloc, cuMemAlloc, cuMemAlloc_v2, 3020, Status(DevicePointer* address, std::size_t size)) \
  X(mem_free, cuMemFree, cuMemFree_v2, 3020, Status(DevicePointer address)) \
  X(ipc_get_mem_handle, cuIpcGetMemHandle, cuIpcGetMemHandle, 4010, Status(IpcMemoryHandle* handle, DevicePointer address)) \
  X(ipc_open_mem_handle, cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2, 11000, Status(DevicePointer* address, IpcMemoryHandle handle, unsigned flags)) \
  X(ipc_close_mem_handle, cuIpcCloseMemHandle, cuIpcCloseMemHandle, 4010, Status(DevicePointer address)) \
  X(mem_retain_allocation_handle, cuMemRetainAllocationHandle, cuMemRetainAllocationHandle, 11000, Status(MemoryHandle* handle, void* address)) \
  X(mem_host_get_flags, cuMemHostGetFlags, cuMemHostGetFlags, 2030, Status(unsigned* flags, void* address)) \
  X(mem_host_register, cuMemHostRegister, cuMemHostRegister_v2, 6050, Status(void* address, std::size_t size, unsigned flags)) \
  X(mem_host_unregister, cuMemHostUnregister, cuMemHostUnregister, 4000, Status(void* address)) \
  X(mem_host_get_device_pointer, cuMemHostGetDevicePointer, cuMemHostGetDevicePointer_v2, 3020, Status(DevicePointer* device_address, void* address, unsigned flags)) \
  X(pointer_get_attribute, cuPointerGetAttribute, cuPointerGetAttribute, 4000, Status(void* value, PointerAttribute attribute, DevicePointer address)) \
  X(pointer_get_attributes, cuPointerGetAttributes, cuPointerGetAttributes, 7000, Status(unsigned count, PointerAttribute* attributes, void** values, DevicePointer address)) \
  X(stream_create, cuStreamCreate, cuStreamCreate, 2000, Status(Stream* stream, unsigned flags)) \
  X(stream_destroy, cuStreamDestroy, cuStreamDestroy_v2, 4000, Status(Stream stream)) \
  X(stream_query, cuStreamQuery, cuStreamQuery, 2000, Status(Stream stream)) \
  X(stream_get_ctx, cuStreamGetCtx, cuStreamGetCtx, 9020, Status(Stream stream, Context* context)) \
  X(stream_wait_event, cuStreamWaitEvent, cuStreamWaitEvent, 3020, Status(Stream stream, Event event, unsigned flags)) \
  X(stream_write_value_64, cuStreamWriteValue64, cuStreamWriteValue64_v2, 11070, Status(Stream stream, DevicePointer address, std::uint64_t value, unsigned flags)) \
  X(stream_wait_value_64, cuStreamWaitValue64, cuStreamWaitValue64_v2, 11070, Status(Stream stream, DevicePointer address, std::uint64_t value, unsigned flags)) \
  X(stream_batch_mem_op, cuStreamBatchMemOp, cuStreamBatchMemOp_v2, 11070, Status(Stream stream, unsigned count, MemOp* operations, unsigned flags)) \
  X(event_create, cuEventCreate, cuEventCreate, 2000, Status(Event* event, unsigned flags)) \
  X(event_destroy, cuEventDestroy, cuEventDestroy_v2, 4000, Status(Event event)) \
  X(event_record, cuEventRecord, cuEventRecord, 2000, Status(Event event, Stream stream)) \
  X(event_query, cuEventQuery, cuEventQuery, 2000, Status(Event event)) \
  X(memcpy_async, cuMemcpyAsync, cuMemcpyAsync, 4000, Status(DevicePointer target, DevicePointer source, std::size_t size, Stream stream)) \
  X(memcpy_htod_async, cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, 3020, Status(DevicePointer target, const void* source, std::size_t size, Stream stream)) \
  X(memcpy_dtoh_async, cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, 3020, Status(void* target, DevicePointer source, std::size_t size, Stream stream)) \
  X(memcpy_dtod_async, cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2, 3020, Status(DevicePointer target, DevicePointer source, std::size_t size, Stream stream)) \
  X(memcpy_peer_async, cuMemcpyPeerAsync, cuMemcpyPeerAsync, 4000, Status(DevicePointer target, Context target_context, DevicePointer source, Context source_context, std::size_t size, Stream stream)) \
  X(memset_d8_async, cuMemsetD8Async, cuMemsetD8Async, 3020, Status(DevicePointer target, unsigned char value, std::size_t count, Stream stream)) \
  X(graph_create, cuGraphCreate, cuGraphCreate, 10000, Status(Graph* graph, unsigned flags)) \
  X(graph_destroy, cuGraphDestroy, cuGraphDestroy, 10000, Status(Graph graph)) \
  X(graph_add_memcpy_node, cuGraphAddMemcpyNode, cuGraphAddMemcpyNode, 10000, Status(GraphNode* node, Graph graph, const GraphNode* dependencies, std::size_t count, const Memcpy3d* copy, Context context)) \
  X(graph_add_event_wait_node, cuGraphAddEventWaitNode, cuGraphAddEventWaitNode, 11010, Status(GraphNode* node, Graph graph, const GraphNode* dependencies, std::size_t count, Event event)) \
  X(graph_add_batch_mem_op_node, cuGraphAddBatchMemOpNode, cuGraphAddBatchMemOpNode, 11070, Status(GraphNode* node, Graph graph, const GraphNode* dependencies, std::size_t count, const BatchMemOpNodeParameters* parameters)) \
  X(graph_instantiate, cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags, 11040, Status(GraphExec* exec, Graph graph, unsigned long long flags)) \
  X(graph_exec_destroy, cuGraphExecDestroy, cuGraphExecDestroy, 10000, Status(GraphExec exec)) \
  X(graph_exec_memcpy_set, cuGraphExecMemcpyNodeSetParams, cuGraphExecMemcpyNodeSetParams, 10020, Status(GraphExec exec, GraphNode node, const Memcpy3d* copy, Context context)) \
  X(graph_exec_batch_mem_op_set, cuGraphExecBatchMemOpNodeSetParams, cuGraphExecBatchMemOpNodeSetParams, 11070, Status(GraphExec exec, GraphNode node, const BatchMemOpNodeParameters* parameters)) \
  X(graph_upload, cuGraphUpload, cuGraphUpload, 11010, Status(GraphExec exec, Stream stream)) \
  X(graph_launch, cuGraphLaunch, cuGraphLaunch, 10000, Status(GraphExec exec, Stream stream))
// clang-format on
