// docs/ownership.md: the bytes of a frame that nobody keeps do not compile.
#include <vramlink/vramlink.hpp>

std::size_t size_of_next(vramlink::Subscriber& subscriber, vramlink::Deadline deadline) {
#ifdef VRAMLINK_MISUSE
  const auto bytes = subscriber.receive(deadline).value().bytes();  // the frame is released here
#else
  const vramlink::Frame frame = subscriber.receive(deadline).value();
  const auto bytes = frame.bytes();
#endif
  return bytes.size();
}
