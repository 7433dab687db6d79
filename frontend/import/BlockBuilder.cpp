#include "frontend/import/BlockBuilder.h"
#include "dialects/mg/Complete.h"
#include "dialects/mg/DataKind.h"
#include "model/Parameters.h"

using namespace mlir;

namespace mgc::frontend {

BlockBuilder::BlockBuilder(ModuleOp module, StringRef name, const ModelDescription &model, const Layout &layout,
                           Stack stack)
    : model(model), layout(layout), stack(stack),
      builder(UnknownLoc::get(module.getContext()), module.getContext(), &modules) {
  builder.setInsertionPointToEnd(module.getBody());
  function = func::FuncOp::create(builder, name, builder.getFunctionType({}, {}));
  function->setAttr(kBlockAttr, builder.getUnitAttr());
  builder.setInsertionPointToStart(function.addEntryBlock());
}

void BlockBuilder::ModuleMarker::notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) {
  if (!open.empty())
    op->setAttr(kModulesAttr, Builder(op->getContext()).getStrArrayAttr(open));
}

// --- Types -------------------------------------------------------------------------------------------------

RankedTensorType BlockBuilder::type(ArrayRef<int64_t> shape, Names names, Type element) {
  return RankedTensorType::get(shape, element ? element : elementType(builder.getContext(), layout.dtype),
                               LayoutAttr::get(builder.getContext(), names));
}

// The dimensions of both that are not in both, in their order.
RankedTensorType BlockBuilder::resized(Value like, Value weight) {
  LayoutAttr kept = layoutOf(like), added = layoutOf(weight);
  SmallVector<int64_t> shape;
  SmallVector<StringRef> names;
  auto take = [&](Value value, LayoutAttr from, LayoutAttr other) {
    for (auto [name, size] : llvm::zip(from.getNames(), tensorOf(value).getShape())) {
      if (other.indexOf(name) >= 0)
        continue;
      names.push_back(name.getValue());
      shape.push_back(size);
    }
  };
  take(like, kept, added);
  take(weight, added, kept);
  return type(shape, names);
}

RankedTensorType BlockBuilder::outputOf(Value q, Value v) {
  SmallVector<StringRef> names;
  for (StringAttr name : layoutOf(q).getNames().drop_back())
    names.push_back(name.getValue());
  names.push_back(layoutOf(v).getNames().back().getValue());
  SmallVector<int64_t> shape(tensorOf(q).getShape().drop_back());
  shape.push_back(tensorOf(v).getShape().back());
  return type(shape, names);
}

RankedTensorType BlockBuilder::withoutLast(Value value) {
  SmallVector<StringRef> names;
  for (StringAttr name : layoutOf(value).getNames().drop_back())
    names.push_back(name.getValue());
  return type(tensorOf(value).getShape().drop_back(), names, builder.getF32Type());
}

// --- Arguments and results ---------------------------------------------------------------------------------

Value BlockBuilder::addArgument(StringRef name, Type type, NamedAttribute attribute) {
  argumentAttributes.push_back(builder.getDictionaryAttr(attribute));
  return arguments[name] = function.getBody().front().addArgument(type, builder.getLoc());
}

std::string BlockBuilder::ofStack(StringRef name) const {
  return (stack == Stack::encoder ? kOfEncoder + name : Twine(name)).str();
}

Value BlockBuilder::lookup(StringRef name) const {
  const Value own = arguments.lookup(ofStack(name));
  return own ? own : arguments.lookup(name);
}

Value BlockBuilder::addActivation(bool isResidual) {
  const int64_t hidden = stack == Stack::encoder ? model.encoderHidden() : model.hidden;
  argumentAttributes.push_back(builder.getDictionaryAttr({}));
  return function.getBody().front().addArgument(
      type({lengthOf(stack), layout.microBatchSize * layout.dp, hidden}, {"s", "b", "h"},
           elementType(builder.getContext(), isResidual ? residualType() : layout.dtype)),
      builder.getLoc());
}

