// Binding rule texts to types, and the one verifier of all compute ops.
#include "dialects/mg/Complete.h"
#include "dialects/mg/Mg.h"
#include "runtime/base/Rounding.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FormatVariadic.h"

#include <numeric>

using namespace mlir;
using namespace mgc;

namespace {

// One term of a rule text: `~* n!` or `max s b`.
struct Term {
  Linear linear = Linear::none;
  Reduction reduction = Reduction::sum;
  SmallVector<StringRef> letters; // "*", ".." or a letter, its "!" or "@" kept
};

Term parseTerm(StringRef text) {
  Term term;
  text = text.trim();
  if (text.consume_front("~"))
    term.linear = Linear::alone;
  else if (text.consume_front("&"))
    term.linear = Linear::joint;
  SmallVector<StringRef> words;
  text.split(words, ' ', -1, false);
  if (!words.empty() && words.front() == "max") {
    term.reduction = Reduction::max;
    words.erase(words.begin());
  }
  term.letters = words;
  return term;
}

SmallVector<Term> parseTerms(StringRef side) {
  SmallVector<StringRef> texts;
  side.split(texts, ',');
  return llvm::map_to_vector(texts, parseTerm);
}

// Binds letters, and `*`, to names, one term at a time.
struct Binder {
  AxisRule &rule;
  llvm::StringMap<StringAttr> letters = {};
  std::optional<ArrayRef<StringAttr>> star = {};
  // Index in rule.merged, and the letters of the factor's parts.
  SmallVector<std::pair<size_t, StringRef>> merged = {};

  void bind(const Term &term, ArrayRef<StringAttr> names, AxisRule::Factors &out) {
    StringRef first = term.letters.empty() ? StringRef() : term.letters.front();
    const bool endsWild = term.letters.size() > 1 && term.letters.back() == "..";
    const bool beginsWild = first == "*" || first == "..", wild = beginsWild || endsWild;
    size_t fixed = term.letters.size() - wild;
    if (names.size() < fixed || (!wild && names.size() != fixed)) {
      rule.error = llvm::formatv("rank {0} where the rule has {1} dimensions", names.size(), fixed).str();
      return;
    }
    out.assign(names.begin(), names.end());
    for (size_t i = 0; i < fixed; ++i)
      bindLetter(term.letters[beginsWild + i], names[endsWild ? i : names.size() - fixed + i]);
    if (first == "*")
      bindStar(names.drop_back(fixed));
  }

  void bindStar(ArrayRef<StringAttr> names) {
    auto text = [](ArrayRef<StringAttr> list) {
      return llvm::join(llvm::map_range(list, [](StringAttr name) { return name.getValue(); }), ", ");
    };
    if (star && *star != names)
      rule.error = llvm::formatv("* of the rule is bound to [{0}] and to [{1}]", text(*star), text(names)).str();
    star = names;
  }

  // `c=s.b.k:e`: the letter, and its parts, which other terms bind, with what places it.
  StringRef withoutParts(StringRef letter, StringAttr name) {
    const auto [whole, parts] = letter.split('=');
    if (!parts.empty() && !rule.isMerged(name)) {
      merged.push_back({rule.merged.size(), parts});
      rule.merged.push_back({name, {}, {}});
    }
    return whole;
  }

  // When all letters are bound.
  void bindParts() {
    for (auto &[index, text] : merged) {
      AxisRule::Merged &merged = rule.merged[index];
      const auto [product, placing] = text.split(':');
      SmallVector<StringRef> parts;
      product.split(parts, '.');
      for (StringRef part : parts)
        merged.parts.push_back(letters.lookup(part));
      if (!placing.empty()) // a dimension of this name, of no value or of one whose term has no letters
        merged.placing = StringAttr::get(merged.whole.getContext(), placing);
    }
  }

  void bindLetter(StringRef letter, StringAttr name) {
    letter = withoutParts(letter, name);
    if (letter.consume_back("!") && !rule.isWhole(name))
      rule.whole.push_back(name);
    if (letter.consume_back("@") && !rule.isRing(name))
      rule.rings.push_back(name);
    auto [it, isNew] = letters.try_emplace(letter, name);
    if (!isNew && it->second != name)
      rule.error = llvm::formatv("letter {0} of the rule is bound to '{1}' and to '{2}'", letter, it->second.getValue(),
                                 name.getValue())
                       .str();
  }
};

} // namespace

