#include "model/Vocabulary.h"

namespace mgc::frontend {

Words<NormKind> wordsOf(Of<NormKind>) {
  static constexpr std::pair<std::string_view, NormKind> kWords[] = {{"layer", NormKind::layer},
                                                                     {"rms", NormKind::rms}};
  return kWords;
}

Words<NormSpan> wordsOf(Of<NormSpan>) {
  static constexpr std::pair<std::string_view, NormSpan> kWords[] = {
      {"head", NormSpan::head}, {"each_head", NormSpan::eachHead}, {"all_heads", NormSpan::allHeads}};
  return kWords;
}

Words<Objective> wordsOf(Of<Objective>) {
  static constexpr std::pair<std::string_view, Objective> kWords[] = {
      {plan::nameOf(Objective::causal), Objective::causal}, {plan::nameOf(Objective::masked), Objective::masked}};
  return kWords;
}

Words<RopeKind> wordsOf(Of<RopeKind>) { return ropeKinds(); }

// The names of transformers' ACT2FN. Not among them: prelu and xielu, which have parameters.
Words<Activation> wordsOf(Of<Activation>) {
  static constexpr std::pair<std::string_view, Activation> kWords[] = {{"gelu", Activation::geluErf},
                                                                       {"gelu_python", Activation::geluErf},
                                                                       {"gelu_10", Activation::geluClipped},
                                                                       {"gelu_new", Activation::geluTanh},
                                                                       {"gelu_pytorch_tanh", Activation::geluTanh},
                                                                       {"gelu_python_tanh", Activation::geluTanh},
                                                                       {"gelu_accurate", Activation::geluTanh},
                                                                       {"gelu_fast", Activation::geluTanh},
                                                                       {"quick_gelu", Activation::geluQuick},
                                                                       {"hardswish", Activation::hardSwish},
                                                                       {"laplace", Activation::laplace},
                                                                       {"leaky_relu", Activation::leakyRelu},
                                                                       {"linear", Activation::linear},
                                                                       {"mish", Activation::mish},
                                                                       {"relu", Activation::relu},
                                                                       {"relu2", Activation::relu2},
                                                                       {"relu6", Activation::relu6},
                                                                       {"sigmoid", Activation::sigmoid},
                                                                       {"silu", Activation::silu},
                                                                       {"swish", Activation::silu},
                                                                       {"tanh", Activation::tanh}};
  return kWords;
}

} // namespace mgc::frontend
