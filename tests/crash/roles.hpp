// What a spawned child of the crash tests can be.
#pragma once

#include <string>
#include <vector>

#include "support/child_process.hpp"

namespace vramlink::test {

/// Runs the role and returns the exit code of the child.
int run_role(const std::string& role, const std::vector<std::string>& arguments,
             const ChildLink& link);

}  // namespace vramlink::test
