#include "plan/Operands.h"

#include "plan/Plan.h"
#include "plan/mesh/Mesh.h"

namespace mgc::plan {

using Infos = std::vector<OperandInfo>;
using Use = OperandInfo::Use;

static OperandInfo elementsOf(DType type, std::string_view name, Checked elements, Use use = Use::read) {
  const int64_t width = sizeInBytes(type);
  return {name, checkedMultiply(elements, width), use, 0, 0, width};
}

Checked OperandInfo::span() const {
  if (rowStride == Checked(0))
    return bytes;
  if (!bytes || !rowBytes)
    return std::nullopt;
  return checkedAdd(checkedMultiply(*bytes / *rowBytes - 1, rowStride), rowBytes);
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

static Infos describe(const Mesh &, const RowKernel &kernel) {
  Infos infos;
  for (const RowKernel::Operand &operand : kernel.uses)
    infos.push_back({"of the kernel", operand.bytes, operand.use, operand.rowBytes, operand.rowStride});
  return infos;
}

GemmOperands operandNumbersOf(const Gemm &gemm) {
  GemmOperands numbers;
  int64_t next = 2;
  if (gemm.epilogue != Epilogue::none)
    numbers.bias = next++;
  numbers.c = next++;
  if (gemm.epilogue == Epilogue::gelu)
    numbers.preactivation = next++;
  if (gemm.workspaceBytes > 0)
    numbers.workspace = next++;
  return numbers;
}

static Infos describe(const Mesh &, const Gemm &gemm) {
  const Checked results = checkedMultiply(gemm.m, gemm.n);
  Infos infos = {elementsOf(gemm.inputType, "A", checkedMultiply(gemm.m, gemm.k)),
                 elementsOf(gemm.inputType, "B", checkedMultiply(gemm.k, gemm.n))};
  if (gemm.epilogue != Epilogue::none)
    infos.push_back(elementsOf(gemm.outputType, "bias", gemm.n));
  infos.push_back(elementsOf(gemm.outputType, "C", results, gemm.accumulate ? Use::updated : Use::written));
  if (gemm.epilogue == Epilogue::gelu)
    infos.push_back(elementsOf(gemm.outputType, "preactivation", results, Use::written));
  if (gemm.workspaceBytes > 0)
    infos.push_back({"workspace", gemm.workspaceBytes, Use::written, 0, 0, kAlignment});
  return infos;
}

// Rows of `row` elements, `stride` elements apart or, if that is 0, one after another.
static OperandInfo rowsOf(DType type, std::string_view name, Checked rows, Checked row, int64_t stride,
                          Use use) {
  OperandInfo info = elementsOf(type, name, checkedMultiply(rows, row), use);
  if (stride == 0)
    return info;
  info.rowBytes = checkedMultiply(row, info.elementBytes);
  info.rowStride = checkedMultiply(stride, info.elementBytes);
  return info;
}

static Infos describe(const Mesh &, const Attention &attention) {
  int64_t s = attention.s, t = attention.t, b = attention.b, g = attention.g, r = attention.r,
          d = attention.d;
  const DType type = attention.type, lseType = DType::f32, indexType = DType::i32;
  const DType resultType = attention.resultsInF32 ? DType::f32 : type;
  Checked query = checkedProduct({s, b, g, r, d}), heads = checkedProduct({s, b, g, r});
  auto queries = [&](std::string_view name, int64_t stride, Use use) {
    return rowsOf(use == Use::read ? type : resultType, name, checkedProduct({s, b, g}),
                  checkedMultiply(r, d), stride, use);
  };
  auto keys = [&](std::string_view name, int64_t stride, Use use) {
    return rowsOf(use == Use::read ? type : resultType, name, checkedProduct({t, b, g}), d, stride, use);
  };
  Infos infos = {queries("q", attention.qStride, Use::read), keys("k", attention.kStride, Use::read),
                 keys("v", attention.vStride, Use::read)};
  auto add = [&](Infos more) { infos.insert(infos.end(), more.begin(), more.end()); };
  if (attention.backward)
    add({elementsOf(type, "o", query), elementsOf(lseType, "lse", heads), elementsOf(type, "do", query)});
  add({elementsOf(indexType, "queryPos", checkedMultiply(s, b)),
       elementsOf(indexType, "keyPos", checkedMultiply(t, b))});
  if (attention.documents)
    add({elementsOf(indexType, "start", checkedMultiply(s, b))});
  if (attention.dropout > 0)
    add({elementsOf(indexType, "sample", b)});
  if (attention.backward)
    add({queries("dq", attention.dqStride, Use::written), keys("dk", attention.dkStride, Use::written),
         keys("dv", attention.dvStride, Use::written)});
  else
    add({elementsOf(resultType, "o", query, Use::written), elementsOf(lseType, "lse", heads, Use::written)});
  add({{"workspace", attention.workspaceBytes, Use::written, 0, 0, kAlignment}});
  return infos;
}

static Infos describe(const Mesh &mesh, const Collective &collective) {
  Checked ranks = groupSize(mesh, collective);
  Checked part = checkedMultiply(collective.outer, collective.chunk);
  Checked whole = checkedMultiply(part, ranks);
  const auto fromTo = [&](Checked source, Checked destination) {
    return Infos{elementsOf(collective.type, "source", source),
                 elementsOf(collective.type, "destination", destination, Use::written)};
  };
  switch (collective.kind) {
  case Collective::Kind::allReduce:
  case Collective::Kind::permute:
    return fromTo(part, part);
  case Collective::Kind::allGather:
    return fromTo(part, whole);
  case Collective::Kind::reduceScatter:
    return fromTo(whole, part);
  case Collective::Kind::allToAll:
    break;
  }
  whole = checkedMultiply(whole, collective.middle);
  Infos infos = fromTo(whole, whole);
  if (collective.workspaceBytes > 0)
    infos.push_back({"workspace", collective.workspaceBytes, Use::written, 0, 0, kAlignment});
  return infos;
}

static Infos describe(const Mesh &mesh, const Move &move) {
  if (move.kind == Move::Kind::fill)
    return {{"destination", move.bytes, Use::written}};
  if (move.kind != Move::Kind::slice)
    return {{"source", move.bytes}, {"destination", move.bytes, Use::written}};
  Checked part = checkedMultiply(move.outer, move.chunkBytes);
  return {{"source", checkedMultiply(part, groupSize(mesh, move.axes))}, {"destination", part, Use::written}};
}

std::vector<OperandInfo> operandsOf(const Mesh &mesh, const InstructionBody &body) {
  return std::visit([&](const auto &kind) { return describe(mesh, kind); }, body);
}

bool mayWorkInPlace(const InstructionBody &body) {
  if (const auto *collective = std::get_if<Collective>(&body))
    return collective->kind == Collective::Kind::allReduce;
  const auto *move = std::get_if<Move>(&body);
  return std::holds_alternative<RowKernel>(body) ||
         (move && (move->kind == Move::Kind::copy || move->kind == Move::Kind::demote));
}

int64_t groupSize(const Mesh &mesh, const Collective &collective) {
  return collective.stages.empty() ? groupSize(mesh, collective.axes)
                                   : static_cast<int64_t>(collective.stages.size());
}

} // namespace mgc::plan
