// The shapes of a search: ShapeBlocks that many layouts have in common, compiled where they are asked for, and facts of all of them. A
// few shapes are compiled for each pattern of axes; facts of the others follow from their sizes (SizeLaw.h). Where a shape is compiled
// too, its facts are compared with those by the law. Shapes that differ in the microbatch alone are a family.
#pragma once

#include "planner/search/SizeLaw.h"

#include <list>
#include <set>

namespace mgc::planner {

// The way from the number of a shape to its blocks.
struct ShapeSource {
  const frontend::ModelDescription &model;
  const MakeModule &make;
  PricedMachine machine;
  std::function<Result<frontend::Layout>(const frontend::LayoutOptions &)> resolve;
  std::function<frontend::LayoutOptions(int64_t shape)> optionsOf; // a layout of the shape has these
};

// The shape of a layout whose dp is known.
ShapeSizes sizesOf(const frontend::LayoutOptions &options, bool splitsBackward);

class Shapes {
public:
  // Patterns of `withoutLaw` have none.
  Shapes(ShapeSource source, std::set<std::string> withoutLaw)
      : source_(std::move(source)), withoutLaw_(std::move(withoutLaw)) {}

  int64_t numberOf(const ShapeSizes &sizes); // a new one, or that of an equal one. None is new once facts are asked for
  const std::vector<int64_t> &family(int64_t number) const { return families_[size_t(number)].shapes; }
  int64_t families() const { return std::ssize(families_); }
  int64_t count() const { return std::ssize(shapes_); }
  int64_t compiled() const { return compiled_; }
  const ShapeSizes &sizesOf(int64_t shape) const { return shapes_[size_t(shape)].sizes; }

  // Facts by the law for a microbatch so large that none of the family takes less time for a sample, and that microbatch; nothing:
  // there is no law.
  std::optional<std::pair<ShapeFacts, int64_t>> factsOfFamily(int64_t family);
  // By its law, with policies once these have one; or of its blocks: isCompiled. Error: that of blocks.
  Result<const ShapeFacts *> facts(int64_t shape);
  bool isCompiled(int64_t shape) const { return shapes_[size_t(shape)].isCompiled; }
  // `options`: of a layout of the shape. Error: that of ShapeBlocks::compile.
  Result<const ShapeBlocks *> blocks(int64_t shape, const frontend::LayoutOptions &options);
  // As many chunks as layers at most.
  const std::vector<int64_t> &cutOf(int64_t shape, int64_t chunks);
  std::vector<std::string> patterns() const;
  // A pattern whose law some shape contradicts; empty: none.
  const std::string &contradicted() const { return contradicted_; }

private:
  struct Shape {
    ShapeSizes sizes;
    int64_t family = 0;
    std::unique_ptr<ShapeFacts> facts;
    bool isCompiled = false;
    std::string refusal; // empty: there may be layouts of it
  };
  struct Family {
    std::vector<int64_t> shapes;
    std::string pattern; // empty: its layout is refused
    plan::Mesh mesh;     // one of its layouts has it
  };
  struct Kept {
    int64_t shape = 0;
    std::unique_ptr<mlir::MLIRContext> context;
    std::unique_ptr<ShapeBlocks> blocks;
  };

  void findPatterns();
  // One for each of frontend::fastestChoices; empty: there is none.
  using Laws = std::vector<std::unique_ptr<SizeLaw>>;
  Laws &lawsOf(int64_t family);
  void learnPolicies(const Shape &shape, const ShapeBlocks &blocks);
  void addPolicies(Shape &shape);
  ShapeFacts factsBy(Laws &laws, const ShapeSizes &sizes, const plan::Mesh &mesh) const;
  Laws makeLaws(const std::string &pattern);
  std::unique_ptr<SizeLaw> makeLaw(int64_t base, const std::vector<int64_t> &others, size_t policy);
  std::optional<std::vector<int64_t>> othersOf(int64_t base, const std::vector<int64_t> &members) const;

  const ShapeSource source_;
  const std::set<std::string> withoutLaw_;
  std::map<ShapeSizes, int64_t> numbers_, familyNumbers_;
  std::vector<Family> families_;
  std::vector<Shape> shapes_;
  std::map<std::string, std::vector<int64_t>> patterns_; // their shapes, the least first
  std::map<std::string, Laws> laws_;
  // Shapes are compiled with all policies where their layouts are estimated: when there are enough of a pattern, its others have these by
  // a law.
  struct PolicyLaw {
    std::vector<ShapeOutline> outlines; // until there is a law
    std::unique_ptr<SizeLaw> law;
  };
  std::map<std::string, PolicyLaw> policyLaws_;
  bool hasPatterns_ = false;
  std::list<Kept> kept_; // the last that were asked for
  int64_t compiled_ = 0;
  std::string contradicted_;
};

} // namespace mgc::planner