void BlockBuilder::addEncoded() {
  argumentAttributes.push_back(builder.getDictionaryAttr({}));
  encoded = function.getBody().front().addArgument(
      type({layout.encoderLength, layout.microBatchSize * layout.dp, model.hidden}, {"t", "b", "h"}), builder.getLoc());
}

void BlockBuilder::addData(StringRef kind, Names names, bool integer) {
  const bool hasOwn = stack == Stack::encoder && readDataKind(ofStack(kind)).isOk();
  const std::string name = hasOwn ? ofStack(kind) : kind.str();
  const bool ofEncoder = StringRef(name).starts_with(kOfEncoder);
  SmallVector<int64_t> shape;
  for (StringRef dim : names)
    shape.push_back(dim == "b"                 ? layout.microBatchSize * layout.dp
                    : dim == "n"               ? model.encoder->patches->channels
                    : dim == "o" || dim == "u" ? model.encoder->patches->size
                                               : lengthOf(ofEncoder ? Stack::encoder : Stack::decoder));
  Type element = integer ? Type(builder.getI32Type()) : Type(builder.getF32Type());
  addArgument(name, type(shape, names, element), builder.getNamedAttr(kDataAttr, builder.getStringAttr(name)));
}

ArrayAttr namesAttr(Builder &builder, const std::vector<std::string> &names) {
  return builder.getStrArrayAttr(llvm::to_vector_of<StringRef>(names));
}

static StringRef initName(plan::InitKind init) {
  return init == plan::InitKind::normal ? "normal" : init == plan::InitKind::ones ? "ones" : "zeros";
}

// Positions that --sp adds to those of an image meet no parameter.
int64_t BlockBuilder::positionsMet(StringRef role) const {
  const bool isOfEncoder = role.starts_with(kOfEncoderRole);
  const bool readsEncoded =
      role.starts_with(kOfProjectorRole) || role.starts_with("cross.k") || role.starts_with("cross.v");
  if (!isOfEncoder && !readsEncoded)
    return 0;
  if (!model.readsImages())
    return layout.encoderLength;
  return model.encoder->patches->positions() - (isOfEncoder ? 0 : model.encoder->imageTokens->first);
}

DictionaryAttr BlockBuilder::describeParameter(const ModelParameter &entry) {
  const plan::Parameter &parameter = entry.parameter;
  SmallVector<int64_t> valid;
  for (const plan::ParameterDim &dim : parameter.dims)
    valid.push_back(dim.valid);
  auto named = [&](StringRef name, Attribute value) { return builder.getNamedAttr(name, value); };
  NamedAttrList description({named("tensor", builder.getStringAttr(parameter.tensor)),
                             named("aliases", namesAttr(builder, parameter.aliases)),
                             named("part", builder.getStringAttr(entry.part)),
                             named("file_shape", builder.getDenseI64ArrayAttr(parameter.fileShape)),
                             named("grouping", builder.getDenseI64ArrayAttr(parameter.grouping)),
                             named("offset", builder.getDenseI64ArrayAttr(parameter.offset)),
                             named("valid", builder.getDenseI64ArrayAttr(valid)),
                             named("init", builder.getStringAttr(initName(parameter.init))),
                             named("std", builder.getF64FloatAttr(parameter.initStd))});
  if (!parameter.tensorShape.empty())
    description.append("tensor_shape", builder.getDenseI64ArrayAttr(parameter.tensorShape));
  if (StringRef(entry.role).starts_with(kOfEncoderRole))
    description.append("of_encoder", builder.getUnitAttr());
  if (const int64_t positions = positionsMet(entry.role))
    description.append("positions", builder.getI64IntegerAttr(positions));
  if (parameter.activeShare != 1)
    description.append("active_share", builder.getF64FloatAttr(parameter.activeShare));
  return description.getDictionary(builder.getContext());
}

