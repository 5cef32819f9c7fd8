// doctor: what the driver and the GPUs are fit for.
#include "doctor/gpu_checks.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include <vramlink/device.hpp>
#include <vramlink/diagnose.hpp>

#include "device.hpp"
#include "doctor/round_trip.hpp"
#include "talk.hpp"

namespace vramlink::cli::doctor {
namespace {

constexpr const char* kDemand = "VRAMLINK_CUDA";
constexpr const char* kVisible = "CUDA_VISIBLE_DEVICES";

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool is_there(const char* path) noexcept { return ::access(path, F_OK) == 0; }

/// The kernel has a driver, whether or not this process can load its library. /dev/dxg is WSL's.
bool kernel_has_driver() noexcept {
  return is_there("/proc/driver/nvidia/version") || is_there("/dev/nvidiactl") ||
         is_there("/dev/dxg");
}

/// GPUs of the whole machine; 0 where the kernel does not tell.
std::uint64_t gpus_in_kernel() {
  std::error_code error;
  std::uint64_t count = 0;
  std::filesystem::directory_iterator each("/proc/driver/nvidia/gpus", error);
  for (; !error && each != std::filesystem::directory_iterator(); each.increment(error)) ++count;
  return count;
}

std::string version_text(std::uint32_t version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

/// No GPU at all: a fault where one should be there, and else the state of the machine.
Check no_driver_check(const Error& trouble, bool required) {
  Check check = failed_check("driver", trouble);
  if (environment(kDemand) == "off") {
    return {"driver", Verdict::skip, std::string(kDemand) + " is off", {}};
  }
  const bool hidden = trouble.code() == Code::no_device && std::getenv(kVisible) != nullptr;
  if (hidden) {
    check.verdict = required ? Verdict::fail : Verdict::warn;
    check.text = std::string(kVisible) + "='" + environment(kVisible) + "' hides every GPU";
    check.remedy = std::string("unset ") + kVisible;
  } else if (!kernel_has_driver() && !required && trouble.code() != Code::unsupported) {
    check.verdict = Verdict::skip;
    check.remedy.clear();
  } else if (trouble.code() == Code::no_driver && is_there("/proc/1/cgroup") &&
             (is_there("/.dockerenv") || is_there("/run/.containerenv"))) {
    check.remedy = "start the container with --gpus all (NVIDIA container toolkit)";
  }
  return check;
}

Check driver_check(const DriverInfo& driver) {
  std::string text = driver.release.empty() ? driver.library : driver.release;
  text += ", CUDA " + version_text(driver.version);
  if (!driver.release.empty() && driver.library != "libcuda.so.1") text += ", " + driver.library;
  return {"driver", Verdict::pass, std::move(text), {}};
}

/// How many of the machine's GPUs this process sees, where that is not all.
void check_visible(Findings& findings, std::uint64_t seen) {
  const std::uint64_t all = gpus_in_kernel();
  if (std::getenv(kVisible) == nullptr || all <= seen) return;
  findings.add({"visible",
                Verdict::pass,
                std::to_string(seen) + " of " + std::to_string(all) + " GPUs, by " + kVisible +
                    "=" + environment(kVisible),
                {}});
}

Check device_check(const DeviceInfo& device) {
  const GpuInfo& gpu = device.gpu;
  Check check{"device", Verdict::pass, {}, {}};
  if (!device.usable) {
    check.verdict = Verdict::fail;
    check.text = device.why_not;
    check.remedy = "vramlink demo --host";
    // The reason ends with what to do, if there is anything.
    if (const std::size_t at = check.text.rfind("; "); at != std::string::npos) {
      check.remedy = check.text.substr(at + 2);
      check.text.resize(at);
    }
    return check;
  }
  check.text = bytes_text(gpu.memory_bytes) + ", compute capability " +
               std::to_string(gpu.compute_capability / 10) + "." +
               std::to_string(gpu.compute_capability % 10);
  if (!gpu.pci_address.empty()) check.text += ", PCI " + gpu.pci_address;
  return check;
}

/// docs/cuda_notes.md has the figures.
Check sharing_check(const GpuInfo& gpu) {
  if (gpu.exclusive && gpu.mps != Mps::on) {
    return {"sharing", Verdict::warn,
            "its compute mode lets one process use it at a time, and a channel needs two",
            "sudo nvidia-smi -i " + gpu.pci_address + " -c DEFAULT"};
  }
  switch (gpu.mps) {
    case Mps::on:
      return {"sharing",
              Verdict::pass,
              "MPS is on: kernels of several processes run side by side, and a fault of one is "
              "reported to all",
              {}};
    case Mps::off:
      return {"sharing",
              Verdict::pass,
              "MPS is off: kernels of several processes take turns (0.1 ms a switch), and a fault "
              "stays in its process",
              {}};
    case Mps::unknown:
      break;
  }
  return {
      "sharing", Verdict::skip, "the driver does not say whether MPS is on",
      "`pgrep -a nvidia-cuda-mps`, outside of containers, names its processes where it is on; a "
      "newer driver says it"};
}

/// The usable GPU behind this one, in a circle; null if it is the only one.
const DeviceInfo* next_usable(const std::vector<DeviceInfo>& devices, const DeviceInfo& device) {
  const auto start = static_cast<std::size_t>(&device - devices.data());
  for (std::size_t step = 1; step < devices.size(); ++step) {
    const DeviceInfo& next = devices[(start + step) % devices.size()];
    if (!next.id.is_host() && next.usable) return &next;
  }
  return nullptr;
}

/// Each GPU is read by one other; all pairs would take long. That two cannot reach each other's
/// memory is a property of many machines, and no fault.
Check peer_check(const DeviceInfo& device, const DeviceInfo& reader, const std::string& group) {
  Check check = check_round_trip(device.id, reader.id, group);
  check.id = "peer";
  check.text = "read by GPU " + std::to_string(reader.gpu.ordinal) + ": " + check.text;
  if (check.verdict == Verdict::fail) {
    check.verdict = Verdict::warn;
    check.remedy =
        "read a channel with the GPU that it lives on: vramlink sub NAME; or copy its frames: "
        "vramlink sub NAME --gpu " +
        std::to_string(reader.gpu.ordinal) + " --copy-frames";
  }
  return check;
}

}  // namespace

GpuDemand::GpuDemand() : required_(environment(kDemand) == "require") {
  if (required_) ::setenv(kDemand, "auto", 1);
}

GpuCount check_gpus(Findings& findings, const Runtime& runtime, const GpuDemand& demand,
                    const std::string& group) {
  GpuCount count;
  findings.begin("driver", "GPU driver");
  const std::vector<DeviceInfo> devices = runtime.devices();
  const DriverInfo driver = inspect_driver(runtime);
  if (driver.trouble) {
    findings.add(no_driver_check(*driver.trouble, demand.required()));
    return count;
  }
  findings.add(driver_check(driver));
  check_visible(findings, devices.size() - 1);
  for (const DeviceInfo& device : devices) {
    if (device.id.is_host()) continue;
    ++count.seen;
    findings.begin(to_string(device.id), device_text(device) + ", " + to_string(device.id));
    findings.add(device_check(device));
    if (!device.usable) continue;
    findings.add(sharing_check(device.gpu));
    findings.add(check_round_trip(device.id, device.id, group));
    if (!findings.usable("round-trip")) continue;
    ++count.ready;
    if (const DeviceInfo* reader = next_usable(devices, device)) {
      findings.add(peer_check(device, *reader, group));
    }
  }
  return count;
}

}  // namespace vramlink::cli::doctor