// An optional operand has a term of its own; where the operand is not given, nothing is bound to the term.
static SmallVector<Term> termsOfGiven(Operation *op, ArrayRef<Term> terms) {
  auto segments =
      op->getAttrOfType<DenseI32ArrayAttr>(OpTrait::AttrSizedOperandSegments<void>::getOperandSegmentSizeAttr());
  if (!segments)
    return SmallVector<Term>(terms);
  SmallVector<Term> given;
  for (auto [term, count] : llvm::zip(terms, segments.asArrayRef()))
    given.append(count, term);
  return given;
}

AxisRule::Factors AxisRule::factors() const {
  llvm::SmallSetVector<StringAttr, 8> all;
  for (const Factors &list : llvm::concat<const Factors>(operands, results))
    all.insert(list.begin(), list.end());
  for (const Merged &one : merged)
    if (one.placing)
      all.insert(one.placing);
  return Factors(all.begin(), all.end());
}

SmallVector<Attribute> AxisRule::axesOf(const Merged &merged, AxesOf axes) const {
  SmallVector<Attribute> placing, all;
  if (merged.placing)
    llvm::append_range(placing, axes(merged.placing));
  for (StringAttr part : merged.parts)
    llvm::copy_if(axes(part), std::back_inserter(all),
                  [&](Attribute axis) { return !llvm::is_contained(placing, axis); });
  llvm::append_range(all, placing);
  return all;
}

bool AxisRule::isMerged(StringAttr factor) const {
  return llvm::any_of(merged, [&](const Merged &one) { return one.whole == factor; });
}

bool AxisRule::isPlacing(StringAttr factor) const {
  return llvm::any_of(merged, [&](const Merged &one) { return one.placing == factor; });
}

bool AxisRule::isIn(ArrayRef<StringAttr> names, StringAttr factor) const {
  const auto has = [&](StringAttr name) { return llvm::is_contained(names, name); };
  return has(factor) || llvm::any_of(merged, [&](const Merged &one) {
           return one.whole == factor
                      ? llvm::any_of(one.parts, has)
                      : (one.placing == factor || llvm::is_contained(one.parts, factor)) && has(one.whole);
         });
}

SmallVector<Attribute> AxisRule::exchanged(AxesOf axes) const {
  SmallVector<Attribute> both; // in the order of what places the rows
  for (const Merged &one : merged) {
    const auto splitsTokens = [&](Attribute axis) {
      return llvm::any_of(one.parts, [&](StringAttr part) { return llvm::is_contained(axes(part), axis); });
    };
    if (one.placing)
      llvm::copy_if(axes(one.placing), std::back_inserter(both), splitsTokens);
  }
  return both;
}

SmallVector<Attribute> AxisRule::reducedAxes(ArrayRef<StringAttr> result, AxesOf axes) const {
  // A merged factor is summed with its parts.
  const auto isReduced = [&](StringAttr factor) {
    return !isMerged(factor) && !isIn(result, factor) &&
           llvm::any_of(operands, [&](const Factors &names) { return isIn(names, factor); });
  };
  SmallVector<Attribute> reduced, reducedByOthers; // by others than rings
  for (StringAttr factor : factors())
    if (isReduced(factor)) {
      // The axes of a ring split two factors: add each once.
      llvm::copy_if(axes(factor), std::back_inserter(reduced),
                    [&](Attribute axis) { return !llvm::is_contained(reduced, axis); });
      if (!llvm::is_contained(rings, factor))
        llvm::append_range(reducedByOthers, axes(factor));
    }
  // Blocks that travel round a ring meet all parts of the other factor: a sum over both has each rank's part of that
  // one.
  SmallVector<Attribute> added = exchanged(axes);
  for (StringAttr ring : rings)
    llvm::copy_if(axes(ring), std::back_inserter(added), [&](Attribute axis) {
      return !llvm::is_contained(reducedByOthers, axis) ||
             llvm::any_of(result, [&](StringAttr name) { return llvm::is_contained(axes(name), axis); });
    });
  llvm::erase_if(reduced, [&](Attribute axis) { return llvm::is_contained(added, axis); });
  return reduced;
}

