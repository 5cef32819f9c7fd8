// The parts of the explorer that do not depend on the model: hashing, the set of hashes, the text
// of a step.
#include "explorer.hpp"

namespace vramlink::model {
namespace {

__extension__ using Wide = unsigned __int128;

std::uint64_t fold_multiply(std::uint64_t left, std::uint64_t right) {
  const Wide product = static_cast<Wide>(left) * right;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64U);
}

// Two lanes with different odd constants; each word enters both before they are folded.
class Mixer {
 public:
  void add(std::uint64_t word) {
    low_ = fold_multiply(low_ ^ word, 0x9E3779B97F4A7C15ULL) + 0xD6E8FEB86659FD93ULL;
    high_ = fold_multiply(high_ + word, 0xC2B2AE3D27D4EB4FULL) ^ (word * 0xA0761D6478BD642FULL);
  }
  Hash128 finish() const {
    Hash128 hash{fold_multiply(low_ ^ (high_ >> 32U), 0xE7037ED1A0B428DBULL) ^ high_,
                 fold_multiply(high_ ^ (low_ << 32U), 0x8EBC6AF09C88C6E3ULL) + low_};
    if (hash.is_zero()) hash.low = 1;  // zero marks an empty place of the set
    return hash;
  }

 private:
  std::uint64_t low_ = 0x589965CC75374CC3ULL;
  std::uint64_t high_ = 0x1D8E4E27C47D124FULL;
};

}  // namespace

Hash128 hash_bytes(const void* bytes, std::size_t size) {
  Mixer mixer;
  const auto* position = static_cast<const unsigned char*>(bytes);
  for (; size >= 8; size -= 8, position += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, position, 8);
    mixer.add(word);
  }
  std::uint64_t rest = 0;
  std::memcpy(&rest, position, size);
  mixer.add(rest);
  return mixer.finish();
}

bool HashSet::insert(Hash128 hash) {
  if ((size_ + 1) * 10 > places_.size() * 7) grow();
  const std::size_t mask = places_.size() - 1;
  std::size_t place = hash.low & mask;
  for (; !places_[place].is_zero(); place = (place + 1) & mask) {
    if (places_[place] == hash) return false;
  }
  places_[place] = hash;
  ++size_;
  return true;
}

void HashSet::grow() {
  std::vector<Hash128> old(places_.size() * 2);
  old.swap(places_);
  const std::size_t mask = places_.size() - 1;
  for (const Hash128& hash : old) {
    if (hash.is_zero()) continue;
    std::size_t place = hash.low & mask;
    while (!places_[place].is_zero()) place = (place + 1) & mask;
    places_[place] = hash;
  }
}

std::string to_string(const Step& step) {
  std::string text;
  std::size_t used = 0;
  std::size_t used_names = 0;
  for (const char* letter = step.text; *letter != '\0'; ++letter) {
    if (*letter == '%' && used < step.numbers.size()) {
      text += std::to_string(step.numbers[used++]);
    } else if (*letter == '$' && used_names < step.names.size() && step.names[used_names]) {
      text += step.names[used_names++];
    } else {
      text += *letter;
    }
  }
  return text;
}

}  // namespace vramlink::model
