// Drivers and devices that lack something: VRAMLINK_SIMCUDA_PROFILE.
#pragma once

namespace vramlink::simcuda {

struct Profile {
  const char* name = "";
  int driver_version = 13000;
  bool has_query = true;     ///< cuGetProcAddress_v2, of drivers from 12.0 on
  bool has_mapping = true;   ///< the virtual memory calls
  bool exports_fds = true;   ///< of memory and of pools
  bool has_ipc = true;       ///< the calls whose names begin with cuIpc
  bool has_pools = true;     ///< stream-ordered memory
  bool has_words_64 = true;  ///< 64-bit words in streams
  bool is_mig = false;       ///< a device is a part of a GPU: one for a process, without peers
};

/// Read once, by the first question. Ends the process on a name that there is not.
const Profile& profile() noexcept;
/// Whether the profile is without a function, which then says not_supported.
bool lacks(const char* symbol) noexcept;

}  // namespace vramlink::simcuda
