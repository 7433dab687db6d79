// Maps the tensors of a checkpoint to parameters: a family's table of rows -> the model's parameters.
//
// Roles, and their logical dimensions (v p h: vocabulary, positions, hidden; g r d: key/value groups, query heads of
// one, size of a head; f: ffn, with experts of the shared one; e m: experts, ffn of one). The order of dimensions is
// the file's; the importer reads names, never positions. Latent attention (Description.h) has q l: ranks of the latents
// of queries, of keys and values; z: l and what rotates of keys; x: what does not rotate of a key head, and a value
// head, whose size is w. Without latents w in a row is d. a: types of tokens; i: width of embeddings, which have it in
// the place of h where it is another. Experts have j, gate and up, and y: hidden of what each expert has of its own, so
// that it lies with the expert.
//   embed.tokens v h          embed.positions p h        embed.types a h
//   head.weight v h           head.bias v                embed_norm.*, final_norm.{weight,bias} h
//   embed.project.weight h i  embed.project.bias h       head.transform.weight i h, .bias i; head.transform_norm.* i
//   attn_norm.*, mlp_norm.* h, and attn_after_norm, attn_sum_norm, mlp_after_norm, mlp_sum_norm
//   attn.{q_norm,k_norm}.* d: one for all heads
//   attn.q_norms.* g r d, attn.k_norms.* g d: an element for each of each head
//   attn.gate.weight h g r w  attn.gate.bias g r w
//   attn.q.weight h g r d     attn.{k,v}.weight h g d    attn.q.bias g r d              attn.{k,v}.bias g d
//   attn.o.weight g r w h     attn.o.bias h
//   attn.q_a.weight h q       attn.q_b.weight q g r d    attn.kv_a.weight h z       attn.kv_b.weight l g x
//   attn.q_a.bias q           attn.q_a_norm.* q          attn.kv_a.bias z           attn.kv_a_norm.* l
//   attn.sinks g r            attn.relative_bias n g r
//   router.bias e             router.logits.bias e
//   router.weight e h         experts.{gate,up}.weight e m h                            experts.down.weight e h m
//   experts.gate_up.weight e h m j                       experts.gate_up.bias e m j   experts.down.bias e y
//   experts.{gate,up}.bias e m
//   shared.{gate,up}.weight f h                          shared.down.weight h f         shared.scale.weight h
//   mlp.{gate,up}.weight h f  mlp.{gate,up}.bias f       mlp.down.weight f h            mlp.down.bias h
// Attention to an encoder's output has cross.* as attn.*, and cross_norm, cross_after_norm, cross_sum_norm. An encoder
// has the roles of its layers and of its embedding and final norm behind "encoder.", but for the table of tokens; h is
// its own hidden size there. One of images has (n: channels; o, u: rows and columns of a patch; a: the one class token)
//   encoder.embed.patches.weight h n o u   encoder.embed.patches.bias h   encoder.embed.class a h
// What it makes is projected (i: the encoder's hidden size; f: of the projector) by
//   project.up.weight f i    project.up.bias f    project.down.weight h f    project.down.bias h
// Modules that predict later tokens have (i: h, summed over)
//   later.{token,hidden}_norm.weight h                   later.{token,hidden}.weight h i  later.norm.weight h
// and the copies that a checkpoint may have there of parameters outside the layers: later.embed.tokens,
// later.head.weight.
#pragma once

#include "model/Description.h"

#include <deque>

namespace mgc::frontend {

// dims has one word per file dimension and one letter per logical dimension; " h": the first has size 1. A tensor of
// several parameters lists all of them in one of its words, behind each other, and each row says which of them it is:
//   "h grd|gd|gd"   q, k and v are columns of [h, (r + 2) g d]; k has part 1, and columns from g r d on
//   "g(rd|d|d) h"   rows of [g (r + 2) d, h], in which every group has its r queries, its key and its value
// A row of a table may stand for several: for a weight and its bias, whose dims follow; for all parts of a tensor, in
// their order.
//   {"attn.q.*", "layers.{}.q_proj.*", "grd h; grd"}
//   {"attn.{q,k,v}.weight", "layers.{}.qkv_proj.weight", "grd|gd|gd h"}
struct TensorRow {
  std::string_view role;
  // "{}" is the layer, "{#}" the expert: the first of dims. A name that begins with a dot follows the family's prefix.
  std::string_view tensor;
  std::string_view dims;
  std::string_view view = {}; // the name of the part: "k"
  int64_t part = 0;           // its number among those listed
  bool residualInit = false;  // standard deviation divided by sqrt(2 * layers)
  std::string_view fan = {};  // standard deviation divided by the root of the product of these sizes
  bool movedByLoad = false;   // by that of the experts, not by the optimizer (docs/experts.md, Routers)
};

// The names in the checkpoints of a family.
struct TensorNames {
  // Every tensor but the head's begins with it; empty: with nothing of the kind. Checkpoints of the model without its
  // head lack it: "model.norm.weight" is "norm.weight" there.
  std::string_view prefix;
  std::span<const TensorRow> rows;
  // No weights, which older versions of transformers saved, or parts that are not trained; "{}", "*": as plan::Plan's.
  std::span<const std::string_view> ignored;
  std::span<const TensorRow> ownRows = {}; // they take the place of `rows`
  // Ends of names, and what older files have in their place: ".LayerNorm.weight", ".LayerNorm.gamma".
  std::span<const std::pair<std::string_view, std::string_view>> oldEnds = {};
  // An encoder's tensor of a role without a row has the name of the same role without "encoder.", with the first in it
  // replaced by the second, or "encoder." before it. Second empty: all of its roles have rows.
  std::pair<std::string_view, std::string_view> ofEncoder = {};
  // The same of beginnings: every name that begins with the first has an alias that begins with the second.
  std::span<const std::pair<std::string_view, std::string_view>> otherBegins = {};
};

// A family's names, each row of a weight and its bias as two and each row of several parts as so many; also as those of
// a part of another model: behind `begin`, and those with the family's prefix behind `prefix`.
//   begin "language_model.", prefix "language_model.model.": model.norm.weight   language_model.model.norm.weight
//                                                            lm_head.weight      language_model.lm_head.weight
class TensorTable {
public:
  explicit TensorTable(const TensorNames &names) : TensorTable(names, "", names.prefix) {}
  TensorTable(const TensorNames &names, std::string_view begin, std::string_view prefix);
  void add(const TensorNames &others); // adds the rows of the other parts, unchanged
  const std::vector<TensorRow> &rows() const { return rows_; }
  const std::vector<std::string_view> &ignored() const { return ignored_; }

private:
  std::string_view keep(std::string text) { return texts_.emplace_back(std::move(text)); }
  void addRows(const TensorNames &names, const auto &spell);

  std::deque<std::string> texts_; // the texts that the others point into
  std::vector<TensorRow> rows_;
  std::vector<std::string_view> ignored_;
};

// The role of the norms of queries ("attn.q") or keys, without ".weight" or ".bias": attn.q_norm or attn.q_norms.
std::string normRole(std::string_view role, const HeadNorms &norms);

// Fills in the parameters of the model and of each of its kinds, exactly the roles they need, and the tensors that it
// ignores. A role without a row is an error, as are dims that are no such words.
Status bindParameters(ModelDescription &model, const TensorNames &names);

// Tensors of a checkpoint that no parameter of the model holds when so many of its modules that predict later tokens
// are trained.
std::vector<std::string> ignoredTensors(const ModelDescription &model, int64_t laterTokens);

} // namespace mgc::frontend
