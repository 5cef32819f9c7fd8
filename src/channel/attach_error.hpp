// What goes wrong while attaching, as errors: what both ends say, and what is worth waiting
// through.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <vramlink/error.hpp>

#include "wire/codec.hpp"
#include "wire/messages.hpp"

namespace vramlink::inline v0::channel {

/// False: nobody is there yet, or somebody is busy; another try may succeed by itself.
[[nodiscard]] inline bool is_lasting(const Error& why) noexcept {
  switch (why.code()) {
    case Code::not_found:
    case Code::peer_gone:
    case Code::full:
    case Code::closed:
    case Code::stale:  // what was offered was replaced meanwhile
    case Code::timed_out:
      return false;
    default:
      return true;
  }
}

/// What failed below the channel, a call of the system or of a driver, says here which one it was
/// for.
[[nodiscard]] inline Error of_channel(Error why, std::string_view channel_name) {
  if (why.facts() == nullptr || !why.facts()->subject.empty()) return why;
  return std::move(why).about(channel_name);
}

/// The other end sent what the protocol does not allow now.
[[nodiscard]] inline Error unexpected(const char* operation, wire::MessageType type) {
  return Error(Code::corrupt, operation)
      .because("message " + std::string(wire::name(type)) + " does not belong here");
}

/// A publisher may answer with this. The other codes say what happened in a caller's own process,
/// and callers act upon them: interrupted, empty, timed_out are not for a peer to say.
[[nodiscard]] constexpr bool may_refuse_with(Code code) noexcept {
  switch (code) {
    case Code::closed:
    case Code::stale:
    case Code::not_found:
    case Code::already_exists:
    case Code::permission_denied:
    case Code::resource_exhausted:
    case Code::no_driver:
    case Code::no_device:
    case Code::wrong_device:
    case Code::unsupported:
    case Code::out_of_memory:
    case Code::os:
    case Code::driver:
    case Code::incompatible:
    case Code::corrupt:
    case Code::invalid_argument:
      return true;
    default:
      return false;
  }
}

/// A publisher's REFUSED as the error of who asked. Its words are a peer's.
[[nodiscard]] inline Error refusal(const char* operation, std::string_view channel_name,
                                   const wire::Refused& message) {
  const auto code = static_cast<Code>(message.code);
  if (!may_refuse_with(code)) {
    return Error(Code::corrupt, operation)
        .about(channel_name)
        .because("the publisher answered with code " + std::to_string(message.code) +
                 ", which no refusal has")
        .peer(message.peer_pid);
  }
  Error error = Error(code, operation)
                    .about(channel_name)
                    .because("the publisher answered: " + std::string(wire::text_of(message)))
                    .peer(message.peer_pid)
                    .numbers(message.numbers[0], message.numbers[1]);
  if (code != Code::resource_exhausted) return error;
  return std::move(error).remedy(
      "end another user of the channel, or raise the publisher's limits "
      "(subscriber_count_max, open files)");
}

}  // namespace vramlink::inline v0::channel
