// Registration of the dialect, and the form of the functions that its attributes mark.
#include "dialects/mg/Mg.h"

#include "mlir/IR/DialectImplementation.h"

using namespace mlir;
using namespace mgc;

#include "MgDialect.cpp.inc"
#include "MgInterfaces.cpp.inc"

void MgDialect::initialize() {
  registerAttributes();
  addOperations<
#define GET_OP_LIST
#include "MgOps.cpp.inc"
      >();
}

// --- Functions of blocks -----------------------------------------------------------------------------------

// Every pass takes the one block of the body, and tensors with layouts, for granted.
static LogicalResult verifyBody(func::FuncOp function, StringRef attribute) {
  if (!llvm::hasSingleElement(function.getBody()))
    return function.emitOpError() << "with " << attribute << " has " << function.getBody().getBlocks().size()
                                  << " blocks; expected a body of one";
  auto hasLayout = [](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor && tensor.hasStaticShape() && layoutOf(type);
  };
  auto isOurs = [](Operation &op) {
    return isa_and_nonnull<MgDialect>(op.getDialect()) || isa<func::ReturnOp>(op);
  };
  for (auto [i, type] : llvm::enumerate(function.getArgumentTypes()))
    if (!hasLayout(type))
      return function.emitOpError() << "argument " << i << " is " << type
                                    << "; expected a tensor with sizes and a layout";
  for (Operation &op : function.getBody().front())
    if (!isOurs(op) || !llvm::all_of(op.getResultTypes(), hasLayout))
      return op.emitOpError() << "in a function with " << attribute
                              << "; expected an op of mg whose results are tensors with sizes and a layout";
  return success();
}

// What is wrong with the two attributes together; nothing when they fit.
static StringRef faultOf(Attribute block, Attribute pass) {
  auto name = dyn_cast_or_null<StringAttr>(pass);
  if (pass && !name)
    return "mg.pass must be a name";
  if (!pass)
    return isa<UnitAttr>(block) ? ""
                                : "a logical block has mg.block as a unit, a function of one mg.pass too";
  if (llvm::is_contained({"begin", "gradients", "reduce", "update"}, name.getValue()))
    return block ? "begin, gradients, reduce and update belong to no block: mg.block must be absent" : "";
  if (llvm::is_contained({"forward", "backward", "input", "weight"}, name.getValue()))
    return isa_and_nonnull<StringAttr>(block) ? "" : "a function with mg.pass names its block in mg.block";
  return "mg.pass must be forward, backward, input, weight, begin, gradients, reduce or update";
}

static LogicalResult verifyFunctionAttributes(func::FuncOp function) {
  Attribute block = function->getAttr(kBlockAttr), pass = function->getAttr(kPassAttr);
  if (StringRef fault = faultOf(block, pass); !fault.empty())
    return function.emitOpError() << fault;
  return verifyBody(function, pass ? kPassAttr : kBlockAttr);
}

LogicalResult MgDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  if (attribute.getName() != kBlockAttr && attribute.getName() != kPassAttr)
    return success();
  auto function = dyn_cast<func::FuncOp>(op);
  if (!function)
    return op->emitOpError() << "has " << attribute.getName() << ", an attribute of functions";
  return verifyFunctionAttributes(function);
}
