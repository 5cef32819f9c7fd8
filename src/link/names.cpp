// See names.hpp.
#include "link/names.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/edit_distance.hpp"
#include "base/hex.hpp"
#include "base/try.hpp"
#include "os/errno.hpp"
#include "os/lock_file.hpp"
#include "wire/names.hpp"

namespace vramlink::link {
namespace {

constexpr std::string_view kLockSuffix = ".lock";
constexpr std::string_view kSocketSuffix = ".sock";
/// Longer names are hashed; '#' cannot occur in a name, so a hash is never somebody's name.
constexpr std::size_t kPlainNameBytesMax = 25;

/// FNV-1a, 64 bits: http://www.isthe.com/chongo/tech/comp/fnv/.
std::uint64_t hash(std::string_view text) {
  std::uint64_t value = 0xcbf29ce484222325u;
  for (const char byte : text) {
    value = (value ^ static_cast<unsigned char>(byte)) * 0x100000001b3u;
  }
  return value;
}

}  // namespace

Result<void> check_name(std::string_view name) {
  if (wire::valid_channel_name(name)) return {};
  return Error(Code::invalid_argument, "check name")
      .about(name.substr(0, 128))
      .because("a name has 1 to 120 of the characters A-Z a-z 0-9 . _ @ + - and no leading dot");
}

std::string socket_file(std::string_view name) {
  if (name.size() <= kPlainNameBytesMax) return std::string(name).append(kSocketSuffix);
  std::string file = "#";
  const std::uint64_t value = hash(name);
  for (int shift = 56; shift >= 0; shift -= 8) {
    base::append_hex(file, static_cast<std::uint8_t>(value >> shift));
  }
  return file.append(kSocketSuffix);
}

std::string socket_path(const std::string& directory, std::string_view name) {
  return directory + "/" + socket_file(name);
}

std::string lock_path(const std::string& directory, std::string_view name) {
  return directory + "/" + std::string(name).append(kLockSuffix);
}

Result<std::optional<os::ProcessIdentity>> living_owner(const std::string& lock_path) {
  using Found = std::optional<os::ProcessIdentity>;
  const Result<os::LockFile::Owner> owner = os::LockFile::read_owner(lock_path);
  if (owner.failed_with(Code::not_found) || owner.failed_with(Code::corrupt)) return Found();
  if (!owner) return owner.error();
  const os::Life life = os::life_of(owner->identity);
  if (life == os::Life::alive) return Found(owner->identity);
  if (life == os::Life::dead) return Found();
  const Result<bool> locked = os::LockFile::is_locked(lock_path);
  if (locked.failed_with(Code::not_found) || locked.failed_with(Code::corrupt)) return Found();
  if (!locked) return locked.error();
  return *locked ? Found(owner->identity) : Found();
}

namespace {

Result<std::vector<std::string>> names_in(const std::string& directory, bool of_group) {
  std::vector<std::string> names;
  std::error_code failure;
  for (std::filesystem::directory_iterator entry(directory, failure), end; !failure && entry != end;
       entry.increment(failure)) {
    const std::string file = entry->path().filename().string();
    if (file.size() <= kLockSuffix.size() || !file.ends_with(kLockSuffix)) continue;
    const std::string name = file.substr(0, file.size() - kLockSuffix.size());
    if (!wire::valid_channel_name(name)) continue;
    const auto owner = living_owner(entry->path().string());
    // Also on its way: a lock file is opened to the group when it says whose it is.
    if (of_group && owner.failed_with(Code::permission_denied)) continue;
    if (!owner) return owner.error();
    if (owner->has_value()) names.push_back(name);
  }
  if (failure == std::errc::no_such_file_or_directory) {  // not_found is for names
    return Error(Code::os, "list names").about(directory).from(Origin::os, failure.value());
  }
  if (failure) return os::from_errno_at(directory, "list names", failure.value());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

Result<std::vector<std::string>> list_names(const std::string& directory) {
  return names_in(directory, false);
}

Result<std::vector<std::string>> list_names(const os::RuntimeDirectory& directory) {
  if (!directory.group) return names_in(directory.path, false);
  const Result<os::DirectoryUsers> users = directory.users();
  if (users.failed_with(Code::not_found)) return std::vector<std::string>();
  if (!users) return users.error();
  return names_in(directory.path, true);
}

Error unknown_name(const char* operation, const std::string& directory, std::string_view name) {
  std::string remedy = "start a publisher of that name, or set VRAMLINK_RUNTIME_DIR to its folder";
  if (const auto names = list_names(directory); names && !names->empty()) {
    const std::size_t near = std::max<std::size_t>(2, name.size() / 3);
    std::string similar;
    std::string all;
    for (const std::string& other : *names) {
      std::string& list = base::edit_distance(name, other) <= near ? similar : all;
      list += (list.empty() ? "'" : ", '") + other + "'";
    }
    remedy = similar.empty() ? "channels that are there: " + all : "did you mean " + similar + "?";
  }
  return Error(Code::not_found, operation)
      .about(name)
      .because("nobody publishes it in " + directory)
      .remedy(std::move(remedy));
}

}  // namespace vramlink::link
