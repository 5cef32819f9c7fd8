// Question: how long does a change of format or slots take, and for how long does it keep a frame
// from the subscriber, against the memory alone?
//
// A publisher and a subscriber of queue(2) that sleeps, two processes, each pinned to a core. Every
// change makes as much memory as there was. Figures: resize(), and at the subscriber the time from
// the last frame of the old memory to the first of the new, which is published as soon as resize()
// returns. Floor, in the same run and in turn: a memfd of as many bytes, allocated and mapped by
// one process, sent, mapped by the other and answered. Not measured: the end of the old memory,
// which is the janitor's; more subscribers; the first touch of the pages by a subscriber.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>

#include "harness/process.hpp"
#include "harness/report.hpp"
#include "harness/resize_pair.hpp"

using namespace vramlink;
using namespace vramlink::bench;

namespace {

class Memfd final : public MemoryFloor {
 public:
  [[nodiscard]] DeviceId device() const override { return DeviceId::host(); }
  [[nodiscard]] int make(std::size_t size_bytes) override {
    const int fd = ::memfd_create("floor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd == -1 || ::fallocate(fd, 0, 0, static_cast<off_t>(size_bytes)) != 0) stop("fallocate");
    keep(::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), size_bytes);
    return fd;
  }
  void map(int fd, std::size_t size_bytes) override {
    keep(::mmap(nullptr, size_bytes, PROT_READ, MAP_SHARED, fd, 0), size_bytes);
  }
  void end() override { ::munmap(memory_, size_bytes_); }

 private:
  [[noreturn]] static void stop(const char* call) {
    std::perror(call);
    std::exit(1);
  }
  void keep(void* memory, std::size_t size_bytes) {
    if (memory == MAP_FAILED) stop("mmap");
    memory_ = memory;
    size_bytes_ = size_bytes;
  }

  void* memory_ = nullptr;
  std::size_t size_bytes_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = parse_arguments(argc, argv);
  Report report("a change of memory under one subscriber, " + describe_cores(0, 1));
  for (const ResizeShape& shape :
       {ResizeShape{"4 x 64 KiB", 4, 64 << 10}, ResizeShape{"4 x 8.3 MB", 4, 1920 * 1080 * 4}}) {
    measure_resize(
        report, shape, [] { return std::make_unique<Memfd>(); }, arguments.smoke);
  }
  return report.print(arguments) ? 0 : 1;
}