AxisRule mgc::bindRule(Operation *op, StringRef text) {
  AxisRule rule;
  auto [left, right] = text.split("->");
  SmallVector<Term> operandTerms = termsOfGiven(op, parseTerms(left)), resultTerms = parseTerms(right);
  Binder binder{rule};
  auto bindAll = [&](auto values, ArrayRef<Term> terms, auto &lists, auto each) {
    for (auto [i, value] : llvm::enumerate(values)) {
      const Term &term = terms[std::min<size_t>(i, terms.size() - 1)];
      lists.emplace_back();
      LayoutAttr layout = layoutOf(value.getType());
      if (!layout) {
        rule.error = "a type without #mg.layout";
        return;
      }
      binder.bind(term, layout.getNames(), lists.back());
      each(term);
    }
  };
  bindAll(op->getOperands(), operandTerms, rule.operands,
          [&](const Term &term) { rule.linear.push_back(term.linear); });
  if (rule.error.empty())
    bindAll(op->getResults(), resultTerms, rule.results,
            [&](const Term &term) { rule.reductions.push_back(term.reduction); });
  if (rule.error.empty())
    binder.bindParts();
  if (op->hasAttr(kCompleteAttr))
    llvm::fill(rule.linear, Linear::none);
  return rule;
}

namespace {

using Facts = llvm::MapVector<StringAttr, FactorFacts>;

LogicalResult checkFactors(Operation *op, const AxisRule &rule, Facts &facts) {
  auto check = [&](Value value) -> LogicalResult {
    LayoutAttr layout = layoutOf(value);
    for (auto [name, axes, size] : llvm::zip(layout.getNames(), layout.getAxes(), tensorOf(value).getShape())) {
      auto [it, isNew] = facts.try_emplace(name, FactorFacts{size, axes});
      if (!isNew && it->second.size != size)
        return op->emitOpError() << "dimension '" << name.getValue() << "' has sizes " << it->second.size << " and "
                                 << size << " (rule_c2)";
      if (!isNew && it->second.axes != axes)
        return op->emitOpError() << "dimension '" << name.getValue() << "' is split over " << it->second.axes
                                 << " and over " << axes << " (rule_c3)";
      if (rule.isWhole(name) && !axes.empty())
        return op->emitOpError() << "dimension '" << name.getValue() << "' must be whole but is split over " << axes
                                 << " (rule_c3)";
    }
    return success();
  };
  for (Value value : op->getOperands())
    if (failed(check(value)))
      return failure();
  for (Value value : op->getResults())
    if (failed(check(value)))
      return failure();
  return success();
}

// The axes of a factor, none of one that no type has: by the rule of mg.rename, the op has one name of it alone.
ArrayAttr axesIn(const Facts &facts, StringAttr name) {
  const FactorFacts known = facts.lookup(name);
  return known.axes ? known.axes : ArrayAttr::get(name.getContext(), {});
}

using AxisSet = llvm::SmallSetVector<Attribute, 4>;

// Axes that pass from operands to results by linearity; fails where the rule forbids it.
LogicalResult carriedAxes(Operation *op, const AxisRule &rule, AxisSet &carried) {
  ArrayAttr joint;
  for (auto [i, value] : llvm::enumerate(op->getOperands())) {
    ArrayAttr pending = layoutOf(value).getPending();
    if (rule.linear[i] == Linear::joint && joint && joint != pending)
      return op->emitOpError() << "operand " << i << " is pending over " << pending << ", the operands before it over "
                               << joint << "; they must be alike: reduce the pending one first (rule_c4)";
    if (rule.linear[i] == Linear::joint)
      joint = pending;
    if (pending.empty())
      continue;
    if (rule.linear[i] == Linear::none || layoutOf(value).getReduction() != Reduction::sum)
      return op->emitOpError() << "operand " << i << " is pending over " << pending
                               << " where a complete value is needed (rule_c4)";
    if (rule.linear[i] == Linear::alone && !carried.empty())
      return op->emitOpError() << "two operands are pending (rule_c4)";
    carried.insert(pending.begin(), pending.end());
  }
  return success();
}

} // namespace

