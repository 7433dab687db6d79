// The precompiled header of tests without MLIR.
#pragma once

#include "cmake/CommonHeaders.h"

#include <gtest/gtest.h>
