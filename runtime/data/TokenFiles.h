// Finds the integer type of a .bin file. The file itself does not say it: an int32 file read as uint16 is a stream of
// twice as many tokens, every second of them 0, that trains without an error.
//   in:  the file, the .idx next to it if there is one, what the user says, the size of the vocabulary
//   out: one type, or an error that names those that would do
#pragma once

#include "runtime/io/Tensor.h"

namespace mgc {

// DATA.idx of DATA.bin.
std::string indexPathOf(const std::string &binPath);

struct BinFile {
  std::string path;
  std::string type; // u8 u16 i32 u32 i64; empty: not said
  int64_t vocabulary = 0;
};

// The type of the .idx; else the one that was said; else the only one of u8, u16, i32 and i64 that can hold the vocabulary
// and of which every token (of the first 16 Mi) is in it.
Result<ElementType> elementTypeOf(const BinFile &file);

// The name of a tokenizer's file in a checkpoint's folder; empty where there is none, or the checkpoint is a file.
std::string tokenizerIn(const std::string &checkpoint);

} // namespace mgc