// Lists of the axes that split dimensions of the op: the list of an unknown dimension would not be read.
static LogicalResult verifyCoordinates(Operation *op, const Facts &facts) {
  Attribute attribute = op->getAttr("coordinates");
  for (NamedAttribute entry : attribute ? cast<DictionaryAttr>(attribute) : DictionaryAttr::get(op->getContext()))
    if (!facts.contains(entry.getName()))
      return op->emitOpError() << "coordinates." << entry.getName().getValue() << " = " << entry.getValue()
                               << "; expected a dimension of the op and names of axes (rule_c6)";
  return success();
}

static int64_t extentOf(Operation *op, ArrayRef<Attribute> axes) {
  auto module = op->getParentOfType<ModuleOp>();
  auto mesh = module ? module->getAttrOfType<MeshAttr>(kMeshAttr) : MeshAttr();
  return mesh ? mesh.sizeOf(ArrayAttr::get(op->getContext(), axes)) : 1;
}

static ArrayAttr coordinatesOf(Operation *op, StringAttr name) {
  auto coordinates = op->getAttrOfType<DictionaryAttr>("coordinates");
  auto axes = coordinates ? coordinates.getAs<ArrayAttr>(name) : ArrayAttr();
  return axes ? axes : ArrayAttr::get(op->getContext(), {});
}

// The facts of a factor that no value of the op has, as the op counts it: sharded ops have all, split over the axes of its
// coordinates, local ones a rank's share.
static FactorFacts countedFacts(Operation *op, StringAttr name, bool isLocal) {
  auto count = op->getAttrOfType<IntegerAttr>("count");
  const int64_t all = count ? count.getInt() : 1;
  ArrayAttr axes = coordinatesOf(op, name);
  return isLocal ? FactorFacts{all / extentOf(op, axes.getValue()), ArrayAttr::get(op->getContext(), {})}
                 : FactorFacts{all, axes};
}

static int64_t productOf(ArrayRef<int64_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t(1), std::multiplies<>());
}

int64_t mgc::roomForRows(ArrayRef<int64_t> parts, int64_t placing, int64_t ranks, std::optional<int64_t> capacity) {
  int64_t size = std::min(parts.back() * ranks, placing);
  for (int64_t part : parts.drop_back())
    size *= part;
  return capacity ? std::min(size, placing * *capacity) : size;
}

int64_t mgc::roomByMean(Operation *op, int64_t room, int64_t rows, int64_t ranks) {
  auto module = op->getParentOfType<ModuleOp>();
  const double factor = module ? trainingOf(module).rowsFactor : 0;
  const double most = std::ceil(factor * (double(rows) / double(ranks)));
  return factor > 0 && most < double(room) ? int64_t(most) : room;
}

// The factor of whole sequences: mg.drop lets so many of them share the room of an expert. Tokens of a part of a sequence may
// have all of it.
static StringAttr sequencesOf(const AxisRule::Merged &merged) { return merged.parts[merged.parts.size() - 2]; }

static SmallVector<Attribute> inBoth(ArrayAttr a, ArrayAttr b) {
  SmallVector<Attribute> both;
  llvm::copy_if(a, std::back_inserter(both), [&](Attribute axis) { return llvm::is_contained(b, axis); });
  return both;
}

// Ranks along axes of what places rows have other tokens, but only those along axes that split sequences have others of these.
int64_t mgc::roomOfAllRanks(Operation *op, const AxisRule &rule, const AxisRule::Merged &merged,
                            function_ref<int64_t(StringAttr)> size, AxisRule::AxesOf axes,
                            function_ref<int64_t(ArrayRef<Attribute>)> extent, std::optional<int64_t> capacity) {
  const ArrayAttr placing = axes(merged.placing), sequences = axes(sequencesOf(merged));
  const SmallVector<int64_t> parts = llvm::map_to_vector(merged.parts, size);
  const int64_t ranks = extent(rule.axesOf(merged, axes)),
                all = roomByMean(op, roomForRows(parts, size(merged.placing), extent(placing.getValue())) / ranks,
                                 productOf(parts), ranks) *
                      ranks;
  if (!capacity)
    return all;
  const int64_t meeting = divideUp(*capacity, extent(sequences.getValue())) * extent(inBoth(placing, sequences)),
                own = size(merged.placing) / extent(placing.getValue());
  return std::min(all / ranks, own * meeting) * ranks;
}

