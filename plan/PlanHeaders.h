// The precompiled header of code that reads plans.
#pragma once

#include "cmake/CommonHeaders.h"
#include "plan/Expand.h"
#include "plan/Plan.h"
