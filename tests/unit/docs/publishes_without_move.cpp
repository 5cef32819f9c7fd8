// Publishing consumes the right to write, and the call shows it.
#include <utility>

#include <vramlink/channel.hpp>

auto send(vramlink::Publisher& publisher, vramlink::WritableFrame frame) {
  const auto cpu = vramlink::StreamView::already_complete();
#ifdef VRAMLINK_MISUSE
  return publisher.publish(frame, cpu);
#else
  return publisher.publish(std::move(frame), cpu);
#endif
}
