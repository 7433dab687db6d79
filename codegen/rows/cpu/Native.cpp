// See Native.h. scf, arith, math, vector, func -> llvm dialect -> LLVM IR -> simplified, the same for all targets
// -> an object for each.
#include "codegen/rows/cpu/Native.h"
#include "codegen/rows/cpu/EmitCpu.h"
#include "codegen/rows/graph/Simplify.h"
#include "codegen/rows/loops/LoopLayout.h"
#include "codegen/rows/loops/Lowering.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVM.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Target/LLVMIR/ModuleTranslation.h"
#include "mlir/Transforms/DialectConversion.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/X86TargetParser.h"
#include "llvm/Transforms/Utils/Cloning.h"
#include <mutex>

extern "C" {
void LLVMInitializeX86TargetInfo();
void LLVMInitializeX86Target();
void LLVMInitializeX86TargetMC();
void LLVMInitializeX86AsmPrinter();
}

namespace mgc::rowgen {

static void initializeTarget() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
  });
}

static std::unique_ptr<llvm::TargetMachine> makeMachine(const std::string &cpu) {
  std::string error;
  llvm::Triple triple("x86_64-unknown-linux-gnu");
  const llvm::Target *backend = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!backend)
    return nullptr;
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict; // a * b + c of two ops has the bits that it has in two kernels
  return std::unique_ptr<llvm::TargetMachine>(backend->createTargetMachine(
      triple, cpu, /*features=*/"", options, llvm::Reloc::PIC_, std::nullopt, llvm::CodeGenOptLevel::Default));
}

Result<CpuTarget> CpuTarget::find(const std::string &cpu) {
  initializeTarget();
  CpuTarget target{cpu == "native" ? llvm::sys::getHostCPUName().str() : cpu};
  if (llvm::X86::parseArchX86(target.cpu, /*Only64Bit=*/true) == llvm::X86::CK_None)
    return errorf("kernels: unknown cpu '{}'; expected an LLVM name such as x86-64-v3, x86-64-v4, znver4 or native",
                  target.cpu);
  std::unique_ptr<llvm::TargetMachine> machine = makeMachine(target.cpu);
  if (!machine)
    return errorf("kernels: LLVM has no x86-64 back end");
  const llvm::MCSubtargetInfo &has = *machine->getMCSubtargetInfo();
  if (!has.checkFeatures("+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe"))
    return errorf("kernels: cpu '{}' lacks avx2 or fma; expected at least x86-64-v3", target.cpu);
  if (has.checkFeatures("+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl"))
    target.level = plan::KernelLevel::v4;
  return target;
}

// --- MLIR --------------------------------------------------------------------------------------------------

static void loadDialects(mlir::MLIRContext &context) {
  mlir::DialectRegistry registry;
  mlir::registerBuiltinDialectTranslation(registry);
  mlir::registerLLVMDialectTranslation(registry);
  context.appendDialectRegistry(registry);
  context.loadDialect<mlir::arith::ArithDialect, mlir::cf::ControlFlowDialect, mlir::func::FuncDialect,
                      mlir::LLVM::LLVMDialect, mlir::math::MathDialect, mlir::scf::SCFDialect,
                      mlir::vector::VectorDialect>();
}

static bool lowerToLLVM(mlir::ModuleOp module) {
  mlir::MLIRContext *context = module.getContext();
  if (!lowerLoops(module))
    return false;
  mlir::LLVMTypeConverter types(context);
  mlir::RewritePatternSet patterns(context);
  mlir::populateVectorToLLVMConversionPatterns(types, patterns);
  mlir::populateMathToLLVMConversionPatterns(types, patterns);
  mlir::arith::populateArithToLLVMConversionPatterns(types, patterns);
  mlir::cf::populateControlFlowToLLVMConversionPatterns(types, patterns);
  mlir::populateFuncToLLVMConversionPatterns(types, patterns);
  mlir::LLVMConversionTarget target(*context);
  target.addLegalOp<mlir::ModuleOp>();
  return succeeded(applyFullConversion(module, target, std::move(patterns)));
}

