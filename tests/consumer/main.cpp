// A program of another project: it must compile, link and run against an installed vramlink. It
// sends a frame to itself, so that headers and exports of the whole way are used.

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>

#include <vramlink/vramlink.hpp>

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

using namespace std::chrono_literals;

namespace {

constexpr std::byte kFill{42};

bool same_version() {
  const char* loaded = vramlink::version_string();
  const char* compiled = TEXT(VRAMLINK_VERSION_MAJOR) "." TEXT(VRAMLINK_VERSION_MINOR) "." TEXT(
      VRAMLINK_VERSION_PATCH);
  std::printf("vramlink %s, compiled with %s\n", loaded, compiled);
  return std::strcmp(loaded, compiled) == 0;
}

/// True if what was published is what was received.
bool send_a_frame(const std::string& directory) {
  vramlink::RuntimeOptions options;
  options.directory = directory;
  const vramlink::Runtime runtime = vramlink::Runtime::open(options).value();
  const vramlink::Format format =
      vramlink::Format::image(vramlink::PixelFormat::rgba, 16, 8).value();
  vramlink::Publisher publisher = vramlink::Publisher::open(runtime, "consumer", format).value();
  vramlink::Subscriber subscriber = vramlink::Subscriber::open(runtime, "consumer", 30s).value();
  vramlink::WritableFrame writable = publisher.claim(vramlink::kAlreadyComplete, 30s).value();
  std::ranges::fill(writable.bytes(), kFill);
  const vramlink::Receipt receipt =
      publisher.publish(std::move(writable), vramlink::kAlreadyComplete).value();
  const vramlink::Frame frame = subscriber.receive(30s).value();
  std::printf("received frame %llu: %s\n", static_cast<unsigned long long>(frame.sequence()),
              vramlink::to_string(frame.format()).c_str());
  return frame.sequence() == receipt.sequence() && frame.bytes().size() == format.payload_bytes &&
         std::ranges::all_of(frame.bytes(), [](std::byte each) { return each == kFill; });
}

}  // namespace

int main() try {
  std::string directory = "/tmp/vramlink-consumer-XXXXXX";
  if (!::mkdtemp(directory.data())) return 1;
  const bool good = same_version() && send_a_frame(directory);
  // Empty again when the channel has ended.
  return ::rmdir(directory.c_str()) == 0 && good ? 0 : 1;
} catch (const std::exception& failure) {
  std::fprintf(stderr, "consumer: %s\n", failure.what());
  return 1;
}
