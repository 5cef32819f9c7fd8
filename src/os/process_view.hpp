// What /proc shows of a process besides its identity (see process.hpp).
#pragma once

#include <sys/types.h>

#include <vramlink/inspect.hpp>
#include <vramlink/result.hpp>

namespace vramlink::os {

/// The process that has `pid` in our pid namespace now. Namespaces of a process that may not be
/// traced by us are hidden, and left out. `peer_gone` if there is none; `invalid_argument` for a
/// pid below 1; `unsupported` if /proc is missing or belongs to another pid namespace.
[[nodiscard]] Result<ProcessInfo> view_process(pid_t pid);

}  // namespace vramlink::os
