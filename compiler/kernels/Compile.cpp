// compileKernels: verify, drop duplicates, generate and optimise in parallel, link. See Compile.h.
//
// The kernels are cut into modules of a few kernels each, every one with its own MLIR and LLVM context;
// threads take them from a queue. The cut depends on the kernels alone, so the object does not depend on the
// machine's cores.
#include "compiler/kernels/Compile.h"
#include "compiler/kernels/Native.h"
#include <atomic>
#include <cctype>
#include <map>
#include <set>
#include <thread>

namespace mgc::rowgen {

static constexpr size_t kKernelsPerModule = 5;

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

Result<std::vector<CompiledKernel>> compileKernels(const std::vector<NamedGraph> &graphs,
                                                   const std::vector<SharedObject> &outputs,
                                                   const CompileOptions &options) {
  MGC_TRY(verifyAll(graphs));
  std::vector<CompiledKernel> results;
  std::vector<const NamedGraph *> distinct;
  std::map<std::string, std::string> symbolOf; // key -> symbol
  for (const NamedGraph &named : graphs) {
    auto [place, isNew] = symbolOf.try_emplace(named.graph.key(), named.symbol);
    if (isNew)
      distinct.push_back(&named);
    results.push_back({place->second, named.graph.describe()});
  }
  std::vector<std::vector<const NamedGraph *>> modules((distinct.size() + kKernelsPerModule - 1) /
                                                       kKernelsPerModule);
  for (size_t number = 0; number < distinct.size(); ++number)
    modules[number % modules.size()].push_back(
        distinct[number]); // neighbours are alike: spreads the heavy ones

  std::vector<CpuTarget> targets;
  for (const SharedObject &output : outputs)
    targets.push_back(output.target);
  std::vector<std::vector<std::string>> objects(modules.size()); // of each module, one per target
  std::vector<std::string> printed(modules.size());
  std::vector<Status> statuses(modules.size());
  std::atomic<size_t> next{0};
  auto work = [&] {
    for (size_t number = next++; number < modules.size(); number = next++)
      statuses[number] = compileModule(modules[number], targets, objects[number],
                                       options.printed ? &printed[number] : nullptr);
  };
  size_t workers =
      options.threads > 0 ? size_t(options.threads) : std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::thread> threads;
  for (size_t number = 1; number < std::min(workers, modules.size()); ++number)
    threads.emplace_back(work);
  work();
  for (std::thread &thread : threads)
    thread.join();
  for (Status &status : statuses)
    MGC_TRY(status);
  for (const std::string &text : printed)
    if (options.printed)
      *options.printed += text;
  for (size_t number = 0; number < outputs.size(); ++number) {
    std::vector<std::string> ofTarget;
    for (std::vector<std::string> &module : objects)
      ofTarget.push_back(std::move(module[number]));
    MGC_TRY(linkSharedObject(ofTarget, outputs[number].path));
  }
  return results;
}

} // namespace mgc::rowgen
