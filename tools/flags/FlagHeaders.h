// The precompiled header of code that parses command lines.
#pragma once

#include "plan/PlanHeaders.h"

#include <CLI/CLI.hpp>
