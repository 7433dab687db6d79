// Routers: verifiers, gradient, row bodies.
#include "codegen/rows/graph/ArgMax.h"
#include "dialects/mg/Gradient.h"
#include "dialects/mg/RowEmitter.h"
#include <cmath>

using namespace mlir;
using namespace mgc;

// --- verifiers

static constexpr int64_t kMostGroups = 32; // bits of the mask of the kept ones

static int64_t lastSize(Value value) { return tensorOf(value).getShape().back(); }
static double orOne(std::optional<APFloat> number) { return number ? number->convertToDouble() : 1; }

// Constraints 1 to 3, which route and route_grad share.
template <typename Op> static LogicalResult verifyWeights(Op op) {
  auto fail = [&]() { return op.emitOpError(); };
  auto cited = [&](int number) { return (" (" + op->getName().stripDialect() + "_c" + Twine(number) + ")").str(); };
  if (!llvm::is_contained({"softmax", "sigmoid", "sqrtsoftplus", "none"}, op.getScore()))
    return fail() << "score is '" << op.getScore() << "'; expected softmax, sigmoid, sqrtsoftplus or none" << cited(1);
  if (!llvm::is_contained({"gather", "softmax", "sigmoid"}, op.getPost()))
    return fail() << "post is '" << op.getPost() << "'; expected gather, softmax or sigmoid" << cited(2);
  if (op.getEpsilon() && op.getLeast())
    return fail() << "epsilon and least are given; expected at most one" << cited(3);
  const auto epsilon = float(orOne(op.getEpsilon())),
             least = float(orOne(op.getLeast())), // as kernels have them
      scale = float(op.getScale().convertToDouble());
  if (!(epsilon >= 0 && least > 0 && scale != 0) || !std::isfinite(epsilon + least + scale))
    return fail() << "expected epsilon >= 0, least > 0 and scale other than 0, all finite" << cited(3);
  return success();
}

LogicalResult RouteOp::verify() {
  if (failed(verifyWeights(*this)))
    return failure();
  const int64_t experts = lastSize(getLogits()), chosen = lastSize(getExperts());
  const int64_t groups = getGroups(), kept = getKeptGroups(), top = getGroupTop();
  if (groups < 1 || groups > kMostGroups || experts % groups || kept < 1 || kept > groups || top < 1 ||
      top > experts / groups)
    return emitOpError() << groups << " groups of " << experts << " experts, " << kept
                         << " kept by the sum of their top " << top << "; expected 1 to " << kMostGroups
                         << " groups of equal size, keptGroups in [1, groups], groupTop in [1, size] (route_c4)";
  const int64_t left = experts / groups * kept;
  if (chosen < 1 || chosen > left)
    return emitOpError() << chosen << " experts are chosen of " << left << " (route_c5)";
  return success();
}
LogicalResult RouteGradOp::verify() { return verifyWeights(*this); }

// How many tokens chose each expert, in the place of the gradient of the bias or of the counter.
static Value loadOf(GradientBuilder &g, RouteOp op, Value counter) {
  OpBuilder &builder = g.builder();
  auto each =
      RankedTensorType::get(tensorOf(op.getLogits()).getShape(), builder.getF32Type(), layoutOf(op.getLogits()));
  Value hot = MultiHotOp::create(builder, op.getLoc(), each, op.getExperts());
  return g.make<SumOp>(counter, hot);
}

LogicalResult RouteOp::buildGradient(GradientBuilder &g) {
  if (getBias() && getLoad() && g.wants(getBias()))
    return emitOpError("has a bias and a load; expected one of them, for the load of the experts (route_c6)");
  if (Value dw = g.cotangent(getWeights()); dw && g.wants(getLogits()))
    g.contribute(getLogits(), g.make<RouteGradOp>(getLogits(), getLogits(), getExperts(), dw, getScoreAttr(),
                                                  getPostAttr(), getEpsilonAttr(), getLeastAttr(), getScaleAttr()));
  for (Value counter : {getBias(), getLoad()})
    if (counter && g.wants(counter))
      g.contribute(counter, loadOf(g, *this, counter));
  if (getLoad())
    getLoadMutable().clear(); // no kernel reads it
  return success();
}

