// See ShapeOutline.h.
#include "planner/search/ShapeOutline.h"

#include "plan/Reflection.h"
#include "plan/cost/RunWalk.h"

#include <algorithm>
#include <numeric>

namespace mgc::planner {

namespace {

// Other policies, at the most: a forward that keeps less takes so much less time; frames are so many times smaller.
constexpr double kMostStored = 0.1;
constexpr int64_t kSmallerFrame = 2;

bool isOneOf(const std::string &name, const plan::Axes &axes) { return std::ranges::find(axes, name) != axes.end(); }

plan::Axes dataAxesOutside(const plan::Mesh &mesh, const plan::Axes &inside) {
  plan::Axes axes;
  for (const plan::Axis &axis : mesh.axes)
    if (plan::seesOtherTokens(axis.role) && !isOneOf(axis.name, inside))
      axes.push_back(axis.name);
  return axes;
}

// Numbers of an instruction, for plan/Reflection.h.
template <typename T> struct NumbersOf {
  T &object;
  std::vector<ShapeOutline::Number> &all;
  void required(std::string_view, auto member) { add(object.*member); }
  void optional(std::string_view, auto member) { add(object.*member); }
  void add(int64_t &number) { all.emplace_back(&number); }
  void add(double &number) { all.emplace_back(&number); }
  void add(std::vector<plan::RowKernel::Operand> &operands) {
    for (plan::RowKernel::Operand &operand : operands) {
      NumbersOf<plan::RowKernel::Operand> own{operand, all};
      fields(own, plan::Of<plan::RowKernel::Operand>());
    }
  }
  void add(auto &) {} // no size
};

int64_t sumOf(const std::vector<int64_t> &sizes) { return std::reduce(sizes.begin(), sizes.end()); }

bool haveSameLifetimes(const std::vector<memory::LiveBuffer> &a, const std::vector<memory::LiveBuffer> &b) {
  return std::ranges::equal(a, b, [](const memory::LiveBuffer &one, const memory::LiveBuffer &other) {
    return one.begin == other.begin && one.end == other.end;
  });
}

bool haveSameCode(const plan::Program &a, const plan::Program &b) {
  const auto isSame = [](const plan::Repeat &one, const plan::Repeat &other) {
    return one.begin == other.begin && one.end == other.end;
  };
  return std::ranges::equal(a.repeats, b.repeats, isSame) &&
         std::ranges::equal(a.instructions, b.instructions, [](const auto &one, const auto &other) {
           const auto segmentsOf = [](const plan::Operand &operand) { return operand.segment; };
           return one.body.index() == other.body.index() &&
                  std::ranges::equal(one.operands, other.operands, {}, segmentsOf, segmentsOf);
         });
}

} // namespace

plan::Axes axesInside(const plan::Mesh &mesh, int64_t ranks) {
  plan::Axes inside;
  int64_t count = 1;
  for (auto axis = mesh.axes.rbegin(); axis != mesh.axes.rend() && count < ranks; ++axis) {
    count *= axis->size;
    inside.insert(inside.begin(), axis->name);
  }
  return inside;
}

ShapeOutline::ShapeOutline(const ShapeBlocks &shape, const ShapeSizes &sizes, const PricedMachine &machine)
    : sizes_(sizes), mesh_(meshOf(shape.module())), target_(shape.target()) {
  const std::vector<const ModelBlock *> blocks = blocksOfChain(shape);
  const std::vector<std::vector<CountedParameter>> parameters = countedParametersOf(shape, blocks);
  const cost::Cluster cluster = machine.cluster(mesh_, target_);
  for (size_t b = 0; b < blocks.size(); ++b)
    add(shape, cluster, *blocks[b], parameters[b]);
  const ShapeFacts facts = planner::factsOf(shape);
  chain_ = facts.chain, cost_ = facts.cost;
}

void ShapeOutline::add(const ShapeBlocks &shape, const cost::Cluster &cluster, const ModelBlock &block,
                       const std::vector<CountedParameter> &parameters) {
  Block &own = blocks_.emplace_back();
  own.flops = shape.works().at(block.name).flops;
  for (const int64_t argument : block.activations)
    own.entering.push_back(bytesOf(block.forward.argumentType(argument)));
  const std::vector<const ModelBlock *> variants = shape.blocks().variantsOf(block);
  for (size_t v = 0; v < (block.returnsLoss() ? 1 : variants.size()); ++v) {
    Variant &variant = own.variants.emplace_back();
    variant.kept = keptSizesOf(shape, *variants[v]);
    addPrograms(shape, cluster, *variants[v], variant);
  }
  const plan::Axes inside = axesInside(mesh_, sizes_.ranksInside());
  for (const CountedParameter &counted : parameters) {
    Parameter &parameter = own.parameters.emplace_back(Parameter{counted, false});
    parameter.isOfAllReplicas =
        std::erase_if(parameter.counted.axes, [&](const std::string &axis) { return !isOneOf(axis, inside); }) > 0;
  }
}

void ShapeOutline::addPrograms(const ShapeBlocks &shape, const cost::Cluster &cluster, const ModelBlock &variant,
                               Variant &own) {
  for (size_t task = 0; task < plan::kBlockTasks.size(); ++task) {
    own.programs[task] = -1;
    const BlockFunction *function = variant.functionOf(plan::kBlockTasks[task]);
    if (const plan::Program *program = function ? shape.programOf(*function) : nullptr) {
      own.programs[task] = std::ssize(programs_);
      if (!variant.returnsLoss()) // its tiles are as large as all rows, or as asked for
        own.frames.push_back(shape.frameOf(*function).buffers);
      programs_.push_back(std::make_unique<plan::Program>(*program));
      compiled_.push_back(std::make_unique<plan::Program>(*program));
      works_.push_back(cost::worksOn(cluster, *compiled_.back()));
    }
  }
}

// Products and collectives that a program has more often have their bytes where the iterations that were compiled have them.
cost::ProgramTime ShapeOutline::timeOf(const cost::Cluster &cluster, size_t number) const {
  const plan::Program &program = *programs_[number];
  if (program.repeats == compiled_[number]->repeats)
    return cost::secondsOf(cluster, program, works_[number]);
  plan::Program repeated = *compiled_[number];
  repeated.repeats = program.repeats;
  return cost::secondsOf(cluster, program, cost::worksOn(cluster, repeated));
}

bool ShapeOutline::isLike(const ShapeOutline &other) const {
  const auto areVariantsAlike = [](const Variant &a, const Variant &b) {
    return a.programs == b.programs && a.kept.size() == b.kept.size() &&
           std::ranges::equal(a.frames, b.frames, haveSameLifetimes);
  };
  const auto areAlike = [&](const Block &a, const Block &b) {
    return a.entering.size() == b.entering.size() && std::ranges::equal(a.variants, b.variants, areVariantsAlike) &&
           std::ranges::equal(a.parameters, b.parameters, [](const Parameter &one, const Parameter &two) {
             return one.counted.axes == two.counted.axes && one.isOfAllReplicas == two.isOfAllReplicas &&
                    one.counted.reads == two.counted.reads;
           });
  };
  return chain_ == other.chain_ && cost_.begin == other.cost_.begin && cost_.end == other.cost_.end &&
         cost_.instances == other.cost_.instances && target_ == other.target_ &&
         std::ranges::equal(blocks_, other.blocks_, areAlike) &&
         std::ranges::equal(programs_, other.programs_,
                            [](const auto &one, const auto &two) { return haveSameCode(*one, *two); });
}

std::vector<ShapeOutline::Number> ShapeOutline::numbers() {
  std::vector<Number> all;
  for (const std::unique_ptr<plan::Program> &program : programs_) {
    for (plan::Repeat &repeat : program->repeats)
      all.emplace_back(&repeat.count);
    for (plan::Instruction &instruction : program->instructions)
      std::visit(
          [&]<typename Body>(Body &body) {
            NumbersOf<Body> own{body, all};
            fields(own, plan::Of<Body>());
          },
          instruction.body);
  }
  for (Block &block : blocks_) {
    all.emplace_back(&block.flops);
    for (int64_t &size : block.entering)
      all.emplace_back(&size);
    for (Variant &variant : block.variants) {
      for (int64_t &size : variant.kept)
        all.emplace_back(&size);
      for (std::vector<memory::LiveBuffer> &frame : variant.frames)
        for (memory::LiveBuffer &buffer : frame)
          all.emplace_back(&buffer.size);
    }
    for (Parameter &parameter : block.parameters)
      all.emplace_back(&parameter.counted.elements);
  }
  return all;
}

int64_t ShapeOutline::Variant::leastFrame() const {
  int64_t most = 0;
  for (const std::vector<memory::LiveBuffer> &frame : frames)
    most = std::max(most, memory::lowerBound(frame));
  return most;
}

ChainCost ShapeOutline::cost() const {
  ChainCost cost = cost_;
  std::vector<double> flops;
  for (const size_t block : chain_)
    flops.push_back(blocks_[block].flops);
  cost.costs = costsOf(cost, flops);
  return cost;
}

std::vector<cost::ProgramTime> ShapeOutline::times(const cost::Cluster &cluster) const {
  std::vector<cost::ProgramTime> times;
  for (size_t p = 0; p < programs_.size(); ++p)
    times.push_back(timeOf(cluster, p));
  return times;
}

VariantFacts ShapeOutline::factsOf(const Variant &variant, const std::vector<cost::ProgramTime> &times) {
  VariantFacts facts{{}, sumOf(variant.kept), variant.leastFrame()};
  for (size_t task = 0; task < facts.times.size(); ++task)
    facts.times[task] = variant.programs[task] < 0 ? nullptr : &times[size_t(variant.programs[task])];
  return facts;
}

bool ShapeOutline::hasPolicies() const {
  return std::ranges::any_of(blocks_, [](const Block &block) { return block.variants.size() > 1; });
}

std::vector<std::vector<PolicyFacts>> ShapeOutline::policies(const PricedMachine &machine,
                                                             const plan::Mesh &mesh) const {
  const std::vector<cost::ProgramTime> times = this->times(machine.cluster(mesh, target_));
  std::vector<std::vector<PolicyFacts>> all;
  for (const Block &block : blocks_) {
    std::vector<VariantFacts> variants;
    if (block.variants.size() > 1)
      for (const Variant &variant : block.variants)
        variants.push_back(factsOf(variant, times));
    all.push_back(policiesOf(variants));
  }
  return all;
}

// A policy keeps what enters its block, at the least, from which it makes everything else again.
ShapeFacts ShapeOutline::facts(const PricedMachine &machine, const ShapeSizes &sizes, const plan::Mesh &mesh,
                               bool hasOthers) const {
  const std::vector<cost::ProgramTime> times = this->times(machine.cluster(mesh, target_));
  ShapeFacts facts;
  const plan::Axes outside = dataAxesOutside(mesh, axesInside(mesh, sizes.ranksInside()));
  for (const Block &block : blocks_) {
    const VariantFacts only = factsOf(block.variants.front(), times);
    BlockLeast &least = facts.blocks.emplace_back(leastOf(std::span(&only, 1)));
    if (hasOthers) {
      least.forward *= 1 - kMostStored, least.frame /= kSmallerFrame;
      least.kept = std::min(least.kept, sumOf(block.entering));
    }
    for (const Parameter &parameter : block.parameters) {
      plan::Axes axes = parameter.counted.axes;
      if (parameter.isOfAllReplicas)
        axes.insert(axes.begin(), outside.begin(), outside.end());
      least.elements[axes] += double(parameter.counted.elements);
      least.reads[axes] += double(parameter.counted.reads * parameter.counted.elements);
    }
  }
  facts.chain = chain_;
  facts.cost = cost();
  return facts;
}

} // namespace mgc::planner