void BlockBuilder::addParameters(const std::vector<ModelParameter> &parameters, const std::vector<bool> &frozen,
                                 const Experts *experts) {
  for (const auto &[i, entry] : llvm::enumerate(parameters)) {
    SmallVector<int64_t> shape;
    SmallVector<StringRef> names;
    for (const plan::ParameterDim &dim : entry.parameter.dims) {
      shape.push_back(dim.name == plan::kVocabularyDim ? layout.paddedVocabulary(model) : dim.size);
      names.push_back(dim.name);
    }
    NamedAttrList description(describeParameter(entry));
    const bool isMoved = entry.movedByLoad && experts;
    if (isMoved)
      description.append("mean_load", builder.getF64FloatAttr(meanLoad(*experts)));
    if (!frozen.empty() && frozen[i])
      description.append("frozen", builder.getUnitAttr());
    addParameter(entry.role, type(shape, names, isMoved ? builder.getF32Type() : Type()), description);
  }
}

void BlockBuilder::addParameter(StringRef role, RankedTensorType type, NamedAttrList description) {
  addArgument(role, type, builder.getNamedAttr(kParamAttr, description.getDictionary(builder.getContext())));
}

void BlockBuilder::addResult(Value value, StringRef kind) {
  results.push_back(value);
  NamedAttribute attribute = builder.getNamedAttr(kResultAttr, builder.getStringAttr(kind));
  resultAttributes.push_back(kind == "out" ? builder.getDictionaryAttr({}) : builder.getDictionaryAttr(attribute));
}

void BlockBuilder::finish() {
  func::ReturnOp::create(builder, results);
  function.setFunctionType(
      builder.getFunctionType(function.getBody().front().getArgumentTypes(), ValueRange(results).getTypes()));
  function.setAllArgAttrs(argumentAttributes);
  function.setAllResultAttrs(resultAttributes);
}

std::string shifted(StringRef data, int64_t shift) { return (data + "+" + Twine(shift)).str(); }

StringRef positionsRead(const Layout &layout) { return layout.resetPositionIds ? "position_ids" : "positions"; }

static constexpr BlockBuilder::BranchNames kOfAttention = {"attn", "attention.residual"},
                                           kOfCross = {"cross", "cross.residual"}, kOfMlp = {"mlp", "mlp.residual"};

// --- Layers ------------------------------------------------------------------------------------------------

Value BlockBuilder::norm(Value x, StringRef role, const std::optional<Norm> &norm) {
  if (!norm)
    return x;
  const Module module(*this, "layernorm");
  Value gamma = norm->weight ? parameter((role + ".weight").str()) : Value();
  FloatAttr epsilon = builder.getF64FloatAttr(norm->epsilon), offset = orNone(norm->offset);
  Type row = withoutLast(x);
  if (norm->kind == NormKind::rms)
    return RmsNormOp::create(builder, x.getType(), row, x, gamma, epsilon, offset).getY();
  Value beta = norm->bias ? parameter((role + ".bias").str()) : Value();
  return LayerNormOp::create(builder, x.getType(), row, row, x, gamma, beta, epsilon, offset).getY();
}

FloatAttr BlockBuilder::orNone(double value) { return value == 0 ? FloatAttr() : builder.getF64FloatAttr(value); }

Value BlockBuilder::contract(Value x, Value weight) { return EinsumOp::create(builder, resized(x, weight), x, weight); }

Value BlockBuilder::add(Value lhs, Value rhs) { return AddOp::create(builder, lhs.getType(), lhs, rhs); }

Value BlockBuilder::linear(Value x, StringRef role) { return whole(branch(x, role)); }

Value BlockBuilder::scale(Value x, double factor) {
  return factor == 1 ? x : ScaleOp::create(builder, x.getType(), x, builder.getF64FloatAttr(factor));
}

Value BlockBuilder::bounded(Value x, double bound) {
  if (bound == 0)
    return x;
  return ClampOp::create(builder, x.getType(), x, builder.getF64FloatAttr(-bound), builder.getF64FloatAttr(bound));
}

Value BlockBuilder::capped(Value x, double cap) {
  return cap == 0 ? x : scale(TanhOp::create(builder, x.getType(), scale(x, 1 / cap)), cap);
}

Value BlockBuilder::dropout(Value x, double p, StringRef site) {
  if (p == 0)
    return x;
  return DropoutOp::create(builder, x.getType(), x, data("positions"), data("samples"), builder.getF64FloatAttr(p),
                           builder.getStringAttr(ofStack(site)), DictionaryAttr());
}