std::optional<int64_t> mgc::capacityOf(Operation *op) {
  auto capacity = op->getAttrOfType<IntegerAttr>(kCapacityAttr);
  return capacity ? std::optional(capacity.getInt()) : std::nullopt;
}

// Rows of a rank, or of all: it has room for those of all ranks that it exchanges them with.
static int64_t sizeOfMerged(Operation *op, const AxisRule &rule, const AxisRule::Merged &merged, const Facts &facts) {
  SmallVector<int64_t> parts;
  for (StringAttr part : merged.parts)
    parts.push_back(facts.lookup(part).size);
  const auto size = [&](StringAttr name) { return facts.lookup(name).size; };
  const std::optional<int64_t> capacity = capacityOf(op);
  if (auto exchange = op->getAttrOfType<ArrayAttr>(kExchangeAttr); exchange && merged.placing) {
    const SmallVector<Attribute> others = inBoth(exchange, coordinatesOf(op, sequencesOf(merged)));
    const int64_t room = roomByMean(op, roomForRows(parts, size(merged.placing), 1) * extentOf(op, exchange.getValue()),
                                    productOf(parts));
    return capacity ? std::min(room, size(merged.placing) * *capacity * extentOf(op, others)) : room;
  }
  if (!merged.placing)
    return productOf(parts);
  const int64_t room = roomOfAllRanks(
      op, rule, merged, size, [&](StringAttr name) { return axesIn(facts, name); },
      [&](ArrayRef<Attribute> axes) { return extentOf(op, axes); }, capacity);
  const bool isLocal = axesIn(facts, merged.placing).empty();
  return isLocal ? roomByMean(op, room, productOf(parts), extentOf(op, coordinatesOf(op, merged.placing).getValue()))
                 : room;
}

// Adds what is known of factors that only place rows.
static LogicalResult verifyMerged(Operation *op, const AxisRule &rule, Facts &facts) {
  for (const AxisRule::Merged &merged : rule.merged) {
    const FactorFacts whole = facts.lookup(merged.whole);
    if (!whole.axes.empty() && op->hasAttr(kExchangeAttr))
      return op->emitOpError() << "has rows that are split, and exchanges them; local programs alone say so (rule_c6)";
    if (merged.placing && !facts.contains(merged.placing))
      facts.insert({merged.placing, countedFacts(op, merged.placing, whole.axes.empty())});
    const int64_t size = sizeOfMerged(op, rule, merged, facts);
    const SmallVector<Attribute> axes = rule.axesOf(merged, [&](StringAttr name) { return axesIn(facts, name); });
    if (whole.size != size || llvm::ArrayRef(axes) != whole.axes.getValue())
      return op->emitOpError() << "dimension '" << merged.whole.getValue() << "' has size " << whole.size << " over "
                               << whole.axes << "; expected " << size << " over "
                               << ArrayAttr::get(op->getContext(), axes) << ", as its parts have together (rule_c7)";
  }
  return success();
}

// Lists of axes in attributes: of the module's mesh, each once.
static LogicalResult verifyAxesOf(Operation *op, StringRef name, Attribute attribute) {
  auto axes = dyn_cast_or_null<ArrayAttr>(attribute);
  auto module = op->getParentOfType<ModuleOp>();
  auto mesh = module ? module->getAttrOfType<MeshAttr>(kMeshAttr) : MeshAttr();
  if (!axes || axes.empty() || !llvm::all_of(axes, llvm::IsaPred<StringAttr>))
    return op->emitOpError() << name << " = " << attribute << "; expected names of axes (rule_c6)";
  return mesh ? mesh.verifyAxes([&] { return op->emitOpError(); }, axes) : success();
}

// The axes over which a local op exchanges rows are those that share out what places them.
static LogicalResult verifyExchange(Operation *op, const AxisRule &rule) {
  Attribute exchange = op->getAttr(kExchangeAttr);
  if (!exchange)
    return success();
  if (failed(verifyAxesOf(op, kExchangeAttr, exchange)))
    return failure();
  const bool isPlaced = !rule.merged.empty() && rule.merged.front().placing;
  if (isPlaced && coordinatesOf(op, rule.merged.front().placing) == exchange)
    return success();
  return op->emitOpError() << kExchangeAttr << " = " << exchange
                           << "; expected the axes that share out what places its rows (rule_c6)";
}

