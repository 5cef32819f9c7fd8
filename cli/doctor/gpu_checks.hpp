// doctor: the driver and each GPU.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <vramlink/runtime.hpp>

#include "doctor/check.hpp"

namespace vramlink::cli::doctor {

/// Takes VRAMLINK_CUDA=require back for this process and its children, so that everything else can
/// be looked at, and remembers it. Before the first Runtime.
class GpuDemand {
 public:
  GpuDemand();
  [[nodiscard]] bool required() const noexcept { return required_; }

 private:
  bool required_ = false;
};

struct GpuCount {
  std::uint64_t seen = 0;
  std::uint64_t ready = 0;
};

/// Driver, visibility, and for each GPU what it is, how it is shared, and frames through it, sent
/// for `group`.
[[nodiscard]] GpuCount check_gpus(Findings& findings, const Runtime& runtime,
                                  const GpuDemand& demand, const std::string& group);

}  // namespace vramlink::cli::doctor
