// BlockBuilder: one func.func of the logical IR with its arguments by name, and the layers of a transformer
// as methods. Types carry dimension names; sizes come from the arguments, names from the parameters.
#pragma once

#include "dialects/mg/Mg.h"
#include "frontend/layout/Layout.h"

namespace mgc::frontend {

using Names = llvm::ArrayRef<llvm::StringRef>;

mlir::ArrayAttr namesAttr(mlir::Builder &builder, const std::vector<std::string> &names);

// Data of the token `shift` positions later: "tokens+1".
std::string shifted(llvm::StringRef data, int64_t shift);

// The data that the embedding of positions, learned or rotary, reads.
llvm::StringRef positionsRead(const Layout &layout);

// The stack whose sequence, data and parameters a block has.
enum class Stack { decoder, encoder }; // decoder: of a model of one stack too

class BlockBuilder {
public:
  // Opens @name at the end of the module. `parameters` outlive the builder.
  BlockBuilder(mlir::ModuleOp module, llvm::StringRef name, const ModelDescription &model, const Layout &layout,
               Stack stack = Stack::decoder);
  // The block is a layer of the stack: "decoder", "encoder", or "later" of modules that predict later tokens.
  void setStack(llvm::StringRef name) { function->setAttr(kStackAttr, builder.getStringAttr(name)); }

  // From here on names of data, parameters and sites of dropout are those of the stack.
  void enter(Stack entered) { stack = entered; }

  // Arguments; in the order activation, data, parameters.
  // isResidual: of the residual stream's type; else of the model's.
  mlir::Value addActivation(bool isResidual = true);
  // Adds the encoder's output: [t, b, h].
  void addEncoded();
  // Where the model has a loss that pools all layers (docs/experts.md): the load of experts and their probabilities,
  // summed over the layers before the block. Zeros in the first block, activations in the others.
  void beginPooled();
  void takePooled();
  void addData(llvm::StringRef kind, Names names, bool integer);
  // frozen: of each of them, whether it is not trained; empty: none. experts: of the block, whose load moves parameters; null:
  // none does.
  void addParameters(const std::vector<ModelParameter> &parameters, const std::vector<bool> &frozen = {},
                     const Experts *experts = nullptr);
  // A parameter that counts the load of these experts, where the layout asks for it and none of `parameters` is moved by it.
  void addCounter(const std::vector<ModelParameter> &parameters, const std::vector<bool> &frozen,
                  const Experts &experts);

  mlir::Value data(llvm::StringRef kind) const { return lookup(kind); }
  mlir::Value parameter(llvm::StringRef role) const { return lookup(role); }

  // Operations on activations; `role` names the parameters.
  mlir::Value norm(mlir::Value x, llvm::StringRef role, const std::optional<Norm> &norm); // none: x
  // The same in the model's type: what a branch, the head or a decoder reads of the residual stream.
  mlir::Value read(mlir::Value x, llvm::StringRef role, const std::optional<Norm> &norm) {
    return asValue(this->norm(x, role, norm));
  }
  mlir::Value linear(mlir::Value x, llvm::StringRef role); // weight, and bias when there is one
  mlir::Value scale(mlir::Value x, double factor);
  mlir::Value asHidden(mlir::Value x) { return called(x, "h"); }
  mlir::Value dropout(mlir::Value x, double p, llvm::StringRef site);
  mlir::Value activate(mlir::Value x, Activation activation);
  // The table's rows of the data's numbers plus `offset`.
  mlir::Value embed(llvm::StringRef data, llvm::StringRef role, std::optional<int64_t> padding = {},
                    int64_t offset = 0);
  mlir::Value add(mlir::Value lhs, mlir::Value rhs);
  // One layer. `contextType`: how attention sees the sequence where cp is more than 1 (frontend/layout/Context.h). With
  // experts it adds the layout's terms of the loss.
  mlir::Value layer(mlir::Value x, const BlockDescription &block, llvm::StringRef contextType);
  // The encoder's positions as the decoder sees them, split as x is: rows of the rule table for the tag.
  mlir::Value asEncoded(mlir::Value x) { return renamed(x, "s", "t", "encoded"); }
  void passEncoded() { addResult(encoded); }
  // In the model's type, --dtype, and in that of the residual stream, which --fp32-residual-connection sets. Sums over ranks
  // are reduced before either.
  mlir::Value asValue(mlir::Value x) { return inElement(x, layout.dtype); }
  mlir::Value asResidual(mlir::Value x) { return inElement(x, residualType()); }
  // Where the encoder's positions stand in the decoder's sequence: data of both.
  void addPlaces();
  // Projects from the encoder's hidden size to the decoder's.
  mlir::Value projected(mlir::Value x, const Projector &projector);
  // The encoder's output at the decoder's positions where it stands; 0 elsewhere.
  mlir::Value placed(mlir::Value x);
  // Both added before either is reduced: a row of the rule table for the tag.
  mlir::Value addPlaced(mlir::Value embedded, mlir::Value placed);
  void addPooledResults();  // with those of the block, for the next one
  void pooledLoss();        // the term that they make
  void loss(mlir::Value x); // logits, cross-entropy; sets the results loss_sum and tokens
  // A module predicts the token `depth` ahead of the next one (docs/multi-token-prediction.md): joinLaterToken gives what its
  // layer takes, of the hidden states x before it, laterLoss the loss of what the layer gives.
  mlir::Value joinLaterToken(mlir::Value x, int64_t depth);
  void laterLoss(mlir::Value x, int64_t depth);

