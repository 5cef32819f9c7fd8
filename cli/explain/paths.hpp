// explain: the ways by which frames could get from a channel's device to a reader of this process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <vramlink/device.hpp>
#include <vramlink/error.hpp>
#include <vramlink/runtime.hpp>
#include <vramlink/statistics.hpp>

namespace vramlink::cli::explain {

enum class State : std::uint8_t {
  taken,     ///< a subscriber with the same options reads frames this way
  possible,  ///< it would with other options, which the remedy names; or only a trial tells
  refused    ///< it does not work; the reason says why
};

/// "taken", "possible" or "refused".
[[nodiscard]] std::string_view name(State state) noexcept;

enum class Way : std::uint8_t {
  direct,  ///< the channel's own GPU reads its memory
  peer,    ///< another GPU does, by peer access
  copy,    ///< each frame is copied to another GPU
  host     ///< shared host memory
};

/// "direct", "peer", "copy" or "host".
[[nodiscard]] std::string_view name(Way way) noexcept;

struct Path {
  Way way = Way::direct;
  State state = State::refused;
  std::string reason;  ///< one clause
  std::string remedy;  ///< how to take it, or what to do; may be empty
};

/// What the caller asks for.
struct Reader {
  std::optional<DeviceId> device;  ///< none: the channel's own
  bool copy_frames = false;
};

struct Paths {
  std::vector<Path> all;  ///< each Way once, best first
  bool open = false;      ///< only a trial tells whether the reader that was asked for has one

  [[nodiscard]] bool any_taken() const noexcept;
  [[nodiscard]] Path& of(Way way) noexcept;
};

/// Every way to frames that live on `owner`. Asks the driver, by mapping a little memory of this
/// process's own as a subscriber maps a channel's.
/// `path`: how the channel's memory goes to subscribers.
[[nodiscard]] Paths find_paths(const Runtime& runtime, const DeviceId& owner, MemoryPath path,
                               const Reader& reader);
/// None, for one reason.
[[nodiscard]] Paths no_paths(const Error& why);

}  // namespace vramlink::cli::explain
