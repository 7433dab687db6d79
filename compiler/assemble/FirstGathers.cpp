// See FirstGathers.h.
#include "compiler/assemble/FirstGathers.h"

#include "compiler/assemble/ParameterPlaces.h"

#include <set>

namespace mgc {

// A microbatch passes the forwards of a stage's chunks in ascending order, before all else.
FirstGathers::FirstGathers(const StageContents &stage, const std::vector<ChunkLayout> &chunks) {
  const auto isGathered = [&](int64_t bucket) { return stage.gathers[size_t(bucket)] == GatherTime::step; };
  if (llvm::none_of(stage.gathers, [](GatherTime time) { return time == GatherTime::step; }))
    return;
  const ParameterPlaces places(stage);
  std::set<Unit> seen;
  for (size_t chunk = 0; chunk < chunks.size(); ++chunk)
    for (auto [i, instance] : llvm::enumerate(chunks[chunk].instances()))
      for (const BlockFunction::Argument &argument : instance.block->forward.arguments) {
        if (argument.kind != BlockFunction::ArgumentKind::parameter)
          continue;
        const ParameterPlaces::Place place = places.of(instance, argument.index);
        if (!isGathered(place.bucket))
          continue;
        const Unit unit{place.bucket, place.element / stage.buckets[size_t(place.bucket)].unitElements()};
        if (seen.insert(unit).second)
          units_[{int64_t(chunk), i}].push_back(unit);
      }
}

bool FirstGathers::has(int64_t chunk) const {
  const auto next = units_.lower_bound({chunk, 0});
  return next != units_.end() && next->first.first == chunk;
}

std::vector<FirstGathers::Unit> FirstGathers::of(int64_t chunk, size_t instance) const {
  const auto found = units_.find({chunk, instance});
  return found == units_.end() ? std::vector<Unit>() : found->second;
}

} // namespace mgc
