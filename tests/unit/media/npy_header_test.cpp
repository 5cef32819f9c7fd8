#include "../../../cli/media/npy_header.hpp"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>

namespace vramlink::cli::media {
namespace {

Result<NpyArray> parse(std::string_view text) { return parse_npy_dictionary(text, "x.npy"); }

// The dictionary of a whole header.
std::string_view dictionary(std::string_view header) { return header.substr(10); }

TEST(NpyHeader, ReadsWhatNumpyWrites) {
  const auto array = parse("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }   \n");
  ASSERT_TRUE(array);
  EXPECT_EQ(array->dtype, DType::float32);
  EXPECT_EQ(array->element_bytes, 4U);
  EXPECT_EQ(array->shape, (std::vector<std::uint64_t>{3, 4}));
  EXPECT_EQ(parse("{'shape':(7L,),'descr':'|u1','fortran_order':False}")->shape,
            std::vector<std::uint64_t>{7});
  EXPECT_TRUE(parse("{'descr': '<c16', 'fortran_order': False, 'shape': (), }")->shape.empty());
  EXPECT_TRUE(parse("{'descr': '<f4', 'fortran_order': True, 'shape': (3,), }"));
}

TEST(NpyHeader, KnowsRawBytesOfNamelessTypes) {
  const auto array = parse("{'descr': '|V2', 'fortran_order': False, 'shape': (3,), }");
  ASSERT_TRUE(array);
  EXPECT_FALSE(array->dtype);
  EXPECT_EQ(array->element_bytes, 2U);
}

TEST(NpyHeader, SaysWhatToDoAboutArraysThatDoNotFit) {
  for (const char* text : {"{'descr': '>f4', 'fortran_order': False, 'shape': (3,), }",
                           "{'descr': '<f4', 'fortran_order': True, 'shape': (3, 4), }",
                           "{'descr': '<U7', 'fortran_order': False, 'shape': (3,), }",
                           "{'descr': '|O', 'fortran_order': False, 'shape': (3,), }",
                           "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,), }"}) {
    const auto array = parse(text);
    ASSERT_TRUE(array.failed_with(Code::unsupported)) << text;
    EXPECT_FALSE(array.error().facts()->remedy.empty());
  }
}

TEST(NpyHeader, RefusesBrokenDictionaries) {
  for (const char* text :
       {"", "{", "{}", "x", "{'descr': '<f4'}", "{'descr': '<f4', 'fortran_order': False}",
        "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (3,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-3,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,2,3,4,5,6,7,8,9,10)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)} x",
        "{'descr': '<f4, 'fortran_order': False, 'shape': (3,)}",
        "{'descr' '<f4', 'fortran_order': False, 'shape': (3,)}",
        "{'more': 1, 'descr': '<f4', 'fortran_order': False, 'shape': (3,)}"}) {
    EXPECT_TRUE(parse(text).failed_with(Code::corrupt)) << text;
  }
}

TEST(NpyHeader, WritesNumpysBytes) {
  const std::array<std::uint64_t, 2> shape{3, 4};
  const std::string expected = std::string("\x93NUMPY\x01\x00\x76\x00", 10) +
                               "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }" +
                               std::string(58, ' ') + "\n";
  EXPECT_EQ(make_npy_header("<f4", shape), expected);
  EXPECT_EQ(make_npy_header("<f4", shape).size(), 128U);
  const std::array<std::uint64_t, 1> one{3};
  EXPECT_NE(make_npy_header("|u1", one).find("'shape': (3,), }"), std::string::npos);
  EXPECT_NE(make_npy_header("|V2", {}).find("'shape': (), }"), std::string::npos);
}

TEST(NpyHeader, KeepsItsSizeWhenTheFirstAxisGrows) {
  const std::array<std::uint64_t, 4> none{0, 1080, 1920, 4};
  const std::array<std::uint64_t, 4> many{18446744073709551615U, 1080, 1920, 4};
  EXPECT_EQ(make_npy_header("|u1", none).size(), make_npy_header("|u1", many).size());
  EXPECT_EQ(make_npy_header("|u1", many).size() % 64, 0U);
}

TEST(NpyHeader, ReadsWhatItWrites) {
  for (unsigned number = 1; number <= 20; ++number) {
    const auto dtype = static_cast<DType>(number);
    const std::array<std::uint64_t, 3> shape{2, 3, 5};
    const std::string header = make_npy_header(npy_descr(dtype), shape);
    const auto array = parse(dictionary(header));
    ASSERT_TRUE(array) << name(dtype);
    EXPECT_EQ(array->element_bytes * 8, bits(dtype));
    if (array->dtype) {
      EXPECT_EQ(*array->dtype, dtype);
    }
    EXPECT_EQ(array->shape, (std::vector<std::uint64_t>{2, 3, 5}));
  }
}

// No text, however broken, may do worse than be refused.
TEST(NpyHeader, SurvivesRandomChanges) {
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }";
  std::mt19937 random(1);
  const std::string_view alphabet = "{}()[]',:<>|=0123456789TFalserudVfcL \n\xff";
  for (int round = 0; round < 20'000; ++round) {
    std::string text = good.substr(0, random() % (good.size() + 1));
    for (unsigned change = random() % 6; change > 0 && !text.empty(); --change) {
      text[random() % text.size()] = alphabet[random() % alphabet.size()];
    }
    const auto array = parse(text);
    if (array) static_cast<void>(Format::tensor(array->dtype.value_or(DType::uint8), array->shape));
  }
}

}  // namespace
}  // namespace vramlink::cli::media
