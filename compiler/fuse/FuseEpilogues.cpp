// mg-fuse-epilogues: biases and GELU in the call of the matrix product, on targets whose library does it.
//
// before:  %0 = mg.einsum %x, %w  %1 = mg.add %0, %bias  %2 = mg.gelu %1 {form = "tanh"}
// after:   %2, %1 = mg.linear %x, %w, %bias
//
// Row ops behind a product read its result and write theirs; the library does the same before it writes at all. That
// saves something only where no kernel reads the product's result anyway: a bias in front of a residual sum and a norm
// costs nothing there. A row op that reads only a part of mg.linear's result (mg.parts: rope of the queries) is not
// fused with the add that reads all of it. GELU's operand is kept for the backward, and the library writes it too.
#include "compiler/program/Blocks.h"
#include "compiler/program/Passes.h"
#include "dialects/mg/Target.h"
#include "dialects/mg/View.h"

using namespace mlir;

namespace mgc {
#define GEN_PASS_DEF_FUSEEPILOGUES
#include "compiler/program/Passes.h.inc"
} // namespace mgc

using namespace mgc;

namespace {

struct FoundEpilogue {
  EinsumOp product;
  AddOp bias;
  GeluOp gelu; // null: there is none
};

bool isParameter(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  auto function = argument ? dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp()) : func::FuncOp();
  return function && function.getArgAttr(argument.getArgNumber(), kParamAttr);
}

// Whether only what reads it from memory anyway uses the value, and it may lie anywhere.
bool isReadFromMemory(Value value, Operation *but = nullptr) {
  return !joinedAs(value).join &&
         llvm::none_of(value.getUsers(), [&](Operation *user) { return user != but && isa<RowOpInterface>(user); });
}

GeluOp geluOf(Value value) {
  for (Operation *user : value.getUsers())
    if (auto gelu = dyn_cast<GeluOp>(user); gelu && gelu.getForm() == "tanh")
      return gelu;
  return {};
}

std::optional<FoundEpilogue> epilogueAt(AddOp add) {
  auto product = add.getLhs().getDefiningOp<EinsumOp>();
  if (!product || !product->hasOneUse() || product->getBlock() != add->getBlock() ||
      add.getResult().getType() != product.getResult().getType() || !isParameter(add.getRhs()))
    return std::nullopt;
  int64_t columns = product.getGemmShape()->n; // verified: einsum_c2
  if (!LinearOp::canBeBias(add.getRhs(), product.getResult(), columns))
    return std::nullopt;
  FoundEpilogue epilogue{product, add, geluOf(add.getResult())};
  if (!isReadFromMemory(add.getResult(), epilogue.gelu))
    return std::nullopt;
  bool fits = !epilogue.gelu || (epilogue.gelu->getBlock() == add->getBlock() &&
                                 epilogue.gelu.getY().getType() == add.getResult().getType() &&
                                 columns % plan::kGeluColumns == 0 && isReadFromMemory(epilogue.gelu.getY()));
  return fits ? std::optional(epilogue) : std::nullopt;
}

// It stands where the matrix product stood: its results have no use before, and the bias is there from the begin.
void build(const FoundEpilogue &epilogue) {
  auto [product, bias, gelu] = epilogue;
  OpBuilder builder(product);
  Type type = bias.getResult().getType();
  auto linear = LinearOp::create(builder, bias.getLoc(), type, gelu ? type : Type(), product.getLhs(), product.getRhs(),
                                 bias.getRhs());
  if (gelu)
    gelu.getY().replaceAllUsesWith(linear.getResult());
  bias.getResult().replaceAllUsesExcept(gelu ? linear.getPreactivation() : linear.getResult(), gelu);
  if (gelu)
    gelu->erase();
  bias->erase();
  product->erase();
}

struct FuseEpiloguesPass : mgc::impl::FuseEpiloguesBase<FuseEpiloguesPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (!factsOf(targetOf(module)).productEpilogues || module->hasAttr(kNoFusionAttr))
      return;
    std::vector<FoundEpilogue> epilogues;
    module.walk([&](AddOp add) {
      if (std::optional<FoundEpilogue> epilogue = epilogueAt(add))
        epilogues.push_back(*epilogue);
    });
    llvm::for_each(epilogues, build);
  }
};

} // namespace

std::unique_ptr<Pass> mgc::createFuseEpiloguesPass() { return std::make_unique<FuseEpiloguesPass>(); }
