// See Ptx.h. gpu, scf, arith, math, vector -> nvvm and llvm dialects -> LLVM IR -> simplified -> PTX.
#include "codegen/rows/gpu/Ptx.h"
#include "codegen/rows/gpu/EmitGpu.h"
#include "codegen/rows/graph/Simplify.h"
#include "codegen/rows/loops/Lowering.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/GPUToNVVM/GPUToNVVMPass.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/LLVMCommon/VectorPattern.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/GPU/GPUToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/DialectConversion.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Target/TargetMachine.h"
#include <mutex>

extern "C" {
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

namespace mgc::rowgen {

static_assert(std::ranges::all_of(plan::kKernelLevels, [](const plan::KernelLevelFacts &level) {
  const plan::KernelLevelFacts &code = factsOf(level.code);
  return code.code == level.code && code.target == level.target && code.capability <= level.capability;
}));

// The oldest version that knows the GPU of the code, for a driver takes the versions up to its own: 7.8 came with CUDA
// 11.8, 8.6 with CUDA 12.8.
static const char *ptxFeature(plan::KernelLevel code) { return code == plan::KernelLevel::sm100 ? "+ptx86" : "+ptx78"; }

static std::unique_ptr<llvm::TargetMachine> makeMachine(plan::KernelLevel level) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    // Without .rn the driver's compiler may fuse a product and a sum.
    if (llvm::cl::Option *level = llvm::cl::getRegisteredOptions().lookup("nvptx-fma-level"))
      level->addOccurrence(0, "nvptx-fma-level", "0");
  });
  std::string error;
  llvm::Triple triple("nvptx64-nvidia-cuda");
  const llvm::Target *backend = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!backend)
    return nullptr;
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict; // as on the CPU
  const plan::KernelLevel code = factsOf(level).code;
  return std::unique_ptr<llvm::TargetMachine>(backend->createTargetMachine(
      triple, nameOf(code), ptxFeature(code), options, std::nullopt, std::nullopt, llvm::CodeGenOptLevel::Default));
}

// --- MLIR --------------------------------------------------------------------------------------------------

static void loadDialects(mlir::MLIRContext &context) {
  mlir::DialectRegistry registry;
  mlir::registerBuiltinDialectTranslation(registry);
  mlir::registerLLVMDialectTranslation(registry);
  mlir::registerGPUDialectTranslation(registry);
  mlir::registerNVVMDialectTranslation(registry);
  context.appendDialectRegistry(registry);
  context.loadDialect<mlir::arith::ArithDialect, mlir::cf::ControlFlowDialect, mlir::gpu::GPUDialect,
                      mlir::LLVM::LLVMDialect, mlir::math::MathDialect, mlir::NVVM::NVVMDialect, mlir::scf::SCFDialect,
                      mlir::vector::VectorDialect>();
}

// Lowers the math ops that PTX has instructions for. All others become calls, which findUnresolved refuses.
static void addMath(mlir::LLVMTypeConverter &types, mlir::RewritePatternSet &patterns) {
  const mlir::PatternBenefit first = 10;
  patterns.add<mlir::VectorConvertToLLVMPattern<mlir::math::FmaOp, mlir::LLVM::FMAOp>,
               mlir::VectorConvertToLLVMPattern<mlir::math::AbsFOp, mlir::LLVM::FAbsOp>,
               mlir::VectorConvertToLLVMPattern<mlir::math::SqrtOp, mlir::LLVM::SqrtOp>,
               mlir::VectorConvertToLLVMPattern<mlir::arith::MaxNumFOp, mlir::LLVM::MaxNumOp>>(types, first);
  mlir::populateLibDeviceConversionPatterns(types, patterns);
}

static bool lowerToNvvm(mlir::gpu::GPUModuleOp module) {
  mlir::MLIRContext *context = module.getContext();
  if (!lowerLoops(module))
    return false;
  mlir::LLVMTypeConverter types(context);
  mlir::configureGpuToNVVMTypeConverter(types);
  mlir::RewritePatternSet patterns(context);
  mlir::populateGpuToNVVMConversionPatterns(types, patterns);
  addMath(types, patterns);
  mlir::populateVectorToLLVMConversionPatterns(types, patterns);
  mlir::arith::populateArithToLLVMConversionPatterns(types, patterns);
  mlir::cf::populateControlFlowToLLVMConversionPatterns(types, patterns);
  mlir::LLVMConversionTarget target(*context);
  mlir::configureGpuToNVVMConversionLegality(target);
  target.addLegalOp<mlir::LLVM::FMAOp, mlir::LLVM::FAbsOp, mlir::LLVM::SqrtOp, mlir::LLVM::MaxNumOp>();
  return succeeded(applyPartialConversion(module, target, std::move(patterns)));
}

