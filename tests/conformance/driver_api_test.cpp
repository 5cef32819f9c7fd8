// Our declarations of the driver's API are those of cuda.h, where there is one: compiling this file
// is the test.
#include "backend/cuda/driver_api.hpp"

#include <gtest/gtest.h>

#include "simcuda/function_list.hpp"
#include "support/cuda_test_symbols.hpp"

#if __has_include(<cuda.h>) && __has_include(<cudaTypedefs.h>)
#define VRAMLINK_HAVE_CUDA_H 1
#include <cuda.h>
#include <cudaTypedefs.h>
#endif

#include <cstddef>
#include <string>
#include <type_traits>

namespace vramlink::test {
namespace {

namespace api = cuda::api;

#ifdef VRAMLINK_HAVE_CUDA_H

/// Whether a type of ours stands for one of cuda.h.
template <class Ours, class Theirs>
inline constexpr bool kSame = std::is_same_v<Ours, Theirs>;
template <class Ours, class Theirs>
inline constexpr bool kSame<Ours*, Theirs*> = kSame<Ours, Theirs>;
template <class Ours, class Theirs>
requires(!std::is_same_v<Ours, Theirs>) inline constexpr bool kSame<const Ours, const Theirs> =
    kSame<Ours, Theirs>;
template <class OurResult, class... Ours, class TheirResult, class... Theirs>
requires(
    sizeof...(Ours) ==
    sizeof...(Theirs)) inline constexpr bool kSame<OurResult(Ours...), TheirResult(Theirs...)> =
    kSame<OurResult, TheirResult> && (kSame<Ours, Theirs> && ...);

#define VRAMLINK_STANDS_FOR(ours, theirs) \
  template <>                             \
  inline constexpr bool kSame<api::ours, theirs> = true;

VRAMLINK_STANDS_FOR(Status, CUresult)
VRAMLINK_STANDS_FOR(ContextTag, CUctx_st)
VRAMLINK_STANDS_FOR(StreamTag, CUstream_st)
VRAMLINK_STANDS_FOR(EventTag, CUevent_st)
VRAMLINK_STANDS_FOR(GraphTag, CUgraph_st)
VRAMLINK_STANDS_FOR(GraphNodeTag, CUgraphNode_st)
VRAMLINK_STANDS_FOR(GraphExecTag, CUgraphExec_st)
VRAMLINK_STANDS_FOR(ArrayTag, CUarray_st)
template <>
inline constexpr bool kSame<cuda_api::ModuleTag, CUmod_st> = true;
template <>
inline constexpr bool kSame<cuda_api::FunctionTag, CUfunc_st> = true;
template <>
inline constexpr bool kSame<simcuda::ModuleTag, CUmod_st> = true;
template <>
inline constexpr bool kSame<simcuda::MemoryPoolTag, CUmemPoolHandle_st> = true;
template <>
inline constexpr bool kSame<simcuda::PoolProperties, CUmemPoolProps> = true;
template <>
inline constexpr bool kSame<simcuda::PoolPointer, CUmemPoolPtrExportData> = true;
template <>
inline constexpr bool kSame<simcuda::PoolAttribute, CUmemPool_attribute> = true;
template <>
inline constexpr bool kSame<simcuda::FunctionTag, CUfunc_st> = true;
template <>
inline constexpr bool kSame<simcuda::MemsetNodeParameters, CUDA_MEMSET_NODE_PARAMS_v1> = true;
template <>
inline constexpr bool kSame<simcuda::IpcMemoryHandle, CUipcMemHandle_v1> = true;
template <>
inline constexpr bool kSame<simcuda::IpcEventHandle, CUipcEventHandle_v1> = true;
template <>
inline constexpr bool kSame<cuda_api::IpcEventHandle, CUipcEventHandle_v1> = true;
VRAMLINK_STANDS_FOR(Uuid, CUuuid)
VRAMLINK_STANDS_FOR(DeviceAttribute, CUdevice_attribute)
VRAMLINK_STANDS_FOR(MemoryType, CUmemorytype)
VRAMLINK_STANDS_FOR(PointerAttribute, CUpointer_attribute)
VRAMLINK_STANDS_FOR(LocationType, CUmemLocationType)
VRAMLINK_STANDS_FOR(AllocationType, CUmemAllocationType)
VRAMLINK_STANDS_FOR(HandleType, CUmemAllocationHandleType)
VRAMLINK_STANDS_FOR(Granularity, CUmemAllocationGranularity_flags)
VRAMLINK_STANDS_FOR(AccessFlags, CUmemAccess_flags)
VRAMLINK_STANDS_FOR(Location, CUmemLocation_v1)
VRAMLINK_STANDS_FOR(AllocationProperties, CUmemAllocationProp_v1)
VRAMLINK_STANDS_FOR(AccessDescriptor, CUmemAccessDesc_v1)
VRAMLINK_STANDS_FOR(ProcQuery, CUdriverProcAddressQueryResult)
VRAMLINK_STANDS_FOR(MemOp, CUstreamBatchMemOpParams_v1)
VRAMLINK_STANDS_FOR(BatchMemOpNodeParameters, CUDA_BATCH_MEM_OP_NODE_PARAMS_v1)
VRAMLINK_STANDS_FOR(BatchMemOpNodeParameters, CUDA_BATCH_MEM_OP_NODE_PARAMS_v2)
VRAMLINK_STANDS_FOR(Memcpy3d, CUDA_MEMCPY3D_v2)

// Functions. The type's name holds the version, so that a wrong one does not compile.
namespace signatures {
using namespace api;  // NOLINT: the list is written for this namespace
#define VRAMLINK_CHECK_SIGNATURE(member, name, symbol, version, ...)                       \
  using member = __VA_ARGS__;                                                              \
  static_assert(kSame<member*, std::remove_pointer_t<PFN_##name##_v##version>*>, #symbol); \
  static_assert((version) <= api::kDriverVersionMin, #symbol);
VRAMLINK_CUDA_SYMBOLS(VRAMLINK_CHECK_SIGNATURE)
}  // namespace signatures
namespace test_signatures {
using namespace cuda_api;  // NOLINT: as above
VRAMLINK_CUDA_TEST_SYMBOLS(VRAMLINK_CHECK_SIGNATURE)
}  // namespace test_signatures
static_assert(kSame<api::GetProcAddress*, PFN_cuGetProcAddress_v12000>);
// What the stand-in has beyond the library's list.
#define VRAMLINK_CHECK_STAND_IN(member, name, symbol, version, ...)     \
  static_assert(kSame<simcuda::signatures::symbol##_signature*,         \
                      std::remove_pointer_t<PFN_##name##_v##version>*>, \
                #symbol);
SIMCUDA_MORE_SYMBOLS(VRAMLINK_CHECK_STAND_IN)

// The comparison itself tells types apart.
static_assert(!kSame<api::Status(int*), CUresult(unsigned*)>);
static_assert(!kSame<api::Status(api::Location*), CUresult(CUmemAccessDesc_v1*)>);
static_assert(!kSame<api::Status(const api::Uuid*), CUresult(CUuuid*)>);
static_assert(!kSame<api::Status(int), CUresult(int, int)>);

// Structs.
#define VRAMLINK_SAME_SIZE(ours, theirs)              \
  static_assert(sizeof(api::ours) == sizeof(theirs)); \
  static_assert(alignof(api::ours) == alignof(theirs));
#define VRAMLINK_SAME_MEMBER(ours, our_member, theirs, their_member)                 \
  static_assert(offsetof(api::ours, our_member) == offsetof(theirs, their_member));  \
  static_assert(sizeof(std::declval<api::ours&>().our_member) ==                     \
                sizeof(std::declval<theirs&>().their_member));                       \
  static_assert(std::is_signed_v<decltype(std::declval<api::ours&>().our_member)> == \
                std::is_signed_v<decltype(std::declval<theirs&>().their_member)>);

VRAMLINK_SAME_SIZE(Status, CUresult)
VRAMLINK_SAME_SIZE(Device, CUdevice)
VRAMLINK_SAME_SIZE(DevicePointer, CUdeviceptr)
VRAMLINK_SAME_SIZE(MemoryHandle, CUmemGenericAllocationHandle)
VRAMLINK_SAME_SIZE(Uuid, CUuuid)
VRAMLINK_SAME_MEMBER(Uuid, bytes, CUuuid, bytes)
VRAMLINK_SAME_SIZE(DeviceAttribute, CUdevice_attribute)
VRAMLINK_SAME_SIZE(MemoryType, CUmemorytype)
VRAMLINK_SAME_SIZE(PointerAttribute, CUpointer_attribute)
VRAMLINK_SAME_SIZE(HandleType, CUmemAllocationHandleType)
VRAMLINK_SAME_SIZE(Granularity, CUmemAllocationGranularity_flags)
VRAMLINK_SAME_SIZE(ProcQuery, CUdriverProcAddressQueryResult)

VRAMLINK_SAME_SIZE(Location, CUmemLocation_v1)
VRAMLINK_SAME_MEMBER(Location, type, CUmemLocation_v1, type)
VRAMLINK_SAME_MEMBER(Location, id, CUmemLocation_v1, id)
VRAMLINK_SAME_SIZE(AllocationProperties, CUmemAllocationProp_v1)
VRAMLINK_SAME_MEMBER(AllocationProperties, type, CUmemAllocationProp_v1, type)
VRAMLINK_SAME_MEMBER(AllocationProperties, requested_handle_types, CUmemAllocationProp_v1,
                     requestedHandleTypes)
VRAMLINK_SAME_MEMBER(AllocationProperties, location, CUmemAllocationProp_v1, location)
VRAMLINK_SAME_MEMBER(AllocationProperties, win32_handle_meta_data, CUmemAllocationProp_v1,
                     win32HandleMetaData)
VRAMLINK_SAME_MEMBER(AllocationProperties, flags, CUmemAllocationProp_v1, allocFlags)
VRAMLINK_SAME_MEMBER(AllocationProperties, flags.usage, CUmemAllocationProp_v1, allocFlags.usage)
VRAMLINK_SAME_SIZE(AccessDescriptor, CUmemAccessDesc_v1)
VRAMLINK_SAME_MEMBER(AccessDescriptor, location, CUmemAccessDesc_v1, location)
VRAMLINK_SAME_MEMBER(AccessDescriptor, flags, CUmemAccessDesc_v1, flags)

VRAMLINK_SAME_SIZE(MemOp, CUstreamBatchMemOpParams_v1)
VRAMLINK_SAME_MEMBER(MemOp, operation, CUstreamBatchMemOpParams_v1, operation)
VRAMLINK_SAME_MEMBER(MemOp, operation, CUstreamBatchMemOpParams_v1, writeValue.operation)
VRAMLINK_SAME_MEMBER(MemOp, address, CUstreamBatchMemOpParams_v1, writeValue.address)
VRAMLINK_SAME_MEMBER(MemOp, value, CUstreamBatchMemOpParams_v1, writeValue.value64)
VRAMLINK_SAME_MEMBER(MemOp, flags, CUstreamBatchMemOpParams_v1, writeValue.flags)
VRAMLINK_SAME_MEMBER(MemOp, alias, CUstreamBatchMemOpParams_v1, writeValue.alias)
VRAMLINK_SAME_MEMBER(MemOp, address, CUstreamBatchMemOpParams_v1, waitValue.address)
VRAMLINK_SAME_MEMBER(MemOp, value, CUstreamBatchMemOpParams_v1, waitValue.value64)
VRAMLINK_SAME_MEMBER(MemOp, flags, CUstreamBatchMemOpParams_v1, waitValue.flags)

using BatchNode = CUDA_BATCH_MEM_OP_NODE_PARAMS_v1;
VRAMLINK_SAME_SIZE(BatchMemOpNodeParameters, BatchNode)
VRAMLINK_SAME_MEMBER(BatchMemOpNodeParameters, context, BatchNode, ctx)
VRAMLINK_SAME_MEMBER(BatchMemOpNodeParameters, count, BatchNode, count)
VRAMLINK_SAME_MEMBER(BatchMemOpNodeParameters, operations, BatchNode, paramArray)
VRAMLINK_SAME_MEMBER(BatchMemOpNodeParameters, flags, BatchNode, flags)

VRAMLINK_SAME_SIZE(Memcpy3d, CUDA_MEMCPY3D_v2)
VRAMLINK_SAME_MEMBER(Memcpy3d, source_x_bytes, CUDA_MEMCPY3D_v2, srcXInBytes)
VRAMLINK_SAME_MEMBER(Memcpy3d, source_y, CUDA_MEMCPY3D_v2, srcY)
VRAMLINK_SAME_MEMBER(Memcpy3d, source_z, CUDA_MEMCPY3D_v2, srcZ)
VRAMLINK_SAME_MEMBER(Memcpy3d, source_lod, CUDA_MEMCPY3D_v2, srcLOD)
VRAMLINK_SAME_MEMBER(Memcpy3d, source_type, CUDA_MEMCPY3D_v2, srcMemoryType)
VRAMLINK_SAME_MEMBER(Memcpy3d, source_host, CUDA_MEMCPY3D_v2, srcHost)
VRAMLINK_SAME_MEMBER(Memcpy3d, source_device, CUDA_MEMCPY3D_v2, srcDevice)
VRAMLINK_SAME_MEMBER(Memcpy3d, source_array, CUDA_MEMCPY3D_v2, srcArray)
VRAMLINK_SAME_MEMBER(Memcpy3d, reserved0, CUDA_MEMCPY3D_v2, reserved0)
VRAMLINK_SAME_MEMBER(Memcpy3d, source_pitch, CUDA_MEMCPY3D_v2, srcPitch)
VRAMLINK_SAME_MEMBER(Memcpy3d, source_height, CUDA_MEMCPY3D_v2, srcHeight)
VRAMLINK_SAME_MEMBER(Memcpy3d, target_x_bytes, CUDA_MEMCPY3D_v2, dstXInBytes)
VRAMLINK_SAME_MEMBER(Memcpy3d, target_y, CUDA_MEMCPY3D_v2, dstY)
VRAMLINK_SAME_MEMBER(Memcpy3d, target_z, CUDA_MEMCPY3D_v2, dstZ)
VRAMLINK_SAME_MEMBER(Memcpy3d, target_lod, CUDA_MEMCPY3D_v2, dstLOD)
VRAMLINK_SAME_MEMBER(Memcpy3d, target_type, CUDA_MEMCPY3D_v2, dstMemoryType)
VRAMLINK_SAME_MEMBER(Memcpy3d, target_host, CUDA_MEMCPY3D_v2, dstHost)
VRAMLINK_SAME_MEMBER(Memcpy3d, target_device, CUDA_MEMCPY3D_v2, dstDevice)
VRAMLINK_SAME_MEMBER(Memcpy3d, target_array, CUDA_MEMCPY3D_v2, dstArray)
VRAMLINK_SAME_MEMBER(Memcpy3d, reserved1, CUDA_MEMCPY3D_v2, reserved1)
VRAMLINK_SAME_MEMBER(Memcpy3d, target_pitch, CUDA_MEMCPY3D_v2, dstPitch)
VRAMLINK_SAME_MEMBER(Memcpy3d, target_height, CUDA_MEMCPY3D_v2, dstHeight)
VRAMLINK_SAME_MEMBER(Memcpy3d, width_bytes, CUDA_MEMCPY3D_v2, WidthInBytes)
VRAMLINK_SAME_MEMBER(Memcpy3d, height, CUDA_MEMCPY3D_v2, Height)
VRAMLINK_SAME_MEMBER(Memcpy3d, depth, CUDA_MEMCPY3D_v2, Depth)

using FillNode = CUDA_MEMSET_NODE_PARAMS_v1;
static_assert(sizeof(simcuda::MemsetNodeParameters) == sizeof(FillNode));
#define VRAMLINK_SAME_FILL(our_member, their_member)                   \
  static_assert(offsetof(simcuda::MemsetNodeParameters, our_member) == \
                offsetof(FillNode, their_member));
VRAMLINK_SAME_FILL(target, dst)
VRAMLINK_SAME_FILL(pitch, pitch)
VRAMLINK_SAME_FILL(value, value)
VRAMLINK_SAME_FILL(element_bytes, elementSize)
VRAMLINK_SAME_FILL(width, width)
VRAMLINK_SAME_FILL(height, height)
static_assert(sizeof(simcuda::IpcMemoryHandle) == sizeof(CUipcMemHandle_v1));
static_assert(sizeof(simcuda::IpcEventHandle) == sizeof(CUipcEventHandle_v1));
static_assert(sizeof(cuda_api::IpcEventHandle) == sizeof(CUipcEventHandle_v1));

// Values.
#define VRAMLINK_SAME_VALUE(ours, theirs) \
  static_assert(static_cast<long long>(api::ours) == static_cast<long long>(theirs));

VRAMLINK_SAME_VALUE(Status::success, CUDA_SUCCESS)
VRAMLINK_SAME_VALUE(Status::invalid_value, CUDA_ERROR_INVALID_VALUE)
VRAMLINK_SAME_VALUE(Status::out_of_memory, CUDA_ERROR_OUT_OF_MEMORY)
VRAMLINK_SAME_VALUE(Status::not_initialized, CUDA_ERROR_NOT_INITIALIZED)
VRAMLINK_SAME_VALUE(Status::deinitialized, CUDA_ERROR_DEINITIALIZED)
VRAMLINK_SAME_VALUE(Status::stub_library, CUDA_ERROR_STUB_LIBRARY)
VRAMLINK_SAME_VALUE(Status::call_requires_newer_driver, CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER)
VRAMLINK_SAME_VALUE(Status::device_unavailable, CUDA_ERROR_DEVICE_UNAVAILABLE)
VRAMLINK_SAME_VALUE(Status::no_device, CUDA_ERROR_NO_DEVICE)
VRAMLINK_SAME_VALUE(Status::invalid_device, CUDA_ERROR_INVALID_DEVICE)
VRAMLINK_SAME_VALUE(Status::device_not_licensed, CUDA_ERROR_DEVICE_NOT_LICENSED)
VRAMLINK_SAME_VALUE(Status::invalid_image, CUDA_ERROR_INVALID_IMAGE)
VRAMLINK_SAME_VALUE(Status::invalid_context, CUDA_ERROR_INVALID_CONTEXT)
VRAMLINK_SAME_VALUE(Status::map_failed, CUDA_ERROR_MAP_FAILED)
VRAMLINK_SAME_VALUE(Status::unmap_failed, CUDA_ERROR_UNMAP_FAILED)
VRAMLINK_SAME_VALUE(Status::already_mapped, CUDA_ERROR_ALREADY_MAPPED)
VRAMLINK_SAME_VALUE(Status::not_mapped, CUDA_ERROR_NOT_MAPPED)
VRAMLINK_SAME_VALUE(Status::ecc_uncorrectable, CUDA_ERROR_ECC_UNCORRECTABLE)
VRAMLINK_SAME_VALUE(Status::unsupported_limit, CUDA_ERROR_UNSUPPORTED_LIMIT)
VRAMLINK_SAME_VALUE(Status::peer_access_unsupported, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED)
VRAMLINK_SAME_VALUE(Status::invalid_ptx, CUDA_ERROR_INVALID_PTX)
VRAMLINK_SAME_VALUE(Status::nvlink_uncorrectable, CUDA_ERROR_NVLINK_UNCORRECTABLE)
VRAMLINK_SAME_VALUE(Status::shared_object_symbol_not_found,
                    CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND)
VRAMLINK_SAME_VALUE(Status::shared_object_init_failed, CUDA_ERROR_SHARED_OBJECT_INIT_FAILED)
VRAMLINK_SAME_VALUE(Status::operating_system, CUDA_ERROR_OPERATING_SYSTEM)
VRAMLINK_SAME_VALUE(Status::invalid_handle, CUDA_ERROR_INVALID_HANDLE)
VRAMLINK_SAME_VALUE(Status::illegal_state, CUDA_ERROR_ILLEGAL_STATE)
VRAMLINK_SAME_VALUE(Status::not_found, CUDA_ERROR_NOT_FOUND)
VRAMLINK_SAME_VALUE(Status::not_ready, CUDA_ERROR_NOT_READY)
VRAMLINK_SAME_VALUE(Status::illegal_address, CUDA_ERROR_ILLEGAL_ADDRESS)
VRAMLINK_SAME_VALUE(Status::launch_out_of_resources, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES)
VRAMLINK_SAME_VALUE(Status::launch_timeout, CUDA_ERROR_LAUNCH_TIMEOUT)
VRAMLINK_SAME_VALUE(Status::primary_context_active, CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE)
VRAMLINK_SAME_VALUE(Status::context_is_destroyed, CUDA_ERROR_CONTEXT_IS_DESTROYED)
VRAMLINK_SAME_VALUE(Status::assert_failed, CUDA_ERROR_ASSERT)
VRAMLINK_SAME_VALUE(Status::host_memory_already_registered,
                    CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED)
VRAMLINK_SAME_VALUE(Status::host_memory_not_registered, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED)
VRAMLINK_SAME_VALUE(Status::hardware_stack_error, CUDA_ERROR_HARDWARE_STACK_ERROR)
VRAMLINK_SAME_VALUE(Status::illegal_instruction, CUDA_ERROR_ILLEGAL_INSTRUCTION)
VRAMLINK_SAME_VALUE(Status::misaligned_address, CUDA_ERROR_MISALIGNED_ADDRESS)
VRAMLINK_SAME_VALUE(Status::invalid_address_space, CUDA_ERROR_INVALID_ADDRESS_SPACE)
VRAMLINK_SAME_VALUE(Status::invalid_pc, CUDA_ERROR_INVALID_PC)
VRAMLINK_SAME_VALUE(Status::launch_failed, CUDA_ERROR_LAUNCH_FAILED)
VRAMLINK_SAME_VALUE(Status::not_permitted, CUDA_ERROR_NOT_PERMITTED)
VRAMLINK_SAME_VALUE(Status::not_supported, CUDA_ERROR_NOT_SUPPORTED)
VRAMLINK_SAME_VALUE(Status::system_not_ready, CUDA_ERROR_SYSTEM_NOT_READY)
VRAMLINK_SAME_VALUE(Status::system_driver_mismatch, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH)
VRAMLINK_SAME_VALUE(Status::compat_not_supported_on_device,
                    CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE)
VRAMLINK_SAME_VALUE(Status::mps_connection_failed, CUDA_ERROR_MPS_CONNECTION_FAILED)
VRAMLINK_SAME_VALUE(Status::mps_rpc_failure, CUDA_ERROR_MPS_RPC_FAILURE)
VRAMLINK_SAME_VALUE(Status::mps_server_not_ready, CUDA_ERROR_MPS_SERVER_NOT_READY)
VRAMLINK_SAME_VALUE(Status::mps_max_clients_reached, CUDA_ERROR_MPS_MAX_CLIENTS_REACHED)
VRAMLINK_SAME_VALUE(Status::mps_max_connections_reached, CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED)
VRAMLINK_SAME_VALUE(Status::mps_client_terminated, CUDA_ERROR_MPS_CLIENT_TERMINATED)
VRAMLINK_SAME_VALUE(Status::stream_capture_unsupported, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
VRAMLINK_SAME_VALUE(Status::stream_capture_invalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)
VRAMLINK_SAME_VALUE(Status::stream_capture_isolation, CUDA_ERROR_STREAM_CAPTURE_ISOLATION)
VRAMLINK_SAME_VALUE(Status::stream_capture_implicit, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)
VRAMLINK_SAME_VALUE(Status::captured_event, CUDA_ERROR_CAPTURED_EVENT)
VRAMLINK_SAME_VALUE(Status::timeout, CUDA_ERROR_TIMEOUT)
VRAMLINK_SAME_VALUE(Status::graph_exec_update_failure, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE)
VRAMLINK_SAME_VALUE(Status::external_device, CUDA_ERROR_EXTERNAL_DEVICE)
VRAMLINK_SAME_VALUE(Status::unknown, CUDA_ERROR_UNKNOWN)

VRAMLINK_SAME_VALUE(DeviceAttribute::multiprocessor_count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
VRAMLINK_SAME_VALUE(DeviceAttribute::integrated, CU_DEVICE_ATTRIBUTE_INTEGRATED)
VRAMLINK_SAME_VALUE(DeviceAttribute::can_map_host_memory, CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY)
VRAMLINK_SAME_VALUE(DeviceAttribute::compute_mode, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE)
VRAMLINK_SAME_VALUE(DeviceAttribute::pci_bus_id, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)
VRAMLINK_SAME_VALUE(DeviceAttribute::pci_device_id, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID)
VRAMLINK_SAME_VALUE(DeviceAttribute::async_engine_count, CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT)
VRAMLINK_SAME_VALUE(DeviceAttribute::unified_addressing, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING)
VRAMLINK_SAME_VALUE(DeviceAttribute::pci_domain_id, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID)
VRAMLINK_SAME_VALUE(DeviceAttribute::compute_capability_major,
                    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
VRAMLINK_SAME_VALUE(DeviceAttribute::compute_capability_minor,
                    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
VRAMLINK_SAME_VALUE(DeviceAttribute::can_use_host_pointer_for_registered_mem,
                    CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM)
VRAMLINK_SAME_VALUE(DeviceAttribute::host_register_supported,
                    CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED)
VRAMLINK_SAME_VALUE(DeviceAttribute::virtual_memory_management_supported,
                    CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED)
VRAMLINK_SAME_VALUE(DeviceAttribute::handle_type_posix_file_descriptor_supported,
                    CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED)
VRAMLINK_SAME_VALUE(DeviceAttribute::read_only_host_register_supported,
                    CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED)
VRAMLINK_SAME_VALUE(DeviceAttribute::can_use_64_bit_stream_mem_ops,
                    CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS)
#if CUDA_VERSION >= 13000
VRAMLINK_SAME_VALUE(DeviceAttribute::mps_enabled, CU_DEVICE_ATTRIBUTE_MPS_ENABLED)
#endif

VRAMLINK_SAME_VALUE(ComputeMode::shared, CU_COMPUTEMODE_DEFAULT)
VRAMLINK_SAME_VALUE(ComputeMode::prohibited, CU_COMPUTEMODE_PROHIBITED)
VRAMLINK_SAME_VALUE(ComputeMode::exclusive_process, CU_COMPUTEMODE_EXCLUSIVE_PROCESS)
VRAMLINK_SAME_VALUE(MemoryType::host, CU_MEMORYTYPE_HOST)
VRAMLINK_SAME_VALUE(MemoryType::device, CU_MEMORYTYPE_DEVICE)
VRAMLINK_SAME_VALUE(MemoryType::array, CU_MEMORYTYPE_ARRAY)
VRAMLINK_SAME_VALUE(MemoryType::unified, CU_MEMORYTYPE_UNIFIED)
VRAMLINK_SAME_VALUE(PointerAttribute::context, CU_POINTER_ATTRIBUTE_CONTEXT)
VRAMLINK_SAME_VALUE(PointerAttribute::memory_type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
VRAMLINK_SAME_VALUE(PointerAttribute::device_pointer, CU_POINTER_ATTRIBUTE_DEVICE_POINTER)
VRAMLINK_SAME_VALUE(PointerAttribute::host_pointer, CU_POINTER_ATTRIBUTE_HOST_POINTER)
VRAMLINK_SAME_VALUE(PointerAttribute::buffer_id, CU_POINTER_ATTRIBUTE_BUFFER_ID)
VRAMLINK_SAME_VALUE(PointerAttribute::is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED)
VRAMLINK_SAME_VALUE(PointerAttribute::device_ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
VRAMLINK_SAME_VALUE(PointerAttribute::is_legacy_ipc_capable,
                    CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE)
VRAMLINK_SAME_VALUE(PointerAttribute::allowed_handle_types,
                    CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES)
VRAMLINK_SAME_VALUE(PointerAttribute::mempool_handle, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE)
VRAMLINK_SAME_VALUE(PointerAttribute::range_start_address, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR)
VRAMLINK_SAME_VALUE(PointerAttribute::range_size, CU_POINTER_ATTRIBUTE_RANGE_SIZE)
VRAMLINK_SAME_VALUE(PointerAttribute::mapped, CU_POINTER_ATTRIBUTE_MAPPED)
VRAMLINK_SAME_VALUE(PointerAttribute::access_flags, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS)
VRAMLINK_SAME_VALUE(PointerAttribute::mapping_size, CU_POINTER_ATTRIBUTE_MAPPING_SIZE)
VRAMLINK_SAME_VALUE(PointerAttribute::mapping_base_address, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR)
VRAMLINK_SAME_VALUE(LocationType::invalid, CU_MEM_LOCATION_TYPE_INVALID)
VRAMLINK_SAME_VALUE(LocationType::device, CU_MEM_LOCATION_TYPE_DEVICE)
VRAMLINK_SAME_VALUE(AllocationType::invalid, CU_MEM_ALLOCATION_TYPE_INVALID)
VRAMLINK_SAME_VALUE(AllocationType::pinned, CU_MEM_ALLOCATION_TYPE_PINNED)
VRAMLINK_SAME_VALUE(HandleType::none, 0)
VRAMLINK_SAME_VALUE(HandleType::posix_file_descriptor, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
VRAMLINK_SAME_VALUE(Granularity::minimum, CU_MEM_ALLOC_GRANULARITY_MINIMUM)
VRAMLINK_SAME_VALUE(Granularity::recommended, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)
VRAMLINK_SAME_VALUE(AccessFlags::none, CU_MEM_ACCESS_FLAGS_PROT_NONE)
VRAMLINK_SAME_VALUE(AccessFlags::read, CU_MEM_ACCESS_FLAGS_PROT_READ)
VRAMLINK_SAME_VALUE(AccessFlags::read_write, CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
VRAMLINK_SAME_VALUE(kRegisterPortable, CU_MEMHOSTREGISTER_PORTABLE)
VRAMLINK_SAME_VALUE(kRegisterDeviceMap, CU_MEMHOSTREGISTER_DEVICEMAP)
VRAMLINK_SAME_VALUE(kRegisterReadOnly, CU_MEMHOSTREGISTER_READ_ONLY)
VRAMLINK_SAME_VALUE(kStreamNonBlocking, CU_STREAM_NON_BLOCKING)
VRAMLINK_SAME_VALUE(kEventDisableTiming, CU_EVENT_DISABLE_TIMING)
VRAMLINK_SAME_VALUE(kWaitGreaterOrEqual, CU_STREAM_WAIT_VALUE_GEQ)
VRAMLINK_SAME_VALUE(kWriteDefault, CU_STREAM_WRITE_VALUE_DEFAULT)
VRAMLINK_SAME_VALUE(kProcLegacyStream, CU_GET_PROC_ADDRESS_LEGACY_STREAM)
VRAMLINK_SAME_VALUE(ProcQuery::success, CU_GET_PROC_ADDRESS_SUCCESS)
VRAMLINK_SAME_VALUE(ProcQuery::symbol_not_found, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND)
VRAMLINK_SAME_VALUE(ProcQuery::version_not_sufficient, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT)
VRAMLINK_SAME_VALUE(MemOpType::wait_value_64, CU_STREAM_MEM_OP_WAIT_VALUE_64)
VRAMLINK_SAME_VALUE(MemOpType::write_value_64, CU_STREAM_MEM_OP_WRITE_VALUE_64)

static_assert(cuda_api::kManagedGlobal == CU_MEM_ATTACH_GLOBAL);
static_assert(cuda_api::kHostPortable == CU_MEMHOSTALLOC_PORTABLE);
static_assert(cuda_api::kIpcLazyPeerAccess == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
static_assert(cuda_api::kEventInterprocess == CU_EVENT_INTERPROCESS);
static_assert(simcuda::kIpcLazyPeerAccess == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
static_assert(simcuda::kEventInterprocess == CU_EVENT_INTERPROCESS);

TEST(DriverApi, SpecialStreamsAreThoseOfTheHeader) {
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(CU_STREAM_LEGACY), api::kStreamLegacy);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(CU_STREAM_PER_THREAD), api::kStreamPerThread);
}

#else

TEST(DriverApi, SpecialStreamsAreThoseOfTheHeader) {
  GTEST_SKIP() << "cuda.h or cudaTypedefs.h is not installed: nothing to compare with";
}

#endif

TEST(DriverApi, SymbolsAreTheirNamesAndAVersion) {
#define VRAMLINK_CHECK_SYMBOL(member, name, symbol, version, ...)                                  \
  EXPECT_TRUE(std::string(#symbol) == #name || std::string(#symbol) == std::string(#name) + "_v2") \
      << #symbol;
  VRAMLINK_CUDA_SYMBOLS(VRAMLINK_CHECK_SYMBOL)
  VRAMLINK_CUDA_TEST_SYMBOLS(VRAMLINK_CHECK_SYMBOL)
  SIMCUDA_MORE_SYMBOLS(VRAMLINK_CHECK_SYMBOL)
}

}  // namespace
}  // namespace vramlink::test
