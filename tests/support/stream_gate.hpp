// A point in a device's stream that the test lets the stream past.
#pragma once

#include <atomic>
#include <cstdint>

#include <vramlink/stream.hpp>

#include "os/shared_segment.hpp"

namespace vramlink::test {

/// Of the suite's device, which is not the host. Work that is put into a stream behind close() is
/// done after the next open(). The destructor opens it, and waits for the stream.
class StreamGate {
 public:
  StreamGate();
  StreamGate(const StreamGate&) = delete;
  StreamGate& operator=(const StreamGate&) = delete;
  ~StreamGate();

  void close(StreamView stream);
  void open();

 private:
  [[nodiscard]] std::atomic<std::uint64_t>& word() const noexcept {
    return *reinterpret_cast<std::atomic<std::uint64_t>*>(page_.data());
  }

  os::Mapping page_;
  std::uint64_t closed_count_ = 0;
  StreamView stream_ = StreamView::already_complete();
};

}  // namespace vramlink::test
