// Which back ends can run here, and why the others cannot. The .cpp is the only file that names the
// back ends' folders.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include <vramlink/device.hpp>
#include <vramlink/diagnose.hpp>
#include <vramlink/inspect.hpp>
#include <vramlink/result.hpp>

#include "backend/backend.hpp"

namespace vramlink::runtime {

/// Made once a process. The GPU driver is looked for when the first question is about GPUs: a
/// program that stays on the host never loads it. Thread-safe.
class BackendRegistry {
 public:
  BackendRegistry();
  /// For tests, before anything is opened: one more device, which is not listed.
  void add(std::unique_ptr<backend::Backend> backend) { added_.push_back(std::move(backend)); }

  /// The host first, then every device that was found, the unusable ones with their reason. Loads
  /// the GPU driver, and makes no context.
  [[nodiscard]] const std::vector<DeviceInfo>& devices() const;
  /// The one that channels use of themselves: legacy handles need their consent.
  /// Codes: no_device (names the ones that are there), no_driver, unsupported (with the reason).
  [[nodiscard]] Result<backend::Backend*> find(const DeviceId& device) const;
  /// The one whose memory goes by legacy handles. Codes: as find; unsupported of the host.
  [[nodiscard]] Result<backend::Backend*> find_legacy(const DeviceId& device) const;
  /// Either: for work that shares no memory. Codes: as find.
  [[nodiscard]] Result<backend::Backend*> find_any(const DeviceId& device) const;
  /// What is at an address. Loads the driver. Codes: driver.
  [[nodiscard]] Result<MemoryInfo> inspect(const std::byte* address) const;
  /// The driver of the GPUs, without its release: why there are none, or what it is. Loads it.
  [[nodiscard]] DriverInfo driver() const;
  /// What VRAMLINK_CUDA demands: with "require" it fails as the search for a usable GPU does; with
  /// "off" and "auto", and without it, nothing. Codes: as find, invalid_argument (another word).
  [[nodiscard]] Result<void> check_required() const;

 private:
  struct Gpus {
    std::vector<DeviceInfo> devices;  ///< the host's too
    std::vector<std::unique_ptr<backend::Backend>> backends;
    std::vector<std::unique_ptr<backend::Backend>> legacy_backends;
    DriverInfo driver;
  };
  [[nodiscard]] const Gpus& gpus() const;
  [[nodiscard]] Result<backend::Backend*> find_gpu(const DeviceId& device, bool legacy) const;
  [[nodiscard]] Gpus look_for_gpus() const;

  DeviceInfo host_info_;
  std::unique_ptr<backend::Backend> host_;
  std::vector<std::unique_ptr<backend::Backend>> added_;
  mutable std::once_flag looked_;
  mutable Gpus gpus_;
};

}  // namespace vramlink::runtime