// The op a value's location names: the name of a RowGraph::map.
static std::string nameOf(mlir::Location location) {
  auto named = mlir::dyn_cast<mlir::NameLoc>(location);
  return named ? "map '" + named.getName().str() + "'" : "the generator";
}

static Status findUnresolved(mlir::gpu::GPUModuleOp module) {
  std::string errors;
  module.walk([&](mlir::LLVM::CallOp call) {
    auto callee = call.getCallee();
    auto known = callee ? module.lookupSymbol<mlir::LLVM::LLVMFuncOp>(*callee) : mlir::LLVM::LLVMFuncOp();
    if (known && !known.isExternal())
      return;
    auto kernel = call->getParentOfType<mlir::LLVM::LLVMFuncOp>();
    errors +=
        fmt::format("{}kernel {}: {} calls {}, which nothing defines on a GPU; expected arith, math.fma, math.absf, "
                    "math.sqrt, or what codegen/rows/graph/Math.h makes of them",
                    errors.empty() ? "" : "\n", kernel.getName().str(), nameOf(call.getLoc()),
                    callee ? callee->str() : "a pointer");
  });
  return errors.empty() ? Status::ok() : Status::error(errors);
}

// --- LLVM --------------------------------------------------------------------------------------------------

// Tables of constants have the same names in all modules; those of a text must be distinct.
static void renameInternals(llvm::Module &module, const std::string &suffix) {
  for (llvm::GlobalVariable &variable : module.globals())
    if (variable.hasLocalLinkage() && variable.isConstant())
      variable.setName(variable.getName() + "_" + suffix);
}

static bool emitText(llvm::Module &module, llvm::TargetMachine &machine, std::string &text) {
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::AssemblyFile))
    return false;
  passes.run(module);
  text.assign(bytes.begin(), bytes.end());
  return true;
}

// LLVM modules end with an invented empty module: its text is the header.
static Result<std::string> textOf(std::unique_ptr<llvm::Module> module, plan::KernelLevel level) {
  std::unique_ptr<llvm::TargetMachine> machine = makeMachine(level);
  if (!machine)
    return errorf("kernels: LLVM has no NVPTX back end");
  module->setTargetTriple(machine->getTargetTriple());
  module->setDataLayout(machine->createDataLayout());
  std::string text;
  if (!simplify(*module, *machine) || !emitText(*module, *machine, text))
    return errorf("code generation for {} failed", nameOf(level));
  return text;
}

Status compilePtx(const std::vector<const NamedGraph *> &kernels, plan::KernelLevel level, std::string &text,
                  std::string *mlirText) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  loadDialects(context);
  mlir::Location location = mlir::UnknownLoc::get(&context);
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::ModuleOp::create(location);
  auto builder = mlir::OpBuilder::atBlockEnd(module->getBody());
  auto gpuModule = mlir::gpu::GPUModuleOp::create(builder, location, "kernels");
  for (const NamedGraph *kernel : kernels)
    MGC_TRY(emitGpuKernel(gpuModule, kernel->symbol, LoopLayout(kernel->graph)));
  const ModuleDiagnostics diagnostics(context, kernels);
  if (mlirText)
    *mlirText = printed(*module);
  if (failed(mlir::verify(*module)))
    return diagnostics.failure("the verifier");
  if (!lowerToNvvm(gpuModule))
    return diagnostics.failure("lowering to the nvvm dialect");
  MGC_TRY(findUnresolved(gpuModule));
  llvm::LLVMContext llvmContext;
  std::unique_ptr<llvm::Module> llvmModule = mlir::translateModuleToLLVMIR(gpuModule, llvmContext);
  if (!llvmModule)
    return diagnostics.failure("translation to LLVM IR");
  renameInternals(*llvmModule, kernels.front()->symbol);
  Result<std::string> result = textOf(std::move(llvmModule), level);
  if (!result.isOk())
    return diagnostics.failure(result.status().message().c_str());
  text = result.take();
  return Status::ok();
}

Result<std::string> joinPtx(const std::vector<std::string> &texts, plan::KernelLevel level) {
  llvm::LLVMContext context;
  MGC_ASSIGN(joined, textOf(std::make_unique<llvm::Module>("none", context), level));
  const std::string headerEnd = ".address_size 64\n";
  for (const std::string &text : texts)
    joined += text.substr(text.find(headerEnd) + headerEnd.size());
  return joined;
}

} // namespace mgc::rowgen
