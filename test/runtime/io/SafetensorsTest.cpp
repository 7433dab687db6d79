#include "runtime/io/Safetensors.h"
#include "test/runtime/TempDir.h"

#include <bit>
#include <cmath>
#include <cstring>

using namespace mgc;
using namespace mgc::test;

namespace {

// A file with this header text and `dataBytes` zero bytes of data; `length` lies when given.
std::string fileOf(std::string_view header, size_t dataBytes, std::optional<uint64_t> length = {}) {
  uint64_t size = length.value_or(header.size());
  std::string bytes(reinterpret_cast<const char *>(&size), sizeof(size));
  return bytes.append(header).append(dataBytes, '\0');
}

// A header of these entries, one of an f32 tensor, and the header of one alone.
std::string header(const std::vector<std::string> &entries) { return fmt::format("{{{}}}", fmt::join(entries, ",")); }
std::string entry(const char *name, const char *shape, const char *offsets) {
  return fmt::format(R"("{}":{{"dtype":"F32","shape":{},"data_offsets":{}}})", name, shape, offsets);
}
std::string oneTensor(const char *shape, const char *offsets) { return header({entry("a", shape, offsets)}); }

struct Hostile {
  const char *name;
  std::string bytes;
  std::string message;
};

const std::vector<Hostile> &hostileFiles() {
  static const std::vector<Hostile> files = {
      {"Empty", "", "has 0 bytes"},
      {"Short", "1234567", "has 7 bytes"},
      {"LengthBeyondFile", fileOf("{}", 0, 3), "header length is 3, but only 2 bytes follow it"},
      {"LengthHuge", fileOf("{}", 0, UINT64_MAX), "expected at most 100000000"},
      {"LengthAboveLimit", fileOf("{}", 0, 100'000'001), "expected at most 100000000"},
      {"LengthZero", fileOf("", 0), "not JSON"},
      {"NotJson", fileOf("hello", 0), "not JSON"},
      {"CutJson", fileOf(R"({"a":)", 0), "not JSON"},
      {"BadUtf8", fileOf("{\"\xff\": 1}", 0), "not JSON"},
      {"Deep", fileOf(std::string(100'000, '['), 0), "nested deeper than 64"},
      {"Array", fileOf("[]", 0), "the header is array"},
      {"EntryNotObject", fileOf(R"({"a": 3})", 0), "tensor \"a\": is number"},
      {"NoDtype", fileOf(R"({"a":{"shape":[1],"data_offsets":[0,4]}})", 4), "\"dtype\" is missing"},
      {"DtypeNumber", fileOf(R"({"a":{"dtype":4,"shape":[1],"data_offsets":[0,4]}})", 4), "\"dtype\" is number"},
      {"UnknownDtype", fileOf(R"({"a":{"dtype":"F33","shape":[1],"data_offsets":[0,4]}})", 4),
       "tensor \"a\": unknown dtype \"F33\""},
      {"NoShape", fileOf(R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", 4), "\"shape\" is missing"},
      {"ShapeNegative", fileOf(oneTensor("[-1]", "[0,4]"), 4), "\"shape\" has -1"},
      {"ShapeFraction", fileOf(oneTensor("[1.5]", "[0,4]"), 4), "\"shape\" has 1.5"},
      {"ShapeString", fileOf(oneTensor(R"(["1"])", "[0,4]"), 4), "\"shape\" has"},
      {"ShapeBeyond64Bits", fileOf(oneTensor("[18446744073709551617]", "[0,4]"), 4), "\"shape\" has"},
      {"ProductOverflows", fileOf(oneTensor("[4294967296,4294967296]", "[0,4]"), 4), "is too large"},
      {"BytesOverflow", fileOf(R"({"a":{"dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0]}})", 0),
       "is too large"},
      {"NoOffsets", fileOf(R"({"a":{"dtype":"F32","shape":[1]}})", 4), "\"data_offsets\" is missing"},
      {"ThreeOffsets", fileOf(oneTensor("[1]", "[0,4,8]"), 4), "expected [begin, end]"},
      {"OffsetsBackwards", fileOf(oneTensor("[1]", "[4,0]"), 4), "expected [begin, end]"},
      {"OffsetsBeyondFile", fileOf(oneTensor("[2]", "[0,8]"), 4),
       "tensor \"a\": data ends at byte 8, but the file has only 4"},
      {"OffsetsHuge", fileOf(oneTensor("[1]", "[9223372036854775803,9223372036854775807]"), 4),
       "but the file has only 4"},
      {"SizeNotShape", fileOf(oneTensor("[3]", "[0,4]"), 4), "F32 [3] takes 12 bytes, but \"data_offsets\" holds 4"},
      {"Overlap", fileOf(header({entry("a", "[2]", "[0,8]"), entry("b", "[2]", "[4,12]")}), 12),
       "overlap is not allowed"},
      {"SameBytes", fileOf(header({entry("a", "[1]", "[0,4]"), entry("b", "[1]", "[0,4]")}), 4),
       "overlap is not allowed"},
      {"Gap", fileOf(header({entry("a", "[1]", "[0,4]"), entry("b", "[1]", "[8,12]")}), 12),
       "data of tensor \"b\" begins at byte 8, but that of \"a\" ends at 4: a gap"},
      {"GapAtBegin", fileOf(oneTensor("[1]", "[4,8]"), 8), "a gap is not allowed"},
      {"TrailingBytes", fileOf(oneTensor("[1]", "[0,4]"), 5), "1 bytes follow the last tensor"},
      {"DuplicateName", fileOf(header({entry("a", "[1]", "[0,4]"), entry("a", "[1]", "[0,4]")}), 4),
       "the name \"a\" is given twice"},
      {"MetadataNumber", fileOf(R"({"__metadata__":{"a":1}})", 0), "expected a string"},
      {"MetadataArray", fileOf(R"({"__metadata__":[]})", 0), "expected an object of strings"},
  };
  return files;
}

class HostileSafetensors : public testing::TestWithParam<Hostile> {};

} // namespace

TEST_P(HostileSafetensors, isRefusedWithFileAndReason) {
  TempDir dir;
  std::string path = dir.write("bad.safetensors", GetParam().bytes);
  EXPECT_TRUE(fails(Safetensors::open(path), {path, GetParam().message}));
}
INSTANTIATE_TEST_SUITE_P(All, HostileSafetensors, testing::ValuesIn(hostileFiles()),
                         [](const auto &info) { return info.param.name; });

// Every one-byte change of a good file either still reads, with all data inside the file, or is an error.
TEST(Safetensors, survivesEveryChangedByte) {
  TempDir dir;
  std::string good = fileOf(
      R"({"a":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[],"data_offsets":[8,9]}})",
      9);
  int refused = 0, read = 0;
  for (size_t at = 0; at < good.size(); ++at)
    for (char change : {1, 2, 16, 64, -128}) {
      std::string bad = good;
      bad[at] ^= change;
      Result<Safetensors> file = Safetensors::open(dir.write("f", bad));
      ++(file.isOk() ? read : refused);
      if (file.isOk())
        for (const auto &[name, tensor] : file->tensors())
          for (std::byte byte : tensor.data)
            EXPECT_TRUE(byte == std::byte(0) || at + 9 >= good.size());
    }
  EXPECT_GT(refused, 300);
  EXPECT_GT(read, 20);
}

TEST(Safetensors, writesAndReadsBack) {
  TempDir dir;
  std::vector<TensorSpec> specs = {{"z.first", ElementType::F32, {2, 3}},
                                   {"a.second", ElementType::I64, {2}},
                                   {"empty", ElementType::F32, {0, 4}},
                                   {"scalar", ElementType::F32, {}}};
  std::vector<float> first = {1, 2, 3, 4, 5, -0.0f}, scalar = {7};
  std::vector<int64_t> second = {-1, INT64_MAX};
  Result<SafetensorsWriter> writer = SafetensorsWriter::create(dir.path("f"), specs, {{"format", "pt"}});
  ASSERT_TRUE(isOk(writer));
  ASSERT_TRUE(isOk(writer->write(std::as_bytes(std::span(first).first(1)))));
  ASSERT_TRUE(isOk(writer->write(std::as_bytes(std::span(first).subspan(1)))));
  ASSERT_TRUE(isOk(writer->write(std::as_bytes(std::span(second)))));
  EXPECT_TRUE(fails(writer->commit(), {"40 of 44 bytes"}));
  ASSERT_TRUE(isOk(writer->write(std::as_bytes(std::span(scalar)))));
  EXPECT_TRUE(fails(writer->write(std::as_bytes(std::span(scalar))), {"more data"}));
  ASSERT_TRUE(isOk(writer->commit()));

  Result<Safetensors> file = Safetensors::open(dir.path("f"));
  ASSERT_TRUE(isOk(file));
  EXPECT_EQ(file->metadata().at("format"), "pt");
  EXPECT_EQ(file->find("z.first")->shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(std::memcmp(file->find("z.first")->data.data(), first.data(), 24), 0);
  EXPECT_EQ(file->find("a.second")->type, ElementType::I64);
  std::vector<int64_t> integers(2);
  convertToI64(*file->find("a.second"), 0, 2, integers.data());
  EXPECT_EQ(integers, second);
  EXPECT_EQ(file->find("empty")->elements(), 0);
  EXPECT_EQ(file->find("scalar")->elements(), 1);
  EXPECT_EQ(file->find("nothing"), nullptr);
  EXPECT_EQ(dir.list(), (std::set<std::string>{"f"}));
}

TEST(Safetensors, writerRefusesDuplicateAndHugeTensors) {
  TempDir dir;
  std::vector<TensorSpec> twice = {{"a", ElementType::F32, {1}}, {"a", ElementType::F32, {1}}};
  EXPECT_TRUE(fails(SafetensorsWriter::create(dir.path("f"), twice), {"\"a\" is given twice"}));
  std::vector<TensorSpec> huge = {{"a", ElementType::F32, {int64_t(1) << 40, int64_t(1) << 40}}};
  EXPECT_TRUE(fails(SafetensorsWriter::create(dir.path("f"), huge), {"too large"}));
  EXPECT_TRUE(dir.list().empty());
}

TEST(Safetensors, uncommittedWriterLeavesTheOldFileAndNoOther) {
  TempDir dir;
  dir.write("f", "old");
  std::vector<TensorSpec> specs = {{"a", ElementType::F32, {1}}};
  {
    Result<SafetensorsWriter> writer = SafetensorsWriter::create(dir.path("f"), specs);
  }
  EXPECT_EQ(dir.read("f"), "old");
  EXPECT_EQ(dir.list(), (std::set<std::string>{"f"}));
}

TEST(Tensor, convertsEveryHalfToTheFloatItMeans) {
  for (int bits = 0; bits < 65536; ++bits) {
    uint16_t half = uint16_t(bits);
    TensorView view{ElementType::F16, {1}, std::as_bytes(std::span(&half, 1))};
    float found;
    convertToF32(view, 0, 1, &found);
    int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
    double magnitude = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
    if (exponent == 31 && mantissa != 0)
      EXPECT_TRUE(std::isnan(found));
    else
      EXPECT_EQ(found, exponent == 31 ? (bits & 0x8000 ? -INFINITY : INFINITY)
                                      : float(bits & 0x8000 ? -magnitude : magnitude));
    EXPECT_EQ(std::signbit(found), (bits & 0x8000) != 0);
  }
}

TEST(Tensor, convertsBf16AndF64AndUnalignedF32) {
  std::vector<uint16_t> bf16 = {0x3f80, 0xc000, 0x7f80};
  std::vector<float> out(3);
  convertToF32({ElementType::BF16, {3}, std::as_bytes(std::span(bf16))}, 0, 3, out.data());
  EXPECT_EQ(out, (std::vector<float>{1, -2, INFINITY}));
  std::vector<double> f64 = {0.1, -1e300, 3};
  convertToF32({ElementType::F64, {3}, std::as_bytes(std::span(f64))}, 1, 2, out.data());
  EXPECT_EQ(out[0], -INFINITY);
  EXPECT_EQ(out[1], 3);
  std::vector<std::byte> bytes(9);
  float value = 1.5;
  std::memcpy(bytes.data() + 5, &value, 4);
  convertToF32({ElementType::F32, {2}, std::span(bytes).subspan(1)}, 1, 1, out.data());
  EXPECT_EQ(out[0], 1.5);
}

template <typename T> static int64_t asI64(ElementType type, T value) {
  int64_t out;
  convertToI64({type, {1}, std::as_bytes(std::span(&value, 1))}, 0, 1, &out);
  return out;
}
TEST(Tensor, convertsEveryIntegerType) {
  EXPECT_EQ(asI64<uint8_t>(ElementType::U8, 255), 255);
  EXPECT_EQ(asI64<int8_t>(ElementType::I8, -1), -1);
  EXPECT_EQ(asI64<uint16_t>(ElementType::U16, 65535), 65535);
  EXPECT_EQ(asI64<int16_t>(ElementType::I16, -2), -2);
  EXPECT_EQ(asI64<uint32_t>(ElementType::U32, 4294967295u), 4294967295);
  EXPECT_EQ(asI64<int32_t>(ElementType::I32, -3), -3);
  EXPECT_EQ(asI64<uint64_t>(ElementType::U64, 4), 4);
  EXPECT_EQ(asI64<int64_t>(ElementType::I64, INT64_MIN), INT64_MIN);
}
