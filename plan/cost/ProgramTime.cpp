// See ProgramTime.h.
#include "plan/cost/ProgramTime.h"

#include "plan/cost/RunWalk.h"

namespace mgc::cost {

ProgramTime &ProgramTime::operator+=(const ProgramTime &other) {
  products += other.products;
  attention += other.attention;
  rows += other.rows;
  moves += other.moves;
  launches += other.launches;
  for (size_t use = 0; use < exposed.size(); ++use) {
    exposed[use] += other.exposed[use];
    hidden[use] += other.hidden[use];
  }
  flops += other.flops;
  hostCopies += other.hostCopies;
  hiddenHostCopies += other.hiddenHostCopies;
  return *this;
}

ProgramTime ProgramTime::operator*(double times) const {
  ProgramTime product = *this;
  for (double *value : {&product.products, &product.attention, &product.rows, &product.moves, &product.launches,
                        &product.flops, &product.hostCopies, &product.hiddenHostCopies})
    *value *= times;
  for (size_t use = 0; use < exposed.size(); ++use) {
    product.exposed[use] *= times;
    product.hidden[use] *= times;
  }
  return product;
}

ProgramTime secondsOf(const Cluster &cluster, const plan::Program &program, double rowBytes) {
  return secondsOf(cluster, program, worksOn(cluster, program), rowBytes);
}

ProgramTime secondsOf(const Cluster &cluster, const plan::Program &program, const plan::ProgramWorks &works,
                      double rowBytes) {
  RunWalk walk(cluster);
  walk.call(pricesOf(cluster, program, rowBytes), works, works.basesApart(), false);
  walk.finish();
  return walk.player().layers();
}

} // namespace mgc::cost
