# CLI11 throws: the command line is compiled by itself, without MLIR's -fno-exceptions. So is what explains plans.
mgc_library(mgc_explain SOURCES PlanFacts.cpp Explain.cpp DEPS mgc_process mgc_plan mgc_schedule nlohmann_json::nlohmann_json)
if(TARGET mgc_emit AND TARGET mgc_frontend)
  find_package(CLI11 REQUIRED)
  mgc_library(mgc_flags SOURCES Flags.cpp DEPS mgc_process mgc_model CLI11::CLI11)
  add_executable(mgc mgc.cpp)
  target_link_libraries(mgc PRIVATE mgc_process mgc_flags mgc_explain mgc_frontend mgc_compiler mgc_emit)
endif()
