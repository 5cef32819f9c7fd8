// Nobody forgets by accident to ask whether a call worked.
#include <utility>

#include <vramlink/channel.hpp>

void send(vramlink::Publisher& publisher, vramlink::WritableFrame frame) {
  const auto cpu = vramlink::StreamView::already_complete();
#ifdef VRAMLINK_MISUSE
  publisher.publish(std::move(frame), cpu);
#else
  static_cast<void>(publisher.publish(std::move(frame), cpu));
#endif
}
