// mg-merge: one matrix product where several multiply the same value.
//
// before:  %q = mg.einsum %x, %wq   %k = mg.einsum %x, %wk   %v = mg.einsum %x, %wv
// after:   %qkv = mg.einsum %x, %w  %q, %k, %v = mg.parts %qkv along "j"
//
// Where each has a bias, these are one too, added to the whole: parts have short rows, wholes have long ones.
//
// Logical blocks in, logical blocks out. The joined parameter's dimension j stands before the longest end of dimensions
// that all have, so that each part's rows are as long as can be; what stands before j must be the same too.
#include "compiler/program/Passes.h"
#include "compiler/shard/Placement.h"
#include "dialects/mg/Parameter.h"
#include "dialects/mg/RowSpace.h"

using namespace mlir;

namespace mgc {
#define GEN_PASS_DEF_MERGE
#include "compiler/program/Passes.h.inc"
} // namespace mgc

using namespace mgc;

namespace {

using Dims = RowSpace::Dims;

// A matrix product of a value and a parameter, in the parts that its dimensions have.
struct MergedProduct {
  Operation *einsum;
  Dims kept;          // dimensions of the parameter that the result has
  Dims summed;        // dimensions of the parameter that are summed over
  bool summedFirst;   // the order in the parameter
  Operation *biasAdd; // the only op that reads the result, or null
  EinsumOp op() const { return cast<EinsumOp>(einsum); }
  BlockArgument parameter() const { return cast<BlockArgument>(op().getRhs()); }
  BlockArgument bias() const { return cast<BlockArgument>(cast<AddOp>(biasAdd).getRhs()); }
};

// Matrix products to be merged, and what their kept dimensions share: begin, at most one dimension of each's own, end.
struct Set {
  SmallVector<MergedProduct, 3> products;
  int64_t begin = 0, end = 0;

  std::optional<RowSpace::NamedDim> own(const MergedProduct &product) const {
    if (int64_t(product.kept.size()) == begin + end)
      return std::nullopt;
    return product.kept[begin];
  }
};

// How many dimensions all have at the end, then at the begin of what is left.
void findShared(Set &set) {
  auto agree = [&](auto dimOf) {
    for (int64_t n = 0;; ++n) {
      const RowSpace::NamedDim *first = nullptr;
      for (const MergedProduct &product : set.products) {
        const RowSpace::NamedDim *dim = dimOf(product.kept, n);
        if (!dim || (first && !(*dim == *first)))
          return n;
        first = dim;
      }
    }
  };
  set.end = agree(
      [](const Dims &dims, int64_t n) { return n < int64_t(dims.size()) ? &dims[dims.size() - 1 - n] : nullptr; });
  set.begin =
      agree([&](const Dims &dims, int64_t n) { return n + set.end < int64_t(dims.size()) ? &dims[n] : nullptr; });
}

// How often the instances of the chain use each parameter.
class ParameterUses {
public:
  explicit ParameterUses(ModuleOp module) {
    module.walk([&](InstanceOp instance) {
      for (int64_t i = 0; i < int64_t(instance.getCount()); ++i)
        instances_[instance.getBlockAttr().getAttr()].push_back(int64_t(instance.getFirst()) + i);
    });
    for (auto block : module.getOps<func::FuncOp>())
      if (block->hasAttr(kBlockAttr))
        count(block);
  }

  // Used by each instance of the block once, by each another one, and by no other block.
  bool isUsedOnce(func::FuncOp block, DictionaryAttr view) const {
    return llvm::all_of(instancesOf(block),
                        [&](int64_t number) { return uses_.at(nameForInstance(nameOf(view), number)) == 1; });
  }

private:
  ArrayRef<int64_t> instancesOf(func::FuncOp block) const {
    static constexpr int64_t kOutsideChain[] = {0};
    auto known = instances_.find(block.getNameAttr());
    return known == instances_.end() ? ArrayRef(kOutsideChain) : ArrayRef(known->second);
  }

