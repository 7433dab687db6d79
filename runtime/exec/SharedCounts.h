// Finds the exchanges of rows of a chunk that read the same counts as an earlier one: a host that needs the counts
// (RowBuffers) reads them once.
#pragma once

#include "runtime/exec/Records.h"

#include <vector>

namespace mgc {

// By instruction of the chunk: the first exchange that has read the same counts, of the same group and sizes, where nothing between
// writes them; itself for that first one, -1 for what is no exchange. Memory of other slots is other memory: what an exchange reads is
// alive, as the plan's proof says, so nothing else lies there.
std::vector<int64_t> firstReadersOfCounts(const plan::Mesh &mesh, const ChunkRecord &chunk);

} // namespace mgc
