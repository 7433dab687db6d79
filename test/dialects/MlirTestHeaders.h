// The precompiled header of tests with MLIR.
#pragma once

#include "codegen/rows/graph/RowHeaders.h"
#include "dialects/mg/Mg.h"

#include <gtest/gtest.h>
