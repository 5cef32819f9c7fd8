#include "profiles.hpp"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace vramlink::simcuda {
namespace {

constexpr std::array kProfiles{
    Profile{},
    Profile{.name = "old_driver", .driver_version = 11080, .has_query = false},
    Profile{.name = "no_vmm", .has_mapping = false, .exports_fds = false},
    Profile{.name = "no_pools", .has_pools = false},
    Profile{.name = "mig", .is_mig = true},
    Profile{.name = "wsl", .exports_fds = false, .has_ipc = false},
    Profile{.name = "no_memops", .has_words_64 = false},
};

/// Functions by the beginnings of their names, and what they need.
struct Need {
  std::string_view begin;
  bool Profile::*ability;
};
constexpr std::array kNeeds{
    Need{"cuMemGetAllocationGranularity", &Profile::has_mapping},
    Need{"cuMemCreate", &Profile::has_mapping},
    Need{"cuMemRelease", &Profile::has_mapping},
    Need{"cuMemAddress", &Profile::has_mapping},
    Need{"cuMemMap", &Profile::has_mapping},
    Need{"cuMemUnmap", &Profile::has_mapping},
    Need{"cuMemSetAccess", &Profile::has_mapping},
    Need{"cuMemGetAccess", &Profile::has_mapping},
    Need{"cuMemGetAllocationProperties", &Profile::has_mapping},
    Need{"cuMemRetainAllocationHandle", &Profile::has_mapping},
    Need{"cuMemExportToShareableHandle", &Profile::exports_fds},
    Need{"cuMemImportFromShareableHandle", &Profile::exports_fds},
    Need{"cuMemPoolExportToShareableHandle", &Profile::exports_fds},
    Need{"cuMemPoolImportFromShareableHandle", &Profile::exports_fds},
    Need{"cuIpc", &Profile::has_ipc},
    Need{"cuMemPool", &Profile::has_pools},
    Need{"cuMemAllocAsync", &Profile::has_pools},
    Need{"cuMemAllocFromPoolAsync", &Profile::has_pools},
    Need{"cuMemFreeAsync", &Profile::has_pools},
    Need{"cuDeviceGetDefaultMemPool", &Profile::has_pools},
    Need{"cuDeviceGetMemPool", &Profile::has_pools},
    Need{"cuDeviceSetMemPool", &Profile::has_pools},
    Need{"cuStreamWriteValue64", &Profile::has_words_64},
    Need{"cuStreamWaitValue64", &Profile::has_words_64},
};

const Profile& chosen() noexcept {
  const char* const text = std::getenv("VRAMLINK_SIMCUDA_PROFILE");
  const std::string_view name = text == nullptr ? "" : text;
  for (const Profile& each : kProfiles) {
    if (each.name == name) return each;
  }
  std::fprintf(stderr, "simcuda: VRAMLINK_SIMCUDA_PROFILE=%s: there is none of that name\n", text);
  std::abort();
}

}  // namespace

const Profile& profile() noexcept {
  static const Profile& kChosen = chosen();
  return kChosen;
}

bool lacks(const char* symbol) noexcept {
  const std::string_view name = symbol;
  for (const Need& need : kNeeds) {
    if (!(profile().*need.ability) && name.substr(0, need.begin.size()) == need.begin) return true;
  }
  return false;
}

}  // namespace vramlink::simcuda
