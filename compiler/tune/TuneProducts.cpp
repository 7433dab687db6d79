// See TuneProducts.h.
#include "compiler/tune/TuneProducts.h"

#include "compiler/tune/ProductCache.h"
#include "compiler/tune/ProductTimes.h"
#include "runtime/base/Cores.h"
#include "runtime/kernels/GemmPaths.h"

#include <algorithm>
#include <set>
#include <thread>

namespace mgc::tune {

namespace {

// Paths are options to divide a matrix product of f32.
bool hasChoice(const plan::Gemm &gemm, int threads) {
  if (gemm.inputType != plan::DType::f32)
    return false;
  return std::ranges::count_if(gemmPaths(), [&](const GemmPathRow &row) { return row.applies(gemm, threads); }) > 1;
}

class Tuner {
public:
  Tuner(int threads, std::string cache) : cache_(std::move(cache)) {
    report_.threads = threads;
    keyBegin_ = fmt::format("{}, {}, {} threads, ", processorName(), gemmLibrary(), threads);
  }

  Status run(plan::Plan &plan) {
    MGC_TRY(cache_.load(report_.notes));
    int64_t unmeasured = 0;
    for (plan::Program &program : plan.programs)
      for (plan::Instruction &instruction : program.instructions)
        if (auto *gemm = std::get_if<plan::Gemm>(&instruction.body); gemm && gemm->inputType != plan::DType::f32)
          ++unmeasured;
        else if (gemm && hasChoice(*gemm, report_.threads))
          MGC_TRY(choose(*gemm));
    if (unmeasured > 0)
      report_.notes.push_back(fmt::format("{} products are not of f32 and stay as by rule: the paths that are "
                                          "compared are those of f32",
                                          unmeasured));
    return Status::ok();
  }
  TuneReport take() { return std::move(report_); }

private:
  Status choose(plan::Gemm &gemm) {
    const std::string key = keyBegin_ + gemm.sizes();
    const plan::GemmPath byRule = gemmRule(gemm, report_.threads).path;
    std::optional<plan::GemmPath> path = cache_.find(key);
    const bool isRemembered = path.has_value();
    if (!path) {
      MGC_ASSIGN(times, measure(gemm));
      path = fastest(times, byRule);
      remember(key, *path);
    }
    gemm.path = *path;
    if (listed_.insert(key).second)
      report_.products.push_back({gemm, *path == byRule, isRemembered});
    return Status::ok();
  }

  // At once: measuring all matrix products takes minutes, and the program may be stopped.
  void remember(const std::string &key, plan::GemmPath path) {
    cache_.add(key, path);
    if (Status written = isWritable_ ? cache_.save() : Status::ok(); !written.isOk()) {
      isWritable_ = false;
      report_.notes.push_back(fmt::format("{}; the plan has the choices, later ones measure again", written.message()));
    }
  }

  Result<std::vector<PathTimes>> measure(const plan::Gemm &gemm) {
    if (!timer_)
      MGC_SET(timer_, ProductTimer::create(report_.threads));
    return timer_->measure(gemm);
  }

  ProductCache cache_;
  bool isWritable_ = true;
  TuneReport report_;
  std::string keyBegin_;
  std::optional<ProductTimer> timer_; // with the first matrix product that is measured
  std::set<std::string> listed_;      // keys in report_.products
};

} // namespace

Result<TuneReport> tuneProducts(plan::Plan &plan, const TuneOptions &options) {
  const std::vector<int> cores = availableCores();
  const int threads = options.threads > 0 ? options.threads : threadsOfRank(cores.size(), plan.mesh.worldSize());
  if (threads > int(cores.size()))
    return errorf("{} threads on the {} cores that this process may use cannot be measured; expected at most {}",
                  threads, cores.size(), cores.size());
  Tuner tuner(threads, options.cache);
  Status status;
  std::thread([&] { // a rank's thread: it has its cores, and its pool ends with it
    stayOn(std::span(cores).first(threads));
    status = tuner.run(plan);
  })
      .join();
  MGC_TRY(status);
  return tuner.take();
}

} // namespace mgc::tune
