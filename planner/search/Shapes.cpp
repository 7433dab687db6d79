// See Shapes.h.
#include "planner/search/Shapes.h"

#include "frontend/layout/Searched.h"

#include <algorithm>
#include <fmt/ranges.h>

namespace mgc::planner {

namespace {

constexpr size_t kMostKept = 48; // shapes of some MB each

// Shapes of one pattern share out parts along the same axes, under the same names: their programs differ in sizes alone, as a rule.
// Ranks that share out groups of keys are a greatest common divisor, which is no product of powers: where others share the queries of
// a group, their number is part of the pattern. So are the experts of a rank where these are fewer than a token chooses, since rows
// that a token can have there are the least of both.
std::string patternOf(const frontend::ModelDescription &model, const ShapeSizes &sizes, const frontend::Layout &layout,
                      const plan::Mesh &mesh) {
  const auto groupsOf = [](int64_t ranks, int64_t groups) { return groups < ranks ? groups : 0; };
  std::vector<int64_t> few;
  for (const frontend::BlockKind &kind : model.kinds)
    if (const std::optional<frontend::Experts> &experts = kind.block.experts)
      few.push_back(experts->count / sizes.ep < experts->chosen ? experts->count / sizes.ep : 0);
  const plan::Axes inside = axesInside(mesh, sizes.ranksInside());
  std::string pattern =
      fmt::format("{} {}, {} {} {}, {}:", fmt::join(inside, " "), sizes.splitsBackward ? "in halves" : "",
                  groupsOf(layout.tp, layout.tpGroups), groupsOf(layout.cp, layout.cpGroups),
                  groupsOf(layout.cpInner, layout.cpInnerGroups), fmt::join(few, " "));
  for (const auto &[name, axes] : mesh.named) {
    plan::Axes own;
    std::ranges::copy_if(axes, std::back_inserter(own),
                         [&](const std::string &axis) { return std::ranges::find(inside, axis) != inside.end(); });
    if (!own.empty())
      pattern += fmt::format(" {}={}", name, fmt::join(own, "."));
  }
  return pattern;
}

bool haveSameReplicas(const ShapeSizes &a, const ShapeSizes &b) {
  return a.hasData == b.hasData && a.hasDataInside == b.hasDataInside && a.expertsHaveReplicas == b.expertsHaveReplicas;
}

// Numbers that differ.
int64_t differencesOf(const ShapeSizes &a, const ShapeSizes &b) {
  const auto from = a.numbers(), to = b.numbers();
  int64_t count = 0;
  for (size_t i = 0; i < from.size(); ++i)
    count += from[i] != to[i];
  return count;
}

} // namespace

ShapeSizes sizesOf(const frontend::LayoutOptions &options, bool splitsBackward) {
  ShapeSizes sizes;
  sizes.tp = options.tp.value_or(1), sizes.cp = options.cp.value_or(1), sizes.ep = options.ep.value_or(1);
  sizes.etp = options.etp.value_or(sizes.tp), sizes.mbs = options.mbs.value_or(1);
  sizes.splitsBackward = splitsBackward;
  const int64_t dp = *options.dp;
  sizes.hasData = dp > 1;
  const int64_t instances = std::max<int64_t>(1, options.instances.value_or(1));
  sizes.hasDataInside = dp / instances > 1;
  if (instances > 1 && (sizes.ep > 1 || sizes.etp != sizes.tp))
    sizes.dataInside = dp / instances;
  sizes.expertsHaveReplicas = sizes.tp * sizes.cp * dp > sizes.ep * sizes.etp;
  return sizes;
}

int64_t Shapes::numberOf(const ShapeSizes &sizes) {
  const auto [number, isNew] = numbers_.try_emplace(sizes, std::ssize(shapes_));
  if (!isNew)
    return number->second;
  const auto [family, isNewFamily] = familyNumbers_.try_emplace(sizes.family(), std::ssize(families_));
  if (isNewFamily)
    families_.emplace_back();
  families_[size_t(family->second)].shapes.push_back(number->second);
  shapes_.push_back({sizes, family->second, {}, false, {}});
  return number->second;
}

Result<const ShapeBlocks *> Shapes::blocks(int64_t number, const frontend::LayoutOptions &options) {
  const auto found = std::ranges::find(kept_, number, &Kept::shape);
  if (found != kept_.end()) {
    kept_.splice(kept_.begin(), kept_, found);
    return kept_.front().blocks.get();
  }
  Shape &shape = shapes_[size_t(number)];
  if (!shape.refusal.empty())
    return Status::error(shape.refusal);
  auto context = std::make_unique<mlir::MLIRContext>(mlir::MLIRContext::Threading::DISABLED);
  context->loadDialect<MgDialect, mlir::func::FuncDialect>();
  auto compiled = ShapeBlocks::compile(*context, options, source_.make, source_.machine);
  if (!compiled.isOk()) {
    shape.refusal = compiled.status().message();
    return compiled.status();
  }
  ++compiled_;
  if (!shape.isCompiled) {
    auto facts = std::make_unique<ShapeFacts>(factsOf(**compiled));
    if (shape.facts && !agree(*shape.facts, *facts))
      contradicted_ = families_[size_t(shape.family)].pattern;
    shape.facts = std::move(facts), shape.isCompiled = true;
    learnPolicies(shape, **compiled);
  }
  kept_.push_front({number, std::move(context), compiled.take()});
  if (kept_.size() > kMostKept)
    kept_.pop_back();
  return kept_.front().blocks.get();
}

Result<const ShapeFacts *> Shapes::facts(int64_t number) {
  Shape &shape = shapes_[size_t(number)];
  if (!shape.facts) {
    if (Laws &laws = lawsOf(shape.family); !laws.empty())
      shape.facts = std::make_unique<ShapeFacts>(factsBy(laws, shape.sizes, families_[size_t(shape.family)].mesh));
    else
      MGC_TRY(blocks(number, source_.optionsOf(number)).status());
  }
  addPolicies(shape);
  return shape.facts.get();
}

void Shapes::learnPolicies(const Shape &shape, const ShapeBlocks &blocks) {
  const std::string &pattern = families_[size_t(shape.family)].pattern;
  if (pattern.empty() || withoutLaw_.contains(pattern) || policyLaws_[pattern].law)
    return;
  ShapeOutline base(blocks, shape.sizes, source_.machine);
  if (!base.hasPolicies())
    return;
  SizeSpan all(shape.sizes), span(shape.sizes);
  for (const int64_t member : patterns_.at(pattern))
    all.add(sizesOf(member));
  auto &[outlines, law] = policyLaws_[pattern];
  std::vector<size_t> others;
  for (size_t i = 0; i < outlines.size(); ++i)
    if (base.isLike(outlines[i]) && span.add(outlines[i].sizes()))
      others.push_back(i);
  if (span.rank() < all.rank())
    return outlines.push_back(std::move(base));
  std::vector<ShapeOutline> alike;
  for (const size_t other : others)
    alike.push_back(std::move(outlines[other]));
  law = std::make_unique<SizeLaw>(std::move(base), std::move(alike));
  outlines.clear();
}

// Their laws begin at any shape, small ones too, whose sizes are rounded up by more than those of the others: they say how many times
// longer policies take than the fastest, whose seconds are known better.
void Shapes::addPolicies(Shape &shape) {
  if (shape.isCompiled || !shape.facts->policies.empty())
    return;
  const Family &family = families_[size_t(shape.family)];
  const auto known = policyLaws_.find(family.pattern);
  if (known == policyLaws_.end() || !known->second.law)
    return;
  shape.facts->policies = known->second.law->policies(source_.machine, shape.sizes, family.mesh);
  for (size_t b = 0; b < shape.facts->policies.size(); ++b) {
    std::vector<PolicyFacts> &policies = shape.facts->policies[b];
    if (policies.empty())
      continue;
    const BlockLeast &least = shape.facts->blocks[b];
    const auto scale = [&](double known, double PolicyFacts::*member) {
      const double fastest = std::ranges::min(policies, {}, member).*member;
      return fastest > 0 ? known / fastest : 0;
    };
    const double seconds = scale(least.all, &PolicyFacts::seconds),
                 unexposed = scale(least.unexposed, &PolicyFacts::unexposed);
    for (PolicyFacts &policy : policies) {
      policy.seconds *= seconds, policy.unexposed *= unexposed;
      policy.kept -= int64_t(kKeptError * double(policy.kept));
    }
  }
}

// Products, kernels and messages take less time for each row the more rows they have.
std::optional<std::pair<ShapeFacts, int64_t>> Shapes::factsOfFamily(int64_t family) {
  constexpr int64_t kMuch = 64; // times the largest microbatch
  Laws &laws = lawsOf(family);
  if (laws.empty())
    return std::nullopt;
  ShapeSizes sizes;
  for (const int64_t shape : families_[size_t(family)].shapes)
    if (sizesOf(shape).mbs >= sizes.mbs)
      sizes = sizesOf(shape);
  sizes.mbs *= kMuch;
  return std::pair(factsBy(laws, sizes, families_[size_t(family)].mesh), sizes.mbs);
}

const std::vector<int64_t> &Shapes::cutOf(int64_t shape, int64_t chunks) {
  ShapeFacts &facts = *shapes_[size_t(shape)].facts;
  const auto [cut, isNew] = facts.cuts.try_emplace(chunks);
  if (isNew)
    cut->second = balancedChunks(facts.cost, std::ssize(facts.chain), chunks);
  return cut->second;
}

// --- Laws

std::vector<std::string> Shapes::patterns() const {
  std::vector<std::string> names;
  for (const auto &[name, members] : patterns_)
    names.push_back(name);
  return names;
}

void Shapes::findPatterns() {
  for (Family &family : families_)
    for (const int64_t shape : family.shapes)
      if (const auto layout = source_.resolve(source_.optionsOf(shape)); layout.isOk()) {
        family.mesh = layout->mesh();
        family.pattern = patternOf(source_.model, sizesOf(shape), *layout, family.mesh);
        std::vector<int64_t> &members = patterns_[family.pattern];
        members.insert(members.end(), family.shapes.begin(), family.shapes.end());
        break;
      }
  for (auto &[pattern, members] : patterns_)
    std::ranges::sort(members, {}, [&](int64_t member) { return sizesOf(member); });
}

Shapes::Laws &Shapes::lawsOf(int64_t family) {
  if (!std::exchange(hasPatterns_, true))
    findPatterns();
  const std::string &pattern = families_[size_t(family)].pattern;
  const auto [laws, isNew] = laws_.try_emplace(pattern);
  if (isNew && !pattern.empty() && !withoutLaw_.contains(pattern))
    laws->second = makeLaws(pattern);
  return laws->second;
}

ShapeFacts Shapes::factsBy(Laws &laws, const ShapeSizes &sizes, const plan::Mesh &mesh) const {
  const bool hasOthers = laws.size() > 1;
  ShapeFacts facts = laws.front()->facts(source_.machine, sizes, mesh, hasOthers);
  for (size_t policy = 1; policy < laws.size(); ++policy)
    takeLeast(facts, laws[policy]->facts(source_.machine, sizes, mesh, hasOthers));
  for (BlockLeast &block : facts.blocks)
    block.lessen(kLawError);
  return facts;
}

// Shapes, as few and as near to the base as possible, from which all members follow; nothing: there are none with its replicas.
std::optional<std::vector<int64_t>> Shapes::othersOf(int64_t base, const std::vector<int64_t> &members) const {
  const ShapeSizes &from = sizesOf(base);
  SizeSpan all(from), span(from);
  std::vector<int64_t> near, others;
  for (const int64_t member : members) {
    all.add(sizesOf(member));
    if (haveSameReplicas(from, sizesOf(member)))
      near.push_back(member);
  }
  std::ranges::stable_sort(near, {}, [&](int64_t member) { return differencesOf(from, sizesOf(member)); });
  for (const int64_t member : near)
    if (span.add(sizesOf(member)))
      others.push_back(member);
  return span.rank() == all.rank() ? std::optional(others) : std::nullopt;
}

Shapes::Laws Shapes::makeLaws(const std::string &pattern) {
  const std::vector<int64_t> &members = patterns_.at(pattern);
  const auto has = [&](auto flag) {
    return std::ranges::any_of(members, [&](int64_t member) { return sizesOf(member).*flag; });
  };
  ShapeSizes all; // replicas that any of them has
  all.hasData = has(&ShapeSizes::hasData), all.hasDataInside = has(&ShapeSizes::hasDataInside);
  all.expertsHaveReplicas = has(&ShapeSizes::expertsHaveReplicas);
  Laws laws;
  for (const int64_t base : members) {
    const auto others =
        haveSameReplicas(sizesOf(base), all) ? othersOf(base, members) : std::optional<std::vector<int64_t>>();
    if (!others)
      continue;
    if (others->size() + 1 == members.size()) // each is compiled
      return laws;
    for (size_t policy = 0; policy < frontend::fastestChoices(source_.optionsOf(base)).size(); ++policy)
      if (std::unique_ptr<SizeLaw> law = makeLaw(base, *others, policy))
        laws.push_back(std::move(law));
      else
        return {};
    return laws;
  }
  return laws;
}

// Null: their programs differ in more than sizes.
std::unique_ptr<SizeLaw> Shapes::makeLaw(int64_t base, const std::vector<int64_t> &others, size_t policy) {
  std::optional<ShapeOutline> first;
  std::vector<ShapeOutline> alike;
  for (int64_t next = -1; next < std::ssize(others); ++next) {
    const int64_t shape = next < 0 ? base : others[size_t(next)];
    mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
    context.loadDialect<MgDialect, mlir::func::FuncDialect>();
    const auto blocks = ShapeBlocks::compile(context, frontend::fastestChoices(source_.optionsOf(shape))[policy],
                                             source_.make, source_.machine);
    if (!blocks.isOk())
      return nullptr;
    ++compiled_;
    ShapeOutline outline(**blocks, sizesOf(shape), source_.machine);
    if (!first)
      first = std::move(outline);
    else if (first->isLike(outline))
      alike.push_back(std::move(outline));
    else
      return nullptr;
  }
  return std::make_unique<SizeLaw>(std::move(*first), std::move(alike));
}

} // namespace mgc::planner
