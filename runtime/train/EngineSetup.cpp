// See EngineSetup.h.
#include "runtime/train/EngineSetup.h"

#include "runtime/io/ChoiceCache.h"
#include "runtime/train/RandomDelays.h"

namespace mgc {

static DeviceOptions deviceOptions(const TrainingOptions &options, Processes *processes, const std::string &purpose) {
  DeviceOptions device;
  device.plugin = options.devicePlugin.value_or("");
  device.ordinal = options.device.value_or(processes ? static_cast<int>(processes->localRank()) : 0);
  device.deterministic = !options.nonDeterministic;
  device.graphs = !options.noGraphs;
  device.tuneProducts = options.tuneProducts;
  if (options.tuneProducts)
    device.tuneCache = options.tuneCache.value_or(defaultCacheFile("device-products.json"));
  if (processes)
    device.share = [processes, purpose](const auto &key, bool isMaker, const auto &make) {
      return processes->store().share(fmt::format("{}: {}", purpose, key), isMaker, make, processes->deadline());
    };
  return device;
}

EngineOptions engineOptions(const TrainingOptions &options, const RunShared &shared, plan::Target target,
                            const std::string &purpose) {
  Processes *processes = shared.processes.get();
  EngineOptions engine;
  engine.threadsPerRank = options.threads;
  engine.timeout = options.timeout;
  engine.seed = options.seed;
  if (processes) {
    engine.communicator = shared.world ? &shared.world->communicator() : shared.storeHosts.get();
    engine.cores = {processes->coreRank(), processes->coreSize()};
  }
  engine.bf16 = {options.bf16Product, defaultCacheFile("bf16-products.json")};
  if (options.delays)
    engine.inject = randomDelays(*options.delays);
  engine.poison = options.poison;
  if (target != plan::Target::cpu)
    engine.device = deviceOptions(options, processes, purpose);
  return engine;
}

} // namespace mgc
