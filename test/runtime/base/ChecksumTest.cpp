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
  EXPECT_EQ(checksumOf({std::string_view("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 32)}),
            "8a9136aa");
  EXPECT_EQ(checksumOf({}), "00000000");
}

TEST(Checksum, doesNotDependOnPieces) {
  EXPECT_EQ(checksumOf({"1234", "", "56789"}), checksumOf({"123456789"}));
  EXPECT_NE(checksumOf({"123456788"}), checksumOf({"123456789"}));
}

// Three stretches of 4096 bytes are summed side by side; pieces of 1000 bytes one after the other.
TEST(Checksum, ofMuchAtOnceIsThatOfItsPieces) {
  std::string text(50'000, '\0');
  for (size_t i = 0; i < text.size(); ++i)
    text[i] = static_cast<char>(i * i * 2654435761u >> 20);
  for (const size_t length : {12'287, 12'288, 12'289, 24'576, 50'000}) {
    const std::string_view whole = std::string_view(text).substr(text.size() - length);
    Checksum checksum;
    for (size_t at = 0; at < length; at += 1000)
      checksum.add(whole.substr(at, 1000));
    EXPECT_EQ(checksumOf({whole}), checksum.text()) << length;
  }
}

} // namespace
} // namespace mgc::test
