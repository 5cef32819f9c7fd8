#include "own_gpu.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "backend/cuda/device_list.hpp"

namespace vramlink::test {

using cuda_api::DevicePointer;
using cuda_api::Status;

/// Spared, and in the context.
class OwnGpu::Scope {
 public:
  explicit Scope(const OwnGpu& gpu) : driver_(*gpu.driver_) {
    EXPECT_EQ(driver_.ctx_push_current(gpu.context_), Status::success);
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  ~Scope() {
    cuda_api::Context popped = nullptr;
    EXPECT_EQ(driver_.ctx_pop_current(&popped), Status::success);
  }

 private:
  SparedThread spared_;
  const cuda::Driver& driver_;
};

OwnGpu::OwnGpu() {
  {
    const SparedThread spared;
    driver_ = cuda::Driver::load().value();
    more_ = cuda_api::TestFunctions::find();
    const cuda::ListedDevice listed = cuda::list_devices(*driver_).value().at(0);
    id_ = listed.info.id;
    device_ = listed.device;
    EXPECT_EQ(driver_->primary_ctx_retain(&context_, device_), Status::success);
  }
  const Scope scope(*this);
  EXPECT_EQ(driver_->stream_create(&stream_, cuda_api::kStreamNonBlocking), Status::success);
  DevicePointer memory = 0;
  EXPECT_EQ(more_.mem_alloc(&memory, kBytesMax), Status::success);
  memory_ = reinterpret_cast<std::byte*>(memory);
  void* pinned = nullptr;
  EXPECT_EQ(more_.mem_host_alloc(&pinned, kPlaces * kBytesMax, 0), Status::success);
  pinned_ = static_cast<std::byte*>(pinned);
}

OwnGpu::~OwnGpu() {
  {
    // A faulty context ends these all the same.
    const Scope scope(*this);
    static_cast<void>(more_.stream_synchronize(stream_));
    static_cast<void>(driver_->stream_destroy(stream_));
    static_cast<void>(more_.mem_free(device_pointer(memory_)));
    static_cast<void>(more_.mem_free_host(pinned_));
  }
  const SparedThread spared;
  static_cast<void>(driver_->primary_ctx_release(device_));
}

bool OwnGpu::fill(std::byte* target, std::span<const std::byte> bytes) {
  const Scope scope(*this);
  std::byte* const place = pinned_ + next_place_++ % kPlaces * kBytesMax;
  std::memcpy(place, bytes.data(), bytes.size());
  return driver_->memcpy_htod_async(device_pointer(target), place, bytes.size(), stream_) ==
         Status::success;
}

std::optional<std::vector<std::byte>> OwnGpu::read(std::span<const std::byte> source) {
  const Scope scope(*this);
  std::vector<std::byte> bytes(source.size());
  if (driver_->memcpy_dtoh_async(bytes.data(), device_pointer(source.data()), bytes.size(),
                                 stream_) != Status::success ||
      more_.stream_synchronize(stream_) != Status::success) {
    return std::nullopt;
  }
  return bytes;
}

bool OwnGpu::finish() {
  const Scope scope(*this);
  return more_.stream_synchronize(stream_) == Status::success;
}

}  // namespace vramlink::test
