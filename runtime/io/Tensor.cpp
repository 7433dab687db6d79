#include "runtime/io/Tensor.h"

#include "runtime/base/Bf16.h"

#include <array>
#include <bit>
#include <cassert>
#include <cstring>
#include <fmt/ranges.h>

namespace mgc {

static_assert(std::endian::native == std::endian::little, "file data is read in place");

namespace {

enum class ElementFamily { other, integer, floating };
struct TypeInfo {
  std::string_view name;
  int64_t bytes;
  ElementFamily family;
};

// In the order of ElementType.
constexpr std::array<TypeInfo, 15> kTypes = {{{"BOOL", 1, ElementFamily::other},
                                              {"U8", 1, ElementFamily::integer},
                                              {"I8", 1, ElementFamily::integer},
                                              {"U16", 2, ElementFamily::integer},
                                              {"I16", 2, ElementFamily::integer},
                                              {"U32", 4, ElementFamily::integer},
                                              {"I32", 4, ElementFamily::integer},
                                              {"U64", 8, ElementFamily::integer},
                                              {"I64", 8, ElementFamily::integer},
                                              {"F16", 2, ElementFamily::floating},
                                              {"BF16", 2, ElementFamily::floating},
                                              {"F32", 4, ElementFamily::floating},
                                              {"F64", 8, ElementFamily::floating},
                                              {"F8_E4M3", 1, ElementFamily::other},
                                              {"F8_E5M2", 1, ElementFamily::other}}};

const TypeInfo &info(ElementType type) { return kTypes[static_cast<size_t>(type)]; }

template <typename T> T read(const std::byte *from, int64_t index) {
  T value;
  std::memcpy(&value, from + index * int64_t(sizeof(T)), sizeof(T));
  return value;
}

float fromF16(uint16_t bits) {
  uint32_t sign = uint32_t(bits & 0x8000) << 16, exponent = (bits >> 10) & 0x1f, mantissa = bits & 0x3ff;
  if (exponent == 0) { // zero or subnormal: mantissa * 2^-24, exact in f32
    float magnitude = float(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
  }
  uint32_t wide = exponent == 31 ? 255 : exponent + (127 - 15);
  return std::bit_cast<float>(sign | wide << 23 | mantissa << 13);
}

template <typename From, typename To> void widen(const std::byte *from, int64_t count, To *out) {
  for (int64_t i = 0; i < count; ++i)
    out[i] = static_cast<To>(read<From>(from, i));
}

} // namespace

std::string_view toString(ElementType type) { return info(type).name; }
int64_t sizeInBytes(ElementType type) { return info(type).bytes; }
bool isInteger(ElementType type) { return info(type).family == ElementFamily::integer; }
bool isFloat(ElementType type) { return info(type).family == ElementFamily::floating; }

std::optional<ElementType> elementTypeFromString(std::string_view name) {
  for (size_t i = 0; i < kTypes.size(); ++i)
    if (kTypes[i].name == name)
      return static_cast<ElementType>(i);
  return std::nullopt;
}

bool areEqual(const TensorView &a, const TensorView &b) {
  return a.type == b.type && a.shape == b.shape && std::ranges::equal(a.data, b.data);
}

int64_t TensorView::elements() const { return int64_t(data.size()) / sizeInBytes(type); }

void convertToF32(const TensorView &tensor, int64_t begin, int64_t count, float *out) {
  assert(begin >= 0 && count >= 0 && begin + count <= tensor.elements());
  if (count == 0)
    return;
  const std::byte *from = tensor.data.data() + begin * sizeInBytes(tensor.type);
  switch (tensor.type) {
  case ElementType::F32:
    std::memcpy(out, from, size_t(count) * sizeof(float));
    return;
  case ElementType::F64:
    return widen<double>(from, count, out);
  case ElementType::BF16:
    for (int64_t i = 0; i < count; ++i)
      out[i] = toFloat(read<Bf16>(from, i));
    return;
  case ElementType::F16:
    for (int64_t i = 0; i < count; ++i)
      out[i] = fromF16(read<uint16_t>(from, i));
    return;
  default:
    assert(false && "not a type that reads as f32");
  }
}

void convertToI64(const TensorView &tensor, int64_t begin, int64_t count, int64_t *out) {
  assert(begin >= 0 && count >= 0 && begin + count <= tensor.elements());
  if (count == 0)
    return;
  const std::byte *from = tensor.data.data() + begin * sizeInBytes(tensor.type);
  switch (tensor.type) {
  case ElementType::U8:
    return widen<uint8_t>(from, count, out);
  case ElementType::I8:
    return widen<int8_t>(from, count, out);
  case ElementType::U16:
    return widen<uint16_t>(from, count, out);
  case ElementType::I16:
    return widen<int16_t>(from, count, out);
  case ElementType::U32:
    return widen<uint32_t>(from, count, out);
  case ElementType::I32:
    return widen<int32_t>(from, count, out);
  case ElementType::U64:
    return widen<uint64_t>(from, count, out);
  case ElementType::I64:
    return widen<int64_t>(from, count, out);
  default:
    assert(false && "not an integer type");
  }
}

std::string shapeToString(std::span<const int64_t> shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

std::optional<int64_t> checkedProduct(std::span<const int64_t> sizes) {
  bool zero = false;
  for (int64_t size : sizes) {
    if (size < 0)
      return std::nullopt;
    zero |= size == 0;
  }
  if (zero)
    return 0;
  int64_t product = 1;
  for (int64_t size : sizes)
    if (__builtin_mul_overflow(product, size, &product))
      return std::nullopt;
  return product;
}

} // namespace mgc