  void count(func::FuncOp block) {
    for (unsigned i = 0; i < block.getNumArguments(); ++i)
      if (auto param = block.getArgAttrOfType<DictionaryAttr>(i, kParamAttr))
        for (DictionaryAttr view : viewsOf(param))
          for (int64_t number : instancesOf(block))
            ++uses_[nameForInstance(nameOf(view), number)];
  }

  llvm::DenseMap<StringAttr, SmallVector<int64_t>> instances_; // by block
  llvm::StringMap<int> uses_;
};

class BlockMerger {
public:
  BlockMerger(func::FuncOp block, const Placement &placement, const ParameterUses &uses)
      : block_(block), placement_(placement), uses_(uses), builder_(block.getContext()) {
    along_ = freshName();
  }

  void run() {
    Block &body = block_.getBody().front();
    SmallVector<Value> values(body.getArguments());
    for (Operation &op : body)
      llvm::append_range(values, op.getResults());
    std::vector<Set> sets;
    for (Value value : values)
      llvm::append_range(sets, setsOf(value));
    for (const Set &set : sets)
      if (set.products.size() > 1)
        merge(set);
  }

private:
  // j, unless the block or the placement uses it.
  StringAttr freshName() {
    llvm::DenseSet<StringAttr> used;
    auto use = [&](Value value) {
      if (LayoutAttr layout = layoutOf(value))
        used.insert(layout.getNames().begin(), layout.getNames().end());
    };
    llvm::for_each(block_.getArguments(), use);
    block_.walk([&](Operation *op) { llvm::for_each(op->getResults(), use); });
    for (int64_t number = 0;; ++number) {
      StringAttr name = builder_.getStringAttr(number == 0 ? "j" : "j" + std::to_string(number));
      if (!used.contains(name) && !placement_.has(name))
        return name;
    }
  }

