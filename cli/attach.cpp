// cli: waiting for a channel.
#include "attach.hpp"

#include <unistd.h>

namespace vramlink::cli {

Result<Subscriber> attach(const Runtime& runtime, const std::string& channel,
                          const SubscriberOptions& options, Deadline deadline,
                          StopSignals& signals) {
  const StopSignals::Interrupt end_process(signals, [&signals] { ::_exit(signals.exit_code()); });
  return Subscriber::open(runtime, channel, deadline, options);
}

}  // namespace vramlink::cli
