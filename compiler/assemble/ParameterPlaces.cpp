// See ParameterPlaces.h.
#include "compiler/assemble/ParameterPlaces.h"

namespace mgc {

ParameterPlaces::ParameterPlaces(const StageContents &stage) {
  for (const StageContents::Place &place : stage.places)
    places_[{place.block, place.argument}].push_back(place);
}

ParameterPlaces::Place ParameterPlaces::of(const Instance &instance, int64_t argument) const {
  for (const StageContents::Place &place : places_.at({instance.block->base, argument})) {
    const int64_t n = instance.number - place.first;
    if (n >= 0 && n < place.count)
      return {place.bucket, place.offset + n * place.stride};
  }
  return {}; // verified: every instance of the stage has its places
}

} // namespace mgc