Value BlockBuilder::activate(Value x, Activation activation) {
  constexpr double kLeakySlope = 0.01, kClippedBound = 10;
  Type type = x.getType();
  auto number = [&](double value) { return builder.getF64FloatAttr(value); };
  auto gelu = [&](StringRef form) -> Value { return GeluOp::create(builder, type, x, builder.getStringAttr(form)); };
  auto relu = [&](double slope = 0, FloatAttr most = {}) -> Value {
    return ReluOp::create(builder, type, x, number(slope), most);
  };
  switch (activation) {
  case Activation::geluErf:
    return gelu("erf");
  case Activation::geluTanh:
    return gelu("tanh");
  case Activation::geluQuick:
    return gelu("sigmoid");
  case Activation::geluClipped:
    return ClampOp::create(builder, type, gelu("erf"), number(-kClippedBound), number(kClippedBound));
  case Activation::hardSwish:
    return HardSwishOp::create(builder, type, x);
  case Activation::laplace:
    return LaplaceOp::create(builder, type, x);
  case Activation::leakyRelu:
    return relu(kLeakySlope);
  case Activation::linear:
    return x;
  case Activation::mish:
    return MishOp::create(builder, type, x);
  case Activation::relu:
    return relu();
  case Activation::relu2: {
    Value root = relu();
    return multiply(root, root);
  }
  case Activation::relu6:
    return relu(0, number(6));
  case Activation::sigmoid:
    return SigmoidOp::create(builder, type, x);
  case Activation::silu:
    return SiluOp::create(builder, type, x);
  case Activation::tanh:
    return TanhOp::create(builder, type, x);
  }
  llvm_unreachable("every activation is listed");
}

Value BlockBuilder::embed(StringRef kind, StringRef role, std::optional<int64_t> padding, int64_t offset) {
  Value ids = data(kind), table = parameter(role);
  RankedTensorType idsType = tensorOf(ids);
  RankedTensorType result = type({idsType.getDimSize(0), idsType.getDimSize(1), tensorOf(table).getDimSize(1)},
                                 {"s", "b", layoutOf(table).getNames().back().getValue()});
  return EmbedOp::create(builder, result, ids, table, padding ? builder.getI64IntegerAttr(*padding) : IntegerAttr(),
                         builder.getI64IntegerAttr(offset), DictionaryAttr());
}

Value BlockBuilder::inElement(Value x, plan::DType dtype) {
  RankedTensorType found = tensorOf(x), wanted = found.clone(elementType(builder.getContext(), dtype));
  if (found == wanted)
    return x;
  auto op = CastOp::create(builder, wanted, x);
  op->setAttr(kCompleteAttr, builder.getUnitAttr());
  return op;
}

void BlockBuilder::addPlaces() {
  for (Stack of : {Stack::decoder, Stack::encoder}) {
    enter(of);
    addData("image_places", {of == Stack::decoder ? "s" : "t", "b"}, /*integer=*/true);
  }
  enter(Stack::decoder);
}

Value BlockBuilder::projected(Value x, const Projector &projector) {
  Value inner = activate(linear(called(x, "i"), "project.up"), projector.activation);
  return linear(inner, "project.down");
}

Value BlockBuilder::placed(Value x) {
  Value from = asEncoded(x);
  Value places = arguments.lookup("image_places"), sources = arguments.lookup(ofStack("image_places"));
  SmallVector<int64_t> shape(tensorOf(from).getShape());
  shape[0] = layout.sequenceLength;
  return RelocateOp::create(builder, type(shape, {"s", "b", "h"}), from, places, sources, DictionaryAttr());
}

Value BlockBuilder::addPlaced(Value embedded, Value placed) {
  auto op = AddOp::create(builder, embedded.getType(), embedded, placed);
  setTag(op, "placed");
  return op;
}

