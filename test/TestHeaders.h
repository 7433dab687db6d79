// The precompiled header of tests without MLIR.
#pragma once

#include "plan/PlanHeaders.h"

#include <gtest/gtest.h>
