// See Processes.h.
#include "runtime/comm/bootstrap/Processes.h"

#include "runtime/base/Cores.h"
#include "runtime/base/File.h"
#include "runtime/base/MachineMemory.h"
#include "runtime/comm/bootstrap/StoreMessages.h"

#include <cctype>
#include <fmt/ranges.h>
#include <unistd.h>

namespace mgc {

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kWord = 2s;    // for a message to the store and back
constexpr auto kExcuse = 10s; // for rank 0 to be there

// Machines may have one name.
std::string machineOfThis() {
  const Result<std::string> boot = readFile("/proc/sys/kernel/random/boot_id", 4096);
  return hostName() + " " + (boot.isOk() ? *boot : "");
}

// Where it is another machine's, the others would wait there until their deadlines. One that this machine does not have itself
// may be forwarded to it.
Status verifyMaster(const Endpoint &master) {
  const Status here = verifyIsHere(master.host);
  if (here.isOk())
    return here;
  const auto forwarded = connectTo(master, Clock::now() + kWord);
  return forwarded.isOk() ? Status::ok()
                          : errorf("rank 0 cannot listen where MASTER_ADDR, or --master-addr, says: {}, and does not "
                                   "reach itself by it: {}; expected the machine of rank 0",
                                   here.message(), forwarded.status().message());
}

// "rank 2: .." of a text that does not say its rank first.
std::string withRank(int64_t rank, const std::string &text) {
  const std::string place = fmt::format("rank {}", rank);
  const bool hasRank = text.starts_with(place) && text.size() > place.size() &&
                       !std::isdigit(static_cast<unsigned char>(text[place.size()]));
  return hasRank ? text : fmt::format("{}: {}", place, text);
}

std::string firstLine(const std::string &text) { return text.substr(0, text.find('\n')); }

} // namespace

Processes::Processes(const Launch &launch, std::chrono::milliseconds timeout)
    : rank_(launch.rank), size_(launch.size), timeout_(timeout),
      who_(fmt::format("process {} on {}", getpid(), hostName())) {}

Result<std::unique_ptr<Processes>> Processes::join(const Launch &launch, const RunIdentity &run,
                                                   std::chrono::milliseconds timeout, StoreOwner owner) {
  std::unique_ptr<Processes> processes(new Processes(launch, timeout));
  const Joining joining{launch.rank, processes->who_, run};
  Status status = processes->openStore(joining, launch, owner);
  if (status.isOk())
    status = processes->findNeighbours(launch);
  MGC_TRY(std::move(status).at(fmt::format("rank {} of {} processes", launch.rank, launch.size)));
  return processes;
}

void Processes::excuse(const Launch &launch, const Status &failure) {
  Processes processes(launch, kExcuse);
  RunIdentity run;
  run.processes = launch.size;
  (void)processes.openStore({launch.rank, processes.who_, run, firstLine(failure.message())}, launch,
                            StoreOwner::rank0);
}

Status Processes::openStore(const Joining &joining, const Launch &launch, StoreOwner owner) {
  Endpoint at = launch.master;
  if (rank_ == 0 && owner == StoreOwner::rank0) {
    const bool isLocal = isLoopbackEverywhere(at.host);
    Descriptor listening = launch.listening ? std::move(*launch.listening) : Descriptor();
    MGC_ASSIGN(server, StoreServer::start({isLocal ? at.host : "", at.port}, joining, std::move(listening)));
    MGC_TRY(verifyMaster({at.host, server->port()}));
    at = {isLocal ? at.host : "127.0.0.1", server->port()};
    server_ = std::move(server);
  }
  MGC_SET(store_, Store::join(at, joining, deadline()));
  return Status::ok();
}

// Ranks of a machine count in their order. Hashes: all processes are sent the facts of all.
Status Processes::findNeighbours(const Launch &launch) {
  const auto hashOf = [](const std::string &text) { return static_cast<int64_t>(std::hash<std::string>()(text)); };
  const int64_t machine = hashOf(machineOfThis()), cores = hashOf(fmt::format("{}", fmt::join(availableCores(), " ")));
  const std::string own = Message().with(machine).with(cores).with(memoryGroup()).body;
  MGC_ASSIGN(facts, store_->gather("neighbours", rank_, size_, own, deadline()));
  coreSize_ = 0;
  for (int64_t rank = 0; rank < size_; ++rank) {
    const Message message{0, facts[static_cast<size_t>(rank)]};
    MessageReader reader(message);
    if (reader.number() != machine)
      continue;
    const bool sharesCores = reader.number() == cores;
    neighbours_.push_back({rank, reader.text()});
    localRank_ += rank < rank_;
    coreRank_ += sharesCores && rank < rank_;
    coreSize_ += sharesCores;
  }
  localRank_ = launch.localRank.value_or(localRank_);
  return Status::ok();
}

Status Processes::awaitCause(std::chrono::milliseconds most) const {
  const auto cause = store_->awaitCause(most);
  return cause ? Status::error(cause->text) : Status::ok();
}

Status Processes::end(const Status &status, const Tell &tell) {
  if (status.isOk()) {
    const Status ended = store_->gather(kEndOfRun, rank_, size_, "", deadline()).status();
    return ended.isOk() ? ended : endBecauseOf(ended, tell);
  }
  return endBecauseOf(status, tell);
}

Status Processes::endBecauseOf(const Status &own, const Tell &tell) {
  abort(own);
  (void)awaitCause(kWord);
  return tellOnce(own, tell);
}

Status Processes::tellOnce(const Status &own, const Tell &tell) {
  if (!tell)
    return report(own);
  if (rank_ != 0)
    return store_->awaitTold(kWord) ? Status::error("") : report(own);
  const auto cause = store_->awaitCause(0ms);
  tell(cause && cause->rank > 0 ? Status::error(withRank(cause->rank, cause->text)) : report(own));
  store_->tell();
  return Status::error("");
}

// Where nothing has come back, the store is gone: then each says what it knows.
Status Processes::report(const Status &own) const {
  const auto cause = store_->awaitCause(0ms);
  if (!cause || cause->rank == rank_)
    return own;
  const bool hasPlace = own.message() != cause->text && own.message().ends_with(cause->text);
  if (cause->rank < 0) // a cause without a rank has no place but that of the ranks that waited
    return hasPlace ? own : errorf("rank {}: {}", rank_, cause->text);
  return errorf("rank {} ends because of rank {}: {}", rank_, cause->rank, firstLine(cause->text));
}

} // namespace mgc