// --- LLVM --------------------------------------------------------------------------------------------------

static void setAttributes(llvm::Module &module) {
  for (llvm::Function &function : module) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr("prefer-vector-width", "512"); // one register where there are such
    function.addFnAttr("no-builtins");                // a copying loop must not become a call of memcpy
    function.addFnAttr(llvm::Attribute::NoUnwind);
  }
}

// Code generation changes the module.
static bool emitObject(llvm::Module &module, const CpuTarget &target, std::string &object) {
  for (llvm::Function &function : module)
    if (!function.isDeclaration()) {
      function.addFnAttr("target-cpu", std::string(nameOf(target.level)));
      function.addFnAttr("tune-cpu", target.cpu);
    }
  std::unique_ptr<llvm::TargetMachine> machine = makeMachine(std::string(nameOf(target.level)));
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  if (machine->addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::ObjectFile))
    return false;
  passes.run(module);
  object.assign(bytes.begin(), bytes.end());
  return true;
}

static void addNeeds(mlir::ModuleOp module, const std::string &symbol, const KernelInfo &info) {
  const std::vector<int64_t> needs = needsOf(info);
  auto builder = mlir::OpBuilder::atBlockEnd(module.getBody());
  auto type = mlir::LLVM::LLVMArrayType::get(builder.getI64Type(), needs.size());
  mlir::LLVM::GlobalOp::create(builder, module.getLoc(), type, /*isConstant=*/true, mlir::LLVM::Linkage::External,
                               symbol + std::string(plan::kNeedsSuffix), builder.getI64TensorAttr(needs));
}

// The other symbols of the kernels' code.
static void addAliases(llvm::Module &module, const std::vector<KernelCode> &kernels) {
  for (const KernelCode &kernel : kernels)
    for (const NamedGraph *other : kernel.others)
      llvm::GlobalAlias::create(llvm::GlobalValue::ExternalLinkage, other->symbol,
                                module.getFunction(kernel.graph->symbol));
}

Status compileModule(const std::vector<KernelCode> &kernels, const std::vector<CpuTarget> &targets,
                     std::vector<std::string> &objects, std::string *mlirText) {
  initializeTarget();
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  loadDialects(context);
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
  std::vector<const NamedGraph *> graphs;
  for (const auto &[graph, others] : kernels) {
    graphs.push_back(graph);
    LoopLayout layout(graph->graph);
    MGC_TRY(emitKernel(*module, graph->symbol, layout));
    addNeeds(*module, graph->symbol, layout.info());
    for (const NamedGraph *other : others)
      addNeeds(*module, other->symbol, LoopLayout(other->graph).info());
  }
  const ModuleDiagnostics diagnostics(context, graphs);
  if (mlirText)
    *mlirText = printed(*module);
  if (failed(mlir::verify(*module)))
    return diagnostics.failure("the verifier");
  if (!lowerToLLVM(*module))
    return diagnostics.failure("lowering to LLVM");
  llvm::LLVMContext llvmContext;
  std::unique_ptr<llvm::Module> llvmModule = mlir::translateModuleToLLVMIR(*module, llvmContext);
  std::unique_ptr<llvm::TargetMachine> machine = makeMachine("x86-64-v3");
  if (!llvmModule || !machine)
    return diagnostics.failure("translation to LLVM IR");
  llvmModule->setTargetTriple(machine->getTargetTriple());
  llvmModule->setDataLayout(machine->createDataLayout());
  setAttributes(*llvmModule);
  addAliases(*llvmModule, kernels);
  if (!simplify(*llvmModule, *machine))
    return diagnostics.failure("simplification");
  objects.resize(targets.size());
  for (size_t number = 0; number < targets.size(); ++number) {
    bool isLast = number + 1 == targets.size();
    std::unique_ptr<llvm::Module> own = isLast ? std::move(llvmModule) : llvm::CloneModule(*llvmModule);
    if (!emitObject(*own, targets[number], objects[number]))
      return diagnostics.failure("code generation");
  }
  return Status::ok();
}

} // namespace mgc::rowgen
