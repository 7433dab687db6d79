// mg-schedule: one ordered list of steps per stage.
//
// before:  mg.stage 0 ... { mg.chunk 0 { mg.instance @layer count 6 } }
// after:   mg.stage 0 ... { mg.chunk 0 {..}
//            mg.schedule 8192 {
//              mg.run "begin" chunk -1 microbatch -1 buffers [-1, -1, -1, -1, -1, -1] waits []
//              mg.run "forward" chunk 0 microbatch 0 buffers [-1, 0, 4096, -1, -1, -1] waits []
//              mg.send 0 microbatch 0 peer 1 at 4096 bytes 4096 waits [1] ... } }
//
// Buffers are listed by schedule::BufferKind; their offsets are places in the stage's area for activations. The
// form's verifier proves the result (VerifyScheduleForm.h).
#include "compiler/assemble/memory/MemorySolver.h"
#include "compiler/program/Passes.h"
#include "compiler/schedule/ScheduleForm.h"

using namespace mlir;

namespace mgc {
#define GEN_PASS_DEF_SCHEDULE
#include "compiler/program/Passes.h.inc"
} // namespace mgc

using namespace mgc;

namespace {

class Scheduler {
public:
  Scheduler(ModuleOp module, const Blocks &blocks)
      : module_(module), blocks_(blocks), builder_(module.getContext()) {}

  LogicalResult run() {
    auto problem = schedule::readProblem(module_, blocks_);
    if (!problem.isOk())
      return module_.emitError() << problem.status().message();
    auto solution = schedule::generate(*problem);
    if (!solution.isOk())
      return module_.emitError() << solution.status().message();
    for (auto [i, stage] : llvm::enumerate(module_.getOps<StageOp>()))
      emit(stage, solution->stages[i]);
    return success();
  }

private:
  void emit(StageOp stage, const schedule::StageSchedule &schedule) {
    OpBuilder::InsertionGuard guard(builder_);
    builder_.setInsertionPointToEnd(&stage.getBody().front());
    auto op = ScheduleOp::create(builder_, stage.getLoc(), schedule.bytes);
    std::vector<memory::LiveBuffer> lifetimes;
    for (const schedule::ScheduledBuffer &buffer : schedule.buffers)
      lifetimes.push_back({buffer.bytes, buffer.begin, buffer.end});
    op->setAttr(kBoundAttr, builder_.getI64IntegerAttr(memory::lowerBound(lifetimes)));
    builder_.setInsertionPointToStart(&op.getBody().emplaceBlock());
    for (const schedule::Step &step : schedule.steps)
      emit(op.getLoc(), schedule, step);
  }

  void emit(Location loc, const schedule::StageSchedule &schedule, const schedule::Step &step) {
    using Kind = schedule::Step::Kind;
    if (step.kind == Kind::run) {
      std::array<int64_t, schedule::kBufferKinds> offsets;
      offsets.fill(-1);
      for (const auto *uses : {&step.reads, &step.writes})
        for (const schedule::BufferUse &use : *uses)
          offsets[size_t(use.kind)] = schedule.buffers[use.buffer].offset;
      IntegerAttr part = step.task.part < 0 ? IntegerAttr() : builder_.getI64IntegerAttr(step.task.part);
      RunOp::create(builder_, loc, builder_.getStringAttr(plan::nameOf(step.task.kind)),
                    builder_.getI64IntegerAttr(step.task.chunk),
                    builder_.getI64IntegerAttr(step.task.microbatch), part,
                    builder_.getDenseI64ArrayAttr(offsets), builder_.getDenseI64ArrayAttr(step.waits));
      return;
    }
    const schedule::BufferUse &use = step.kind == Kind::send ? step.reads.front() : step.writes.front();
    int64_t offset = schedule.buffers[use.buffer].offset;
    if (step.kind == Kind::send)
      SendOp::create(builder_, loc, step.value, step.microbatch, step.peer, offset, step.bytes, step.waits);
    else
      RecvOp::create(builder_, loc, step.value, step.microbatch, step.peer, offset, step.bytes, step.waits);
  }

  ModuleOp module_;
  const Blocks &blocks_;
  OpBuilder builder_;
};

struct SchedulePass : mgc::impl::ScheduleBase<SchedulePass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto blocks = Blocks::read(module);
    if (failed(blocks) || failed(Scheduler(module, *blocks).run()))
      return signalPassFailure();
    module->setAttr(kPhaseAttr, StringAttr::get(&getContext(), "schedule"));
  }
};

} // namespace

std::unique_ptr<Pass> mgc::createSchedulePass() { return std::make_unique<SchedulePass>(); }
