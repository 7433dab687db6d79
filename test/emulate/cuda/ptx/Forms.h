// The table of instructions: for each name, with the modifiers that choose what is computed, the code that runs it and the
// widths of its registers. Each file of instructions adds its own rows.
#pragma once

#include "test/emulate/cuda/ptx/Program.h"

#include <unordered_map>

namespace mgc::ptx {

// Width of a register in bits. A predicate has 1.
struct Form {
  Handler run = nullptr;
  uint8_t d = 0;
  std::vector<uint8_t> sources;
};
using Forms = std::unordered_map<std::string, Form>;

const Forms &forms();
void addIntegers(Forms &forms);
void addFloats(Forms &forms);
void addConversions(Forms &forms);
void addMemory(Forms &forms);
void addWarpWide(Forms &forms);

template <typename T> constexpr uint8_t kBits = 8 * sizeof(T);

// d[lane] = f(a[lane], ..). `per` values lie in one register: 2 for the packed types.
template <auto f, typename D, typename A = D, unsigned per = 1> Form unary() {
  Handler run = [](Warp &warp, const Op &op, uint32_t mask) {
    D *d = warp.at<D>(op.d);
    const A *a = warp.at<A>(op.a);
    eachLane(mask, [=](unsigned lane) {
      for (unsigned i = lane * per; i < (lane + 1) * per; ++i)
        d[i] = static_cast<D>(f(a[i]));
    });
  };
  return {run, kBits<D> * per, {kBits<A> * per}};
}

template <auto f, typename D, typename A = D, typename B = A, unsigned per = 1> Form binary() {
  Handler run = [](Warp &warp, const Op &op, uint32_t mask) {
    D *d = warp.at<D>(op.d);
    const A *a = warp.at<A>(op.a);
    const B *b = warp.at<B>(op.b);
    eachLane(mask, [=](unsigned lane) {
      for (unsigned i = lane * per; i < (lane + 1) * per; ++i)
        d[i] = static_cast<D>(f(a[i], b[i]));
    });
  };
  return {run, kBits<D> * per, {kBits<A> * per, kBits<B> * per}};
}

template <auto f, typename D, typename A = D, typename B = A, typename C = D, unsigned per = 1> Form ternary() {
  Handler run = [](Warp &warp, const Op &op, uint32_t mask) {
    D *d = warp.at<D>(op.d);
    const A *a = warp.at<A>(op.a);
    const B *b = warp.at<B>(op.b);
    const C *c = warp.at<C>(op.c);
    eachLane(mask, [=](unsigned lane) {
      for (unsigned i = lane * per; i < (lane + 1) * per; ++i)
        d[i] = static_cast<D>(f(a[i], b[i], c[i]));
    });
  };
  return {run, kBits<D> * per, {kBits<A> * per, kBits<B> * per, kBits<C> * per}};
}

// A predicate from two values.
template <auto f, typename A> Form comparison() {
  Handler run = [](Warp &warp, const Op &op, uint32_t mask) {
    const A *a = warp.at<A>(op.a);
    const A *b = warp.at<A>(op.b);
    uint32_t result = 0;
    for (unsigned lane = 0; lane < kLanes; ++lane)
      result |= static_cast<uint32_t>(f(a[lane], b[lane])) << lane;
    uint32_t &d = warp.predicate(op.d);
    d = (d & ~mask) | (result & mask);
  };
  return {run, 1, {kBits<A>, kBits<A>}};
}

// d = c ? a : b, c a predicate.
template <typename T> Form selection() {
  Handler run = [](Warp &warp, const Op &op, uint32_t mask) {
    T *d = warp.at<T>(op.d);
    const T *a = warp.at<T>(op.a);
    const T *b = warp.at<T>(op.b);
    uint32_t c = warp.predicate(op.c);
    eachLane(mask, [=](unsigned lane) { d[lane] = (c >> lane & 1) ? a[lane] : b[lane]; });
  };
  return {run, kBits<T>, {kBits<T>, kBits<T>, 1}};
}

} // namespace mgc::ptx
