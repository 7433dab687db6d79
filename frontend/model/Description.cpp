#include "frontend/model/Description.h"

namespace mgc::frontend {

Norm layerNorm(double epsilon) { return {NormKind::layer, epsilon, /*weight=*/true, /*bias=*/true}; }
Norm rmsNorm(double epsilon) { return {NormKind::rms, epsilon}; }

std::string_view nameOf(NormKind kind) { return kind == NormKind::layer ? "layer" : "rms"; }

std::string_view nameOf(Activation activation) {
  switch (activation) {
  case Activation::geluErf:
    return "gelu(erf)";
  case Activation::geluTanh:
    return "gelu(tanh)";
  case Activation::geluQuick:
    return "gelu(quick)";
  case Activation::relu:
    return "relu";
  case Activation::silu:
    return "silu";
  }
  return "";
}

} // namespace mgc::frontend
