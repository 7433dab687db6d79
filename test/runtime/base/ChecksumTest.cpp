#include "runtime/base/Checksum.h"

#include <gtest/gtest.h>

namespace mgc::test {
namespace {

std::string checksumOf(std::initializer_list<std::string_view> pieces) {
  Checksum checksum;
  for (std::string_view piece : pieces)
    checksum.add(piece);
  return checksum.text();
}

// The check value of CRC-32C in the catalogue of CRCs, and RFC 3720, B.4: 32 bytes of zeros.
TEST(Checksum, isThatOfTheStandard) {
  EXPECT_EQ(checksumOf({"123456789"}), "e3069283");
  EXPECT_EQ(
      checksumOf({std::string_view("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 32)}),
      "8a9136aa");
  EXPECT_EQ(checksumOf({}), "00000000");
}

TEST(Checksum, doesNotDependOnPieces) {
  EXPECT_EQ(checksumOf({"1234", "", "56789"}), checksumOf({"123456789"}));
  EXPECT_NE(checksumOf({"123456788"}), checksumOf({"123456789"}));
}

} // namespace
} // namespace mgc::test
