// A hold has one owner: a frame can be moved, not copied.
#include <utility>

#include <vramlink/channel.hpp>

vramlink::Frame pass_on(vramlink::Frame& frame) {
#ifdef VRAMLINK_MISUSE
  return frame;
#else
  return std::move(frame);
#endif
}