// --- balance

LogicalResult MultiHotOp::buildGradient(GradientBuilder &) { return success(); }

template <typename Op> static LogicalResult verifyProbabilities(Op op) {
  return llvm::is_contained({"softmax", "sigmoid", "sqrtsoftplus"}, op.getScore())
             ? success()
             : op.emitOpError() << "score is '" << op.getScore()
                                << "'; expected softmax, sigmoid or sqrtsoftplus (router_probabilities_c1)";
}
LogicalResult RouterProbabilitiesOp::verify() { return verifyProbabilities(*this); }
LogicalResult RouterProbabilitiesGradOp::verify() { return verifyProbabilities(*this); }

LogicalResult RouterProbabilitiesOp::buildGradient(GradientBuilder &g) {
  if (Value dy = g.cotangent(getResult()); dy && g.wants(getLogits()))
    g.contribute(getLogits(), g.make<RouterProbabilitiesGradOp>(getLogits(), getLogits(), dy, getScoreAttr()));
  return success();
}

LogicalResult RouterZOp::buildGradient(GradientBuilder &g) {
  if (Value dy = g.cotangent(getResult()); dy && g.wants(getLogits()))
    g.contribute(getLogits(), g.make<RouterZGradOp>(getLogits(), getLogits(), dy));
  return success();
}

// --- row bodies: columns are the experts

namespace {
using rowgen::add;
using rowgen::div;
using rowgen::mul;
using rowgen::Node;
using rowgen::RowGraph;
using rowgen::select;
using rowgen::sub;
using Nodes = SmallVector<Node>;

// The place of column e of `logits`.
Node columnIndex(RowEmitter &e, Value logits) { return e.globalIndex(rowDims(logits).back().name); }

Node sumOf(RowGraph &g, ArrayRef<Node> terms) {
  Node sum = terms.front();
  for (Node term : terms.drop_front())
    sum = add(g, sum, term);
  return sum;
}

Node dot(RowGraph &g, ArrayRef<Node> a, ArrayRef<Node> b) {
  Nodes products;
  for (auto [x, y] : llvm::zip(a, b))
    products.push_back(mul(g, x, y));
  return sumOf(g, products);
}

// p of a logit: of a column's, or of one that was chosen. Softmax also needs two sums of the row.
class Scores {
public:
  Scores(RowEmitter &e, StringRef form, Node logits) : g_(e.graph()), form_(form) {
    if (form != "softmax")
      return;
    max_ = g_.reduce(rowgen::RowReduction::max, logits);
    share_ = div(g_, g_.constant(1), e.sumOverColumns(rowgen::exp(g_, sub(g_, logits, max_))));
  }

  Node of(Node logit) {
    if (form_ == "softmax")
      return mul(g_, rowgen::exp(g_, sub(g_, logit, max_)), share_);
    if (form_ == "sigmoid")
      return rowgen::sigmoid(g_, logit);
    return form_ == "none" ? logit : rowgen::sqrt(g_, rowgen::softplus(g_, logit));
  }

  // dp / dlogit, for all forms but softmax; `score` is of(logit). 1 - sigmoid(x) = sigmoid(-x) does not cancel.
  Node slope(Node logit, Node score) {
    if (form_ == "sigmoid")
      return mul(g_, score, rowgen::sigmoid(g_, rowgen::scale(g_, logit, -1)));
    if (form_ == "none")
      return g_.constant(1);
    // Where the score underflows to 0, so has the sigmoid. NaN stays NaN.
    Node twice = rowgen::max(g_, g_.constant(std::numeric_limits<float>::min()), rowgen::scale(g_, score, 2));
    return div(g_, rowgen::sigmoid(g_, logit), twice);
  }

