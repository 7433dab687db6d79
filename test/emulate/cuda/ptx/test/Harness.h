// Runs PTX of a few lines.
#pragma once

#include "test/emulate/cuda/ptx/Ptx.h"

#include <cstring>
#include <gtest/gtest.h>
#include <type_traits>

namespace mgc::ptx {

// A module with one entry "test" that takes pointers p0, p1, ..; the registers of the usual names are declared.
inline std::string entryOf(const std::string &body, size_t pointers, const std::string &globals = "") {
  std::string parameters, loads;
  for (size_t i = 0; i < pointers; ++i) {
    parameters += fmt::format("{}.param .u64 p{}", i ? ", " : "", i);
    loads += fmt::format("ld.param.u64 %p{}, [p{}];\n", i, i);
  }
  return fmt::format(".version 8.0\n.target sm_90\n.address_size 64\n{}\n.visible .entry test({}) {{\n"
                     ".reg .pred %q<9>; .reg .b16 %h<9>; .reg .b32 %r<20>; .reg .f32 %f<9>; .reg .b64 %d<9>, %p<9>;\n"
                     "{}{}\nret;\n}}\n",
                     globals, parameters, loads, body);
}

inline std::string errorOf(const std::string &text) {
  AddressSpace space;
  auto module = Module::load(text, space);
  return module.isOk() ? "" : module.status().message();
}

// Runs the entry on the arrays, which it may change. Returns the error, or "".
template <typename... Arrays> std::string runOn(const std::string &text, Launch launch, Arrays &...arrays) {
  AddressSpace space;
  auto module = Module::load(text, space);
  if (!module.isOk())
    return module.status().message();
  std::vector<uint64_t> pointers{space.add(arrays.data(), arrays.size() * sizeof(arrays[0]))...};
  launch.parameters = std::as_bytes(std::span(pointers));
  auto done = (*module)->launch("test", launch);
  return done.isOk() ? "" : done.status().message();
}

template <typename T> std::string registerOf(unsigned number) {
  return fmt::format("{}{}", sizeof(T) == 2 ? "%h" : sizeof(T) == 4 ? "%r" : "%d", number);
}

// `instruction` with $0 for its result and $1.. for its sources, on one value each.
template <typename D, typename... Sources> D evaluate(std::string instruction, Sources... sources) {
  unsigned number = 0;
  std::string loads;
  auto name = [&](auto value) {
    using T = decltype(value);
    std::string place = "$" + std::to_string(number);
    for (size_t at; (at = instruction.find(place)) != std::string::npos;)
      instruction.replace(at, place.size(), registerOf<T>(number));
    if (number > 0)
      loads += fmt::format("ld.global.b{} {}, [%p{}];\n", 8 * sizeof(T), registerOf<T>(number), number);
    ++number;
  };
  name(D{});
  (name(sources), ...);
  std::string text = entryOf(
      fmt::format("{}{};\nst.global.b{} [%p0], {};", loads, instruction, 8 * sizeof(D), registerOf<D>(0)), number);
  std::vector<D> result(1);
  auto run = [&](auto... arrays) { return runOn(text, {}, result, arrays...); };
  EXPECT_EQ(run(std::vector<Sources>{sources}...), "") << instruction;
  return result[0];
}

inline uint32_t bits(float value) { return std::bit_cast<uint32_t>(value); }
inline float real(uint32_t value) { return std::bit_cast<float>(value); }

} // namespace mgc::ptx
