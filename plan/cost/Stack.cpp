// See Stack.h.
#include "plan/cost/Stack.h"

#include "CostTexts.h"
#include "plan/cost/FileChecks.h"

namespace mgc::cost {

// --- Fields, as plan/json/Fields.h has those of plans ---------------------------------------------------------

using plan::Of, plan::required, plan::optional;

template <typename V> constexpr void fields(V &v, Of<StackAttention>) {
  v.required("fused", &StackAttention::isFused);
  v.optional("times", &StackAttention::times);
  v.optional("forward_passes", &StackAttention::forwardPasses);
  v.optional("backward_passes", &StackAttention::backwardPasses);
}

template <typename V> constexpr void fields(V &v, Of<StackProducts>) { required<&StackProducts::grouped>(v); }

template <typename V> constexpr void fields(V &v, Of<StackRows>) {
  required<&StackRows::layers, &StackRows::optimizer>(v);
}

template <typename V> constexpr void fields(V &v, Of<StackOverlap>) {
  required<&StackOverlap::tensor, &StackOverlap::context, &StackOverlap::experts, &StackOverlap::units>(v);
}

template <typename V> constexpr void fields(V &v, Of<SoftwareStack>) {
  required<&SoftwareStack::name, &SoftwareStack::description, &SoftwareStack::attention, &SoftwareStack::products,
           &SoftwareStack::rows, &SoftwareStack::overlap>(v);
  v.required("repeats_last_product", &SoftwareStack::repeatsLastProduct);
  required<&SoftwareStack::kernel, &SoftwareStack::sources>(v);
}

namespace {

using plan::Place;

constexpr double kLeastFactor = 1e-3, kMostPasses = 1e3, kMostKernelSeconds = 1;

constexpr std::string_view kSourced[] = {"attention", "products", "rows", "overlap", "repeats_last_product", "kernel"};

class StackChecks : FileChecks {
public:
  using FileChecks::FileChecks;

  void check(const SoftwareStack &stack, const Place &place) {
    text(stack.name, place.field("name"));
    text(stack.description, place.field("description"));
    attention(stack.attention, place.field("attention"));
    const Place products = place.field("products");
    number(stack.products.grouped, kLeastFactor, kMostPasses, products.field("grouped"));
    const Place rows = place.field("rows"), overlap = place.field("overlap");
    number(stack.rows.layers, kLeastFactor, kMostPasses, rows.field("layers"));
    number(stack.rows.optimizer, kLeastFactor, kMostPasses, rows.field("optimizer"));
    violations_.expect(stack.overlap.units != Overlap::sliced, overlap.field("units"),
                       "found \"sliced\", expected waits or follows: no product takes a unit in slices");
    number(stack.kernel, 0, kMostKernelSeconds, place.field("kernel"));
    sources(stack.sources, kSourced, "field of a stack", place.field("sources"));
  }

private:
  void attention(const StackAttention &attention, const Place &place) {
    number(attention.times, kLeastFactor, kMostPasses, place.field("times"));
    number(attention.forwardPasses, 0, kMostPasses, place.field("forward_passes"));
    number(attention.backwardPasses, 0, kMostPasses, place.field("backward_passes"));
    violations_.expect(!attention.isFused || attention.forwardPasses + attention.backwardPasses == 0, place,
                       "is fused and passes scores through memory; expected one of both");
    violations_.expect(attention.isFused || attention.times == 1, place.field("times"),
                       "found {}, but attention is not fused; expected no such field", attention.times);
  }
};

} // namespace

Result<SoftwareStack> parseStack(std::string_view text) {
  MGC_ASSIGN(json, parseJson(text));
  plan::Violations violations;
  SoftwareStack stack;
  const Place root, place = root.field("stack");
  plan::JsonReader(violations).read(json, stack, place);
  if (violations.count() == 0)
    StackChecks(violations).check(stack, place);
  MGC_TRY(violations.status());
  return stack;
}

std::vector<std::string> stackNames() { return namesOf(kStackTexts); }

Result<SoftwareStack> findStack(const std::string &nameOrPath) {
  MGC_ASSIGN(text, findText(kStackTexts, nameOrPath, {"stack", "docs/cost.md"}));
  return parseStack(text).at(nameOrPath);
}

Result<std::string> stackText(const std::string &nameOrPath) {
  MGC_ASSIGN(text, findText(kStackTexts, nameOrPath, {"stack", "docs/cost.md"}));
  MGC_TRY(findStack(nameOrPath).status());
  return text;
}

const SoftwareStack &ownStack() {
  static const SoftwareStack own = *parseStack(kStackTexts[0].text); // a test reads each
  return own;
}

} // namespace mgc::cost
