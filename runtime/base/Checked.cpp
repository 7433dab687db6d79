#include "runtime/base/Checked.h"

namespace mgc {

Checked checkedProduct(std::initializer_list<Checked> factors) {
  Checked product = 1;
  for (Checked factor : factors)
    product = checkedMultiply(product, factor);
  return product;
}

bool fitsInside(int64_t offset, Checked bytes, int64_t limit) {
  return offset >= 0 && bytes && *bytes >= 0 && offset <= limit && *bytes <= limit - offset;
}

} // namespace mgc
