// The precompiled header of code that reads plans: all but the struct Plan itself.
#pragma once

#include "cmake/CommonHeaders.h"
#include "plan/KernelLevel.h"
#include "plan/ParameterBuckets.h"
#include "plan/PlanInputs.h"
#include "plan/PlanPrograms.h"
#include "plan/PlanSchedule.h"
#include "plan/StepTotals.h"
