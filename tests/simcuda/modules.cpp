// Modules: PTX text is read for the names of its entries alone, and each name that is asked for
// must be a kernel of ours.
#include "modules.hpp"

#include <cstring>

#include "streams.hpp"

namespace vramlink::simcuda {
namespace {

constexpr std::size_t kEntriesMax = 64;

struct LoadedModule {
  std::uint32_t context = 0;
  std::array<const Kernel*, kEntriesMax> entries{};  ///< those of its entries that are known
  std::size_t entry_count = 0;
};

struct LoadedFunction {
  const Kernel* kernel = nullptr;
  std::uint64_t module = 0;  ///< the handle of its module
};

Pool<LoadedModule, HandleKind::module, 256> modules;
Pool<LoadedFunction, HandleKind::function, 1024> functions;

bool is_name_char(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '$';
}

/// Finds the entries in the text: ".entry NAME". invalid_ptx if it is no PTX.
Status read_entries(const char* text, LoadedModule& module) noexcept {
  static constexpr char kEntry[] = ".entry";
  if (std::strstr(text, ".version") == nullptr || std::strstr(text, ".target") == nullptr) {
    return Status::invalid_ptx;
  }
  while ((text = std::strstr(text, kEntry)) != nullptr) {
    text += sizeof kEntry - 1;
    while (*text == ' ' || *text == '\t' || *text == '\n') ++text;
    std::size_t length = 0;
    while (is_name_char(text[length])) ++length;
    if (length == 0) return Status::invalid_ptx;
    for (const Kernel& kernel : all_kernels()) {
      if (std::strlen(kernel.name) != length || std::strncmp(kernel.name, text, length) != 0) {
        continue;
      }
      if (module.entry_count == kEntriesMax) return Status::out_of_memory;
      module.entries[module.entry_count++] = &kernel;
    }
  }
  return Status::success;
}

void unload(LoadedModule& module) noexcept {
  const std::uint64_t handle = modules.handle_of(&module);
  functions.for_each([&](LoadedFunction& function) {
    if (function.module == handle) functions.remove(&function);
  });
  modules.remove(&module);
}

/// Fills in the arguments from the array of pointers that the call was given.
bool fill_arguments(const Kernel& kernel, void** parameters, KernelCall& call) noexcept {
  std::size_t offset = 0;
  for (std::size_t i = 0; i < kernel.argument_bytes.size(); ++i) {
    const std::size_t size_bytes = kernel.argument_bytes[i];
    offset = (offset + size_bytes - 1) / size_bytes * size_bytes;
    if (parameters == nullptr || parameters[i] == nullptr ||
        offset + size_bytes > call.arguments.size()) {
      return false;
    }
    std::memcpy(call.arguments.data() + offset, parameters[i], size_bytes);
    offset += size_bytes;
  }
  return true;
}

}  // namespace

std::uint32_t module_count() noexcept { return modules.count(); }

void remove_modules_of(std::uint32_t context) noexcept {
  modules.for_each([&](LoadedModule& module) {
    if (module.context == context) unload(module);
  });
}

Status cuModuleLoadData(Module* module, const void* image) {
  return enter(
      FunctionId::cuModuleLoadData, Needs::healthy,
      [&] {
        if (module == nullptr || image == nullptr) return Status::invalid_value;
        const api::Context owner = current_context_handle();
        const std::uint32_t context = index_of(*current_context());
        const Status status = block_while_busy(context);
        if (status != Status::success) return status;
        if (find_context(owner) == nullptr) return Status::invalid_context;
        LoadedModule read;
        read.context = context;
        const Status result = read_entries(static_cast<const char*>(image), read);
        if (result != Status::success) return result;
        LoadedModule* made = modules.add();
        if (made == nullptr) return Status::out_of_memory;
        *made = read;
        *module = to_handle<Module>(modules, made);
        return Status::success;
      },
      out(module), image);
}

Status cuModuleUnload(Module module) {
  return enter(
      FunctionId::cuModuleUnload, Needs::context,
      [&] {
        LoadedModule* found = modules.find(module);
        if (found == nullptr) return Status::invalid_handle;
        const Status fault = fault_of(found->context);
        unload(*found);
        return fault;
      },
      module);
}

Status cuModuleGetFunction(Function* function, Module module, const char* name) {
  return enter(
      FunctionId::cuModuleGetFunction, Needs::healthy,
      [&] {
        if (function == nullptr || name == nullptr) return Status::invalid_value;
        const LoadedModule* found = modules.find(module);
        if (found == nullptr) return Status::invalid_handle;
        for (std::size_t i = 0; i < found->entry_count; ++i) {
          if (std::strcmp(found->entries[i]->name, name) != 0) continue;
          LoadedFunction* made = functions.add();
          if (made == nullptr) return Status::out_of_memory;
          *made = {found->entries[i], modules.handle_of(found)};
          *function = to_handle<Function>(functions, made);
          return Status::success;
        }
        return Status::not_found;
      },
      out(function), module, name);
}

Status cuLaunchKernel(Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                      unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                      api::Stream stream, void** parameters, void** extra) {
  return enter(
      FunctionId::cuLaunchKernel, Needs::healthy,
      [&] {
        const std::uint64_t threads = std::uint64_t{block_x} * block_y * block_z;
        if (grid_x == 0 || grid_y == 0 || grid_z == 0 || threads == 0 || threads > 1024 ||
            extra != nullptr) {
          return Status::invalid_value;
        }
        if (functions.find(function) == nullptr) return Status::invalid_handle;
        Submission submission;
        const Status status = submission.begin(stream, 1, Stops::stays_behind);
        if (status != Status::success) return status;
        const LoadedFunction* found = functions.find(function);
        if (found == nullptr) return Status::invalid_handle;
        const LoadedModule* module = modules.find(found->module);
        if (module == nullptr || module->context != submission.stream().context) {
          return Status::invalid_handle;
        }
        Op& op = submission.add(OpKind::kernel);
        op.kernel.step = found->kernel->step;
        op.kernel.grid = {grid_x, grid_y, grid_z};
        op.kernel.block = {block_x, block_y, block_z};
        op.kernel.device = submission.device();
        if (!fill_arguments(*found->kernel, parameters, op.kernel)) return Status::invalid_value;
        submission.commit();
        return Status::success;
      },
      function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream);
}

}  // namespace vramlink::simcuda
