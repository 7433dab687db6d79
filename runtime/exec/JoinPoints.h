// Finds where a stream must wait for work that runs concurrently with it. In: works in the order in which they are
// enqueued, each with its lane and the bytes that it touches. Out: for each the earlier works that must be waited for
// first.
//
// Works of the main lane, 0, run in order. A work of another lane begins after all works of the main lane that were
// enqueued before it, and after those of its own lane. Two works that touch a byte, one of them writing, must run in
// order; a join, which makes the main lane wait for a work, is where the second of two comes that nothing else has put
// in order:
//
//     main   dgrad |  remake  wgrad  | norm_grad reads what reduce writes: joins it
//     lane 1       | reduce .........|
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

namespace mgc {

class JoinPoints {
public:
  struct Access {
    int64_t begin = 0, end = 0; // bytes; none if they are equal
    bool isWritten = false;
  };
  static constexpr int64_t kMain = 0;

  // The works, by number, that the main lane must wait for before it goes on with this one or, if it is of another lane,
  // before that begins: at most one per lane, for those before it in its lane are done then too. Works are numbered from 0.
  std::vector<int64_t> enqueue(int64_t lane, std::vector<Access> accesses);
  // The works to wait for so that the main lane is behind everything.
  std::vector<int64_t> finish();

private:
  struct Work {
    int64_t number;
    std::vector<Access> accesses;
  };
  int64_t next_ = 0;
  std::map<int64_t, std::deque<Work>> pending_; // by lane: not joined yet, in order
};

} // namespace mgc
