// See VerifyForm.h.
#include "compiler/emit/VerifyForm.h"

#include "compiler/schedule/Schedule.h"
#include "compiler/stage/Blocks.h"

using namespace mlir;

namespace mgc {

namespace {

bool hasInts(DictionaryAttr dictionary, ArrayRef<StringRef> names) {
  return dictionary &&
         llvm::all_of(names, [&](StringRef name) { return bool(dictionary.getAs<IntegerAttr>(name)); });
}

Status verifyFunction(func::FuncOp function) {
  std::string name = function.getName().str();
  auto frame = function->getAttrOfType<IntegerAttr>("mg.frame");
  if (!frame)
    return errorf("function {} has no mg.frame: run mg-memory first", name);
  for (Operation &op : function.getBody().front().without_terminator()) {
    auto places = op.getAttrOfType<DenseI64ArrayAttr>("mg.frame");
    bool inPlace = op.hasAttr("mg.in_place") && op.getNumOperands() == 1 && op.getNumResults() == 1;
    int64_t expected = op.getNumResults() + (workspaceBytes(&op) > 0);
    if (inPlace)
      continue;
    if (!places || places.size() != expected)
      return errorf("function {}: {} has {} places in mg.frame, expected {}: run mg-memory first", name,
                    op.getName().getStringRef().str(), places ? places.size() : 0, expected);
    for (auto [i, place] : llvm::enumerate(places.asArrayRef())) {
      bool returned = i < op.getNumResults() && place == -1;
      int64_t bytes = i < op.getNumResults() ? bytesOf(op.getResult(i).getType()) : workspaceBytes(&op);
      if (!returned && (place < 0 || place % 64 != 0 || place + bytes > frame.getInt()))
        return errorf("function {}: {} has a place at {}, outside the frame of {} bytes or not aligned to 64",
                      name, op.getName().getStringRef().str(), place, frame.getInt());
    }
  }
  return Status::ok();
}

Status verifyBuffer(Attribute attr, const std::string &name, int64_t buckets) {
  auto buffer = dyn_cast_or_null<DictionaryAttr>(attr);
  auto kind = buffer ? buffer.getAs<StringAttr>("kind") : StringAttr();
  auto index = buffer ? buffer.getAs<IntegerAttr>("index") : IntegerAttr();
  static constexpr StringRef ofBuckets[] = {"value", "gradient", "gradient_shard", "first_moment",
                                            "second_moment"};
  bool ok = kind && (kind == "factor" || kind == "step_scalar" || (kind == "result" && index) ||
                     (llvm::is_contained(ofBuckets, kind.getValue()) && index && index.getInt() >= 0 &&
                      index.getInt() < buckets));
  return ok ? Status::ok()
            : errorf("function {}: an argument or result names no buffer of the stage in mg.buffer", name);
}

Status verifyStepFunction(StageOp stage, FlatSymbolRefAttr symbol) {
  auto function = stage->getParentOfType<ModuleOp>().lookupSymbol<func::FuncOp>(symbol.getValue());
  int64_t buckets = stage.all<BucketOp>().size();
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    MGC_TRY(verifyBuffer(function.getArgAttr(i, "mg.buffer"), function.getName().str(), buckets));
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    MGC_TRY(verifyBuffer(function.getResultAttr(i, "mg.buffer"), function.getName().str(), buckets));
  return Status::ok();
}

Status verifyMemoryMap(StageOp stage) {
  DictionaryAttr memory = stage.getMemoryAttr();
  bool ok = hasInts(memory, {"bytes", "activations", "flow", "frame"}) &&
            hasInts(memory.getAs<DictionaryAttr>("scalars"), {"step_scalars", "results", "factor"}) &&
            memory.getAs<DictionaryAttr>("regions") && memory.getAs<DictionaryAttr>("inputs");
  if (ok)
    for (NamedAttribute region : memory.getAs<DictionaryAttr>("regions")) {
      auto range = dyn_cast<DenseI64ArrayAttr>(region.getValue());
      ok &= range && range.size() == 2;
    }
  if (ok)
    for (NamedAttribute input : memory.getAs<DictionaryAttr>("inputs")) {
      auto facts = dyn_cast<DictionaryAttr>(input.getValue());
      ok &= hasInts(facts, {"offset", "stride"}) && shardedType(facts.get("type")) &&
            layoutOf(shardedType(facts.get("type")));
    }
  for (BucketOp bucket : stage.all<BucketOp>())
    ok &= hasInts(bucket.getOffsetsAttr(),
                  {"value", "gradient", "gradient_shard", "first_moment", "second_moment"});
  return ok ? Status::ok()
            : errorf("stage {} or one of its buckets has no complete memory map: run mg-memory first",
                     int64_t(stage.getNumber()));
}

Status verifySteps(StageOp stage, ModuleOp module) {
  auto schedules = stage.all<ScheduleOp>();
  if (schedules.size() != 1)
    return errorf("stage {} has {} schedules, expected one: run mg-schedule first",
                  int64_t(stage.getNumber()), schedules.size());
  int64_t chunks = stage.all<ChunkOp>().size();
  std::vector<std::string> passes = passesOf(module);
  for (RunOp run : schedules.front().getBody().front().getOps<RunOp>()) {
    int64_t chunk = run.getChunk();
    StringRef pass = run.getPass();
    bool once = pass == "begin" || pass == "reduce" || pass == "update";
    bool known = once ? chunk == -1 : llvm::is_contained(passes, pass.str()) && chunk >= 0 && chunk < chunks;
    if (!known || run.getBuffers().size() != size_t(schedule::kBufferKinds))
      return errorf("stage {} runs {} of chunk {}, which it does not have", int64_t(stage.getNumber()),
                    pass.str(), chunk);
  }
  return Status::ok();
}

} // namespace

Status verifyMemoryForm(ModuleOp module) {
  if (!module->getAttrOfType<MeshAttr>(kMeshAttr))
    return errorf("the module has no {}", kMeshAttr.str());
  for (auto function : module.getOps<func::FuncOp>())
    if (function->hasAttr("mg.pass"))
      MGC_TRY(verifyFunction(function));
  for (StageOp stage : module.getOps<StageOp>()) {
    MGC_TRY(verifyMemoryMap(stage));
    MGC_TRY(verifySteps(stage, module));
    for (FlatSymbolRefAttr symbol : {stage.getBeginAttr(), stage.getReduceAttr(), stage.getUpdateAttr()})
      MGC_TRY(verifyStepFunction(stage, symbol));
  }
  return Status::ok();
}

} // namespace mgc
