// Runs a fuzzer's entry point without libFuzzer: every file of a folder, then changed copies of
// them from a fixed sequence, so that compilers without libFuzzer run the same code.

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr int kChangedCopies = 20000;

Bytes read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void change(Bytes& bytes, std::mt19937& random) {
  const auto pick = [&random](std::size_t bound) { return random() % bound; };
  for (std::size_t edits = 1 + pick(4); edits > 0; --edits) {
    switch (pick(4)) {
      case 0:
        if (!bytes.empty()) {
          bytes[pick(bytes.size())] ^= static_cast<std::uint8_t>(1U << pick(8));
        }
        break;
      case 1:
        if (!bytes.empty()) {
          bytes[pick(bytes.size())] = static_cast<std::uint8_t>(random());
        }
        break;
      case 2:
        bytes.resize(pick(bytes.size() + 1));
        break;
      default:
        bytes.insert(bytes.end(), 1 + pick(16), static_cast<std::uint8_t>(random()));
        break;
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<Bytes> inputs(1);  // The empty input always comes first.
  for (int i = 1; i < argc; ++i) {
    if (!std::filesystem::is_directory(argv[i])) {
      continue;
    }
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
      if (entry.is_regular_file()) {
        inputs.push_back(read_file(entry.path()));
      }
    }
  }
  for (const Bytes& input : inputs) {
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
  std::mt19937 random(1);  // NOLINT: a fixed sequence, so that a failure repeats.
  for (int i = 0; i < kChangedCopies; ++i) {
    Bytes copy = inputs[random() % inputs.size()];
    change(copy, random);
    LLVMFuzzerTestOneInput(copy.data(), copy.size());
  }
  std::printf("replayed %zu files and %d changed copies\n", inputs.size() - 1, kChangedCopies);
  return 0;
}
