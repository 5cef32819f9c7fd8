// cli: the commands. Each returns the exit code.
#pragma once

#include "options.hpp"

namespace vramlink::cli {

[[nodiscard]] int run(const DemoOptions& options);
[[nodiscard]] int run(const DemoChildOptions& options);
[[nodiscard]] int run(const PubOptions& options);
[[nodiscard]] int run(const SubOptions& options);
[[nodiscard]] int run(const GrabOptions& options);
[[nodiscard]] int run(const LsOptions& options);
[[nodiscard]] int run(const DoctorOptions& options);
[[nodiscard]] int run(const DoctorChildOptions& options);
[[nodiscard]] int run(const ExplainOptions& options);
[[nodiscard]] int run(const VersionOptions& options);

}  // namespace vramlink::cli
