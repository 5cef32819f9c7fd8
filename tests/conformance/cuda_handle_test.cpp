// Memory that goes by legacy handles: what only a peer's segment can do wrong, and what the driver
// says of handles that it does not open. Channels on it are in tests/process.
#include <cstring>

#include "backend/memory_handle.hpp"
#include "conformance/cuda_fixture.hpp"
#include "os/fd.hpp"
#include "os/shared_segment.hpp"

namespace vramlink::test {
namespace {

class CudaHandle : public CudaBackend {
 protected:
  void SetUp() override {
    CudaBackend::SetUp();
    if (!backend_) return;
    legacy_ = std::move(cuda::find_devices().value().legacy_backends.at(0));
  }
  void TearDown() override {
    legacy_.reset();
    CudaBackend::TearDown();
  }
  /// What an honest peer sends for memory of `memory`.
  [[nodiscard]] static backend::MemoryHandle handle_of(const backend::Memory& memory) {
    const os::Mapping mapping =
        os::SharedSegment::adopt(memory.export_memory().value(), sizeof(backend::MemoryHandle),
                                 sizeof(backend::MemoryHandle), os::kFullSeals)
            .value()
            .map(os::Access::read_only)
            .value();
    backend::MemoryHandle handle{};
    std::memcpy(&handle, mapping.data(), sizeof(handle));
    return handle;
  }
  [[nodiscard]] static os::UniqueFd segment_of(const backend::MemoryHandle& handle,
                                               unsigned seals = os::kFullSeals,
                                               std::uint64_t size_bytes = sizeof(handle)) {
    const auto segment = os::SharedSegment::create("peer", size_bytes).value();
    {
      const os::Mapping mapping = segment.map(os::Access::read_write).value();
      std::memcpy(mapping.data(), &handle, sizeof(handle));
    }
    if (seals != 0) {
      EXPECT_TRUE(segment.add_seals(seals));
    }
    return os::duplicate(segment.fd()).value();
  }
  [[nodiscard]] Result<std::unique_ptr<backend::ImportedMemory>> import(
      os::UniqueFd fd, std::uint64_t size_bytes = kBytes) {
    return legacy_->import_memory(std::move(fd), size_bytes, os::Access::read_only);
  }
  /// A segment with one field changed is the peer's fault.
  template <class Change>
  void expect_corrupt(const char* what, const Change& change) {
    SCOPED_TRACE(what);
    const auto memory = legacy_->allocate(kBytes).value();
    backend::MemoryHandle handle = handle_of(*memory);
    change(handle);
    const auto refused = import(segment_of(handle));
    EXPECT_TRUE(refused.failed_with(Code::corrupt))
        << (refused ? "imported" : to_string(refused.error()));
  }

  std::unique_ptr<backend::Backend> legacy_;
};

TEST_F(CudaHandle, SaysWhatItIs) {
  EXPECT_EQ(legacy_->capabilities().memory_kind, wire::MemoryKind::legacy_handle);
  EXPECT_TRUE(legacy_->capabilities().inode_is_identity);
  const auto memory = legacy_->allocate(kBytes).value();
  EXPECT_EQ(memory->size_bytes(), kBytes);
  const os::SegmentKey first = os::key_of(memory->export_memory().value().get()).value();
  const os::SegmentKey again = os::key_of(memory->export_memory().value().get()).value();
  EXPECT_EQ(first, again) << "one file, however often it is exported";
  const backend::MemoryHandle handle = handle_of(*memory);
  EXPECT_EQ(handle.offset_bytes, 0U);
  EXPECT_GE(handle.allocation_bytes, kBytes);
}

TEST_F(CudaHandle, BeginsZeroed) {
  const auto memory = legacy_->allocate(kBytes).value();
  std::vector<std::byte> bytes(kBytes, std::byte{1});
  ASSERT_TRUE(backend_->copy(StreamView::already_complete(), bytes.data(), memory->data(), kBytes));
  EXPECT_EQ(bytes, std::vector<std::byte>(kBytes));
}

TEST_F(CudaHandle, WhatAPeerWritesIsChecked) {
  expect_corrupt("magic", [](backend::MemoryHandle& handle) { ++handle.magic; });
  expect_corrupt("wire", [](backend::MemoryHandle& handle) { ++handle.wire; });
  expect_corrupt("offset", [](backend::MemoryHandle& handle) { handle.offset_bytes = 64; });
  expect_corrupt("offset beyond", [](backend::MemoryHandle& handle) {
    handle.offset_bytes = handle.allocation_bytes + 4096;
  });
  expect_corrupt("size",
                 [](backend::MemoryHandle& handle) { handle.allocation_bytes = kBytes - 1; });
  expect_corrupt("absurd", [](backend::MemoryHandle& handle) {
    handle.allocation_bytes = ~std::uint64_t{0};
    handle.offset_bytes = ~std::uint64_t{0} - 4095;
  });
  const auto memory = legacy_->allocate(kBytes).value();
  EXPECT_TRUE(import(segment_of(handle_of(*memory), 0)).failed_with(Code::corrupt)) << "unsealed";
  EXPECT_TRUE(
      import(segment_of(handle_of(*memory), os::kFullSeals, 4096)).failed_with(Code::corrupt))
      << "another size";
  EXPECT_TRUE(import(os::event_fd().value()).failed_with(Code::corrupt)) << "no segment";
}

TEST_F(CudaHandle, WhatTheDriverDoesNotOpenIsUnsupported) {
  const auto memory = legacy_->allocate(kBytes).value();
  backend::MemoryHandle damaged = handle_of(*memory);
  for (char& each : damaged.handle) each = static_cast<char>(each ^ 0x55);
  for (const backend::MemoryHandle& handle :
       {handle_of(*memory), damaged}) {  // the first is our own
    const auto refused = import(segment_of(handle));
    ASSERT_TRUE(refused.failed_with(Code::unsupported)) << to_string(refused.error());
    EXPECT_NE(to_string(refused.error()).find("Try: "), std::string::npos);
    EXPECT_EQ(refused.error().origin(), Origin::driver);
  }
  EXPECT_TRUE(legacy_->allocate(kBytes)) << "and no harm is done";
}

TEST_F(CudaHandle, TooMuchIsRefusedWithTheNumbers) {
  const auto refused = legacy_->allocate(std::uint64_t{1} << 45);
  ASSERT_TRUE(refused.failed_with(Code::out_of_memory));
  EXPECT_NE(to_string(refused.error()).find("free"), std::string::npos);
  EXPECT_TRUE(legacy_->allocate(0).failed_with(Code::invalid_argument));
}

}  // namespace
}  // namespace vramlink::test
