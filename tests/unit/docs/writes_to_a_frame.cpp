// A reader's bytes are const.
#include <cstddef>

#include <vramlink/channel.hpp>

std::byte first(const vramlink::Frame& frame) {
#ifdef VRAMLINK_MISUSE
  frame.bytes()[0] = std::byte{0};
#endif
  return frame.bytes()[0];
}
