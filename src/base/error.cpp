// base: error values and the line that people read.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <vramlink/device.hpp>
#include <vramlink/error.hpp>

#include "base/error_table.hpp"

namespace vramlink::inline v0 {
namespace {

const base::CodeRow* find_row(Code code) noexcept {
  const auto rows = base::code_table();
  const auto row = std::find_if(rows.begin(), rows.end(),
                                [code](const base::CodeRow& each) { return each.code == code; });
  return row == rows.end() ? nullptr : &*row;
}

// "errno 13 EACCES"; a driver's names belong to its back end, which gives them as the reason.
std::string native_text(const Error& error) {
  if (error.origin() == Origin::vramlink || error.native() == 0) return {};
  std::string text = error.origin() == Origin::os ? "errno " : "CUresult ";
  text += std::to_string(error.native());
  if (error.origin() == Origin::os) {
    if (const char* symbol = ::strerrorname_np(error.native())) text.append(" ").append(symbol);
  }
  return text;
}

std::string detail_text(const Error& error) {
  std::string text = native_text(error);
  const auto append = [&text](const std::string& clause) {
    if (!text.empty()) text += ", ";
    text += clause;
  };
  const ErrorFacts* facts = error.facts();
  if (facts && facts->peer_pid != 0) append("peer pid " + std::to_string(facts->peer_pid));
  if (facts && facts->device != decltype(facts->device){}) {
    append(to_string(DeviceId{facts->device}));
  }
  return text;
}

}  // namespace

std::string_view name(Code code) noexcept {
  const base::CodeRow* row = find_row(code);
  return row ? row->name : "unknown";
}

int exit_code(Code code) noexcept {
  const base::CodeRow* row = find_row(code);
  return row ? row->exit_code : 1;
}

// Copies share their facts, so a builder on a shared error first takes its own.
ErrorFacts& Error::mutable_facts() {
  if (!facts_) {
    facts_ = std::make_shared<ErrorFacts>();
  } else if (facts_.use_count() > 1) {
    facts_ = std::make_shared<ErrorFacts>(*facts_);
  }
  return *facts_;
}

Error&& Error::about(std::string_view subject) && {
  mutable_facts().subject = subject;
  return std::move(*this);
}

Error&& Error::because(std::string reason) && {
  mutable_facts().reason = std::move(reason);
  return std::move(*this);
}

Error&& Error::remedy(std::string remedy) && {
  mutable_facts().remedy = std::move(remedy);
  return std::move(*this);
}

Error&& Error::peer(std::int32_t pid) && {
  mutable_facts().peer_pid = pid;
  return std::move(*this);
}

Error&& Error::device(const std::array<std::uint8_t, 16>& uuid) && {
  mutable_facts().device = uuid;
  return std::move(*this);
}

Error&& Error::numbers(std::uint64_t first, std::uint64_t second) && {
  mutable_facts().numbers = {first, second};
  return std::move(*this);
}

Error&& Error::from(Origin origin, std::int32_t native) && noexcept {
  origin_ = origin;
  native_ = native;
  return std::move(*this);
}

std::string to_string(const Error& error) {
  const ErrorFacts* facts = error.facts();
  const base::CodeRow* row = find_row(error.code());

  std::string text = error.operation();
  if (facts && !facts->subject.empty()) text.append(" '").append(facts->subject).append("'");
  text.append(": ").append(row ? row->phrase : "unknown error");
  if (facts && !facts->reason.empty()) {
    text.append(": ").append(facts->reason);
  } else if (error.origin() == Origin::os && error.native() != 0) {
    if (const char* words = ::strerrordesc_np(error.native())) text.append(": ").append(words);
  }
  const std::string details = detail_text(error);
  if (!details.empty()) text.append(" (").append(details).append(")");
  if (facts && !facts->remedy.empty()) text.append(". Try: ").append(facts->remedy);
  return text;
}

Exception::Exception(Error error)
    : error_(std::move(error)), text_(std::make_shared<const std::string>(to_string(error_))) {}

namespace detail {

void misused_result(const Error* error) noexcept {
  // Plain stdio, no allocation beyond the text: the process ends here.
  const std::string text = error ? to_string(*error) : "error() of a Result that succeeded";
  std::fprintf(stderr, "vramlink: a Result was used without being asked first: %s\n", text.c_str());
  std::abort();
}

}  // namespace detail

}  // namespace vramlink::inline v0
