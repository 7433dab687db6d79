// The model_type of weights whose config.json changes its family by "mgc": {"model": {..}}, and of models without one.
#pragma once

namespace mgc::plan {

// A config.json of saved weights has the family in "mgc": {"base": {..}}.
inline constexpr const char *kOwnModelType = "mgc";

} // namespace mgc::plan
