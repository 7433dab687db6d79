// See ParameterPlaces.h.
#include "compiler/assemble/ParameterPlaces.h"

namespace mgc {

ParameterPlaces::ParameterPlaces(StageOp stage) {
  for (PlaceOp place : stage.all<PlaceOp>())
    places_[{place.getBlock().str(), int64_t(place.getArgument())}].push_back(place);
}

ParameterPlaces::Place ParameterPlaces::of(const Instance &instance, int64_t argument) const {
  for (PlaceOp place : places_.at({instance.block->base, argument})) {
    const int64_t n = instance.number - int64_t(place.getFirst());
    if (n >= 0 && n < int64_t(place.getCount()))
      return {int64_t(place.getBucket()), int64_t(place.getOffset()) + n * int64_t(place.getStride())};
  }
  return {}; // verified: every instance of the stage has its places
}

} // namespace mgc
