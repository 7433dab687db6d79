// States of buckets that tests make and change.
#pragma once

#include "plan/ParameterBuckets.h"

#include <algorithm>

namespace mgc::plan {

// Precondition: the bucket has a state of the name.
inline State &stateNamed(Bucket &bucket, std::string_view name) {
  return *std::ranges::find(bucket.states, name, &State::name);
}

inline void removeState(Bucket &bucket, std::string_view name) {
  std::erase_if(bucket.states, [&](const State &state) { return state.name == name; });
}

} // namespace mgc::plan
