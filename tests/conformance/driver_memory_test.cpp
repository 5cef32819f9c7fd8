// Memory as the driver sees it: what is registered, what is imported, what an address is. Several
// headings of docs/cuda_notes.md rest on it.
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "conformance/driver_fixture.hpp"
#include "os/fd.hpp"

namespace vramlink::test {
namespace {

using cuda_api::PointerAttribute;

constexpr std::size_t kPageBytes = 4096;

class DriverMemory : public DriverRules {
 protected:
  /// A page of `segment`, unmapped and unregistered at the end.
  static os::Mapping map(const os::SharedSegment& segment, os::Access access) {
    return segment.map(access).value();
  }
  static std::atomic<std::uint64_t>& word_of(const os::Mapping& page) {
    return *reinterpret_cast<std::atomic<std::uint64_t>*>(page.data());
  }
  static cuda_api::Status register_page(const os::Mapping& page, unsigned flags) {
    return driver().mem_host_register(page.data(), kPageBytes, flags);
  }
  static cuda_api::DevicePointer device_address(const os::Mapping& page) {
    cuda_api::DevicePointer found = 0;
    raw().expect(driver().mem_host_get_device_pointer(&found, page.data(), 0));
    return found;
  }
  static cuda_api::Status import(int fd, cuda_api::MemoryHandle& handle) {
    return driver().mem_import_from_shareable_handle(
        &handle, reinterpret_cast<void*>(static_cast<std::intptr_t>(fd)),
        cuda_api::HandleType::posix_file_descriptor);
  }
  struct Seen {
    unsigned type;
    unsigned long long buffer_id;
  };
  static Seen look_at(cuda_api::DevicePointer address) {
    Seen seen{99, 99};
    std::array attributes{PointerAttribute::memory_type, PointerAttribute::buffer_id};
    std::array<void*, 2> values{&seen.type, &seen.buffer_id};
    raw().expect(driver().pointer_get_attributes(2, attributes.data(), values.data(), address));
    return seen;
  }

