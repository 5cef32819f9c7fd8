// Question: how long does a change of format or slots take in GPU memory, and for how long does it
// keep a frame from the subscriber, against the memory alone?
//
// As bench/process/resize.cpp. Floor: memory of the GPU that one process makes, maps and fills with
// zeros, sent, imported and mapped by the other and answered, by the driver's calls. Not measured:
// the end of the old memory, which is the janitor's; more subscribers; work of streams.
#include <memory>

#include "gpu/raw_driver.hpp"
#include "harness/process.hpp"
#include "harness/report.hpp"
#include "harness/resize_pair.hpp"

using namespace vramlink;
using namespace vramlink::bench;

namespace {

class GpuMemory final : public MemoryFloor {
 public:
  GpuMemory() {
    properties_.type = cu::AllocationType::pinned;
    properties_.requested_handle_types = cu::HandleType::posix_file_descriptor;
    properties_.location = {cu::LocationType::device, driver_.device()};
    driver_.check(
        driver_.mem_get_allocation_granularity(&unit_, &properties_, cu::Granularity::minimum),
        "cuMemGetAllocationGranularity");
  }

  [[nodiscard]] DeviceId device() const override { return driver_.id(); }
  [[nodiscard]] int make(std::size_t size_bytes) override {
    round(size_bytes);
    driver_.check(driver_.mem_create(&memory_, bytes_, &properties_, 0), "cuMemCreate");
    map_it(cu::AccessFlags::read_write);
    // Else another process's old bytes are shown.
    driver_.check(driver_.memset_d8_async(address_, 0, bytes_, stream_), "cuMemsetD8Async");
    driver_.check(driver_.stream_synchronize(stream_), "cuStreamSynchronize");
    int fd = -1;
    driver_.check(driver_.mem_export_to_shareable_handle(&fd, memory_,
                                                         cu::HandleType::posix_file_descriptor, 0),
                  "cuMemExportToShareableHandle");
    return fd;
  }
  void map(int fd, std::size_t size_bytes) override {
    round(size_bytes);
    driver_.check(driver_.mem_import_from_shareable_handle(
                      &memory_, reinterpret_cast<void*>(static_cast<std::uintptr_t>(fd)),
                      cu::HandleType::posix_file_descriptor),
                  "cuMemImportFromShareableHandle");
    map_it(cu::AccessFlags::read);
  }
  void end() override {
    driver_.check(driver_.mem_unmap(address_, bytes_), "cuMemUnmap");
    driver_.check(driver_.mem_address_free(address_, bytes_), "cuMemAddressFree");
    driver_.check(driver_.mem_release(memory_), "cuMemRelease");
  }

 private:
  void round(std::size_t size_bytes) { bytes_ = (size_bytes + unit_ - 1) / unit_ * unit_; }
  void map_it(cu::AccessFlags flags) {
    const cu::AccessDescriptor access{properties_.location, flags};
    driver_.check(driver_.mem_address_reserve(&address_, bytes_, 0, 0, 0), "cuMemAddressReserve");
    driver_.check(driver_.mem_map(address_, bytes_, 0, memory_, 0), "cuMemMap");
    driver_.check(driver_.mem_set_access(address_, bytes_, &access, 1), "cuMemSetAccess");
  }

  const RawDriver driver_;
  const cu::Stream stream_ = driver_.make_stream();
  cu::AllocationProperties properties_{};
  std::size_t unit_ = 0;
  std::size_t bytes_ = 0;
  cu::MemoryHandle memory_ = 0;
  cu::DevicePointer address_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = parse_arguments(argc, argv);
  Report report("a change of GPU memory under one subscriber");
  add_gpu_facts(report);
  for (const ResizeShape& shape :
       {ResizeShape{"4 x 64 KiB", 4, 64 << 10}, ResizeShape{"4 x 8.3 MB", 4, 1920 * 1080 * 4}}) {
    measure_resize(
        report, shape, [] { return std::make_unique<GpuMemory>(); }, arguments.smoke);
  }
  return report.print(arguments) ? 0 : 1;
}
