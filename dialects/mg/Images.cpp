// See Images.h.
#include "dialects/mg/Images.h"

using namespace mlir;

namespace mgc {

using plan::Images;

static constexpr std::pair<llvm::StringLiteral, int64_t Images::*> kNumbers[] = {
    {"channels", &Images::channels},         {"patch_size", &Images::patchSize},     {"rows", &Images::rows},
    {"columns", &Images::columns},           {"class_tokens", &Images::classTokens}, {"token", &Images::token},
    {"first_feature", &Images::firstFeature}};

DictionaryAttr imagesAttr(Builder &builder, const Images &images) {
  SmallVector<NamedAttribute> numbers;
  for (const auto &[name, member] : kNumbers)
    numbers.push_back(builder.getNamedAttr(name, builder.getI64IntegerAttr(images.*member)));
  return builder.getDictionaryAttr(numbers);
}

Images readImages(DictionaryAttr attribute) {
  Images images;
  for (const auto &[name, member] : kNumbers)
    if (auto number = attribute ? attribute.getAs<IntegerAttr>(name) : IntegerAttr())
      images.*member = number.getInt();
  return images;
}

} // namespace mgc
