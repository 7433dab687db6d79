// Inputs and outputs of a step, through pinned memory. Inputs and step scalars have two buffers, so that
// those of the next step are written while this one runs. Outputs are the results and how far the rank has come.
#pragma once

#include "runtime/data/Inputs.h"
#include "runtime/device/Plugin.h"
#include "runtime/exec/Engine.h"

namespace mgc {

class StepIo {
public:
  // `plan` outlives it.
  static Result<StepIo> make(const plugin::PluginDevice &device, const plan::Plan &plan, int64_t rank);

  // By the host. Two steps alternate: only the step before may still be running.
  void writeInputs(const GlobalBatch &batch, int64_t step);
  void writeScalars(const StepScalars &scalars, int64_t step);
  // Enqueued: before and behind the work of a step.
  Status copyIn(const plugin::Stream &stream, mgc_address arena, int64_t step) const;
  Status copyOut(const plugin::Stream &stream, mgc_address arena) const;

  StepValues values() const; // results of the last step that was copied out and is done
  uint32_t *marks() const;   // as many as a line holds; see StreamExecutorOptions

private:
  std::byte *inputsOf(int64_t step) const;
  std::byte *results() const;
  const plan::Plan *plan_ = nullptr;
  const plan::StagePlan *stage_ = nullptr;
  std::vector<int64_t> bytes_;       // size of each
  std::vector<InputRecord> records_; // by input of the stage
  int64_t inputBytes_ = 0;
  plugin::PinnedBuffer memory_; // inputs and scalars of two steps, results, marks
};

} // namespace mgc
