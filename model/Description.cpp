#include "model/Description.h"

namespace mgc::frontend {

Norm layerNorm(double epsilon) { return {NormKind::layer, epsilon, /*weight=*/true, /*bias=*/true}; }
Norm rmsNorm(double epsilon) { return {NormKind::rms, epsilon}; }

} // namespace mgc::frontend
