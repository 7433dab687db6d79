#include "plan/instructions/OperandInfo.h"

namespace mgc::plan {

Checked OperandInfo::span() const {
  if (rowStride == Checked(0))
    return bytes;
  if (!bytes || !rowBytes)
    return std::nullopt;
  return checkedAdd(checkedMultiply(*bytes / *rowBytes - 1, rowStride), rowBytes);
}

OperandInfo elementsOf(DType type, std::string_view name, Checked elements, OperandUse use) {
  const int64_t width = sizeInBytes(type);
  return {.name = name, .bytes = checkedMultiply(elements, width), .use = use, .elementBytes = width};
}

OperandInfo rowsOf(DType type, std::string_view name, Checked rows, Checked row, int64_t stride, OperandUse use) {
  OperandInfo info = elementsOf(type, name, checkedMultiply(rows, row), use);
  if (stride == 0)
    return info;
  info.rowBytes = checkedMultiply(row, info.elementBytes);
  info.rowStride = checkedMultiply(stride, info.elementBytes);
  return info;
}

OperandInfo countedRows(OperandInfo info) {
  info.isCounted = true;
  return info;
}

OperandInfo workspaceOf(int64_t bytes) {
  return {
      .name = "workspace", .bytes = bytes, .use = OperandUse::written, .elementBytes = kAlignment, .isScratch = true};
}

void addWorkspace(OperandInfos &infos, int64_t bytes) {
  if (bytes > 0)
    infos.push_back(workspaceOf(bytes));
}

// Rows of equal strides interleave where each has a part of the stride to itself.
static bool interleave(const OperandInfo &a, int64_t offsetA, const OperandInfo &b, int64_t offsetB) {
  const int64_t stride = a.rowStride.value_or(0);
  if (stride == 0 || b.rowStride != a.rowStride || offsetA < 0 || offsetB < 0)
    return false;
  int64_t distance = offsetB % stride - offsetA % stride;
  distance += distance < 0 ? stride : 0;
  return *a.rowBytes <= distance && *b.rowBytes <= stride - distance;
}

bool areApart(const OperandInfo &a, int64_t offsetA, const OperandInfo &b, int64_t offsetB) {
  const Checked endA = checkedAdd(offsetA, a.span()), endB = checkedAdd(offsetB, b.span());
  if (!endA || !endB)
    return false;
  const bool isEmpty = *endA == offsetA || *endB == offsetB;
  return isEmpty || *endA <= offsetB || *endB <= offsetA || interleave(a, offsetA, b, offsetB);
}

} // namespace mgc::plan
