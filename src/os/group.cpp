// os: groups, from the system's list and from the kernel.
#include "os/group.hpp"

#include <grp.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/try.hpp"
#include "os/errno.hpp"
#include "os/parse.hpp"
#include "os/small_file.hpp"

namespace vramlink::os {
namespace {

constexpr const char* kFindGroup = "find group";
constexpr std::size_t kEntryBytes = 4096;
constexpr std::size_t kEntryBytesMax = std::size_t{1} << 22;  // a group has a line for its members
constexpr gid_t kUsualOverflowGid = 65534;

Error no_such_group(const std::string& text, std::string reason) {
  return Error(Code::invalid_argument, kFindGroup)
      .about(text)
      .because(std::move(reason))
      .remedy("`getent group` lists the groups; one without a name is given by its number");
}

/// Nothing if no group has the name.
Result<std::optional<gid_t>> look_up(const std::string& name) {
  std::vector<char> buffer(kEntryBytes);
  for (;;) {
    group entry{};
    group* found = nullptr;
    const int failure = ::getgrnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found);
    if (failure == ERANGE && buffer.size() < kEntryBytesMax) {
      buffer.resize(buffer.size() * 4);
      continue;
    }
    if (failure == EINTR) continue;
    // What says that there is none differs between the services that know names (getgrnam(3)).
    const bool none = failure == 0 || failure == ENOENT || failure == ESRCH || failure == EBADF ||
                      failure == EPERM;
    if (!none) return from_errno("getgrnam_r", failure).about(name);
    return found == nullptr ? std::nullopt : std::optional<gid_t>(found->gr_gid);
  }
}

/// How the kernel shows every group that a user namespace does not map.
gid_t overflow_gid() {
  const auto content = read_small_file("/proc/sys/kernel/overflowgid");
  if (!content) return kUsualOverflowGid;
  std::string_view rest = *content;
  return parse_number<gid_t>(next_word(rest)).value_or(kUsualOverflowGid);
}

}  // namespace

std::string Group::description() const {
  const std::string number = std::to_string(gid);
  return text == number ? "group " + number : "group " + text + " (gid " + number + ")";
}

Result<Group> find_group(const std::string& text) {
  if (text.empty() || text.find('\0') != std::string::npos) {
    return no_such_group(text, "that is no name of a group");
  }
  Group group{0, text};
  const bool is_number = text.find_first_not_of("0123456789") == std::string::npos;
  if (is_number) {
    const auto number = parse_number<gid_t>(text);
    if (!number || *number == std::numeric_limits<gid_t>::max()) {
      return no_such_group(text, "a group's number is below 4294967295");
    }
    group.gid = *number;
    group.text = std::to_string(*number);  // without zeros in front
  } else {
    const std::optional<gid_t> found = VRAMLINK_TRY(look_up(text));
    if (!found) return no_such_group(text, "there is no group of that name");
    group.gid = *found;
  }
  if (group.gid != overflow_gid()) return group;
  return Error(Code::invalid_argument, kFindGroup)
      .about(text)
      .because("the kernel shows every group by this number that a user namespace does not know")
      .remedy("make a group for those who are to share (`groupadd`)");
}

bool is_own_group(gid_t gid) {
  if (::getegid() == gid) return true;
  std::vector<gid_t> groups;
  for (;;) {
    const int count = ::getgroups(0, nullptr);
    if (count <= 0) return false;
    groups.resize(static_cast<std::size_t>(count));
    const int got = ::getgroups(count, groups.data());
    if (got < 0 && errno == EINVAL) continue;  // there are more by now
    groups.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
    return std::find(groups.begin(), groups.end(), gid) != groups.end();
  }
}

}  // namespace vramlink::os
