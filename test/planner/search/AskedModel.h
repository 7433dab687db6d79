// A model of examples/ with the options of its layouts, for tests that estimate and search.
#pragma once

#include "frontend/Load.h"
#include "frontend/import/Import.h"
#include "frontend/layout/Options.h"
#include "planner/Trials.h"
#include "planner/search/Space.h"
#include "test/Places.h"
#include "tools/supported/SupportedByCompiler.h"

namespace mgc::planner {

class AskedModel {
public:
  // `example`: its folder. Options that are kAuto are searched; where none is, those that it has not.
  AskedModel(const std::string &example, frontend::LayoutOptions options, int64_t devices)
      : supported_(tools::supportedByCompiler()),
        file_(frontend::loadModel(testFile("../examples/" + example + "/config.json")).take()),
        given(frontend::either(std::move(options), file_.defaults)),
        space{file_.model, supported_, devices, *given.gbs, given.seq.value_or(1024), frontend::leavesToSearch(given)},
        machine(cost::findMachine(*given.machine).take()),
        make([this](mlir::MLIRContext &context,
                    const frontend::LayoutOptions &asked) -> Result<mlir::OwningOpRef<mlir::ModuleOp>> {
          MGC_ASSIGN(layout, resolve(asked));
          mlir::OwningOpRef<mlir::ModuleOp> module = frontend::importModel(context, file_.model, layout);
          if (layout.target.name != supported_.targets.front().name)
            (*module)->setAttr("mg.target", mlir::StringAttr::get(&context, layout.target.name));
          return module;
        }) {}
  AskedModel(const AskedModel &) = delete;

  Result<frontend::Layout> resolve(const frontend::LayoutOptions &asked) const {
    return frontend::resolveLayout(file_.model, asked, {}, supported_);
  }

private:
  const frontend::Supported supported_;
  const frontend::ModelFile file_;

public:
  const frontend::LayoutOptions given;
  const frontend::SearchSpace space;
  const cost::Machine machine;
  const MakeModule make;
};

inline frontend::LayoutOptions gpuOptions(int64_t gbs, int64_t seq) {
  frontend::LayoutOptions options;
  options.gbs = gbs, options.seq = seq, options.target = "cuda:sm_90", options.machine = "h100", options.dtype = "bf16";
  return options;
}

} // namespace mgc::planner