  struct BranchNames {
    llvm::StringLiteral role, dropoutSite;
  };

  void addResult(mlir::Value value, llvm::StringRef kind = "out");
  void finish(); // sets the type of the function and returns from it

private:
  // The result of a branch: a product, and the bias that is still to be added to it (null: there is none).
  struct Branch {
    mlir::Value product, bias;
  };
  Branch branch(mlir::Value x, llvm::StringRef role) {
    return {contract(x, parameter((role + ".weight").str())), parameter((role + ".bias").str())};
  }
  mlir::Value whole(const Branch &branch) { return branch.bias ? add(branch.product, branch.bias) : branch.product; }
  // While it lives, ops are marked as parts of the module (kModulesAttr), and of those that are open already.
  class Module {
  public:
    Module(BlockBuilder &block, llvm::StringRef name) : block(block) { block.modules.open.push_back(name); }
    ~Module() { block.modules.open.pop_back(); }
    Module(const Module &) = delete;
    Module &operator=(const Module &) = delete;

  private:
    BlockBuilder &block;
  };
  Branch attention(mlir::Value x, const AttentionDescription &attention, llvm::StringRef contextType);
  Branch crossAttention(mlir::Value x, const AttentionDescription &attention);
  Branch mlp(mlir::Value x, const Mlp &mlp);
  mlir::Value experts(mlir::Value x, const Experts &experts, const Mlp &mlp);
  Branch transformed(mlir::Value x, const BlockDescription &block); // by the mlp or the experts
  mlir::Value serialLayer(mlir::Value x, const BlockDescription &block, llvm::StringRef contextType);
  mlir::Value parallelLayer(mlir::Value x, const BlockDescription &block, llvm::StringRef contextType);
  // finished: the branch's result behind its norm, dropout and factor. residual: the same, added to x.
  mlir::Value finished(const Branch &made, const BranchDescription &branch, const BranchNames &names, double factor);
  mlir::Value residual(mlir::Value x, const Branch &made, const BranchDescription &branch, const BranchNames &names,
                       double factor);
  // Heads of queries or keys: projection, norm, bounds, rope where cosSin is given.
  mlir::Value heads(mlir::Value x, llvm::StringRef role, const AttentionDescription &attention, mlir::Value cosSin);
  mlir::Value headNorm(mlir::Value x, llvm::StringRef role, const HeadNorms &norms);
  mlir::Value normOfAllHeads(mlir::Value x, const Norm &norm); // without its parameters
  mlir::Value bounded(mlir::Value x, double bound);            // within it and its negative; 0: x
  mlir::Value capped(mlir::Value x, double cap);               // cap * tanh(x / cap); 0: x
  // Cosines and sines of each token, [s, b, name], scaled as rope says of queries or of keys.
  mlir::Value angles(const Rope &rope, llvm::StringRef name, bool ofQueries = false);
  void setTag(mlir::Operation *op, llvm::StringRef tag); // nothing where it is empty
  // A dimension `from` called `to`; with `tag` as mg.tag.
  mlir::Value renamed(mlir::Value x, llvm::StringRef from, llvm::StringRef to, llvm::StringRef tag = "");
  mlir::FloatAttr orNone(double value);                    // an attribute that is left out where it is 0
  mlir::Value called(mlir::Value x, llvm::StringRef name); // its last dimension
  mlir::Value contract(mlir::Value x, mlir::Value weight);
  mlir::Value transformed(mlir::Value x, const HeadTransform &transform); // before the logits
  mlir::Value logits(mlir::Value x);
  // Bounds of documents, for each query: [s, b].
  mlir::Value bounds(llvm::StringRef kind, llvm::StringRef contextType);
  // The sum over tokens of weight * cross-entropy: a scalar.
  mlir::Value crossEntropy(mlir::Value logits, mlir::Value labels, mlir::Value weights);
  mlir::Value multiply(mlir::Value lhs, mlir::Value rhs);
  struct Heads {
    mlir::Value q, k, v; // [s, b, g, r, d], [s, b, g, d], [s, b, g, w]
  };
  // The data that decide which keys a query sees: positions of both, and where the query's document begins and ends
  // (null: anywhere).
  struct Sight {
    mlir::Value positions, keyPositions, starts, ends;
  };
  struct AttentionNames {
    llvm::StringLiteral role, dropoutSite;
  };
  // x: what the gate reads.
  Branch attended(mlir::Value x, const Heads &heads, const Sight &sight, const AttentionDescription &attention,
                  const AttentionNames &names, llvm::StringRef contextType);
  Heads latentHeads(mlir::Value x, const AttentionDescription &attention, mlir::Value cosSin);
  mlir::Value rotated(mlir::Value x, const Rope &rope, mlir::Value cosSin);
  // The parts along the last dimension, which have these names and sizes, and what they are parts of.
  struct Part {
    llvm::StringRef name;
    int64_t size;
  };
  llvm::SmallVector<mlir::Value> parts(mlir::Value whole, llvm::ArrayRef<Part> parts);
  mlir::Value join(mlir::ValueRange parts, llvm::StringRef along);
  mlir::Value sharedExpert(mlir::Value x, const SharedExpert &shared, Activation activation);
  // Terms of the loss, as results. hot, probabilities [s, b, e]: what a token chose, and could have.
  void balance(mlir::Value logits, mlir::Value chosen, const Experts &experts);
  void sequenceAuxLoss(mlir::Value hot, mlir::Value probabilities, const Experts &experts);
  void zLoss(mlir::Value logits);
  void addTerm(mlir::Value sum, double scale, llvm::StringRef name);
  mlir::Value sumTo(mlir::Value value, Names names); // f32
  mlir::RankedTensorType pooledType();
  // Choices of a microbatch of a data rank; 0: all have room.
  int64_t roomOfExpert(const Experts &experts) const;
  // The choices for which the experts have room.
  mlir::Value dropped(mlir::Value chosen, mlir::Value weights, const Experts &experts);
  double meanLoad(const Experts &experts) const; // tokens of a step that choose one of them
  // Rows of experts, and the operands that ops on them share.
  struct Rows {
    mlir::Value experts;        // experts that each token goes to: [s, b, k]
    mlir::IntegerAttr count;    // number of all experts
    mlir::IntegerAttr capacity; // room per expert, for rows of all tokens; null: there is none
    int64_t size = 0;           // c: a row for each choice, or as many as experts have room for
    mlir::Value ones, weights;  // [c]: 1 at each row; the weight of its choice
  };
  Rows rowsOf(mlir::Value experts, mlir::Value weights, const Experts &of, bool hasBias);
  // rows [c, x] or [c], the parameter [e, x, y] or [e, y, x] or [e, y]: [c, y].
  mlir::Value grouped(mlir::Value rows, llvm::StringRef name, const Rows &of);
  // Gate and up of gated experts, before the activation.
  struct GateUp {
    mlir::Value gate, up; // [c, m]
  };
  GateUp gateAndUp(mlir::Value tokens, const Mlp &mlp, bool isZipped, const Rows &of);
  mlir::Value expertsDown(mlir::Value inner, const Mlp &mlp, const Rows &of); // [c, h]
  mlir::Value gatedActivation(GateUp parts, const Mlp &mlp);
  // A type with the layout's dtype, unless `element` is given.
  mlir::RankedTensorType type(llvm::ArrayRef<int64_t> shape, Names names, mlir::Type element = {});
  mlir::RankedTensorType resized(mlir::Value like,
                                 mlir::Value weight);            // like, h replaced by the weight's other names
  mlir::RankedTensorType outputOf(mlir::Value q, mlir::Value v); // type of attention's output
  mlir::RankedTensorType withoutLast(mlir::Value value);         // f32: a value kept per row
  mlir::Value inElement(mlir::Value x, plan::DType dtype);
  plan::DType residualType() const { return layout.fp32Residual ? plan::DType::f32 : layout.dtype; }
  std::string ofStack(llvm::StringRef name) const; // "encoder.attn.q.weight"
  mlir::Value lookup(llvm::StringRef name) const;  // the stack's own, or what both have
  mlir::Value addArgument(llvm::StringRef name, mlir::Type type, mlir::NamedAttribute attribute);
  // How many positions of a sample meet the parameter, if they are the encoder's; else 0.
  int64_t positionsMet(llvm::StringRef role) const;
  mlir::DictionaryAttr describeParameter(const ModelParameter &parameter);
  void addParameter(llvm::StringRef role, mlir::RankedTensorType type, mlir::NamedAttrList description);

  int64_t lengthOf(Stack of) const { return of == Stack::encoder ? layout.encoderLength : layout.sequenceLength; }

  // Marks each op with the modules that are open when it is made.
  struct ModuleMarker : mlir::OpBuilder::Listener {
    void notifyOperationInserted(mlir::Operation *op, mlir::OpBuilder::InsertPoint) override;
    llvm::SmallVector<llvm::StringRef> open;
  };

  const ModelDescription &model;
  const Layout &layout;
  Stack stack;
  ModuleMarker modules;
  mlir::func::FuncOp function;
  mlir::ImplicitLocOpBuilder builder;
  llvm::StringMap<mlir::Value> arguments;
  struct Pooled {
    mlir::Value load, probabilities; // [e]
  };
  std::optional<Pooled> pooled;
  mlir::Value encoded; // null: the block has none
  llvm::SmallVector<mlir::DictionaryAttr> argumentAttributes, resultAttributes;
  llvm::SmallVector<mlir::Value> results;
};

} // namespace mgc::frontend
