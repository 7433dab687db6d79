// See KernelCost.h.
#include "compiler/fuse/KernelCost.h"
#include "compiler/program/Blocks.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace mgc;

namespace {

class KernelShape {
public:
  explicit KernelShape(ArrayRef<Operation *> ops) : ops_(ops), inside_(ops.begin(), ops.end()) {}

  bool isPossible() const {
    if (ops_.size() > kMostOps)
      return false;
    std::optional<RowSpace> space;
    size_t rowSums = 0;
    for (Operation *op : ops_) {
      RowSpace own = cast<RowOpInterface>(op).getRowSpace();
      space = space ? mergeSpaces(*space, own) : std::optional(own);
      if (!space || readsWhatIsNotDone(op))
        return false;
      rowSums += own.kind == RowSpace::Kind::columns;
    }
    return rowSums <= kMostRowSums;
  }

  std::optional<double> cost() const {
    llvm::SmallMapVector<Value, double, 16> moved;
    double bytes = kStartBytes;
    for (Operation *op : ops_) {
      for (Value operand : op->getOperands())
        if (!isMade(operand))
          moved[operand] = std::max(moved[operand], bytesRead(op, operand));
      for (Value result : op->getResults())
        if (!result.use_empty() && llvm::any_of(result.getUsers(), [&](Operation *user) { return !isIn(user); }))
          moved[result] = bytesOf(result.getType());
      bytes += kCostlyBytes * double(tensorOf(op->getResult(0)).getNumElements()) * timesAgain(op);
    }
    for (auto &[value, once] : moved)
      bytes += once;
    return ops_.size() > 1 && moved.size() > kMostValues ? std::nullopt : std::optional(bytes);
  }

private:
  bool isIn(Operation *op) const { return inside_.contains(op); }
  bool isMade(Value value) const { return value.getDefiningOp() && isIn(value.getDefiningOp()); }

  // Bytes that the op reads of the operand; of a lookup table, only the elements looked up.
  static double bytesRead(Operation *op, Value operand) {
    bool isTable = cast<RowOpInterface>(op).getLookupTable() == operand;
    return double(bytesOf(isTable ? op->getResult(0).getType() : operand.getType()));
  }

  bool readsWhatIsNotDone(Operation *op) const {
    return llvm::any_of(op->getOperands(),
                        [&](Value operand) { return isMade(operand) && isDoneAfterKernel(op, operand); });
  }

  // How many passes over the columns need the op's result, besides the one that makes it.
  int timesAgain(Operation *op) const {
    if (!op->hasTrait<Costly>())
      return 0;
    llvm::SmallPtrSet<Operation *, 8> later;
    int passes = 0;
    for (Operation *other : ops_) { // in order: what it reads was visited before
      bool needs = llvm::any_of(other->getOperands(), [&](Value operand) {
        Operation *maker = operand.getDefiningOp();
        return maker && (maker == op || later.contains(maker));
      });
      if (needs) {
        later.insert(other);
        passes += reduces(other);
      }
    }
    return passes;
  }

  // Needs all columns of a row before it has a result. A row that is looked up is only copied.
  static bool reduces(Operation *op) {
    auto row = cast<RowOpInterface>(op);
    RowSpace space = row.getRowSpace();
    return space.kind == RowSpace::Kind::rows && !space.columns.empty() && !row.getLookupTable();
  }

  ArrayRef<Operation *> ops_;
  llvm::SmallDenseSet<Operation *, 16> inside_;
};

} // namespace

std::optional<double> mgc::kernelCost(ArrayRef<Operation *> ops) {
  KernelShape kernel(ops);
  return kernel.isPossible() ? kernel.cost() : std::nullopt;
}
