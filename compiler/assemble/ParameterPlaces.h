// Where a stage has the parameters of its instances: its mg.place ops, by what they name.
#pragma once

#include "compiler/program/Blocks.h"
#include "dialects/mg/Mg.h"

namespace mgc {

class ParameterPlaces {
public:
  explicit ParameterPlaces(StageOp stage);

  struct Place {
    int64_t bucket = -1, element = 0;
  };
  // The place of an argument of the block's forward function.
  Place of(const Instance &instance, int64_t argument) const;

private:
  std::map<std::pair<std::string, int64_t>, std::vector<PlaceOp>> places_; // by block and argument
};

} // namespace mgc
