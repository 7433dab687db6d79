// See Processes.h.
#include "runtime/comm/bootstrap/Processes.h"

#include "runtime/base/File.h"
#include "runtime/base/MachineMemory.h"
#include "runtime/comm/bootstrap/StoreMessages.h"
#include "runtime/comm/bootstrap/StoreServer.h"

#include <climits>
#include <poll.h>
#include <sched.h>
#include <unistd.h>

namespace mgc {

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kWord = 2s;    // for a message to the store and back
constexpr auto kExcuse = 10s; // for rank 0 to be there

std::string hostName() {
  char name[HOST_NAME_MAX + 1] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

// Machines may have one name.
std::string machineOfThis() {
  const Result<std::string> boot = readFile("/proc/sys/kernel/random/boot_id", 4096);
  return hostName() + " " + (boot.isOk() ? *boot : "");
}

// Processes of one machine with equal ones share them.
std::string coresOfThis() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  std::string text;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &set))
      text += fmt::format(" {}", core);
  return text;
}

// Where it is another machine's, the others would wait there until their deadlines. One that this machine does not have itself
// may be forwarded to it.
Status verifyMaster(const Endpoint &master) {
  const Status here = verifyIsHere(master.host);
  if (here.isOk())
    return here;
  const auto forwarded = connectTo(master, Clock::now() + kWord);
  return forwarded.isOk()
             ? Status::ok()
             : errorf("rank 0 cannot listen where MASTER_ADDR, or --master-addr, says: {}, and does not "
                      "reach itself by it: {}; expected the machine of rank 0",
                      here.message(), forwarded.status().message());
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
    status = processes->watch();
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
  MGC_ASSIGN(store, Store::join(at, joining, deadline()));
  store_ = std::move(store);
  return Status::ok();
}

Status Processes::watch() {
  MGC_ASSIGN(watching, connectTo(store_->endpoint(), Clock::now() + kWord));
  watching_ = std::move(watching);
  const Message message =
      Message::of(StoreKind::watch).with(static_cast<int64_t>(store_->token())).with(rank_);
  MGC_TRY(sendMessage(watching_, message, Clock::now() + kWord));
  watcher_ = std::thread([this] { watchMain(); });
  return Status::ok();
}

// Each says where it runs; ranks count in their order.
Status Processes::findNeighbours(const Launch &launch) {
  const std::string machine = machineOfThis(), cores = coresOfThis();
  MGC_TRY(store_->set(fmt::format("machine/{}", rank_), machine));
  MGC_TRY(store_->set(fmt::format("cores/{}", rank_), cores));
  MGC_TRY(store_->set(fmt::format("memory/{}", rank_), memoryGroup()));
  coreSize_ = 0;
  for (int64_t rank = 0; rank < size_; ++rank) {
    MGC_ASSIGN(otherMachine, store_->get(fmt::format("machine/{}", rank), deadline()));
    if (otherMachine != machine)
      continue;
    localRank_ += rank < rank_;
    MGC_ASSIGN(group, store_->get(fmt::format("memory/{}", rank), deadline()));
    neighbours_.push_back({rank, group});
    MGC_ASSIGN(otherCores, store_->get(fmt::format("cores/{}", rank), deadline()));
    coreRank_ += otherCores == cores && rank < rank_;
    coreSize_ += otherCores == cores;
  }
  localRank_ = launch.localRank.value_or(localRank_);
  return Status::ok();
}

Processes::~Processes() {
  leaving_.wake();
  if (watcher_.joinable())
    watcher_.join();
  watching_.close();
  store_.reset();
}

void Processes::watchMain() {
  MessageBuffer in;
  while (true) {
    pollfd polled[] = {{watching_.number(), POLLIN, 0}, {leaving_.number(), POLLIN, 0}};
    if (poll(polled, 2, -1) < 0)
      continue;
    if (polled[1].revents)
      return;
    const Status received = in.receive(watching_);
    while (const std::optional<Message> message = in.next())
      hear(*message);
    if (!received.isOk())
      return endBecause(-1, fmt::format("rank 0, which holds the store at {}, {}",
                                        toString(store_->endpoint()), received.message()));
  }
}

void Processes::hear(const Message &message) {
  MessageReader reader(message);
  if (message.kind == static_cast<uint8_t>(StoreKind::over)) {
    const std::lock_guard lock(mutex_);
    isOver_ = true;
    heard_.notify_all();
  } else if (message.kind == static_cast<uint8_t>(StoreKind::notice)) {
    const int64_t origin = reader.number();
    endBecause(origin, reader.text());
  }
}

void Processes::endBecause(int64_t origin, const std::string &cause) {
  {
    const std::lock_guard lock(mutex_);
    if (isOver_ || cause_)
      return;
    cause_ = cause;
    origin_ = origin;
    heard_.notify_all();
  }
  const std::lock_guard lock(listenerMutex_);
  if (listener_)
    listener_(Status::error(cause));
}

void Processes::setAbortListener(AbortListener listener) {
  const std::lock_guard lock(listenerMutex_);
  listener_ = std::move(listener);
  if (const Status why = cause(); listener_ && !why.isOk())
    listener_(why);
}

void Processes::say(const Message &message) {
  const std::lock_guard lock(sendMutex_);
  (void)sendMessage(watching_, message,
                    Clock::now() + kWord); // where it fails, the store is gone, and all end anyway
}

void Processes::abort(const Status &cause) {
  if (this->cause().isOk())
    say(Message::of(StoreKind::abort).with(std::string_view(cause.message()).substr(0, kMaxCauseBytes)));
}

Status Processes::cause() const { return awaitCause(0ms); }

Status Processes::awaitCause(std::chrono::milliseconds most) const {
  std::unique_lock lock(mutex_);
  heard_.wait_for(lock, most, [&] { return cause_ || isOver_; });
  return cause_ ? Status::error(*cause_) : Status::ok();
}

Status Processes::end(const Status &status) {
  if (status.isOk()) {
    say(Message::of(StoreKind::finished));
    const Status others = awaitCause(timeout_);
    if (!others.isOk())
      return report(others);
    const std::lock_guard lock(mutex_);
    return isOver_ ? Status::ok() : errorf("waited {} s for the other processes to finish", seconds());
  }
  abort(status);
  (void)awaitCause(kWord);
  return report(status);
}

// Where nothing has come back, the store is gone: then each says what it knows.
Status Processes::report(const Status &own) const {
  const std::lock_guard lock(mutex_);
  if (!cause_ || origin_ == rank_)
    return own;
  const bool hasPlace = own.message() != *cause_ && own.message().ends_with(*cause_);
  if (origin_ < 0) // what nobody has said has no place but that of those who waited
    return hasPlace ? own : errorf("rank {}: {}", rank_, *cause_);
  return errorf("rank {} ends because of rank {}: {}", rank_, origin_, firstLine(*cause_));
}

} // namespace mgc
