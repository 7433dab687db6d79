// ModelDescription: a transformer of one stack of layers, or of an encoder and a decoder, as validated data, whatever
// family it came from. Everything the importer, the layout and the checkpoint reader ask about a model is here; nothing
// after the frontend knows families. Vocabulary.h names the fields for files.
//
//   x = project(dropout(norm(scale * tokens(ids) + positions(pos) + types(type))))
//   layer:  x = sum(x + scale * dropout(after(attention(before(x)))))     before, after, sum: norms that may be absent
//           x = sum(x + scale * dropout(after(mlp(before(x)))))
//   parallel layer:  x += scale * (attention(before(x)) + mlp(before(x)))
//   logits = cap(scale * head(transform(dropout(norm(x)))))
//
// With an encoder there are two sequences. Its stack reads the first, which is of tokens or of the patches of an image;
// the other is that of all else, the decoder. The decoder meets e = project(dropout(norm(encoder's last x))) in one of
// two forms:
//   cross       its layers have a branch between the two: x = sum(x + dropout(after(cross(before(x), e)))), queries
//               of x and keys and values of e
//   imageTokens positions of e stand where the decoder's sequence has image tokens, in the place of their embeddings
#pragma once

#include "model/Rope.h"
#include "plan/ParameterBuckets.h"
#include "plan/PlanInputs.h"

#include <algorithm>

