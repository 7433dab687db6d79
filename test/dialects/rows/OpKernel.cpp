#include "OpKernel.h"

#include "dialects/mg/RowEmitter.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>
#include <sstream>

using namespace mlir;

namespace mgc::test {

static std::string tensor(const std::string &dims, const std::string &element) {
  std::string shape, names;
  std::istringstream words(dims);
  for (std::string word; words >> word;) {
    size_t colon = word.find(':');
    shape += word.substr(colon + 1) + "x";
    names += (names.empty() ? "" : ", ") + word.substr(0, colon);
  }
  return "tensor<" + shape + element + ", #mg.layout<" + names + ">>";
}
std::string f32(const std::string &dims) { return tensor(dims, "f32"); }
std::string i32(const std::string &dims) { return tensor(dims, "i32"); }
std::string bf16(const std::string &dims) { return tensor(dims, "bf16"); }

static std::string list(const std::vector<std::string> &items, const std::string &prefix = "") {
  std::string text;
  for (size_t i = 0; i < items.size(); ++i)
    text += (i ? ", " : "") + (prefix.empty() ? items[i] : prefix + std::to_string(i) + ": " + items[i]);
  return text;
}

std::string oneOp(const std::string &name, std::vector<std::string> operands, const std::vector<std::string> &results,
                  const std::string &attributes) {
  std::string values, returned;
  for (size_t i = 0; i < operands.size(); ++i) {
    const size_t type = operands[i].find("tensor<");
    const std::string keyword = operands[i].substr(0, type);
    values += (i == 0 ? "" : keyword.empty() ? ", " : " ") + keyword + "%a" + std::to_string(i);
    operands[i].erase(0, type);
  }
  for (size_t i = 0; i < results.size(); ++i)
    returned += (i ? ", %r#" : "%r#") + std::to_string(i);
  return "func.func @f(" + list(operands, "%a") + ") -> (" + list(results) +
         ") {\n  %r:" + std::to_string(results.size()) + " = mg." + name + " " + values + " " + attributes + " : (" +
         list(operands) + ") -> (" + list(results) + ")\n  return " + returned + " : " + list(results) + "\n}\n";
}

static int64_t evaluate(const plan::Scalar &scalar, const KernelContext &context) {
  if (scalar.kind == plan::Scalar::Kind::seed)
    return context.seed;
  if (scalar.kind == plan::Scalar::Kind::instance)
    return context.instance;
  int64_t sum = scalar.value;
  for (const plan::Scalar::Term &term : scalar.terms)
    sum += context.coordinates.at(term.axes.front()) * term.scale;
  return sum;
}

std::vector<Buffer> runRowOps(const std::string &text, std::vector<Buffer> arguments, const KernelContext &kernel) {
  MLIRContext context;
  context.loadDialect<MgDialect, func::FuncDialect>();
  auto module = parseSourceString<ModuleOp>(text, &context);
  if (!module) {
    ADD_FAILURE() << "does not parse:\n" << text;
    return {};
  }
  auto function = *module->getOps<func::FuncOp>().begin();
  Block &body = function.getBody().front();
  std::optional<RowSpace> space;
  for (Operation &op : body.without_terminator()) {
    RowSpace own = cast<RowOpInterface>(op).getRowSpace();
    space = space ? mergeSpaces(*space, own) : std::optional(own);
    if (!space) {
      ADD_FAILURE() << "the ops have no common space:\n" << text;
      return {};
    }
  }
  RowEmitter emitter(*space);
  std::vector<Buffer> results;
  llvm::DenseMap<Value, size_t> numberOf;
  for (auto [i, value] : llvm::enumerate(body.getTerminator()->getOperands())) {
    emitter.store(value, kernel.accumulate ? rowgen::Access::accumulate : rowgen::Access::out);
    results.emplace_back(size_t(tensorOf(value).getNumElements()), kernel.accumulate ? kernel.start : NAN);
    numberOf[value] = i;
  }
  for (Operation &op : body.without_terminator())
    EXPECT_TRUE(succeeded(emitter.emit(cast<RowOpInterface>(op))));
  std::vector<Buffer *> buffers;
  for (const RowEmitter::Operand &operand : emitter.operands()) {
    auto argument = dyn_cast<BlockArgument>(operand.value);
    buffers.push_back(argument ? &arguments[argument.getArgNumber()] : &results[numberOf.at(operand.value)]);
  }
  std::vector<int64_t> scalars;
  for (const plan::Scalar &scalar : emitter.scalars())
    scalars.push_back(evaluate(scalar, kernel));
  rowgen::test::runOne(emitter.graph(), buffers, scalars);
  return results;
}

} // namespace mgc::test