  static constexpr unsigned kFlags = cuda_api::kRegisterPortable | cuda_api::kRegisterDeviceMap;
};

TEST_F(DriverMemory, APageForReadingIsRegisteredAsOne) {
  int supported = 0;
  raw().expect(driver().device_get_attribute(
      &supported, cuda_api::DeviceAttribute::read_only_host_register_supported,
      raw().devices()[0]));
  if (supported == 0) GTEST_SKIP() << "this GPU registers no pages for reading";
  const os::SharedSegment segment = os::SharedSegment::create("page", kPageBytes).value();
  const os::Mapping writer = map(segment, os::Access::read_write);
  const os::Mapping reader = map(segment, os::Access::read_only);
  EXPECT_GIVES(invalid_value, register_page(reader, kFlags));
  ASSERT_TRUE(
      gave(cuda_api::Status::success, register_page(reader, kFlags | cuda_api::kRegisterReadOnly)));
  raw().expect(driver().stream_wait_value_64(stream(), device_address(reader), 7, 0));
  let_time_pass(20);
  EXPECT_TRUE(raw().is_busy(raw().stream()));
  word_of(writer).store(7);
  raw().finish(raw().stream());
  raw().expect(driver().mem_host_unregister(reader.data()));
}

TEST_F(DriverMemory, APageIsRegisteredOnceForEachMapping) {
  const os::SharedSegment segment = os::SharedSegment::create("page", kPageBytes).value();
  const os::Mapping first = map(segment, os::Access::read_write);
  const os::Mapping second = map(segment, os::Access::read_write);
  EXPECT_GIVES(success, register_page(first, kFlags));
  EXPECT_GIVES(host_memory_already_registered, register_page(first, kFlags));
  EXPECT_GIVES(success, register_page(second, kFlags));
  raw().expect(driver().stream_write_value_64(stream(), device_address(second), 9, 0));
  raw().finish(raw().stream());
  EXPECT_EQ(word_of(first).load(), 9U);
  raw().expect(driver().mem_host_unregister(first.data()));
  raw().expect(driver().stream_write_value_64(stream(), device_address(second), 10, 0));
  raw().finish(raw().stream());
  EXPECT_EQ(word_of(first).load(), 10U);
  raw().expect(driver().mem_host_unregister(second.data()));
  EXPECT_GIVES(host_memory_not_registered, driver().mem_host_unregister(second.data()));
}

TEST_F(DriverMemory, ASealedPageIsWrittenAndKeepsItsPlace) {
  const os::UniqueFd fd(::memfd_create("page", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(fd.get(), kPageBytes), 0);
  void* const page = ::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  ASSERT_NE(page, MAP_FAILED);
  ASSERT_EQ(::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE), 0);
  raw().expect(driver().mem_host_register(page, kPageBytes, kFlags));
  EXPECT_EQ(::fallocate(fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kPageBytes), -1);
  EXPECT_EQ(errno, EPERM);
  cuda_api::DevicePointer at = 0;
  raw().expect(driver().mem_host_get_device_pointer(&at, page, 0));
  raw().expect(driver().stream_wait_value_64(stream(), at, 1, 0));
  raw().expect(driver().stream_write_value_64(stream(), at, 11, 0));
  auto& word = *static_cast<std::atomic<std::uint64_t>*>(page);
  word.store(1);
  raw().finish(raw().stream());
  EXPECT_EQ(word.load(), 11U);
  raw().expect(driver().mem_host_unregister(page));
  ::munmap(page, kPageBytes);
}

TEST_F(DriverMemory, AnImportIsMappedWhole) {
  const auto memory = backend_->allocate(2 * kUnit).value();
  const os::UniqueFd fd = memory->export_memory().value();
  cuda_api::MemoryHandle handle = 0;
  ASSERT_TRUE(gave(cuda_api::Status::success, import(fd.get(), handle)));
  cuda_api::DevicePointer at = 0;
  raw().expect(driver().mem_address_reserve(&at, 4 * kUnit, 0, 0, 0));
  EXPECT_GIVES(not_supported, driver().mem_map(at, kUnit, 0, handle, 0));
  EXPECT_GIVES(not_supported, driver().mem_map(at, 3 * kUnit, 0, handle, 0));
  EXPECT_GIVES(success, driver().mem_map(at, 2 * kUnit, 0, handle, 0));
  raw().expect(driver().mem_unmap(at, 2 * kUnit));
  raw().expect(driver().mem_address_free(at, 4 * kUnit));
  raw().expect(driver().mem_release(handle));
}

TEST_F(DriverMemory, WhatIsNoMemoryIsNotImported) {
  std::array<int, 2> ends{-1, -1};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const os::UniqueFd in(ends[0]);
  const os::UniqueFd out(ends[1]);
  const os::UniqueFd plain(::memfd_create("plain", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(plain.get(), static_cast<off_t>(2 * kUnit)), 0);
  cuda_api::MemoryHandle handle = 0;
  for (const int fd : {in.get(), plain.get(), -1}) {
    EXPECT_GIVES(unknown, import(fd, handle));
  }
}

TEST_F(DriverMemory, AnImportForReadingIsNotFilled) {
  const auto memory = filled(3);
  const auto imported =
      backend_->import_memory(memory->export_memory().value(), kBytes, os::Access::read_only)
          .value();
  EXPECT_GIVES(invalid_value,
               driver().memset_d8_async(device_pointer(imported->data()), 1, kBytes, stream()));
  raw().finish(raw().stream());
  EXPECT_EQ(raw().read(memory->data(), kBytes), bytes_of(3));
}

TEST_F(DriverMemory, AnImportOutlivesWhatItsOwnerFrees) {
  auto memory = filled(4);
  const auto imported =
      backend_->import_memory(memory->export_memory().value(), kBytes, os::Access::read_only)
          .value();
  memory.reset();
  const auto next = filled(5);
  EXPECT_EQ(raw().read(imported->data(), kBytes), bytes_of(4));
}

TEST_F(DriverMemory, WhatTheDriverDoesNotKnowLooksTheSame) {
  const std::vector<std::byte> ordinary(kBytes);
  std::byte* const allocated = raw().allocate(kBytes);
  const Seen living = look_at(device_pointer(allocated));
  EXPECT_EQ(living.type, static_cast<unsigned>(cuda_api::MemoryType::device));
  EXPECT_NE(living.buffer_id, 0U);
  raw().free(allocated);
  for (const void* address :
       {static_cast<const void*>(allocated), static_cast<const void*>(ordinary.data()),
        reinterpret_cast<const void*>(kPageBytes)}) {
    const Seen seen = look_at(device_pointer(address));
    EXPECT_EQ(seen.type, static_cast<unsigned>(cuda_api::MemoryType::none)) << address;
    EXPECT_EQ(seen.buffer_id, 0U) << address;
  }
}

TEST_F(DriverMemory, NoTwoBuffersHaveOneNumber) {
  unsigned long long last = 0;
  for (int round = 0; round < 10; ++round) {
    std::byte* const allocated = raw().allocate(kBytes);  // often at the same address
    const unsigned long long now = look_at(device_pointer(allocated)).buffer_id;
    EXPECT_GT(now, last);
    last = now;
    raw().free(allocated);
  }
}

}  // namespace
}  // namespace vramlink::test
