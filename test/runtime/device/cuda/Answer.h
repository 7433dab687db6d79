// MGC_ANSWER(name): a function of a library of CUDA that does nothing but give back the result of `answer`, whatever its arguments.
#pragma once

#define MGC_ANSWER(name) extern "C" int answer_##name(void) __asm__(MGC_SYMBOL(name)) __attribute__((alias("answer")));