static LogicalResult collectFacts(Operation *op, const AxisRule &rule, Facts &facts) {
  auto coordinates = dyn_cast_or_null<DictionaryAttr>(op->getAttr("coordinates"));
  for (NamedAttribute entry : coordinates ? coordinates : DictionaryAttr::get(op->getContext()))
    if (failed(verifyAxesOf(op, "coordinates." + entry.getName().str(), entry.getValue())))
      return failure();
  return failure(failed(verifyExchange(op, rule)) || failed(checkFactors(op, rule, facts)) ||
                 failed(verifyMerged(op, rule, facts)));
}

FactorFacts mgc::factsOf(Operation *op, StringAttr factor) {
  Facts facts;
  (void)collectFacts(op, cast<ComputeOpInterface>(op).getAxisRule(), facts);
  return facts.lookup(factor);
}

SmallVector<StringAttr> mgc::placingFactor(Operation *op) {
  return {cast<ComputeOpInterface>(op).getAxisRule().merged.front().placing};
}

SmallVector<StringAttr> mgc::rowFactors(Operation *op) {
  const AxisRule::Merged merged = cast<ComputeOpInterface>(op).getAxisRule().merged.front();
  if (op->hasAttr(kCapacityAttr))
    return {merged.placing, sequencesOf(merged)};
  return {merged.placing};
}

std::optional<int64_t> mgc::capacityOfRank(Operation *op) {
  const std::optional<int64_t> capacity = capacityOf(op);
  if (!capacity || !isa<ComputeOpInterface>(op))
    return std::nullopt;
  const AxisRule rule = cast<ComputeOpInterface>(op).getAxisRule();
  if (rule.merged.empty())
    return std::nullopt;
  Facts facts;
  (void)collectFacts(op, rule, facts);
  return divideUp(*capacity, extentOf(op, axesIn(facts, sequencesOf(rule.merged.front())).getValue()));
}

ArrayAttr mgc::exchangedAxes(Operation *op) {
  if (auto axes = op->getAttrOfType<ArrayAttr>(kExchangeAttr))
    return axes;
  Facts facts;
  const AxisRule rule = cast<ComputeOpInterface>(op).getAxisRule();
  (void)collectFacts(op, rule, facts);
  return ArrayAttr::get(op->getContext(), rule.exchanged([&](StringAttr name) { return axesIn(facts, name); }));
}

LogicalResult mgc::verifyComputeOp(Operation *op) {
  AxisRule rule = cast<ComputeOpInterface>(op).getAxisRule();
  if (!rule.error.empty())
    return op->emitOpError() << rule.error << " (rule_c1)";
  Facts facts;
  AxisSet carried;
  if (failed(collectFacts(op, rule, facts)) || failed(carriedAxes(op, rule, carried)) ||
      failed(verifyCoordinates(op, facts)))
    return failure();
  for (auto [i, result] : llvm::enumerate(op->getResults())) {
    LayoutAttr layout = layoutOf(result);
    AxisSet expected = carried;
    for (Attribute axis : rule.reducedAxes(layout.getNames(), [&](StringAttr name) { return axesIn(facts, name); }))
      expected.insert(axis);
    AxisSet found(layout.getPending().begin(), layout.getPending().end());
    bool equal =
        expected.size() == found.size() && llvm::all_of(expected, [&](Attribute a) { return found.contains(a); });
    if (!equal)
      return op->emitOpError() << "result " << i << " is pending over " << layout.getPending()
                               << "; its operands make it " << ArrayAttr::get(op->getContext(), expected.getArrayRef())
                               << " (rule_c5)";
    if (!found.empty() && layout.getReduction() != rule.reductions[i])
      return op->emitOpError() << "result " << i << " has the wrong kind of pending reduction (rule_c5)";
  }
  return success();
}

double mgc::elementwiseFlops(Operation *op) {
  double most = 0;
  for (Type type : llvm::concat<Type>(llvm::to_vector(op->getOperandTypes()), llvm::to_vector(op->getResultTypes())))
    most = std::max(most, double(cast<RankedTensorType>(type).getNumElements()));
  return most;
}
