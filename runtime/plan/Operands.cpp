#include "runtime/plan/Operands.h"

#include "runtime/plan/Mesh.h"

namespace mgc::plan {

using Infos = std::vector<OperandInfo>;
using Use = OperandInfo::Use;

static Checked f32Bytes(std::initializer_list<Checked> sizes) {
  return checkedMultiply(checkedProduct(sizes), sizeInBytes(DType::f32));
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

static Infos describe(const Mesh &, const RowKernel &) { return {}; }

static Infos describe(const Mesh &, const Gemm &gemm) {
  return {{"A", f32Bytes({gemm.m, gemm.k})},
          {"B", f32Bytes({gemm.k, gemm.n})},
          {"C", f32Bytes({gemm.m, gemm.n}), Use::written}};
}

// Rows of `row` elements, `stride` elements apart or, if that is 0, one after another.
static OperandInfo rowsOf(std::string_view name, Checked rows, Checked row, int64_t stride, Use use) {
  const Checked bytes = f32Bytes({rows, row});
  return stride == 0 ? OperandInfo{name, bytes, use}
                     : OperandInfo{name, bytes, use, f32Bytes({row}), f32Bytes({stride})};
}

static Infos describe(const Mesh &, const Attention &attention) {
  int64_t s = attention.s, t = attention.t, b = attention.b, g = attention.g, r = attention.r,
          d = attention.d;
  Checked query = f32Bytes({s, b, g, r, d}), heads = f32Bytes({s, b, g, r});
  auto queries = [&](std::string_view name, int64_t stride, Use use) {
    return rowsOf(name, checkedProduct({s, b, g}), checkedMultiply(r, d), stride, use);
  };
  auto keys = [&](std::string_view name, int64_t stride, Use use) {
    return rowsOf(name, checkedProduct({t, b, g}), d, stride, use);
  };
  Infos infos = {queries("q", attention.qStride, Use::read), keys("k", attention.kStride, Use::read),
                 keys("v", attention.vStride, Use::read)};
  auto add = [&](Infos more) { infos.insert(infos.end(), more.begin(), more.end()); };
  if (attention.backward)
    add({{"o", query}, {"lse", heads}, {"do", query}});
  add({{"queryPos", f32Bytes({s, b})}, {"keyPos", f32Bytes({t, b})}});
  if (attention.dropout > 0)
    add({{"sample", f32Bytes({b})}});
  if (attention.backward)
    add({queries("dq", attention.dqStride, Use::written), keys("dk", attention.dkStride, Use::written),
         keys("dv", attention.dvStride, Use::written)});
  else
    add({{"o", query, Use::written}, {"lse", heads, Use::written}});
  add({{"workspace", attention.workspaceBytes, Use::written}});
  return infos;
}

static Infos describe(const Mesh &mesh, const Collective &collective) {
  Checked ranks = groupSize(mesh, collective);
  Checked part = checkedProduct({sizeInBytes(collective.type), collective.outer, collective.chunk});
  Checked whole = checkedMultiply(part, ranks);
  switch (collective.kind) {
  case Collective::Kind::allReduce:
    return {{"source", part}, {"destination", part, Use::written}};
  case Collective::Kind::allGather:
    return {{"source", part}, {"destination", whole, Use::written}};
  case Collective::Kind::reduceScatter:
    return {{"source", whole}, {"destination", part, Use::written}};
  case Collective::Kind::allToAll:
    break;
  }
  whole = checkedMultiply(whole, collective.middle);
  return {{"source", whole}, {"destination", whole, Use::written}};
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
  return move && (move->kind == Move::Kind::copy || move->kind == Move::Kind::demote);
}

int64_t groupSize(const Mesh &mesh, const Collective &collective) {
  return collective.stages.empty() ? groupSize(mesh, collective.axes)
                                   : static_cast<int64_t>(collective.stages.size());
}

} // namespace mgc::plan