namespace mgc::frontend {

enum class NormKind { layer, rms };
struct Norm { // layer: (x - mean) / deviation; rms: x / root of the mean square
  NormKind kind = NormKind::layer;
  double epsilon = 1e-5;
  bool weight = true, bias = false; // parameters: y = norm(x) * (offset + weight) + bias
  double offset = 0;                // Gemma: 1
  bool operator==(const Norm &) const = default;
};
Norm layerNorm(double epsilon); // with weight and bias
Norm rmsNorm(double epsilon);   // with weight

// Norms of queries and keys. head: over each head, one weight for all heads; each_head: over each head, a weight for
// each; all_heads: over all heads together (OLMo 2).
enum class NormSpan { head, eachHead, allHeads };
struct HeadNorms {
  Norm norm;
  NormSpan span = NormSpan::head;
  bool operator==(const HeadNorms &) const = default;
};

// Around what a branch of a layer makes. Norms before: of what it reads; after: of what it makes; sum: of the sum with
// the residual (the order of the first Transformer, and BERT).
struct BranchDescription {
  std::optional<Norm> before = {}, after = {}, sum = {};
  double dropout = 0; // behind the norm after
  bool operator==(const BranchDescription &) const = default;
};

// Multi-head latent attention (DeepSeek-V2): queries, keys and values are products of narrow latents of the token,
// which are normed; the last `rotaryDim` dimensions of each query head rotate, and those of keys are the same for all
// heads.
struct LatentAttention {
  int64_t queryRank = 0; // 0: queries are products of the token itself
  int64_t keyRank = 0, rotaryDim = 0, valueDim = 0;
  Norm norm; // norm of the latents
  bool operator==(const LatentAttention &) const = default;
};

// A learned number of each head is added to scores, by the bucket of the distance from query to key (T5). One table
// serves all layers of a stack.
struct RelativeBias {
  int64_t buckets = 32;      // buckets of both directions where attention is not causal
  int64_t maxDistance = 128; // from which on all distances share a bucket (plan/RelativeBuckets.h)
  bool operator==(const RelativeBias &) const = default;
};

struct AttentionDescription {
  bool causal = true;
  int64_t heads = 0, groups = 0, headDim = 0; // query heads, key/value heads, size of one
  std::optional<LatentAttention> latent;
  int64_t valueDim() const { return latent ? latent->valueDim : headDim; }
  bool qkvBias = false, outBias = false; // latent: of the products that make latents, and of the output
  bool sinks = false;                    // each query head has one more score, of nothing
  bool gated = false;                    // times sigmoid(gate x) before the product that makes the output
  double clip = 0;                       // > 0: q, k and v are within this and its negative, behind norms
  std::optional<HeadNorms> qkNorm;       // before rope
  std::optional<Rope> rope;
  std::vector<double> slopes; // ALiBi: of each query head, times the distance of the key, is taken from its score
  std::optional<RelativeBias> relativeBias;
  int64_t window = 0; // > 0: only keys with position(query) - position(key) < window are seen
  // Factor of the scores, before softmax; 0, until the description is complete: 1 / sqrt(headDim).
  double scale = 0;
  double softcap = 0; // > 0: scores become softcap * tanh(score / softcap)
  double dropout = 0; // dropout of the probabilities
  bool operator==(const AttentionDescription &) const = default;
};

enum class Activation { // quick: x * sigmoid(1.702 x); clipped: geluErf from -10 to 10; relu2: relu(x)^2; linear: x
  geluErf,
  geluTanh,
  geluQuick,
  geluClipped,
  hardSwish,
  laplace,
  leakyRelu,
  linear,
  mish,
  relu,
  relu2,
  relu6,
  sigmoid,
  silu,
  tanh
};
struct Mlp { // down(act(up(x))), gated: down(act(gate(x)) * up(x))
  Activation activation = Activation::geluTanh;
  bool gated = false, bias = false;
  double limit = 0;       // > 0: gate(x) is at most this, up(x) within this and its negative
  bool upPlusOne = false; // gated: act(gate(x)) * (up(x) + 1)
  double dropout = 0;     // dropout of down's input
  int64_t ffn = 0;
  bool operator==(const Mlp &) const = default;
};

// An mlp for all tokens in addition to the experts; its output is added to theirs.
struct SharedExpert {
  int64_t ffn = 0;
  bool gated = false; // times sigmoid(gate x), one number for each token
  bool operator==(const SharedExpert &) const = default;
};

// A mixture of experts: each token goes to `chosen` of `count` equal mlps, whose outputs are added with the weights of
// the router. Routers: mg.route.
struct Experts {
  int64_t count = 0, chosen = 0;
  std::string score = "softmax", post = "gather";
  bool bias = false;      // a bias of the choice
  bool logitBias = false; // a bias of the logits: of the choice and of the weights
  bool isZipped = false;  // gate and up are one matrix, whose columns alternate
  int64_t groups = 1, keptGroups = 1, groupTop = 1;
  std::optional<double> epsilon; // weights are divided by their sum + epsilon
  double scale = 1;
  std::optional<SharedExpert> shared;
  bool operator==(const Experts &) const = default;
};

// A parameter, named by its role for the importer; per layer, its name, tensor and aliases hold "{}" for the layer
// number. A layer's parameters without it are shared by all layers of the stack.
struct ModelParameter {
  std::string role; // "attn.q.weight"; the list is in Parameters.h
  std::string part; // "q" when several parameters are views of one tensor, else empty
  plan::Parameter parameter;
  bool movedByLoad = false; // as its TensorRow
};

struct BlockDescription { // layers with equal descriptions are equal
  BranchDescription attentionBranch, mlpBranch;
  AttentionDescription attention;
  BranchDescription crossBranch;
  std::optional<AttentionDescription> cross; // a decoder layer's attention to the encoder's output
  Mlp mlp;                                   // with experts: of one of them
  std::optional<Experts> experts;
  bool parallel = false;    // the mlp reads what the layer reads; without a norm before it, what attention reads
  double residualScale = 1; // factor of both branches
  bool operator==(const BlockDescription &) const = default;
};

struct Embedding {
  double scale = 1;  // factor of the token embeddings
  int64_t width = 0; // width of the tables; 0: hidden; else a product with a bias follows (ELECTRA)
  bool learnedPositions = false;
  int64_t positionOffset = 0;    // rows of the table of positions before that of position 0 (BART, RoBERTa)
  int64_t types = 0;             // kinds of tokens, a row for each (BERT's sentences); 0: none
  std::optional<Norm> norm = {}; // norm of the sum
  double dropout = 0;
  bool operator==(const Embedding &) const = default;
};

// Patches: what an encoder of images reads in the place of tokens; square, row by row, each a product of its pixels.
// With a class token the first position is that, and has no patch.
struct Patches {
  int64_t channels = 3, size = 0, rows = 0, columns = 0; // size: pixels of an edge
  bool bias = false;                                     // bias of the matrix product
  bool classToken = false;
  int64_t positions() const { return rows * columns + (classToken ? 1 : 0); }
  bool operator==(const Patches &) const = default;
};

// From the encoder's hidden size to the decoder's: down(act(up(x))).
struct Projector {
  int64_t ffn = 0;
  Activation activation = Activation::geluErf;
  bool bias = true;
  bool operator==(const Projector &) const = default;
};

// Where the decoder's sequence has this token, it has a position of the encoder's: the first such token the position
// `first`, the next one that behind it, up to the last.
struct ImageTokens {
  int64_t token = 0, first = 0;
  bool operator==(const ImageTokens &) const = default;
};

// The stack of an encoder, whose layers are equal. Its table of tokens is the model's.
struct EncoderDescription {
  std::optional<Patches> patches; // none: it reads tokens
  int64_t hidden = 0;             // 0: the decoder's
  Embedding embedding;
  BlockDescription layer;
  int64_t layerCount = 0;
  std::optional<Norm> finalNorm;
  double dropout = 0; // behind it
  std::optional<Projector> projector;
  std::optional<ImageTokens> imageTokens; // none: the decoder's layers attend to it
  // Positions whose features the decoder has for an image.
  int64_t features() const { return patches && imageTokens ? patches->positions() - imageTokens->first : 0; }
  bool operator==(const EncoderDescription &) const = default;
};

// Roles of an encoder's parameters begin with it, as its data do (dialects/mg/DataKind.h); those of its projector with
// the other.
inline constexpr std::string_view kOfEncoderRole = "encoder.", kOfProjectorRole = "project.";

// norm(activation(product with a bias)) of what the head reads: masked language models.
struct HeadTransform {
  Activation activation = Activation::geluErf;
  bool bias = true;
  Norm norm = {};
  bool operator==(const HeadTransform &) const = default;
};

struct Head {
  std::optional<HeadTransform> transform = {};
  bool tied = false; // its matrix is the table of tokens
  bool bias = false;
  double scale = 1;   // factor of the logits
  double softcap = 0; // > 0: logits become softcap * tanh(logit / softcap)
  bool operator==(const Head &) const = default;
};

struct BlockKind {
  BlockDescription block;
  std::vector<ModelParameter> parameters;
  bool hasExperts() const { return block.experts.has_value(); }
};

inline constexpr int64_t kMaxLaterTokens = 64; // far more than any model has

// Modules that each predict a token further ahead (docs/multi-token-prediction.md): a layer like the last one, and what
// joins the hidden state and the embedding of a later token before it. They are numbered behind the layers.
struct LaterTokens {
  // The parameters of one module, in addition to its layer's; none: the family has no names for them.
  std::vector<ModelParameter> parameters;
  int64_t inFile = 0;               // how many a checkpoint has, as config.json says
  std::vector<std::string> tensors; // tensors of one in a checkpoint; the first "{}" is its number
};

// The file's keys of facts, for messages.
struct KeyNames {
  std::string heads = "num_attention_heads", groups = "num_key_value_heads", headDim = "head_dim",
              ffn = "intermediate_size", experts = "num_experts", expertFfn = "moe_intermediate_size",
              sharedFfn = "shared_expert_intermediate_size", layers = "num_hidden_layers",
              positions = "max_position_embeddings", hidden = "hidden_size", normEpsilon = "rms_norm_eps",
              activation = "hidden_act", attentionDropout = "attention_dropout", hiddenDropout = "resid_pdrop",
              encoderHeads = "encoder_attention_heads", encoderFfn = "encoder_ffn_dim",
              encoderLayers = "encoder_layers", encoderHidden = "d_model", image = "image_size";
};

using plan::Objective;

struct ModelDescription {
  std::string source;             // file name, for messages
  std::string text;               // the file, verbatim
  std::vector<std::string> notes; // lines for the user: fields that were ignored, defaults that hold
  std::string family;             // model_type
  KeyNames names;