BlockBuilder::Branch BlockBuilder::attended(Value x, const Heads &heads, const Sight &sight,
                                            const AttentionDescription &attention, const AttentionNames &names,
                                            StringRef contextType) {
  const auto &[q, k, v] = heads;
  bool dropped = attention.dropout > 0;
  std::optional<Module> core(std::in_place, *this, "core_attn");
  auto op = AttentionOp::create(
      builder, outputOf(q, v), withoutLast(q), q, k, v, sight.positions, sight.keyPositions, sight.starts, sight.ends,
      dropped ? data("samples") : Value(), parameter((names.role + ".sinks").str()),
      parameter((names.role + ".relative_bias").str()), builder.getF64FloatAttr(attention.scale),
      builder.getI64IntegerAttr(attention.window), attention.causal ? BoolAttr() : builder.getBoolAttr(false),
      orNone(attention.softcap),
      attention.slopes.empty() ? DenseF64ArrayAttr() : builder.getDenseF64ArrayAttr(attention.slopes),
      attention.relativeBias ? builder.getI64IntegerAttr(attention.relativeBias->maxDistance) : IntegerAttr(),
      builder.getF64FloatAttr(attention.dropout), builder.getStringAttr(dropped ? ofStack(names.dropoutSite) : ""),
      builder.getI64IntegerAttr(attention.heads / attention.groups),
      layout.zigzag > 1 ? builder.getI64IntegerAttr(layout.zigzag) : IntegerAttr(), DictionaryAttr(), ArrayAttr());
  setTag(op, contextType);
  core.reset();
  Value o = op.getO();
  if (attention.gated)
    o = multiply(o, SigmoidOp::create(builder, o.getType(), linear(x, (names.role + ".gate").str())));
  return branch(o, (names.role + ".o").str());
}

Value BlockBuilder::multiply(Value lhs, Value rhs) { return MulOp::create(builder, lhs.getType(), lhs, rhs); }

BlockBuilder::Branch BlockBuilder::mlp(Value x, const Mlp &mlp) {
  Value up = linear(x, "mlp.up");
  Value inner = mlp.gated ? gatedActivation({linear(x, "mlp.gate"), up}, mlp) : activate(up, mlp.activation);
  return branch(dropout(inner, mlp.dropout, "mlp.inner"), "mlp.down");
}

BlockBuilder::Branch BlockBuilder::transformed(Value x, const BlockDescription &block) {
  const Module module(*this, block.experts ? "moe" : "mlp");
  return block.experts ? Branch{experts(x, *block.experts, block.mlp), Value()} : mlp(x, block.mlp);
}

Value BlockBuilder::finished(const Branch &made, const BranchDescription &branch, const BranchNames &names,
                             double factor) {
  Value y = norm(whole(made), (names.role + "_after_norm").str(), branch.after);
  return scale(dropout(y, branch.dropout, names.dropoutSite), factor);
}

Value BlockBuilder::residual(Value x, const Branch &made, const BranchDescription &branch, const BranchNames &names,
                             double factor) {
  return norm(add(x, asResidual(finished(made, branch, names, factor))), (names.role + "_sum_norm").str(), branch.sum);
}

Value BlockBuilder::serialLayer(Value x, const BlockDescription &block, StringRef contextType) {
  const Branch attended = attention(read(x, "attn_norm", block.attentionBranch.before), block.attention, contextType);
  x = residual(x, attended, block.attentionBranch, kOfAttention, block.residualScale);
  if (block.cross)
    x = residual(x, crossAttention(read(x, "cross_norm", block.crossBranch.before), *block.cross), block.crossBranch,
                 kOfCross, block.residualScale);
  const Branch made = transformed(read(x, "mlp_norm", block.mlpBranch.before), block);
  return residual(x, made, block.mlpBranch, kOfMlp, block.residualScale);
}

// Where nothing comes between, both products are added before their biases: of ranks of tensor parallelism, which have
// summands of both, one reduction serves the two.
Value BlockBuilder::parallelLayer(Value x, const BlockDescription &block, StringRef contextType) {
  const BranchDescription &ofAttention = block.attentionBranch, &ofMlp = block.mlpBranch;
  Value ofBoth = read(x, "attn_norm", ofAttention.before);
  Value ofMlpAlone = ofMlp.before ? read(x, "mlp_norm", ofMlp.before) : ofBoth;
  const Branch attended = attention(ofBoth, block.attention, contextType), made = transformed(ofMlpAlone, block);
  const auto isBare = [](const BranchDescription &branch) { return !branch.after && branch.dropout == 0; };
  if (!isBare(ofAttention) || !isBare(ofMlp))
    return add(add(x, asResidual(finished(attended, ofAttention, kOfAttention, block.residualScale))),
               asResidual(finished(made, ofMlp, kOfMlp, block.residualScale)));
  Value sum = add(attended.product, made.product);
  for (Value bias : {attended.bias, made.bias})
    sum = bias ? add(sum, bias) : sum;
  return add(x, asResidual(scale(sum, block.residualScale)));
}