  bool isSoftmax() const { return form_ == "softmax"; }

private:
  RowGraph &g_;
  StringRef form_;
  Node max_, share_;
};

// From the chosen scores u to the weights, and back.
class Weights {
public:
  template <typename Op>
  Weights(RowGraph &graph, Op op)
      : g_(graph), post_(op.getPost()), scale_(op.getScale().convertToDouble()), epsilon_(op.getEpsilon()),
        least_(op.getLeast()) {}

  Nodes of(ArrayRef<Node> scores) {
    Nodes gates = gatesOf(scores), weights;
    for (Node gate : gates)
      weights.push_back(rowgen::scale(g_, divides() ? div(g_, gate, divisor(gates)) : gate, scale_));
    return weights;
  }

  // The cotangent of the scores for that of the weights.
  Nodes gradient(ArrayRef<Node> scores, ArrayRef<Node> dweights) {
    Nodes gates = gatesOf(scores), dgates;
    Node rest = ofDivisor(gates, dweights);
    for (Node dweight : dweights)
      dgates.push_back(
          rowgen::scale(g_, divides() ? div(g_, sub(g_, dweight, rest), divisor(gates)) : dweight, scale_));
    if (post_ == "gather")
      return dgates;
    Nodes dscores;
    Node common = dot(g_, gates, dgates);
    for (auto [score, gate, dgate] : llvm::zip(scores, gates, dgates))
      dscores.push_back(post_ == "softmax"
                            ? mul(g_, gate, sub(g_, dgate, common))
                            : mul(g_, dgate, mul(g_, gate, rowgen::sigmoid(g_, rowgen::scale(g_, score, -1)))));
    return dscores;
  }

private:
  bool divides() const { return epsilon_ || least_; }

  Nodes gatesOf(ArrayRef<Node> scores) {
    if (post_ == "gather")
      return Nodes(scores);
    Nodes gates;
    if (post_ == "sigmoid") {
      for (Node score : scores)
        gates.push_back(rowgen::sigmoid(g_, score));
      return gates;
    }
    Node max = scores.front();
    for (Node score : scores.drop_front())
      max = rowgen::max(g_, max, score);
    for (Node score : scores)
      gates.push_back(rowgen::exp(g_, sub(g_, score, max)));
    Node sum = sumOf(g_, gates);
    for (Node &gate : gates)
      gate = div(g_, gate, sum);
    return gates;
  }

  Node divisor(ArrayRef<Node> gates) {
    Node sum = sumOf(g_, gates);
    if (epsilon_)
      return rowgen::shift(g_, sum, epsilon_->convertToDouble());
    Node least = g_.constant(least_->convertToDouble());
    return select(g_, greater(g_, least, sum), least, sum); // NaN stays NaN
  }

  // sum(dw g) / D where D changes with the sum of the gates, else 0.
  Node ofDivisor(ArrayRef<Node> gates, ArrayRef<Node> dweights) {
    if (!divides())
      return g_.constant(0);
    Node share = div(g_, dot(g_, gates, dweights), divisor(gates));
    if (epsilon_)
      return share;
    Node isLeast = greater(g_, g_.constant(least_->convertToDouble()), sumOf(g_, gates));
    return select(g_, isLeast, g_.constant(0), share);
  }

