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
  case Activation::geluClipped:
    return "gelu(clipped)";
  case Activation::hardSwish:
    return "hard swish";
  case Activation::laplace:
    return "laplace";
  case Activation::leakyRelu:
    return "leaky relu";
  case Activation::linear:
    return "linear";
  case Activation::mish:
    return "mish";
  case Activation::relu:
    return "relu";
  case Activation::relu2:
    return "relu squared";
  case Activation::relu6:
    return "relu6";
  case Activation::sigmoid:
    return "sigmoid";
  case Activation::silu:
    return "silu";
  case Activation::tanh:
    return "tanh";
  }
  return "";
}

} // namespace mgc::frontend
