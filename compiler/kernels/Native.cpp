// See Native.h. scf, arith, math, vector, func -> llvm dialect -> LLVM IR -> object.
#include "compiler/kernels/Native.h"
#include "compiler/kernels/Emit.h"
#include "compiler/kernels/Layout.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVM.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
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
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/X86TargetParser.h"
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

static std::unique_ptr<llvm::TargetMachine> makeMachine(const NativeTarget &target) {
  std::string error;
  llvm::Triple triple(target.triple);
  const llvm::Target *backend = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!backend)
    return nullptr;
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Fast; // a * b + c is one rounding everywhere
  return std::unique_ptr<llvm::TargetMachine>(
      backend->createTargetMachine(triple, target.cpu, target.features, options, llvm::Reloc::PIC_,
                                   std::nullopt, llvm::CodeGenOptLevel::Default));
}

Result<NativeTarget> NativeTarget::find(const std::string &cpu) {
  initializeTarget();
  NativeTarget target{"x86_64-unknown-linux-gnu", cpu, ""};
  if (cpu == "native")
    target.cpu = llvm::sys::getHostCPUName().str();
  if (llvm::X86::parseArchX86(target.cpu, /*Only64Bit=*/true) == llvm::X86::CK_None)
    return errorf(
        "kernels: unknown cpu '{}'; expected an LLVM name such as x86-64-v3, x86-64-v4, znver4 or native",
        target.cpu);
  std::unique_ptr<llvm::TargetMachine> machine = makeMachine(target);
  if (!machine)
    return errorf("kernels: LLVM has no x86-64 back end");
  if (!machine->getMCSubtargetInfo()->checkFeatures("+avx2,+fma"))
    return errorf("kernels: cpu '{}' lacks avx2 or fma; expected at least x86-64-v3", target.cpu);
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
  mlir::RewritePatternSet loops(context);
  mlir::populateSCFToControlFlowConversionPatterns(loops);
  mlir::ConversionTarget flat(*context);
  flat.addIllegalDialect<mlir::scf::SCFDialect>();
  flat.markUnknownOpDynamicallyLegal([](mlir::Operation *) { return true; });
  if (failed(applyPartialConversion(module, flat, std::move(loops))))
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

static void setAttributes(llvm::Module &module, const NativeTarget &target) {
  for (llvm::Function &function : module) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr("target-cpu", target.cpu);
    function.addFnAttr("prefer-vector-width", "512");
    function.addFnAttr("no-builtins"); // a copying loop must not become a call of memcpy
    function.addFnAttr(llvm::Attribute::NoUnwind);
  }
}

// The vectors are explicit already: what remains is simplification and hoisting. The kernels run as fast as
// after LLVM's O3 pipeline, which takes ten times as long.
static bool optimize(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  llvm::ModulePassManager passes;
  const char *pipeline =
      "function(early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg,loop-mssa(licm),early-cse)";
  if (llvm::errorToBool(builder.parsePassPipeline(passes, pipeline)))
    return false;
  passes.run(module, modules);
  return true;
}

static bool emitObject(llvm::Module &module, llvm::TargetMachine &machine, std::string &object) {
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::ObjectFile))
    return false;
  passes.run(module);
  object.assign(bytes.begin(), bytes.end());
  return true;
}

Status compileModule(const std::vector<const NamedGraph *> &kernels, const NativeTarget &target,
                     std::string &object, std::string *printed) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  loadDialects(context);
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
  for (const NamedGraph *kernel : kernels) {
    Layout layout(kernel->graph);
    MGC_TRY(emitKernel(*module, kernel->symbol, layout));
  }
  std::string diagnostics;
  mlir::ScopedDiagnosticHandler collect(&context, [&](mlir::Diagnostic &diagnostic) {
    diagnostics += "\n  " + diagnostic.str();
    return mlir::success();
  });
  if (printed) {
    llvm::raw_string_ostream stream(*printed);
    module->print(stream);
  }
  auto failure = [&](const char *step) {
    return errorf("kernels {} to {}: {} failed{}", kernels.front()->symbol, kernels.back()->symbol, step,
                  diagnostics);
  };
  if (failed(mlir::verify(*module)))
    return failure("the verifier");
  if (!lowerToLLVM(*module))
    return failure("lowering to LLVM");
  llvm::LLVMContext llvmContext;
  std::unique_ptr<llvm::Module> llvmModule = mlir::translateModuleToLLVMIR(*module, llvmContext);
  std::unique_ptr<llvm::TargetMachine> machine = makeMachine(target);
  if (!llvmModule || !machine)
    return failure("translation to LLVM IR");
  llvmModule->setTargetTriple(machine->getTargetTriple());
  llvmModule->setDataLayout(machine->createDataLayout());
  setAttributes(*llvmModule, target);
  if (!optimize(*llvmModule, *machine) || !emitObject(*llvmModule, *machine, object))
    return failure("code generation");
  return Status::ok();
}

} // namespace mgc::rowgen