  RowGraph &g_;
  StringRef post_;
  double scale_;
  std::optional<APFloat> epsilon_, least_;
};

// i32, bit n: group n is among the `kept` best, by a score per group.
Node bestGroups(RowGraph &g, ArrayRef<Node> scores, int64_t kept) {
  Nodes keys;
  for (auto [group, score] : llvm::enumerate(scores))
    keys.push_back(rowgen::argKey(g, score, g.constantI32(int64_t(group))));
  Node mask = g.constantI32(0);
  for (int64_t round = 0; round < kept; ++round) {
    Node best = keys.front();
    for (Node key : ArrayRef(keys).drop_front())
      best = rowgen::maxKey(g, best, key);
    Node number = rowgen::keyIndex(g, best);
    mask = rowgen::withBit(g, mask, number);
    for (auto [group, key] : llvm::enumerate(keys))
      key = rowgen::keyWhere(g, rowgen::differs(g, number, g.constantI32(int64_t(group))), key);
  }
  return mask;
}

// One token of mg.route.
class Router {
public:
  Router(RowEmitter &e, RouteOp op)
      : g_(e.graph()), op_(op), logit_(e.value(op.getLogits())), index_(columnIndex(e, op.getLogits())),
        scores_(e, op.getScore(), logit_) {
    Node compared = logit_;
    if (op.getBias())
      compared = add(g_, scores_.of(logit_), e.value(op.getBias()));
    keys_ = rowgen::argKey(g_, compared, index_);
  }

  void emit(RowEmitter &e) {
    if (op_.getKeptGroups() < op_.getGroups())
      keys_ = keysOfBestGroups();
    Nodes experts, scores;
    for (Node key : rowgen::largestKeys(g_, keys_, index_, lastSize(op_.getExperts()))) {
      experts.push_back(rowgen::keyIndex(g_, key));
      scores.push_back(scores_.of(logitOf(key, experts.back(), e)));
    }
    e.definePlaces(op_.getWeights(), Weights(g_, op_).of(scores));
    e.definePlaces(op_.getExperts(), experts);
  }

private:
  Node keysOfBestGroups() {
    const int64_t groups = op_.getGroups();
    Node group = rowgen::divideI32(g_, index_, lastSize(op_.getLogits()) / groups);
    Nodes scores;
    for (int64_t number = 0; number < groups; ++number) {
      Node members = rowgen::keyWhere(g_, rowgen::equal(g_, group, g_.constantI32(number)), keys_);
      scores.push_back(groupScore(rowgen::largestKeys(g_, members, index_, op_.getGroupTop())));
    }
    Node mask = bestGroups(g_, scores, op_.getKeptGroups());
    return rowgen::keyWhere(g_, rowgen::hasBit(g_, mask, group), keys_);
  }

  // A single logit may stand for its score, a sum of logits not.
  Node groupScore(ArrayRef<Node> keys) {
    Nodes terms;
    for (Node key : keys) {
      Node compared = rowgen::keyValue(g_, key);
      terms.push_back(op_.getBias() || keys.size() == 1 ? compared : scores_.of(compared));
    }
    return sumOf(g_, terms);
  }

  Node logitOf(Node key, Node expert, RowEmitter &e) {
    if (!op_.getBias())
      return rowgen::keyValue(g_, key);
    return e.sumOverColumns(select(g_, rowgen::equal(g_, index_, expert), logit_, g_.constant(0)));
  }

  RowGraph &g_;
  RouteOp op_;
  Node logit_, index_;
  Scores scores_;
  Node keys_;
};
} // namespace

RowSpace RouteOp::getRowSpace() {
  RowSpace space{RowSpace::Kind::rows, rowDims(getLogits()), {}};
  space.columns.push_back(space.rows.pop_back_val());
  return space;
}

LogicalResult RouteOp::emitRow(RowEmitter &e) {
  Router(e, *this).emit(e);
  return success();
}