  // Each matrix product joins the first set that it fits.
  std::vector<Set> setsOf(Value value) {
    std::vector<Set> sets;
    auto users = llvm::to_vector(value.getUsers());
    llvm::sort(users, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    for (Operation *user : users) {
      auto product = productOf(value, user);
      if (!product)
        continue;
      bool isTaken = llvm::any_of(sets, [&](Set &set) { return tryToAdd(set, *product); });
      if (!isTaken)
        sets.push_back({{*product}});
    }
    return sets;
  }

  std::optional<MergedProduct> productOf(Value value, Operation *user) {
    auto op = dyn_cast<EinsumOp>(user);
    auto parameter = op && op.getLhs() == value ? dyn_cast<BlockArgument>(op.getRhs()) : BlockArgument();
    if (!parameter || !parameter.hasOneUse() || !isAlone(parameter))
      return std::nullopt;
    MergedProduct product{op, {}, {}, false, nullptr};
    for (const RowSpace::NamedDim &dim : rowDims(parameter))
      (layoutOf(op.getResult()).indexOf(dim.name) >= 0 ? product.kept : product.summed).push_back(dim);
    if (product.kept.empty())
      return std::nullopt;
    product.summedFirst = layoutOf(op.getResult()).indexOf(rowDims(parameter).front().name) < 0;
    product.biasAdd = biasAddOf(product);
    bool endsResult = layoutOf(op.getResult()).getNames().back() == product.kept.back().name;
    return endsResult ? std::optional(product) : std::nullopt;
  }

  Operation *biasAddOf(const MergedProduct &product) {
    Value result = product.op().getResult();
    auto add = result.hasOneUse() ? dyn_cast<AddOp>(*result.user_begin()) : AddOp();
    auto bias = add && add.getLhs() == result ? dyn_cast<BlockArgument>(add.getRhs()) : BlockArgument();
    bool fits = bias && bias.hasOneUse() && isAlone(bias) && rowDims(bias) == product.kept;
    return fits ? add.getOperation() : nullptr;
  }

  // One parameter of the checkpoint, used here only.
  bool isAlone(BlockArgument argument) {
    auto param = block_.getArgAttrOfType<DictionaryAttr>(argument.getArgNumber(), kParamAttr);
    return param && !alongOf(param) && uses_.isUsedOnce(block_, param);
  }

  bool tryToAdd(Set &set, const MergedProduct &product) {
    const MergedProduct &first = set.products.front();
    if (product.summed != first.summed || product.summedFirst != first.summedFirst ||
        !areTreatedAlike(product.parameter(), first.parameter()))
      return false;
    Set larger = set;
    larger.products.push_back(product);
    findShared(larger);
    llvm::SmallDenseMap<StringAttr, int64_t> owned;
    for (const MergedProduct &each : larger.products) {
      if (int64_t(each.kept.size()) > larger.begin + larger.end + 1 || isSplit(each, larger))
        return false;
      if (auto own = larger.own(each); own && owned.try_emplace(own->name, own->size).first->second != own->size)
        return false;
    }
    set = std::move(larger);
    return true;
  }

  DictionaryAttr paramOf(BlockArgument parameter) {
    return block_.getArgAttrOfType<DictionaryAttr>(parameter.getArgNumber(), kParamAttr);
  }

  // One matrix is trained, and decays, as one.
  bool areTreatedAlike(BlockArgument a, BlockArgument b) {
    return decays(paramOf(a)) == decays(paramOf(b)) && isFrozen(paramOf(a)) == isFrozen(paramOf(b)) &&
           isEvaluated(paramOf(a)) == isEvaluated(paramOf(b));
  }

  // Whether an axis splits the dimension that would be positions of j.
  bool isSplit(const MergedProduct &product, const Set &set) {
    auto own = set.own(product);
    LayoutAttr names = layoutOf(product.op().getRhs());
    return own && !placement_.home(names, Placement::ValueKind::parameter).axesOf(own->name).empty();
  }

  // The tensor type of these dimensions, with the element type of `like`.
  static Type typeOf(const Dims &dims, Value like) {
    SmallVector<int64_t> shape;
    SmallVector<StringAttr> names;
    for (const RowSpace::NamedDim &dim : dims) {
      shape.push_back(dim.size);
      names.push_back(dim.name);
    }
    return RankedTensorType::get(shape, elementOf(like), LayoutAttr::get(like.getContext(), names));
  }

  // Whether all have a bias, of which one says what holds for all.
  bool haveBiases(const Set &set) {
    const MergedProduct &first = set.products.front();
    return llvm::all_of(set.products, [&](const MergedProduct &product) {
      return product.biasAdd && first.biasAdd && areTreatedAlike(product.bias(), first.bias());
    });
  }

  void merge(const Set &set) {
    const MergedProduct &first = set.products.front();
    bool areBiased = haveBiases(set);
    Dims kept(ArrayRef(first.kept).take_front(set.begin));
    kept.push_back({along_, positionsOf(set)});
    kept.append(first.kept.end() - set.end, first.kept.end());
    Dims dims = first.summedFirst ? first.summed : kept;
    dims.append(first.summedFirst ? kept : first.summed);
    Dims result = rowDims(first.op().getResult());
    result.truncate(result.size() - first.kept.size());
    result.append(kept);
    Location loc = first.op().getLoc();
    builder_.setInsertionPoint(first.op());
    auto product = EinsumOp::create(builder_, loc, typeOf(result, first.op().getResult()), first.op().getLhs(),
                                    joinParameters(set, &MergedProduct::parameter, dims));
    Value whole = product;
    if (areBiased)
      whole = AddOp::create(builder_, loc, whole.getType(), whole, joinParameters(set, &MergedProduct::bias, kept));
    const ArrayAttr modules = modulesOf(set); // replaceByParts erases their products
    Operation *parts = replaceByParts(set, whole, areBiased);
    if (modules)
      for (Operation *made : {product.getOperation(), whole.getDefiningOp(), parts})
        made->setAttr(kModulesAttr, modules);
  }

  // The modules of what is merged, each once; null: none.
  ArrayAttr modulesOf(const Set &set) {
    llvm::SetVector<Attribute> modules;
    for (const MergedProduct &product : set.products)
      if (auto own = product.op()->getAttrOfType<ArrayAttr>(kModulesAttr))
        modules.insert(own.begin(), own.end());
    return modules.empty() ? ArrayAttr() : builder_.getArrayAttr(modules.getArrayRef());
  }

  PartsOp replaceByParts(const Set &set, Value whole, bool areBiased) {
    SmallVector<Type> types;
    for (const MergedProduct &product : set.products)
      types.push_back(product.op().getType());
    auto parts = PartsOp::create(builder_, whole.getLoc(), types, whole, along_);
    for (auto [product, part] : llvm::zip(set.products, parts.getParts())) {
      SmallVector<BlockArgument, 2> unused = {product.parameter()};
      if (areBiased) {
        unused.push_back(product.bias());
        product.biasAdd->getResult(0).replaceAllUsesWith(part);
        product.biasAdd->erase();
      } else {
        product.op().getResult().replaceAllUsesWith(part);
      }
      product.op().erase();
      for (BlockArgument argument : unused)
        (void)block_.eraseArgument(argument.getArgNumber());
    }
    return parts;
  }

  int64_t positionsOf(const Set &set) {
    int64_t positions = 0;
    for (const MergedProduct &product : set.products)
      positions += countOf(set, product);
    return positions;
  }
  static int64_t countOf(const Set &set, const MergedProduct &product) {
    auto own = set.own(product);
    return own ? own->size : 1;
  }

  // A new argument behind the first of those that it joins.
  Value joinParameters(const Set &set, BlockArgument (MergedProduct::*argumentOf)() const, const Dims &dims) {
    SmallVector<Attribute> parts;
    for (const MergedProduct &product : set.products) {
      NamedAttrList part(paramOf((product.*argumentOf)()));
      if (auto own = set.own(product)) {
        part.set("own", own->name);
        part.set("count", builder_.getI64IntegerAttr(own->size));
      }
      parts.push_back(part.getDictionary(builder_.getContext()));
    }
    auto param = builder_.getDictionaryAttr(
        {builder_.getNamedAttr("along", along_), builder_.getNamedAttr("parts", builder_.getArrayAttr(parts))});
    BlockArgument first = (set.products.front().*argumentOf)();
    unsigned place = first.getArgNumber() + 1;
    (void)block_.insertArgument(place, typeOf(dims, first),
                                builder_.getDictionaryAttr(builder_.getNamedAttr(kParamAttr, param)), first.getLoc());
    return block_.getArgument(place);
  }

  func::FuncOp block_;
  const Placement &placement_;
  const ParameterUses &uses_;
  OpBuilder builder_;
  StringAttr along_; // name of the new dimension
};

struct MergePass : mgc::impl::MergeBase<MergePass> {
  void runOnForm() override {
    ModuleOp module = getOperation();
    module->setAttr(kPhaseAttr, StringAttr::get(&getContext(), "merge"));
    if (module->hasAttr(kNoFusionAttr))
      return;
    auto placement = Placement::of(module);
    if (failed(placement))
      return signalPassFailure();
    auto blocks = llvm::to_vector(llvm::make_filter_range(
        module.getOps<func::FuncOp>(), [](func::FuncOp function) { return function->hasAttr(kBlockAttr); }));
    ParameterUses uses(module); // before blocks change
    for (func::FuncOp block : blocks)
      BlockMerger(block, *placement, uses).run();
  }
};

} // namespace

std::unique_ptr<Pass> mgc::createMergePass() { return std::make_unique<MergePass>(); }
