// mg-fuse-epilogues: biases in the call of the matrix product, on targets whose library does it.
//
// before:  %0 = mg.einsum %x, %w  %1 = mg.add %0, %bias
// after:   %1 = mg.linear %x, %w, %bias
//
// Row ops behind a product read its result and write theirs; the library does the same before it writes at all. That
// saves something only where no kernel reads the product's result anyway: a bias in front of a residual sum and a norm
// costs nothing there. A row op that reads only a part of mg.linear's result (mg.parts: rope of the queries) is not
// fused with the add that reads all of it.
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

bool isParameter(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  auto function = argument ? dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp()) : func::FuncOp();
  return function && function.getArgAttr(argument.getArgNumber(), kParamAttr);
}

// Whether only what reads it from memory anyway uses the value, and it may lie anywhere.
bool isReadFromMemory(Value value) {
  return !joinedAs(value).join &&
         llvm::none_of(value.getUsers(), [](Operation *user) { return isa<RowOpInterface>(user); });
}

// The product that can add the bias; null: there is none.
EinsumOp productOf(AddOp bias) {
  auto product = bias.getLhs().getDefiningOp<EinsumOp>();
  if (!product || !product->hasOneUse() || product->getBlock() != bias->getBlock() ||
      bias.getResult().getType() != product.getResult().getType() || !isParameter(bias.getRhs()))
    return {};
  int64_t columns = product.getGemmShape()->n; // verified: einsum_c2
  bool fits = LinearOp::canBeBias(bias.getRhs(), product.getResult(), columns) && isReadFromMemory(bias.getResult());
  return fits ? product : EinsumOp();
}

// Builds mg.linear where the matrix product stood: its result has no use before, and the bias is a block argument.
void build(EinsumOp product, AddOp bias) {
  OpBuilder builder(product);
  auto linear = LinearOp::create(builder, bias.getLoc(), bias.getResult().getType(), product.getLhs(), product.getRhs(),
                                 bias.getRhs());
  bias.getResult().replaceAllUsesWith(linear.getResult());
  bias->erase();
  product->erase();
}

struct FuseEpiloguesPass : mgc::impl::FuseEpiloguesBase<FuseEpiloguesPass> {
  void runOnForm() override {
    ModuleOp module = getOperation();
    if (!factsOf(targetOf(module)).productEpilogues || module->hasAttr(kNoFusionAttr))
      return;
    std::vector<std::pair<EinsumOp, AddOp>> found;
    module.walk([&](AddOp add) {
      if (EinsumOp product = productOf(add))
        found.emplace_back(product, add);
    });
    for (auto [product, bias] : found)
      build(product, bias);
  }
};

} // namespace

std::unique_ptr<Pass> mgc::createFuseEpiloguesPass() { return std::make_unique<FuseEpiloguesPass>(); }
