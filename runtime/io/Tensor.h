// A tensor in a mapped file: element type, shape, bytes (little-endian, row-major, unaligned), and reading it
// as f32 or as integers.
#pragma once

#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mgc {

// The element types a safetensors header can name.
enum class ElementType { BOOL, U8, I8, U16, I16, U32, I32, U64, I64, F16, BF16, F32, F64, F8_E4M3, F8_E5M2 };
std::string_view toString(ElementType type);                        // the safetensors name: "BF16"
std::optional<ElementType> elementTypeFromString(std::string_view); // by that name
int64_t sizeInBytes(ElementType type);
bool isInteger(ElementType type); // BOOL is not
bool isFloat(ElementType type);   // types that convertToF32 reads: F16, BF16, F32, F64

struct TensorView {
  ElementType type = ElementType::F32;
  std::vector<int64_t> shape;
  std::span<const std::byte> data;
  int64_t elements() const;
};

// Types, shapes and bits.
bool areEqual(const TensorView &a, const TensorView &b);

// Elements [begin, begin + count) of a tensor, as f32 (isFloat types) or int64 (isInteger types; a U64 above
// the greatest int64 reads as negative). The range lies inside, the type is one of those named: asserted.
void convertToF32(const TensorView &tensor, int64_t begin, int64_t count, float *out);
void convertToI64(const TensorView &tensor, int64_t begin, int64_t count, int64_t *out);

// "[2, 3]"
std::string shapeToString(std::span<const int64_t> shape);
// The product, or nothing when a size is negative or the product does not fit int64_t.
std::optional<int64_t> checkedProduct(std::span<const int64_t> sizes);

} // namespace mgc
