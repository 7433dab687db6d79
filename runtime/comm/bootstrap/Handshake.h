// Handshake: what a process says of itself when it joins a run, and whether it belongs to it.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/comm/tcp/Connection.h"

namespace mgc {

// The facts that all processes of a run must agree on.
struct RunIdentity {
  int64_t processes = 1;
  int64_t planVersion = 0;
  uint64_t planHash = 0;
  std::vector<std::string> settings; // "--lr = 0.001": flags and what the machine decides, in one order everywhere
};

// A process that joins. `who` is for messages: "process 4711 on node1".
struct Joining {
  int64_t rank = 0;
  std::string who;
  RunIdentity run;
  std::string failure = {}; // not empty: why it does not come; it tells the others
};

Message helloOf(const Joining &joining, Deadline deadline);
struct Hello {
  int64_t protocol = 0, milliseconds = 0;
  Joining joining;
};
// Nothing where the message is no hello; of one of another protocol the protocol alone.
std::optional<Hello> readHello(const Message &message);

// Ok where the process belongs to the run of rank 0, `own`. `present` is the process that has this rank already, if any.
Status verifyHello(const Joining &own, const Hello &hello, const std::string &present);

std::string nameOf(int64_t rank, const std::string &who); // "rank 2 (process 4711 on node1)"
// For the deadline of the start. `who` by rank, empty where the process has not come.
std::string describeMissing(const std::vector<std::string> &who, double seconds);
std::string listed(std::vector<std::string> names); // "1, 2 and 7 more"

} // namespace mgc