  Objective objective = Objective::causal;
  int64_t vocabulary = 0, hidden = 0, maxPositions = 0;
  Embedding embedding;
  std::vector<BlockKind> kinds; // distinct blocks
  std::vector<int64_t> layers;  // by layer: its index into kinds
  std::optional<Norm> finalNorm;
  double finalDropout = 0; // behind it
  Head head;
  std::optional<EncoderDescription> encoder;
  std::vector<ModelParameter> encoderLayer; // parameters of a layer of the encoder
  // Encoder layers of a checkpoint that has more than encoder->layerCount: the last ones are not read.
  int64_t encoderLayersInFile = 0;
  // The decoder's input if data have labels alone: this first, then the labels, and the padding where there is none;
  // none: data must have the input.
  std::optional<int64_t> startToken, paddingOfLabels;
  double initializerRange = 0.02;
  bool scaledResidualInit = false; // products that end a branch begin with that over sqrt(2 * layers), in every family
  std::vector<ModelParameter> parameters; // outside the layers
  LaterTokens later;
  std::vector<std::string> ignoredTensors; // as plan::Plan's
  double pooledAuxLoss = 0; // coefficient of Hugging Face's load_balancing_loss_func, which pools all layers; 0: none
  std::optional<int64_t> paddingToken; // its embedding gets no gradient where it is a token (padding_idx of PyTorch)

  int64_t layerCount() const { return static_cast<int64_t>(layers.size()); }
  const BlockDescription &blockOf(int64_t layer) const { return kinds[layers[layer]].block; }
  // The layers of both stacks, which a pipeline's stages share out.
  int64_t allLayerCount() const { return layerCount() + encoderLayerCount(); }
  std::string allLayersName() const { return encoder ? names.encoderLayers + " + " + names.layers : names.layers; }
  int64_t encoderLayerCount() const { return encoder ? encoder->layerCount : 0; }
  bool readsImages() const { return encoder && encoder->patches; }
  bool attendsToEncoder() const { return encoder && !encoder->imageTokens; }
  int64_t encoderHidden() const { return encoder && encoder->hidden > 0 ? encoder->hidden : hidden; }
  bool hasExperts() const { return std::ranges::any_of(kinds, &BlockKind::hasExperts); }
};

} // namespace mgc::frontend
