// Registration of the dialect, and the form of the functions that its attributes mark.
#include "dialects/mg/Mg.h"

#include "mlir/IR/DialectImplementation.h"

#include <fmt/ranges.h>

using namespace mlir;
using namespace mgc;

#include "MgDialect.cpp.inc"
#include "MgInterfaces.cpp.inc"

void MgDialect::initialize() {
  registerAttributes();
  addInterfaces<Assembly>();
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
  auto isOurs = [](Operation &op) { return isa_and_nonnull<MgDialect>(op.getDialect()) || isa<func::ReturnOp>(op); };
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

// The fault of the two attributes together; empty when they fit.
static std::string faultOf(Attribute block, Attribute pass) {
  auto name = dyn_cast_or_null<StringAttr>(pass);
  if (pass && !name)
    return "mg.pass must be a name";
  if (!pass)
    return isa<UnitAttr>(block) ? "" : "a logical block has mg.block as a unit, a function of one mg.pass too";
  const std::optional<plan::Task> task = plan::valueNamed<plan::Task>(name.getValue());
  if (!task)
    return fmt::format("mg.pass is {}; expected one of {}", name.getValue().str(),
                       fmt::join(plan::enumNames<plan::Task>, ", "));
  if (!llvm::is_contained(plan::kBlockTasks, *task))
    return block ? fmt::format("{} belongs to no block: mg.block must be absent", plan::nameOf(*task)) : "";
  return isa_and_nonnull<StringAttr>(block) ? "" : "a function with mg.pass names its block in mg.block";
}

static LogicalResult verifyFunctionAttributes(func::FuncOp function) {
  Attribute block = function->getAttr(kBlockAttr), pass = function->getAttr(kPassAttr);
  if (std::string fault = faultOf(block, pass); !fault.empty())
    return function.emitOpError() << fault;
  return verifyBody(function, pass ? kPassAttr : kBlockAttr);
}

std::optional<plan::Task> mgc::taskOf(func::FuncOp function) {
  auto pass = function->getAttrOfType<StringAttr>(kPassAttr);
  return pass ? plan::valueNamed<plan::Task>(pass.getValue()) : std::nullopt;
}

std::string mgc::functionName(StringRef block, plan::Task task) {
  return fmt::format("{}.{}", block.str(), plan::nameOf(task));
}

LogicalResult MgDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  if (attribute.getName() == kTrainingAttr && !isa<TrainingAttr>(attribute.getValue()))
    return op->emitOpError() << "has " << kTrainingAttr << " = " << attribute.getValue()
                             << "; expected #mg.training<field = value, ..>";
  if (attribute.getName() != kBlockAttr && attribute.getName() != kPassAttr)
    return success();
  auto function = dyn_cast<func::FuncOp>(op);
  if (!function)
    return op->emitOpError() << "has " << attribute.getName() << ", an attribute of functions";
  return verifyFunctionAttributes(function);
}