Value RouteGradOp::getLookupTable() { return getLogits(); }
LogicalResult RouteGradOp::emitRow(RowEmitter &e) {
  RowGraph &g = e.graph();
  Node logit = e.value(getLogits()), index = columnIndex(e, getLogits());
  RowSpace::NamedDim column = rowDims(getLogits()).back(), place = rowDims(getExperts()).back();
  Scores p(e, getScore(), logit);
  Nodes experts, logits, scores, dweights;
  for (int64_t number = 0; number < place.size; ++number) {
    experts.push_back(e.value(getExperts(), {place.name, number}));
    logits.push_back(e.value(getLogits(), {column.name, experts.back()}));
    scores.push_back(p.of(logits.back()));
    dweights.push_back(e.value(getDweights(), {place.name, number}));
  }
  Nodes dscores = Weights(g, *this).gradient(scores, dweights);
  Node dlogit = g.constant(0);
  for (auto [number, expert] : llvm::enumerate(experts)) {
    Node slope = p.isSoftmax() ? dscores[number] : mul(g, dscores[number], p.slope(logits[number], scores[number]));
    dlogit = select(g, rowgen::equal(g, index, expert), slope, dlogit);
  }
  if (p.isSoftmax())
    dlogit = mul(g, p.of(logit), sub(g, dlogit, dot(g, dscores, scores)));
  e.define(getDlogits(), dlogit);
  return success();
}

LogicalResult MultiHotOp::emitRow(RowEmitter &e) {
  RowGraph &g = e.graph();
  Node index = columnIndex(e, getResult()), hot = g.constant(0);
  RowSpace::NamedDim place = rowDims(getExperts()).back();
  for (int64_t number = 0; number < place.size; ++number)
    hot = select(g, rowgen::equal(g, index, e.value(getExperts(), {place.name, number})), g.constant(1), hot);
  e.define(getResult(), hot);
  return success();
}

namespace {
// Scores of a row as probabilities. Softmax is one already.
class Probabilities {
public:
  Probabilities(RowEmitter &e, StringRef form, Node logit)
      : g_(e.graph()), logit_(logit), scores_(e, form, logit), score_(scores_.of(logit)) {
    if (!scores_.isSoftmax())
      divisor_ = rowgen::shift(g_, e.sumOverColumns(score_), 1e-20);
  }
  Node value() { return scores_.isSoftmax() ? score_ : div(g_, score_, divisor_); }
  // The cotangent of the logit for that of the probability.
  Node gradient(RowEmitter &e, Node dvalue) {
    Node rest = sub(g_, dvalue, e.sumOverColumns(mul(g_, dvalue, value())));
    return scores_.isSoftmax() ? mul(g_, score_, rest)
                               : mul(g_, div(g_, rest, divisor_), scores_.slope(logit_, score_));
  }

private:
  RowGraph &g_;
  Node logit_;
  Scores scores_;
  Node score_, divisor_;
};

// log(sum exp(logits)) of a row, and exp(logit) over that sum.
struct LogSumExp {
  Node value, share;
  LogSumExp(RowEmitter &e, Node logit) {
    RowGraph &g = e.graph();
    Node max = g.reduce(rowgen::RowReduction::max, logit), power = rowgen::exp(g, sub(g, logit, max));
    Node sum = e.sumOverColumns(power);
    value = add(g, max, rowgen::log(g, sum));
    share = div(g, power, sum);
  }
};
} // namespace

LogicalResult RouterProbabilitiesOp::emitRow(RowEmitter &e) {
  e.define(getResult(), Probabilities(e, getScore(), e.value(getLogits())).value());
  return success();
}

LogicalResult RouterProbabilitiesGradOp::emitRow(RowEmitter &e) {
  e.define(getDlogits(), Probabilities(e, getScore(), e.value(getLogits())).gradient(e, e.value(getDresult())));
  return success();
}

LogicalResult RouterZOp::emitRow(RowEmitter &e) {
  Node sum = LogSumExp(e, e.value(getLogits())).value;
  e.define(getResult(), mul(e.graph(), sum, sum));
  return success();
}

LogicalResult RouterZGradOp::emitRow(RowEmitter &e) {
  RowGraph &g = e.graph();
  LogSumExp sum(e, e.value(getLogits()));
  Node slope = rowgen::scale(g, mul(g, sum.value, sum.share), 2);
  e.define(getDlogits(), mul(g, slope, e.value(getDresult())));
  return success();
}