Value BlockBuilder::layer(Value x, const BlockDescription &block, StringRef contextType) {
  return block.parallel ? parallelLayer(x, block, contextType) : serialLayer(x, block, contextType);
}

Value BlockBuilder::gatedActivation(GateUp parts, const Mlp &mlp) {
  if (mlp.limit > 0) {
    const FloatAttr most = builder.getF64FloatAttr(mlp.limit), least = builder.getF64FloatAttr(-mlp.limit);
    parts.gate = ClampOp::create(builder, parts.gate.getType(), parts.gate, FloatAttr(), most);
    parts.up = ClampOp::create(builder, parts.up.getType(), parts.up, least, most);
  }
  Value gate = activate(parts.gate, mlp.activation), product = multiply(gate, parts.up);
  return mlp.upPlusOne ? add(product, gate) : product;
}

Value BlockBuilder::sumTo(Value value, Names names) {
  SmallVector<int64_t> shape;
  for (StringRef name : names)
    shape.push_back(tensorOf(value).getDimSize(layoutOf(value).indexOf(builder.getStringAttr(name))));
  return SumOp::create(builder, type(shape, names, builder.getF32Type()), value);
}

void BlockBuilder::addTerm(Value sum, double scale, StringRef name) {
  addResult(LossTermOp::create(builder, sum.getType(), sum, data("step_tokens"), builder.getF64FloatAttr(scale)), name);
}

Value BlockBuilder::transformed(Value x, const HeadTransform &transform) {
  return norm(activate(linear(x, "head.transform"), transform.activation), "head.transform_norm", transform.norm);
}

// The transform's result has the width of the table.
Value BlockBuilder::logits(Value x) {
  Value table = parameter(model.head.tied ? "embed.tokens" : "head.weight");
  if (model.head.transform)
    x = transformed(x, *model.head.transform);
  Value product = contract(called(x, layoutOf(table).getNames().back().getValue()), table);
  Value bias = parameter("head.bias");
  return capped(scale(bias ? add(product, bias) : product, model.head.scale), model.head.softcap);
}

Value BlockBuilder::crossEntropy(Value logits, Value labels, Value weights) {
  RankedTensorType scalar = type({}, {}, builder.getF32Type());
  return CrossEntropyOp::create(builder, scalar, withoutLast(logits), logits, labels, weights,
                                builder.getI64IntegerAttr(model.vocabulary))
      .getLoss();
}

void BlockBuilder::loss(Value x) {
  Value weights = data("loss_weights");
  addResult(crossEntropy(logits(x), data("labels"), weights), "loss_sum");
  addResult(sumTo(weights, {}), "tokens");
}

// The file has one matrix [h, 2 h], whose columns are first of the embedding, then of the hidden state: a product of each,
// added.
Value BlockBuilder::joinLaterToken(Value x, int64_t depth) {
  Value token = embed(shifted("tokens", depth), "embed.tokens", model.paddingToken);
  const auto product = [&](Value value, StringRef name) {
    const std::string role = ("later." + name).str();
    return linear(renamed(norm(value, role + "_norm", model.finalNorm), "h", "i"), role);
  };
  return add(product(token, "token"), product(x, "hidden"));
}

// The mean over the tokens of the step that have such a token.
void BlockBuilder::laterLoss(Value x, int64_t depth) {
  Value mean = crossEntropy(logits(x), data(shifted("labels", depth)), data(shifted("loss_shares", depth)));
  addTerm(mean, layout.laterTokensFactor / double(layout.laterTokens), "mtp_loss");
}

} // namespace mgc::frontend
