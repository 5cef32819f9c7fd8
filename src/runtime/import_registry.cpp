// See import_registry.hpp.
#include "runtime/import_registry.hpp"

#include <utility>

#include "base/try.hpp"

namespace vramlink::runtime {

/// The right to map one key, given back however the mapping ends.
class ImportRegistry::Turn {
 public:
  Turn(ImportRegistry& registry, const os::SegmentKey& key) : registry_(registry), key_(key) {}
  ~Turn() {
    {
      const std::lock_guard lock(registry_.mutex_);
      registry_.being_mapped_.erase(key_);
    }
    registry_.mapped_.notify_all();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  ImportRegistry& registry_;
  const os::SegmentKey key_;
};

std::optional<Result<SharedView>> ImportRegistry::find(const os::SegmentKey& key,
                                                       std::uint64_t size_bytes, os::Access access,
                                                       std::shared_ptr<void>& owner) const {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return std::nullopt;
  owner = found->second.owner.lock();
  if (!owner) return std::nullopt;
  if (found->second.size_bytes != size_bytes) {
    return Error(Code::corrupt, "import memory")
        .because("the peer names another size than the mapping has")
        .numbers(size_bytes, found->second.size_bytes);
  }
  if (access == os::Access::read_write && found->second.access == os::Access::read_only) {
    return Error(Code::corrupt, "import memory")
        .because("the peer offers for writing what it offered for reading before");
  }
  return SharedView{owner, found->second.data, size_bytes};
}

Result<SharedView> ImportRegistry::find_or_map(const os::SegmentKey& key, std::uint64_t size_bytes,
                                               os::Access access, const Map& map) {
  std::shared_ptr<void> owner;  // may turn out to be the last one: unmaps outside the lock
  {
    std::unique_lock lock(mutex_);
    while (true) {
      if (auto found = find(key, size_bytes, access, owner)) return *std::move(found);
      if (being_mapped_.insert(key).second) break;
      mapped_.wait(lock);
    }
  }
  const Turn turn(*this, key);
  const SharedView view = VRAMLINK_TRY(map(access));
  const std::lock_guard lock(mutex_);
  // Memory of our own may have got this key meanwhile: all are to use its addresses.
  if (auto found = find(key, size_bytes, access, owner)) return *std::move(found);
  sweep();
  entries_.insert_or_assign(key, Entry{view.owner, view.data, view.size_bytes, access});
  return view;
}

void ImportRegistry::remember(const os::SegmentKey& key, const SharedView& view) {
  const std::lock_guard lock(mutex_);
  sweep();
  entries_.insert_or_assign(key,
                            Entry{view.owner, view.data, view.size_bytes, os::Access::read_write});
}

std::size_t ImportRegistry::size() const {
  const std::lock_guard lock(mutex_);
  std::size_t alive = 0;
  for (const auto& [key, entry] : entries_) alive += entry.owner.expired() ? 0 : 1;
  return alive;
}

void ImportRegistry::sweep() {
  std::erase_if(entries_, [](const auto& entry) { return entry.second.owner.expired(); });
}

}  // namespace vramlink::runtime
