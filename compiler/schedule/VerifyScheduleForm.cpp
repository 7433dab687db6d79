// See VerifyScheduleForm.h.
#include "compiler/schedule/VerifyScheduleForm.h"

#include "compiler/schedule/ScheduleForm.h"

using namespace mlir;
using namespace mgc;

LogicalResult mgc::verifyScheduleForm(ModuleOp module) {
  auto blocks = Blocks::read(module);
  if (failed(blocks))
    return failure();
  auto prove = [&]() -> Status {
    MGC_ASSIGN(problem, schedule::readProblem(module, *blocks));
    MGC_ASSIGN(solution, schedule::readSolution(module, problem));
    MGC_TRY(schedule::verify(problem, solution));
    return schedule::verifyName(problem, solution);
  };
  Status status = prove();
  return status.isOk() ? success() : module.emitError() << status.message();
}
