// cli: how the command ends. Errors of the library bring their own (vramlink::exit_code).
#pragma once

namespace vramlink::cli {

inline constexpr int kSuccess = 0;
inline constexpr int kFailure = 1;
inline constexpr int kUsage = 2;
inline constexpr int kTimedOut = 4;
inline constexpr int kPeerGone = 6;
inline constexpr int kInterrupted = 130;  ///< SIGINT
inline constexpr int kTerminated = 143;   ///< SIGTERM
inline constexpr int kBrokenPipe = 141;   ///< what SIGPIPE would have been; without a message

}  // namespace vramlink::cli
