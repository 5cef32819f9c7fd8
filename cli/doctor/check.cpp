// doctor: lines for people and one object for programs.
#include "doctor/check.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include <vramlink/version.hpp>

#include "exit_status.hpp"
#include "talk.hpp"

namespace vramlink::cli::doctor {
namespace {

constexpr std::size_t kIdWidth = 12;
constexpr std::size_t kTextColumn = 2 + 4 + 2 + kIdWidth;

struct VerdictText {
  std::string_view name;
  std::string_view label;
  Color color;
};

constexpr VerdictText text_of(Verdict verdict) noexcept {
  switch (verdict) {
    case Verdict::pass:
      return {"pass", "PASS", Color::green};
    case Verdict::warn:
      return {"warn", "WARN", Color::yellow};
    case Verdict::fail:
      return {"fail", "FAIL", Color::red};
    case Verdict::skip:
      break;
  }
  return {"skip", "SKIP", Color::none};
}

std::string plural(std::uint64_t count, const std::string& word) {
  return std::to_string(count) + " " + word + (count == 1 ? "" : "s");
}

}  // namespace

std::string_view name(Verdict verdict) noexcept { return text_of(verdict).name; }

Check failed_check(std::string id, const Error& error) {
  return {std::move(id), Verdict::fail, text_without_remedy(error), remedy_of(error)};
}

void Findings::begin(std::string subject, const std::string& title) {
  const bool first = subject_.empty();
  subject_ = std::move(subject);
  print_text((first ? "" : "\n") + bold(title, STDOUT_FILENO) + "\n");
}

void Findings::add(Check check) {
  const VerdictText verdict = text_of(check.verdict);
  std::string id = check.id;
  id.resize(std::max(id.size() + 1, kIdWidth), ' ');
  std::string text =
      "  " + colored(verdict.label, verdict.color, STDOUT_FILENO) + "  " + id + check.text + "\n";
  if (!check.remedy.empty()) {
    text += std::string(kTextColumn, ' ') + "try: " + check.remedy + "\n";
  }
  print_text(text);
  entries_.push_back({subject_, std::move(check)});
}

std::uint64_t Findings::count(Verdict verdict) const noexcept {
  return static_cast<std::uint64_t>(
      std::count_if(entries_.begin(), entries_.end(),
                    [verdict](const Entry& each) { return each.check.verdict == verdict; }));
}

bool Findings::usable(std::string_view id) const noexcept {
  return std::any_of(entries_.begin(), entries_.end(), [&](const Entry& each) {
    return each.subject == subject_ && each.check.id == id && each.check.verdict != Verdict::fail &&
           each.check.verdict != Verdict::skip;
  });
}

int Findings::finish(const std::string& ready_text, JsonObject ready) {
  const std::uint64_t failed = count(Verdict::fail);
  const std::uint64_t warned = count(Verdict::warn);
  const int exit_code = failed > 0 || (strict_ && warned > 0) ? kFailure : kSuccess;
  if (json_) {
    std::vector<JsonObject> checks;
    for (const Entry& entry : entries_) {
      JsonObject object;
      object.set("subject", entry.subject)
          .set("id", entry.check.id)
          .set("verdict", name(entry.check.verdict))
          .set("text", entry.check.text);
      if (!entry.check.remedy.empty()) object.set("remedy", entry.check.remedy);
      checks.push_back(std::move(object));
    }
    JsonObject object("vramlink.doctor/1");
    object.set("version", version_string())
        .set("wire_version", kWireVersion)
        .set("ready", std::move(ready))
        .set("failed", failed)
        .set("warned", warned)
        .set("checks", checks);
    const int printed = print_and_finish(object.line());
    return printed != kSuccess ? printed : exit_code;
  }
  std::string text = "\nready: " + ready_text;
  if (failed + warned > 0) {
    text += "; " + std::to_string(failed) + " failed, " + plural(warned, "warning");
  }
  print_text(bold(text, STDOUT_FILENO) + "\n");
  return broken_pipe_ ? kBrokenPipe : exit_code;
}

void Findings::print_text(const std::string& text) {
  if (!json_ && !broken_pipe_) broken_pipe_ = !print(text);
}

}  // namespace vramlink::cli::doctor
