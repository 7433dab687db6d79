#include "runtime/io/Npy.h"
#include "test/runtime/TempDir.h"

#include <gtest/gtest.h>

using namespace mgc;
using namespace mgc::test;

static std::string npy(std::string header, size_t dataBytes, int version = 1) {
  std::string bytes = "\x93NUMPY";
  bytes += char(version);
  bytes += '\0';
  uint32_t length = uint32_t(header.size());
  bytes.append(reinterpret_cast<const char *>(&length), version == 1 ? 2 : 4);
  bytes += header;
  for (size_t i = 0; i < dataBytes; ++i)
    bytes += char(i);
  return bytes;
}

TEST(Npy, readsVersionsAndTypes) {
  TempDir dir;
  for (int version : {1, 2, 3}) {
    Result<Npy> file = Npy::open(
        dir.write("a.npy", npy("{'descr': '<u2', 'fortran_order': False, 'shape': (2, 3), }   \n", 12, version)));
    ASSERT_TRUE(isOk(file));
    EXPECT_EQ(file->tensor().type, ElementType::U16);
    EXPECT_EQ(file->tensor().shape, (std::vector<int64_t>{2, 3}));
    int64_t last;
    convertToI64(file->tensor(), 5, 1, &last);
    EXPECT_EQ(last, 0x0b0a);
  }
  Result<Npy> one = Npy::open(dir.write("b.npy", npy("{'shape': (4,), 'fortran_order': False, 'descr': '|i1'}", 4)));
  ASSERT_TRUE(isOk(one));
  EXPECT_EQ(one->tensor().type, ElementType::I8);
}

TEST(Npy, refusesTheRest) {
  TempDir dir;
  auto open = [&](const std::string &bytes) { return Npy::open(dir.write("a.npy", bytes)); };
  auto header = [](const char *descr, const char *order, const char *shape) {
    return fmt::format("{{'descr': {}, 'fortran_order': {}, 'shape': {}, }}\n", descr, order, shape);
  };
  EXPECT_TRUE(fails(open(""), {"a.npy", "does not begin"}));
  EXPECT_TRUE(fails(open("\x93NUMPY\x01"), {"does not begin"}));
  EXPECT_TRUE(fails(open(npy("{}", 0, 9)), {"version 9"}));
  EXPECT_TRUE(fails(open(npy("{}", 0)), {"expected descr"}));
  EXPECT_TRUE(fails(open(npy("{'descr': '<i4'", 0)), {"expected , or }"}));
  EXPECT_TRUE(fails(open(npy("{'descr", 0)), {"expected a string"}));
  EXPECT_TRUE(fails(open(npy("{'other': 1}", 0)), {"\"other\""}));
  EXPECT_TRUE(fails(open(npy("{'descr': '<i4'}", 4).substr(0, 14)), {"header length is 16, but only 4"}));
  EXPECT_TRUE(fails(open(npy(header("'<i4'", "True", "(2,)"), 8)), {"fortran_order is True"}));
  EXPECT_TRUE(fails(open(npy(header("'<f4'", "False", "(2,)"), 8)), {"'<f4'", "little-endian integers"}));
  EXPECT_TRUE(fails(open(npy(header("'>i4'", "False", "(2,)"), 8)), {"'>i4'"}));
  EXPECT_TRUE(fails(open(npy(header("'|b1'", "False", "(2,)"), 2)), {"'|b1'"}));
  EXPECT_TRUE(fails(open(npy(header("[('a', '<i4')]", "False", "(2,)"), 8)), {"expected a string"}));
  EXPECT_TRUE(fails(open(npy(header("'<i4'", "False", "()"), 4)), {"one or two dimensions"}));
  EXPECT_TRUE(fails(open(npy(header("'<i4'", "False", "(1, 1, 1)"), 4)), {"one or two dimensions"}));
  EXPECT_TRUE(fails(open(npy(header("'<i4'", "False", "(-1,)"), 4)), {"expected a size"}));
  EXPECT_TRUE(fails(open(npy(header("'<i4'", "False", "(99999999999999999999,)"), 4)), {"expected a size"}));
  EXPECT_TRUE(fails(open(npy(header("'<i4'", "False", "(4294967296, 4294967296)"), 4)), {"does not take"}));
  EXPECT_TRUE(fails(open(npy(header("'<i4'", "False", "(2,)"), 7)), {"does not take the 7 bytes"}));
  EXPECT_TRUE(fails(open(npy(header("'<i4'", "False", "(2,)"), 9)), {"does not take the 9 bytes"}));
}
