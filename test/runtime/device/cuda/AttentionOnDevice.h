// Attention on a device against its definition and against the CPU's: the same checks for a real device and for the interpreter.
#pragma once

#include "runtime/device/CallFacts.h"
#include "test/runtime/kernels/AttentionReference.h"

#include <array>
#include <cstring>
#include <functional>
#include <gtest/gtest.h>
#include <numeric>

namespace mgc::test {

// Operands in a device's types, before and after a pass.
struct DeviceAttention {
  mgc_attention_facts facts = {};
  struct Operand {
    mgc_address mgc_attention_operands::*field;
    int memory;     // index of the allocation
    int64_t offset; // in bytes
  };
  std::vector<Operand> operands;
  std::vector<std::vector<std::byte>> memory;
};

// Runs the pass that `facts` says on the allocations.
using RunOnDevice = std::function<void(DeviceAttention &)>;

inline uint16_t toBf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return uint16_t((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}
inline float fromBf16(uint16_t value) {
  const uint32_t bits = uint32_t(value) << 16;
  float wide;
  std::memcpy(&wide, &bits, sizeof wide);
  return wide;
}

class AttentionCheck {
public:
  // From here on the problem's values are those that the type can hold.
  AttentionCheck(AttentionProblem problem, mgc_type type, RunOnDevice run)
      : problem(std::move(problem)), type_(type), run_(std::move(run)) {
    if (type_ == MGC_BF16)
      for (auto *values : {&this->problem.q, &this->problem.k, &this->problem.v, &this->problem.outputGradient,
                           &this->problem.joined, &this->problem.sinks, &this->problem.bias})
        for (float &value : *values)
          value = fromBf16(toBf16(value));
    makeFacts();
    makeMemory();
  }

  // Both passes, everything compared.
  void check() {
    forward();
    backward();
    const AttentionExpected expected = reference(problem);
    const std::string where = describe();
    expectNear(o, expected.o, true, "o of " + where);
    expectNear(lse, expected.lse, false, "lse of " + where);
    // The same backward on the CPU, from what the device's forward gave.
    problem.o = read(kO, o.size(), bytes()), problem.lse = lse;
    problem.dq.assign(problem.q.size(), 0), problem.dk.assign(problem.k.size(), 0),
        problem.dv.assign(problem.v.size(), 0);
    AttentionProblem cpu = problem;
    cpu.joined.clear(),
        cpu.a.qStride = cpu.a.kStride = cpu.a.vStride = cpu.a.dqStride = cpu.a.dkStride = cpu.a.dvStride = 0;
    cpu.a.type = plan::DType::f32;
    cpu.dbias.assign(cpu.bias.size(), 0);
    cpu.pass(true, 1);
    expectNear(dq, wide(cpu.dq), true, "dq of " + where);
    expectNear(dk, wide(cpu.dk), true, "dk of " + where);
    expectNear(dv, wide(cpu.dv), true, "dv of " + where);
    for (size_t i = 0; i < dbias.size(); ++i)
      ASSERT_NEAR(dbias[i], cpu.dbias[i], 4e-6 * std::max(expected.biasTerms[i], 1.0)) << "dbias of " << where;
  }

  void forward() {
    device.facts.backward = 0;
    runNow();
    o = read(kO, problem.outputGradient.size(), resultBytes()),
    lse = readFloats(kLse, problem.a.s * problem.a.b * problem.a.g * problem.a.r);
  }
  void backward() {
    device.facts.backward = 1;
    write(kO, o); // in the operands' type, as the merged one
    runNow();
    dbias = readFloats(kDbias, problem.bias.size());
    if (problem.joined.empty()) {
      dq = read(kDq, problem.q.size(), resultBytes());
      dk = read(kDk, problem.k.size(), resultBytes()), dv = read(kDv, problem.v.size(), resultBytes());
      return;
    }
    problem.joinedGradients = read(kDq, problem.joined.size(), resultBytes());
    problem.dq.resize(problem.q.size()), problem.dk.resize(problem.k.size()), problem.dv.resize(problem.v.size());
    problem.takeJoinedGradients();
    dq = problem.dq, dk = problem.dk, dv = problem.dv;
  }

  AttentionProblem problem;
  DeviceAttention device;
  std::vector<float> o, lse, dq, dk, dv, dbias; // results of the device

private:
  enum Memory {
    kQ,
    kK,
    kV,
    kO,
    kLse,
    kOutputGradient,
    kQueryPositions,
    kKeyPositions,
    kStarts,
    kEnds,
    kSamples,
    kSinks,
    kBias,
    kDq,
    kDk,
    kDv,
    kDbias,
    kWorkspace,
    kCount
  };
  mgc_type type_;
  RunOnDevice run_;

  // The slopes lie in this problem's list, also in a copy of what was made.
  void runNow() {
    device.facts.slopes = problem.a.slopes.data(), device.facts.slope_count = std::ssize(problem.a.slopes);
    run_(device);
  }

  std::string describe() const {
    const plan::Attention &a = problem.a;
    return fmt::format("s={} t={} b={} g={} r={} d={} w={} window={} dropout={} zigzag={} part={} {}{}", a.s, a.t, a.b,
                       a.g, a.r, a.d, a.w, a.window, a.dropout, a.zigzag, problem.part,
                       type_ == MGC_BF16 ? "bf16" : "f32", problem.joined.empty() ? "" : " joined") +
           (a.resultsInF32 ? " results in f32" : "") + (a.causal ? "" : " bidirectional") +
           (a.documents ? " documents" : "") + (a.ends ? " ends" : "") + (a.slopes.empty() ? "" : " slopes") +
           fmt::format(" softcap={} biases={}", a.softcap, a.biasBuckets);
  }

  void makeFacts() {
    plan::Attention a = problem.a;
    a.type = type_ == MGC_BF16 ? plan::DType::bf16 : plan::DType::f32;
    mgc_attention_facts &f = device.facts = factsOf(a);
    f.part = problem.part, f.group_stride = a.groupStride;
    f.seed = a.seed.value, f.instance = a.instance.value, f.head_offset = a.headOffset.value;
  }

  void makeMemory() {
    const plan::Attention &a = problem.a;
    const int64_t rows = a.s * a.b * a.g * a.r;
    device.memory.resize(kCount);
    const bool isJoined = !problem.joined.empty();
    write(kQ, isJoined ? problem.joined : problem.q);
    write(kK, problem.k), write(kV, problem.v), write(kOutputGradient, problem.outputGradient);
    writeRaw(kQueryPositions, problem.queryPositions), writeRaw(kKeyPositions, problem.keyPositions);
    writeRaw(kStarts, problem.starts), writeRaw(kEnds, problem.ends), writeRaw(kSamples, problem.samples),
        write(kSinks, problem.sinks), write(kBias, problem.bias);
    device.facts.workspace_bytes = workspaceBytes;
    // Memory that is to be written begins as NaN.
    unset(kO, problem.outputGradient.size() * resultBytes()), unset(kLse, rows * 4), unset(kWorkspace, workspaceBytes);
    unset(kDq, (isJoined ? problem.joined.size() : problem.q.size()) * resultBytes());
    unset(kDk, problem.k.size() * resultBytes()), unset(kDv, problem.v.size() * resultBytes());
    unset(kDbias, problem.bias.size() * 4);
    const auto place = [&](mgc_address mgc_attention_operands::*field, Memory memory, int64_t begin = 0) {
      device.operands.push_back({field, memory, begin});
    };
    using Operands = mgc_attention_operands;
    place(&Operands::q, kQ), place(&Operands::dq, kDq);
    const int64_t key = a.r * a.d, value = (a.r + 1) * a.d; // where they begin in what is joined
    place(&Operands::k, isJoined ? kQ : kK, isJoined ? key * bytes() : 0),
        place(&Operands::v, isJoined ? kQ : kV, isJoined ? value * bytes() : 0);
    place(&Operands::dk, isJoined ? kDq : kDk, isJoined ? key * resultBytes() : 0),
        place(&Operands::dv, isJoined ? kDq : kDv, isJoined ? value * resultBytes() : 0);
    place(&Operands::o, kO), place(&Operands::lse, kLse), place(&Operands::output_gradient, kOutputGradient);
    place(&Operands::query_positions, kQueryPositions), place(&Operands::key_positions, kKeyPositions);
    if (a.documents)
      place(&Operands::starts, kStarts);
    if (a.ends)
      place(&Operands::ends, kEnds);
    if (a.sinks)
      place(&Operands::sinks, kSinks);
    if (a.hasBias())
      place(&Operands::bias, kBias), place(&Operands::dbias, kDbias);
    place(&Operands::samples, kSamples), place(&Operands::workspace, kWorkspace);
  }

  int64_t workspaceBytes = 1 << 24;
  // Sizes of an element of operands, and of o and the gradients.
  int64_t bytes() const { return type_ == MGC_BF16 ? 2 : 4; }
  int64_t resultBytes() const { return problem.a.resultsInF32 ? 4 : bytes(); }
  template <typename T> void writeRaw(Memory memory, const std::vector<T> &values) {
    device.memory[memory].resize(values.size() * sizeof(T));
    std::memcpy(device.memory[memory].data(), values.data(), values.size() * sizeof(T));
  }
  void write(Memory memory, const std::vector<float> &values) {
    if (type_ == MGC_F32)
      return writeRaw(memory, values);
    std::vector<uint16_t> narrow(values.size());
    std::transform(values.begin(), values.end(), narrow.begin(), toBf16);
    writeRaw(memory, narrow);
  }
  void unset(Memory memory, int64_t size) { device.memory[memory].assign(size, std::byte(0xFF)); }
  std::vector<float> readFloats(Memory memory, int64_t count) const {
    std::vector<float> values(count);
    std::memcpy(values.data(), device.memory[memory].data(), count * sizeof(float));
    return values;
  }
  std::vector<float> read(Memory memory, int64_t count, int64_t width) const {
    if (width == 4)
      return readFloats(memory, count);
    std::vector<float> values(count);
    for (int64_t i = 0; i < count; ++i) {
      uint16_t narrow;
      std::memcpy(&narrow, device.memory[memory].data() + 2 * i, 2);
      values[i] = fromBf16(narrow);
    }
    return values;
  }
  static std::vector<double> wide(const std::vector<float> &values) { return {values.begin(), values.end()}; }

  // Sums of products in f32 are off by some tens of their roundings (2^-24 each) of what they add up, as on the CPU
  // (AttentionTest.cpp); bf16, of 8 bits, is rounded once more, by at most 2^-8 of the value.
  void expectNear(const std::vector<float> &found, const std::vector<double> &expected, bool hasType,
                  const std::string &what) const {
    ASSERT_EQ(found.size(), expected.size()) << what;
    double scale = 1;
    for (const double value : expected)
      scale = std::isfinite(value) ? std::max(scale, std::abs(value)) : scale;
    const double rounding = hasType && resultBytes() == 2 ? 1.0 / 256 : 0;
    for (size_t i = 0; i < found.size(); ++i)
      if (std::isinf(expected[i]))
        ASSERT_EQ(found[i], expected[i]) << what << " at " << i;
      else
        ASSERT_NEAR(found[i], expected[i], 4e-6 * scale + rounding * std::abs(expected[i])) << what << " at " << i;
  }
};

// --- Checks for every device that runs the plugin's own kernels.

struct AttentionCase {
  plan::Attention attention;
  mgc_type type = MGC_F32;
  int64_t joinedBy = -1; // padding
};

inline void checkCase(const AttentionCase &one, const RunOnDevice &run) {
  AttentionProblem problem(one.attention);
  if (one.joinedBy >= 0)
    problem.join(one.joinedBy);
  AttentionCheck(std::move(problem), one.type, run).check();
}

} // namespace mgc::test
