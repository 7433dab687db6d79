// The vocabulary of descriptions: the name, the range and the meaning of each field of ModelDescription, the only such
// list. Read by the reader of "mgc": {"model": {..}} (Overrides.h), the comparison of two models (SameModel.h) and the
// page of the vocabulary (docs/model-vocabulary.md).
//
// A struct T has `template <typename V> void fields(V &v, Of<T>)`, which calls v(Field, member pointer) for each field.
// A member is a number, a switch, a word, a struct with fields, or an optional of these, which null leaves out.
#pragma once

#include "model/Description.h"
#include "model/SizeLimits.h"
#include "plan/Reflection.h"
#include "plan/RelativeBuckets.h"

#include <array>

namespace mgc::frontend {

using plan::Of;

// MayChange: which runs may go on with weights that were trained with another value of a field.
enum class MayChange {
  never,
  newTraining, // one that begins anew with the weights; the value changes what is learned
  anyRun
};

struct Field {
  std::string_view key;
  std::string_view help;
  double least = 0, most = 0;                   // range of a number
  std::span<const std::string_view> words = {}; // words of a text
  MayChange mayChange = MayChange::never;
};

// The words of an enumeration; the first of a value is its name.
template <typename E> using Words = std::span<const std::pair<std::string_view, E>>;
Words<NormKind> wordsOf(Of<NormKind>);
Words<NormSpan> wordsOf(Of<NormSpan>);
Words<RopeKind> wordsOf(Of<RopeKind>);
Words<Objective> wordsOf(Of<Objective>);
Words<Activation> wordsOf(Of<Activation>); // as transformers names them

template <typename E> std::string_view wordOf(E value) {
  for (const auto &[word, meaning] : wordsOf(Of<E>()))
    if (meaning == value)
      return word;
  return "";
}

inline constexpr double kAnyNumber = 1e15;
inline constexpr std::array<std::string_view, 3> kRouterScores = {"softmax", "sigmoid", "none"};
inline constexpr std::array<std::string_view, 2> kRouterPosts = {"gather", "softmax"};

template <typename V> void fields(V &v, Of<Norm>) {
  v(Field{"kind", "layer: x minus its mean over its deviation; rms: x over the root of its mean square"}, &Norm::kind);
  v(Field{"epsilon", "added to the variance or the mean square", 0, 1}, &Norm::epsilon);
  v(Field{"weight", "the result is multiplied by offset + a parameter"}, &Norm::weight);
  v(Field{"bias", "a parameter is added to the result"}, &Norm::bias);
  v(Field{"offset", "of the weight: 1 in Gemma", -kAnyNumber, kAnyNumber}, &Norm::offset);
}

template <typename V> void fields(V &v, Of<HeadNorms>) {
  v(Field{"norm", "the norm"}, &HeadNorms::norm);
  v(Field{"span", "head: of each head, one weight for all; each_head: of each, a weight for each; all_heads: "
                  "of all together"},
    &HeadNorms::span);
}

template <typename V> void fields(V &v, Of<BranchDescription>) {
  v(Field{"before", "norm of what the branch reads"}, &BranchDescription::before);
  v(Field{"after", "norm of what the branch makes"}, &BranchDescription::after);
  v(Field{"sum", "norm of the sum with the residual"}, &BranchDescription::sum);
  v(Field{"dropout", "of what the branch adds", 0, kMaxDropout, {}, MayChange::newTraining},
    &BranchDescription::dropout);
}

template <typename V> void fields(V &v, Of<RopeScaling>) {
  v(Field{"kind", "how frequencies change"}, &RopeScaling::kind);
  v(Field{"factor", "of the frequencies, or of their growth", 1, kAnyNumber}, &RopeScaling::factor);
  v(Field{"low_frequency_factor", "llama3", 1e-6, kAnyNumber}, &RopeScaling::lowFrequencyFactor);
  v(Field{"high_frequency_factor", "llama3", 1e-6, kAnyNumber}, &RopeScaling::highFrequencyFactor);
  v(Field{"original_positions", "the context that the model was first trained with", 0, kAnyNumber},
    &RopeScaling::originalPositions);
  v(Field{"fast_turns", "yarn: beta_fast", 1e-6, kAnyNumber}, &RopeScaling::fastTurns);
  v(Field{"slow_turns", "yarn: beta_slow", 1e-6, kAnyNumber}, &RopeScaling::slowTurns);
  v(Field{"truncate", "yarn: whole pairs"}, &RopeScaling::truncate);
  v(Field{"short_factors", "longrope: one for each pair", 1e-6, kAnyNumber}, &RopeScaling::shortFactors);
  v(Field{"long_factors", "longrope: of sequences longer than the original context", 1e-6, kAnyNumber},
    &RopeScaling::longFactors);
}

template <typename V> void fields(V &v, Of<Rope>) {
  v(Field{"theta", "the base of the frequencies", 1, kAnyNumber}, &Rope::theta);
  v(Field{"dim", "dimensions of a head that rotate; 0: all", 0, kMaxHeadDim}, &Rope::dim);
  v(Field{"interleaved", "pairs are neighbours, not of the two halves"}, &Rope::interleaved);
  v(Field{"scaling", "of the frequencies"}, &Rope::scaling);
  v(Field{"scale", "what rotates is multiplied by it", 1e-6, 1e6}, &Rope::scale);
  v(Field{"query_growth",
          "queries at position p are multiplied by 1 + query_growth ln(1 + floor(p / "
          "scaling.original_positions)); 0: not",
          0, 1e3},
    &Rope::queryGrowth);
}

template <typename V> void fields(V &v, Of<LatentAttention>) {
  v(Field{"query_rank", "of the latents of queries; 0: they are products of the token itself", 0, kMaxHidden},
    &LatentAttention::queryRank);
  v(Field{"key_rank", "of the latents of keys and values", 1, kMaxHidden}, &LatentAttention::keyRank);
  v(Field{"rotary_dim", "the last dimensions of each head, which rotate", 2, kMaxHeadDim}, &LatentAttention::rotaryDim);
  v(Field{"value_dim", "size of a head of values", 1, kMaxHeadDim}, &LatentAttention::valueDim);
  v(Field{"norm", "of the latents"}, &LatentAttention::norm);
}

template <typename V> void fields(V &v, Of<RelativeBias>) {
  v(Field{"buckets", "of distances; of both directions where attention is not causal", 2, kMaxBiasBuckets},
    &RelativeBias::buckets);
  v(Field{"max_distance", "from which on all share a bucket", 1, plan::kMostBiasDistance}, &RelativeBias::maxDistance);
}

template <typename V> void fields(V &v, Of<AttentionDescription>) {
  using T = AttentionDescription;
  v(Field{"causal", "a token sees none of the tokens after it"}, &T::causal);
  v(Field{"heads", "of queries", 1, kMaxHeads}, &T::heads);
  v(Field{"groups", "heads of keys and values", 1, kMaxHeads}, &T::groups);
  v(Field{"head_dim", "size of a head", 1, kMaxHeadDim}, &T::headDim);
  v(Field{"latent", "keys and values are products of a narrow latent (DeepSeek-V2)"}, &T::latent);
  v(Field{"qkv_bias", "of the products that make queries, keys and values"}, &T::qkvBias);
  v(Field{"out_bias", "of the product that makes the output"}, &T::outBias);
  v(Field{"sinks", "each head has one more score, of nothing"}, &T::sinks);
  v(Field{"gated", "heads are multiplied by the sigmoid of a product of the token"}, &T::gated);
  v(Field{"clip", "bound of queries, keys and values; 0: none", 0, kAnyNumber}, &T::clip);
  v(Field{"qk_norm", "norms of queries and keys, before they rotate"}, &T::qkNorm);
  v(Field{"rope", "rotary positions"}, &T::rope);
  v(Field{"slopes", "ALiBi: one for each query head; times the distance of a key it is taken from the score", 0, 1e3},
    &T::slopes);
  v(Field{"relative_bias", "a learned number of each head and bucket of distances is added to scores, one "
                           "table for all layers (T5)"},
    &T::relativeBias);
  v(Field{"window", "keys that a token sees, itself and those before; 0: all", 0, kMaxPositions}, &T::window);
  v(Field{"scale", "of the scores; 0: 1 / sqrt(head_dim)", 0, kAnyNumber}, &T::scale);
  v(Field{"softcap", "scores become softcap tanh(score / softcap); 0: none", 0, kAnyNumber}, &T::softcap);
  v(Field{"dropout", "of the probabilities", 0, kMaxDropout, {}, MayChange::newTraining}, &T::dropout);
}

template <typename V> void fields(V &v, Of<Mlp>) {
  v(Field{"activation", "a word of transformers' activations"}, &Mlp::activation);
  v(Field{"gated", "down(act(gate(x)) up(x)), not down(act(up(x)))"}, &Mlp::gated);
  v(Field{"bias", "of its products"}, &Mlp::bias);
  v(Field{"limit", "gate is at most this, up within it and its negative; 0: none", 0, kAnyNumber}, &Mlp::limit);
  v(Field{"up_plus_one", "1 is added to up before it meets the gate"}, &Mlp::upPlusOne);
  v(Field{"dropout", "of what its last product reads", 0, kMaxDropout, {}, MayChange::newTraining}, &Mlp::dropout);
  v(Field{"ffn", "width; with experts: of one of them", 1, kMaxFfn}, &Mlp::ffn);
}

template <typename V> void fields(V &v, Of<SharedExpert>) {
  v(Field{"ffn", "width", 1, kMaxFfn}, &SharedExpert::ffn);
  v(Field{"gated", "times the sigmoid of a product of the token"}, &SharedExpert::gated);
}

template <typename V> void fields(V &v, Of<Experts>) {
  v(Field{"count", "experts of a layer", 1, kMaxExperts}, &Experts::count);
  v(Field{"chosen", "experts of a token", 1, kMaxChosen}, &Experts::chosen);
  v(Field{"score", "what logits of the router become before the choice", 0, 0, kRouterScores}, &Experts::score);
  v(Field{"post", "weights of the chosen: their scores, or the softmax of them", 0, 0, kRouterPosts}, &Experts::post);
  v(Field{"choice_bias", "a number of each expert, moved by its load, is added to scores for the choice"},
    &Experts::bias);
  v(Field{"logit_bias", "of the router's product"}, &Experts::logitBias);
  v(Field{"zipped", "gate and up are one matrix, whose columns alternate"}, &Experts::isZipped);
  v(Field{"groups", "experts are chosen from the best of so many groups", 1, kMaxRouterGroups}, &Experts::groups);
  v(Field{"kept_groups", "how many of the groups", 1, kMaxRouterGroups}, &Experts::keptGroups);
  v(Field{"group_top", "a group's score is the sum of so many of its best", 1, kMaxChosen}, &Experts::groupTop);
  v(Field{"normalised", "weights are divided by their sum plus this number; null: they are not", 0, 1},
    &Experts::epsilon);
  v(Field{"scale", "of the weights", 1e-6, 1e6}, &Experts::scale);
  v(Field{"shared", "an mlp of all tokens beside the experts"}, &Experts::shared);
}

template <typename V> void fields(V &v, Of<BlockDescription>) {
  using T = BlockDescription;
  v(Field{"attention_branch", "around attention"}, &T::attentionBranch);
  v(Field{"attention", "attention"}, &T::attention);
  v(Field{"cross_branch", "around attention to what the encoder has made"}, &T::crossBranch);
  v(Field{"cross", "attention to what the encoder has made, between attention and the mlp"}, &T::cross);
  v(Field{"mlp_branch", "around the mlp"}, &T::mlpBranch);
  v(Field{"mlp", "the mlp; with experts: one of them"}, &T::mlp);
  v(Field{"experts", "a mixture of experts in the place of the mlp"}, &T::experts);
  v(Field{"parallel", "the mlp reads what the layer reads; without a norm before it, what attention reads"},
    &T::parallel);
  v(Field{"residual_scale", "of what a branch adds", 0, kAnyNumber}, &T::residualScale);
}

template <typename V> void fields(V &v, Of<Embedding>) {
  v(Field{"scale", "of the embeddings of tokens, rounded to the type of values", 0, kAnyNumber}, &Embedding::scale);
  v(Field{"width", "of the tables; 0: hidden; else a product with a bias follows, and a tied head has a transform", 0,
          kMaxHidden},
    &Embedding::width);
  v(Field{"learned_positions", "a table of positions is added"}, &Embedding::learnedPositions);
  v(Field{"position_offset", "rows of that table before the one of position 0", 0, kMaxPositions},
    &Embedding::positionOffset);
  v(Field{"types", "kinds of tokens, whose embeddings are added; 0: none", 0, kMaxTokenTypes}, &Embedding::types);
  v(Field{"norm", "of the sum"}, &Embedding::norm);
  v(Field{"dropout", "of the sum", 0, kMaxDropout, {}, MayChange::newTraining}, &Embedding::dropout);
}

template <typename V> void fields(V &v, Of<Patches>) {
  v(Field{"channels", "of a pixel", 1, kMaxChannels}, &Patches::channels);
  v(Field{"size", "pixels of the edge of a patch", 1, kMaxPixels}, &Patches::size);
  v(Field{"rows", "patches of an image, from top to bottom", 1, kMaxPixels}, &Patches::rows);
  v(Field{"columns", "patches of an image, from left to right", 1, kMaxPixels}, &Patches::columns);
  v(Field{"bias", "of the product of a patch's pixels"}, &Patches::bias);
  v(Field{"class_token", "a position before the patches, which has a parameter in the place of a patch"},
    &Patches::classToken);
}

template <typename V> void fields(V &v, Of<Projector>) {
  v(Field{"ffn", "what its first product makes", 1, kMaxFfn}, &Projector::ffn);
  v(Field{"activation", "between its products: a word of transformers' activations"}, &Projector::activation);
  v(Field{"bias", "of its products"}, &Projector::bias);
}

template <typename V> void fields(V &v, Of<ImageTokens>) {
  v(Field{"token", "that stands where the encoder's positions go", 0, kMaxVocabulary - 1}, &ImageTokens::token);
  v(Field{"first", "the encoder's position that the first of them has", 0, kMaxPositions}, &ImageTokens::first);
}

template <typename V> void fields(V &v, Of<EncoderDescription>) {
  using T = EncoderDescription;
  v(Field{"patches", "of images, which it reads in the place of tokens"}, &T::patches);
  v(Field{"hidden", "size of what its layers read; 0: the decoder's", 0, kMaxHidden}, &T::hidden);
  v(Field{"embedding", "before its layers; the table of tokens is the decoder's"}, &T::embedding);
  v(Field{"layer", "each of its layers"}, &T::layer);
  v(Field{"layer_count", "how many there are", 1, kMaxLayers}, &T::layerCount);
  v(Field{"final_norm", "behind its layers"}, &T::finalNorm);
  v(Field{"dropout", "behind that norm", 0, kMaxDropout, {}, MayChange::newTraining}, &T::dropout);
  v(Field{"projector", "two products, behind that, which make what the decoder has of it"}, &T::projector);
  v(Field{"image_tokens", "tokens of the decoder whose places it takes; null: the decoder's layers attend to it"},
    &T::imageTokens);
}

template <typename V> void fields(V &v, Of<HeadTransform>) {
  v(Field{"activation", "a word of transformers' activations"}, &HeadTransform::activation);
  v(Field{"bias", "of the product"}, &HeadTransform::bias);
  v(Field{"norm", "of the result"}, &HeadTransform::norm);
}

template <typename V> void fields(V &v, Of<Head>) {
  v(Field{"transform", "norm(activation(a product)) before the logits (BERT)"}, &Head::transform);
  v(Field{"tied", "its matrix is the table of tokens"}, &Head::tied);
  v(Field{"bias", "a number of each token"}, &Head::bias);
  v(Field{"scale", "of the logits", 0, kAnyNumber}, &Head::scale);
  v(Field{"softcap", "logits become softcap tanh(logit / softcap); 0: none", 0, kAnyNumber}, &Head::softcap);
}

// The fields outside the layers; Overrides.h says how those of layers are written.
template <typename V> void fields(V &v, Of<ModelDescription>) {
  using T = ModelDescription;
  v(Field{"objective", "causal: the next token; masked: tokens that were masked"}, &T::objective);
  v(Field{"vocabulary", "tokens", 1, kMaxVocabulary}, &T::vocabulary);
  v(Field{"hidden", "size of what a layer reads", 1, kMaxHidden}, &T::hidden);
  v(Field{"positions", "the longest sequence", 1, kMaxPositions, {}, MayChange::anyRun}, &T::maxPositions);
  v(Field{"embedding", "before the layers"}, &T::embedding);
  v(Field{"final_norm", "behind the layers"}, &T::finalNorm);
  v(Field{"final_dropout", "behind that norm", 0, kMaxDropout, {}, MayChange::newTraining}, &T::finalDropout);
  v(Field{"encoder", "a stack of layers of its own, whose output the others, the decoder, attend to or embed"},
    &T::encoder);
  v(Field{"start_token",
          "what the decoder reads first, where data have labels alone",
          0,
          kMaxVocabulary - 1,
          {},
          MayChange::newTraining},
    &T::startToken);
  v(Field{"padding_of_labels",
          "what it reads there where a token has no label",
          0,
          kMaxVocabulary - 1,
          {},
          MayChange::newTraining},
    &T::paddingOfLabels);
  v(Field{"head", "logits"}, &T::head);
  v(Field{"initializer_range", "standard deviation of weights that no checkpoint has", 0, 1e3, {}, MayChange::anyRun},
    &T::initializerRange);
  v(Field{"scaled_residual_init",
          "products that end a branch begin with initializer_range / sqrt(2 layer_count)",
          0,
          0,
          {},
          MayChange::anyRun},
    &T::scaledResidualInit);
  v(Field{"padding_token",
          "whose embedding gets no gradient where it is a token",
          0,
          kMaxVocabulary - 1,
          {},
          MayChange::newTraining},
    &T::paddingToken);
}

} // namespace mgc::frontend
