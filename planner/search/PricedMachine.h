// The machine that a search prices steps on, with the load of experts that it assumes there.
#pragma once

#include "plan/cost/Cluster.h"

namespace mgc::planner {

// The machine, and the meshes of its clusters, must outlive it.
struct PricedMachine {
  PricedMachine(const cost::Machine &machine, double imbalance = 1) : machine(machine), imbalance(imbalance) {}

  const cost::Machine &machine;
  double imbalance = 1; // cost::Cluster::imbalance

  cost::Cluster cluster(const plan::Mesh &mesh, plan::Target target) const {
    return {machine, mesh, target, cost::ownStack(), imbalance};
  }
  // As `mgc compile` prices a layout that is given, whatever the search assumes.
  PricedMachine evenlyLoaded() const { return {machine}; }
};

} // namespace mgc::planner
