// Products of small matrices by a whole warp: mma.m16n8k16 of bf16 with sums in f32. The elements of a matrix lie in the registers
// of all lanes (PTX ISA, "Matrix fragments for mma.m16n8k16"): lane l has, of A, rows l / 4 and l / 4 + 8 and two pairs of
// neighbours along k, of B column l / 4 and the same pairs, of C the same rows and two neighbours of a row.
#include "test/emulate/cuda/ptx/Encoder.h"

#include <array>
#include <cmath>
#include <numeric>

namespace mgc::ptx {
namespace {

constexpr const char *kName = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32";
constexpr unsigned kRows = 16, kColumns = 8, kDepth = 16;
constexpr uint32_t kRegisterBytes = kLanes * sizeof(uint32_t);

float bf16At(const uint32_t *word, unsigned half) {
  return std::bit_cast<float>(half ? *word & 0xFFFF0000u : *word << 16);
}

// The pairs along k that registers have: of A [row half + 2 * depth half], of B [depth half].
unsigned pairOf(unsigned lane, unsigned depthHalf) { return lane % 4 * 2 + depthHalf * 8; }

// The sum of an element is made in the order of k, each product rounded with it once.
void multiply(Warp &warp, const Op &op, uint32_t mask) {
  if (mask != kAllLanes)
    return warp.fault(op, std::countr_zero(mask), fmt::format("a product of a warp by the lanes {:#x} alone", mask));
  float a[kRows][kDepth], b[kDepth][kColumns];
  const auto wordOf = [&](uint32_t first, unsigned number) {
    return warp.at<uint32_t>(first + number * kRegisterBytes);
  };
  for (unsigned lane = 0; lane < kLanes; ++lane)
    for (unsigned half = 0; half < 4; ++half) // halves of two pairs
      for (unsigned number = 0; number < 4; ++number) {
        const unsigned k = pairOf(lane, number / 2) + half % 2;
        a[lane / 4 + number % 2 * 8][k] = bf16At(wordOf(op.a, number) + lane, half % 2);
        if (number < 2)
          b[pairOf(lane, number) + half % 2][lane / 4] = bf16At(wordOf(op.b, number) + lane, half % 2);
      }
  for (unsigned lane = 0; lane < kLanes; ++lane)
    for (unsigned number = 0; number < 4; ++number) {
      const unsigned row = lane / 4 + number / 2 * 8, column = lane % 4 * 2 + number % 2;
      float sum = std::bit_cast<float>(wordOf(op.c, number)[lane]);
      for (unsigned k = 0; k < kDepth; ++k)
        sum = std::fma(a[row][k], b[k][column], sum);
      wordOf(op.d, number)[lane] = std::bit_cast<uint32_t>(sum);
    }
}

} // namespace

// The registers of the lists are copied to places that follow each other, and back.
Status Encoder::encodeMatrixProduct(Instruction &instruction) {
  const std::vector<Operand> &lists = instruction.operands;
  if (instruction.joined() != kName)
    return error(fmt::format("the interpreter does not know the product {}", opcode_));
  constexpr std::array<uint32_t, 4> sizes = {4, 4, 2, 4}; // registers of D, A, B, C
  if (lists.size() != sizes.size())
    return error(fmt::format("{} operands where {} should be", lists.size(), sizes.size()));
  std::array<uint32_t, 4> begins;
  uint32_t next = allocate(32 * std::accumulate(sizes.begin(), sizes.end(), 0u));
  for (size_t list = 0; list < sizes.size(); ++list) {
    if (lists[list].elements.size() != sizes[list])
      return error(fmt::format("{} registers where {} should be", lists[list].elements.size(), sizes[list]));
    begins[list] = next;
    for (const Operand &element : lists[list].elements) {
      MGC_ASSIGN(source, use(element, 32));
      emit("mov.b32", next, {source});
      next += kRegisterBytes;
    }
  }
  Op op;
  op.run = multiply;
  op.d = begins[0], op.a = begins[1], op.b = begins[2], op.c = begins[3];
  op.control = Control::converge;
  op.target = constant(32, kAllLanes);
  emit(op);
  for (uint32_t i = 0; i < sizes[0]; ++i) {
    MGC_ASSIGN(d, define(lists[0].elements[i], 32));
    emit("mov.b32", d, {begins[0] + i * kRegisterBytes});
  }
  return Status::ok();
}

} // namespace mgc::ptx
