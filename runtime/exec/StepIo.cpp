#include "runtime/exec/StepIo.h"

#include "plan/Plan.h"
#include "plan/mesh/Mesh.h"

#include <cstring>

namespace mgc {

namespace {

constexpr int64_t kScalarBytes = sizeof(StepScalars), kResultBytes = sizeof(StepValues);

int64_t bytesOf(const InputRecord &record) {
  return record.ring.offsetOf(record.microbatches - 1) - record.ring.offset + record.ring.bytes;
}

} // namespace

Result<StepIo> StepIo::make(const plugin::PluginDevice &device, const plan::Plan &plan, int64_t rank) {
  StepIo io;
  io.plan_ = &plan;
  io.stage_ = &plan.stages[plan::stageOf(plan.mesh, rank)];
  io.records_ = resolveInputs(plan, rank);
  for (size_t i = 0; i < io.records_.size(); ++i) {
    io.bytes_.push_back(bytesOf(io.records_[i]));
    io.records_[i].ring.offset = io.inputBytes_;
    io.inputBytes_ += plan::aligned(io.bytes_[i]);
  }
  MGC_SET(io.memory_, device.allocateHost(2 * (io.inputBytes_ + plan::aligned(kScalarBytes)) +
                                          plan::aligned(kResultBytes) + plan::kAlignment));
  return io;
}

std::byte *StepIo::inputsOf(int64_t step) const {
  return memory_.data() + step % 2 * (inputBytes_ + plan::aligned(kScalarBytes));
}

std::byte *StepIo::results() const { return memory_.data() + 2 * (inputBytes_ + plan::aligned(kScalarBytes)); }

void StepIo::writeInputs(const GlobalBatch &batch, int64_t step) {
  for (const InputRecord &record : records_)
    writeInput(record, *plan_, batch, inputsOf(step));
}

void StepIo::writeScalars(const StepScalars &scalars, int64_t step) {
  std::memcpy(inputsOf(step) + inputBytes_, scalars.data(), kScalarBytes);
}

Status StepIo::copyIn(const plugin::Stream &stream, mgc_address arena, int64_t step) const {
  for (size_t i = 0; i < records_.size(); ++i) {
    const plan::Ring &ring = stage_->rings[stage_->inputs[i].ring];
    MGC_TRY(
        stream.copyIn(arena + static_cast<uint64_t>(ring.offset), inputsOf(step) + records_[i].ring.offset, bytes_[i]));
  }
  return stream.copyIn(arena + static_cast<uint64_t>(stage_->stepScalarsOffset), inputsOf(step) + inputBytes_,
                       kScalarBytes);
}

Status StepIo::copyOut(const plugin::Stream &stream, mgc_address arena) const {
  return stream.copyOut(results(), arena + static_cast<uint64_t>(stage_->resultsOffset), kResultBytes);
}

StepValues StepIo::values() const {
  StepValues values;
  std::memcpy(values.data(), results(), kResultBytes);
  return values;
}

uint32_t *StepIo::marks() const { return reinterpret_cast<uint32_t *>(results() + plan::aligned(kResultBytes)); }

} // namespace mgc
