// BlockBuilder's part for layers with experts: rows of experts, their products, and the terms that balance them
// (docs/experts.md).
#include "frontend/import/BlockBuilder.h"

#include <cmath>

using namespace mlir;

namespace mgc::frontend {

// Tokens whose label is ignored load experts too.
double BlockBuilder::meanLoad(const Experts &experts) const {
  return double(layout.sequenceLength) * double(layout.globalBatchSize) * double(experts.chosen) /
         double(experts.count);
}

// The counter is called as its router is: "model.layers.{}.mlp.gate.weight" has "model.layers.{}.mlp.gate.load".
void BlockBuilder::addCounter(const std::vector<ModelParameter> &parameters, const std::vector<bool> &frozen,
                              const Experts &experts) {
  if (!layout.countsLoad)
    return;
  for (const auto &[i, entry] : llvm::enumerate(parameters))
    if (entry.movedByLoad && !frozen[i])
      return;
  const auto isRouter = [](const ModelParameter &entry) { return entry.role == "router.weight"; };
  const StringRef router = llvm::find_if(parameters, isRouter)->parameter.tensor;
  ModelParameter counter;
  counter.parameter.tensor = (router.rsplit('.').first + ".load").str();
  counter.parameter.fileShape = {experts.count};
  counter.parameter.grouping = {1};
  counter.parameter.offset = {0};
  counter.parameter.dims = {{"e", experts.count, experts.count, {}}};
  counter.parameter.init = plan::InitKind::zeros;
  counter.parameter.initStd = 0;
  NamedAttrList description(describeParameter(counter));
  description.append("mean_load", builder.getF64FloatAttr(meanLoad(experts)));
  description.append("counts", builder.getUnitAttr());
  addParameter("router.load", type({experts.count}, {"e"}, builder.getF32Type()), description);
}

// As in experts(): the gate is put on the activations.
Value BlockBuilder::sharedExpert(Value x, const SharedExpert &shared, Activation activation) {
  const Module module(*this, "shared_experts");
  Value gate = activate(linear(x, "shared.gate"), activation);
  Value inner = multiply(gate, linear(x, "shared.up"));
  if (shared.gated) {
    Value scale = linear(x, "shared.scale");
    inner = multiply(inner, SigmoidOp::create(builder, scale.getType(), scale));
  }
  return linear(inner, "shared.down");
}

BlockBuilder::Rows BlockBuilder::rowsOf(Value experts, Value weights, const Experts &of, bool hasBias) {
  Rows rows{.experts = experts, .count = builder.getI64IntegerAttr(of.count)};
  const RankedTensorType choices = tensorOf(experts);
  rows.size = choices.getNumElements();
  if (const int64_t room = roomOfExpert(of)) {
    const int64_t capacity = room * (choices.getDimSize(1) / layout.microBatchSize);
    rows.capacity = builder.getI64IntegerAttr(capacity);
    rows.size = roomForRows(choices.getShape(), of.count, 1, capacity);
  }
  rows.weights = SpreadOp::create(builder, type({rows.size}, {"c"}, builder.getF32Type()), weights, experts, Value(),
                                  rows.count, DictionaryAttr(), ArrayAttr(), rows.capacity);
  if (hasBias)
    rows.ones = RowMaskOp::create(builder, type({rows.size}, {"c"}), experts, Value(), rows.count, DictionaryAttr(),
                                  ArrayAttr(), rows.capacity);
  return rows;
}

Value BlockBuilder::grouped(Value rows, StringRef name, const Rows &of) {
  Value weight = parameter(name);
  SmallVector<int64_t> shape{tensorOf(rows).getDimSize(0)};
  SmallVector<StringRef> names{"c"};
  for (auto [dim, size] : llvm::drop_begin(llvm::zip(layoutOf(weight).getNames(), tensorOf(weight).getShape())))
    if (layoutOf(rows).indexOf(dim) < 0)
      names.push_back(dim.getValue()), shape.push_back(size);
  return GroupedEinsumOp::create(builder, type(shape, names), rows, weight, of.experts, Value(), DictionaryAttr(),
                                 ArrayAttr(), of.capacity);
}

BlockBuilder::GateUp BlockBuilder::gateAndUp(Value tokens, const Mlp &mlp, bool isZipped, const Rows &of) {
  const auto made = [&](Value rows, const char *kind) -> GateUp {
    const auto name = [&](const char *role) { return fmt::format("experts.{}.{}", role, kind); };
    if (!isZipped)
      return {grouped(rows, name("gate"), of), grouped(rows, name("up"), of)};
    Value pairs = grouped(rows, name("gate_up"), of);
    RankedTensorType half = type(tensorOf(pairs).getShape().drop_back(), {"c", "m"});
    auto parts = UnzipOp::create(builder, half, half, pairs);
    return {parts.getFirst(), parts.getSecond()};
  };
  const GateUp products = made(tokens, "weight");
  if (!mlp.bias)
    return products;
  const GateUp biases = made(of.ones, "bias");
  return {add(products.gate, biases.gate), add(products.up, biases.up)};
}

// The bias counts as often as the expert does.
Value BlockBuilder::expertsDown(Value inner, const Mlp &mlp, const Rows &of) {
  Value y = grouped(inner, "experts.down.weight", of);
  if (!mlp.bias)
    return y;
  const RankedTensorType column = type(tensorOf(of.weights).getShape(), {"c"});
  Value weights = column == of.weights.getType() ? of.weights : CastOp::create(builder, column, of.weights);
  return add(y, renamed(grouped(weights, "experts.down.bias", of), "y", "h"));
}

// Tokens of a microbatch of one data rank share the room: s and mbs are no matter of the layout. As many choices as there are
// tokens always have it.
int64_t BlockBuilder::roomOfExpert(const Experts &experts) const {
  const double tokens = double(layout.sequenceLength) * double(layout.microBatchSize);
  const double room = std::ceil(tokens * double(experts.chosen) / double(experts.count) * layout.capacityFactor);
  return layout.capacityFactor == 0 || room >= tokens ? 0 : int64_t(room);
}

Value BlockBuilder::dropped(Value chosen, Value weights, const Experts &experts) {
  const int64_t room = roomOfExpert(experts);
  if (room == 0)
    return chosen;
  return DropOp::create(builder, chosen.getType(), chosen, weights, data("positions"), uint64_t(experts.count),
                        uint64_t(room), uint64_t(layout.microBatchSize), layout.dropPolicy == "position");
}

// The weights are put on the activations: the last product is linear, and its rows are wider.
Value BlockBuilder::experts(Value x, const Experts &experts, const Mlp &mlp) {
  const ArrayRef<int64_t> sizes = tensorOf(x).getShape();
  const int64_t s = sizes[0], b = sizes[1], k = experts.chosen;
  Value logits = contract(x, parameter("router.weight"));
  if (experts.logitBias)
    logits = add(logits, parameter("router.logits.bias"));
  auto optional = [&](std::optional<double> value) { return value ? builder.getF64FloatAttr(*value) : FloatAttr(); };
  auto route =
      RouteOp::create(builder, type({s, b, k}, {"s", "b", "k"}, builder.getF32Type()),
                      type({s, b, k}, {"s", "b", "k"}, builder.getI32Type()), logits, parameter("router.bias"),
                      parameter("router.load"), builder.getStringAttr(experts.score),
                      builder.getStringAttr(experts.post), builder.getI64IntegerAttr(experts.groups),
                      builder.getI64IntegerAttr(experts.keptGroups), builder.getI64IntegerAttr(experts.groupTop),
                      optional(experts.epsilon), FloatAttr(), builder.getF64FloatAttr(experts.scale));
  Value chosen = route.getExperts();
  balance(logits, chosen, experts);
  chosen = dropped(chosen, route.getWeights(), experts);
  const Rows rows = rowsOf(chosen, route.getWeights(), experts, mlp.bias);
  Value tokens = DispatchOp::create(builder, type({rows.size, sizes[2]}, {"c", "h"}), x, chosen, Value(), rows.count,
                                    DictionaryAttr(), ArrayAttr(), rows.capacity);
  const GateUp products = gateAndUp(tokens, mlp, experts.isZipped, rows);
  std::optional<Module> activation(std::in_place, *this, "moe_act");
  Value act = gatedActivation(products, mlp);
  activation.reset();
  Value y = CombineOp::create(builder, x.getType(), expertsDown(multiply(act, rows.weights), mlp, rows), chosen,
                              Value(), rows.count, DictionaryAttr(), ArrayAttr(), rows.capacity);
  return experts.shared ? add(y, sharedExpert(x, *experts.shared, mlp.activation)) : y;
}

// --- Balance -------------------------------------------------------------------------------------------------

RankedTensorType BlockBuilder::pooledType() {
  const auto kind = std::ranges::find_if(model.kinds, &BlockKind::hasExperts);
  return type({kind->block.experts->count}, {"e"}, builder.getF32Type());
}

// The auxiliary loss of a sequence is E / (k s) sum over e of count[e] mean[e]: how many of its s tokens chose expert e, and
// the mean of their probabilities of it. The term is the mean over the sequences of the step.
void BlockBuilder::sequenceAuxLoss(Value hot, Value probabilities, const Experts &experts) {
  const double s = double(tensorOf(hot).getDimSize(0));
  Value counts = sumTo(hot, {"b", "e"}), sums = sumTo(probabilities, {"b", "e"});
  Value products = MulOp::create(builder, sums.getType(), sums, counts);
  addTerm(sumTo(products, {}),
          layout.auxLossCoefficient * double(experts.count) /
              (double(experts.chosen) * s * s * double(layout.globalBatchSize)),
          "seq_aux_loss");
}

// The mean over the tokens of the step.
void BlockBuilder::zLoss(Value logits) {
  Value each = RouterZOp::create(builder, withoutLast(logits), logits);
  addTerm(sumTo(each, {}), layout.zLossCoefficient / (double(layout.sequenceLength) * double(layout.globalBatchSize)),
          "z_loss");
}

void BlockBuilder::beginPooled() {
  Value zero = ScaleOp::create(builder, data("step_tokens").getType(), data("step_tokens"), builder.getF64FloatAttr(0));
  auto zeros = [&] { return BroadcastOp::create(builder, pooledType(), zero); };
  pooled = Pooled{zeros(), zeros()};
}

void BlockBuilder::takePooled() {
  auto take = [&] {
    argumentAttributes.push_back(builder.getDictionaryAttr({}));
    return function.getBody().front().addArgument(pooledType(), builder.getLoc());
  };
  Value load = take();
  pooled = Pooled{load, take()};
}

void BlockBuilder::addPooledResults() {
  addResult(pooled->load);
  addResult(pooled->probabilities);
}

// E sum over e of f[e] P[e]: how many of the rows chose expert e, and the mean of their probabilities of it, over a row for
// each token of each layer with experts.
void BlockBuilder::pooledLoss() {
  int64_t layers = 0;
  for (int64_t layer = 0; layer < model.layerCount(); ++layer)
    layers += model.blockOf(layer).experts.has_value();
  const double rows = double(layers) * double(layout.sequenceLength) * double(layout.globalBatchSize);
  Value products = MulOp::create(builder, pooledType(), pooled->probabilities, pooled->load);
  addTerm(sumTo(products, {}), model.pooledAuxLoss * double(pooledType().getDimSize(0)) / (rows * rows), "aux_loss");
}

void BlockBuilder::balance(Value logits, Value chosen, const Experts &experts) {
  const bool ofSequences = layout.balanceType == "seq_aux_loss";
  if (ofSequences || pooled) {
    Type each = type(tensorOf(logits).getShape(), {"s", "b", "e"}, builder.getF32Type());
    Value hot = MultiHotOp::create(builder, each, chosen);
    // Scores that are logits have probabilities too: their softmax, as Hugging Face and Megatron-LM define it.
    Value probabilities = RouterProbabilitiesOp::create(
        builder, each, logits, builder.getStringAttr(experts.score == "none" ? "softmax" : experts.score));
    if (ofSequences)
      sequenceAuxLoss(hot, probabilities, experts);
    if (pooled)
      pooled = Pooled{add(pooled->load, sumTo(hot, {"e"})), add(pooled->probabilities, sumTo(probabilities, {"e"}))};
  }
  if (layout.zLossCoefficient > 0)
    zLoss(logits);
}

} // namespace mgc::frontend
