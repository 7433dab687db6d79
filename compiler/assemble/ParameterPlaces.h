// Where a stage has the parameters of its instances, by what its places name.
#pragma once

#include "compiler/assemble/StageContents.h"

namespace mgc {

class ParameterPlaces {
public:
  explicit ParameterPlaces(const StageContents &stage);

  struct Place {
    int64_t bucket = -1, element = 0;
  };
  // The place of an argument of the block's forward function.
  Place of(const Instance &instance, int64_t argument) const;

private:
  std::map<std::pair<std::string, int64_t>, std::vector<StageContents::Place>> places_; // by block and argument
};

} // namespace mgc
