// compileKernels: verify, drop duplicates, generate and optimise in parallel, link or join. See Compile.h.
//
// The kernels are cut into modules of a few kernels each, every one with its own MLIR and LLVM context; threads take
// them from a queue. The cut depends on the kernels alone, so the object does not depend on the machine's cores.
#include "codegen/rows/Compile.h"
#include "codegen/rows/cpu/Native.h"
#include "codegen/rows/gpu/Ptx.h"
#include "codegen/rows/loops/LoopLayout.h"
#include "runtime/base/Rounding.h"
#include <atomic>
#include <cctype>
#include <functional>
#include <map>
#include <set>
#include <thread>

namespace mgc::rowgen {

static constexpr size_t kKernelsPerModule = 8;

static Status checkSymbol(const std::string &symbol) {
  bool isValid = !symbol.empty() && !std::isdigit(static_cast<unsigned char>(symbol[0]));
  for (unsigned char letter : symbol)
    isValid = isValid && (std::isalnum(letter) || letter == '_');
  return isValid ? Status::ok() : errorf("kernel '{}': the symbol is not a C identifier", symbol);
}

// All errors at once, one graph after another.
static Status verifyAll(const std::vector<NamedGraph> &graphs) {
  std::string errors;
  auto note = [&](const Status &status) {
    if (!status.isOk())
      errors += (errors.empty() ? "" : "\n") + status.message();
  };
  std::set<std::string> symbols;
  for (const NamedGraph &named : graphs) {
    note(checkSymbol(named.symbol));
    if (!symbols.insert(named.symbol).second)
      note(errorf("kernel '{}': the symbol is used twice", named.symbol));
    note(named.graph.verify().at("kernel " + named.symbol));
  }
  return errors.empty() ? Status::ok() : Status::error(errors);
}

KernelInfo describeKernel(const RowGraph &graph) { return LoopLayout(graph).info(); }

namespace {
// The distinct graphs; and of each graph the symbol of its kernel.
struct Kernels {
  std::vector<const NamedGraph *> distinct;
  std::vector<std::string> symbols;
};
} // namespace

static Kernels dropEqual(const std::vector<NamedGraph> &graphs) {
  Kernels kernels;
  std::map<std::string, std::string> symbolOf; // key -> symbol
  for (const NamedGraph &named : graphs) {
    auto [place, isNew] = symbolOf.try_emplace(named.graph.key(), named.symbol);
    if (isNew)
      kernels.distinct.push_back(&named);
    kernels.symbols.push_back(place->second);
  }
  return kernels;
}

static std::vector<KernelCode> shareCode(const std::vector<const NamedGraph *> &graphs) {
  std::vector<KernelCode> codes;
  std::map<std::string, size_t> known; // code key -> index
  for (const NamedGraph *graph : graphs) {
    const auto [place, isNew] = known.try_emplace(LoopLayout(graph->graph).codeKey(), codes.size());
    if (isNew)
      codes.push_back({graph, {}});
    else
      codes[place->second].others.push_back(graph);
  }
  return codes;
}

// Modules of a few each. Neighbours are alike: dealing them out spreads the heavy ones.
template <typename T> static std::vector<std::vector<T>> divide(const std::vector<T> &kernels) {
  std::vector<std::vector<T>> modules(divideUp(kernels.size(), kKernelsPerModule));
  for (size_t number = 0; number < kernels.size(); ++number)
    modules[number % modules.size()].push_back(kernels[number]);
  return modules;
}

// compile(number, printed): one module.
static Status compileAll(size_t modules, const CompileOptions &options,
                         const std::function<Status(size_t, std::string *)> &compile) {
  std::vector<std::string> printed(modules);
  std::vector<Status> statuses(modules);
  std::atomic<size_t> next{0};
  auto work = [&] {
    for (size_t number = next++; number < modules; number = next++)
      statuses[number] = compile(number, options.printed ? &printed[number] : nullptr);
  };
  size_t workers = options.threads > 0 ? size_t(options.threads) : std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::thread> threads;
  for (size_t number = 1; number < std::min(workers, modules); ++number)
    threads.emplace_back(work);
  work();
  for (std::thread &thread : threads)
    thread.join();
  for (Status &status : statuses)
    MGC_TRY(status);
  for (const std::string &text : printed)
    if (options.printed)
      *options.printed += text;
  return Status::ok();
}

Result<std::vector<std::string>> compileKernels(const std::vector<NamedGraph> &graphs,
                                                const std::vector<SharedObject> &outputs,
                                                const CompileOptions &options) {
  MGC_TRY(verifyAll(graphs));
  Kernels kernels = dropEqual(graphs);
  std::vector<CpuTarget> targets;
  for (const SharedObject &output : outputs)
    targets.push_back(output.target);
  const std::vector<std::vector<KernelCode>> modules = divide(shareCode(kernels.distinct));
  std::vector<std::vector<std::string>> objects(modules.size()); // by module, then by target
  MGC_TRY(compileAll(modules.size(), options, [&](size_t number, std::string *printed) {
    return compileModule(modules[number], targets, objects[number], printed);
  }));
  for (size_t number = 0; number < outputs.size(); ++number) {
    std::vector<std::string> ofTarget;
    for (std::vector<std::string> &module : objects)
      ofTarget.push_back(std::move(module[number]));
    MGC_TRY(linkSharedObject(ofTarget, outputs[number].path));
  }
  return kernels.symbols;
}

Result<std::vector<std::string>> compileKernels(const std::vector<NamedGraph> &graphs, const PtxFile &output,
                                                const CompileOptions &options) {
  MGC_TRY(verifyAll(graphs));
  Kernels kernels = dropEqual(graphs);
  const std::vector<std::vector<const NamedGraph *>> modules = divide(kernels.distinct);
  std::vector<std::string> texts(modules.size());
  MGC_TRY(compileAll(texts.size(), options, [&](size_t number, std::string *printed) {
    return compilePtx(modules[number], output.level, texts[number], printed);
  }));
  MGC_ASSIGN(joined, joinPtx(texts, output.level));
  MGC_TRY(writeFile(output.path, joined));
  return kernels.symbols;
}

} // namespace mgc::rowgen
