// See Launch.h.
#include "runtime/comm/bootstrap/Launch.h"

#include <charconv>
#include <cstdlib>
#include <fmt/ranges.h>
#include <vector>

namespace mgc {

namespace {

struct Launcher {
  const char *name, *rank, *size, *localRank;
  MpiKind mpi = MpiKind::none;
  const char *variables = ""; // how MASTER_ADDR and MASTER_PORT come to be set, where no MPI does without them
};
constexpr Launcher kTorchrun = {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", MpiKind::none, "torchrun sets them"};
constexpr Launcher kOpenMpi = {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                               MpiKind::openMpi};
constexpr Launcher kMpich = {"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", MpiKind::mpich};
constexpr Launcher kSrun = {"srun",          "SLURM_PROCID", "SLURM_NTASKS",
                            "SLURM_LOCALID", MpiKind::none,  "export MASTER_ADDR and MASTER_PORT before srun"};
constexpr int64_t kMostProcesses = int64_t(1) << 24; // as many ranks as a layout may have
constexpr int64_t kMostPort = 65535;
// Where Slurm's jobs get their ports from: below those that the system gives to others.
constexpr int64_t kFirstSlurmPort = 20000, kSlurmPorts = 10000;

class LaunchReader {
public:
  LaunchReader(const LaunchFlags &flags, const Variables &variables) : flags_(flags), variables_(variables) {}
  Result<Launch> read();

private:
  bool isSet(const char *name) const { return variables_(name).has_value(); }
  const Launcher *findLauncher() const;
  bool isInSlurmStep() const;
  bool isSrunForMpich() const;
  MpiKind mpiOf(const Launcher &launcher) const;
  Status verifyWhole(const Launcher &launcher) const;
  Status verifyNotContradicted(const Launcher &launcher) const;
  std::string found(const std::vector<const char *> &names) const;
  // The flag's value, else that of the variable; nothing when neither is there.
  Result<std::optional<int64_t>> number(const std::optional<int64_t> &flag, const char *name, int64_t least,
                                        int64_t most) const;
  Status readRanks(Launch &launch) const;
  Status readMaster(Launch &launch) const;
  Result<std::optional<int64_t>> portOfMaster() const;
  // An MPI knows better: steps of one job have one port, and the name of a node need not be a host's.
  bool isSrunAlone() const;
  std::optional<std::string> hostOfSlurm() const;

  const LaunchFlags &flags_;
  const Variables variables_;
  const Launcher *launcher_ = nullptr;
};

// The script of a job has SLURM_PROCID = 0 and the job's SLURM_NTASKS, too. srun alone says which step of the job its tasks are;
// the numbers of steps that are no srun's (the batch script's 0xfffffffb, ..) lie at the end of 32 bits.
bool LaunchReader::isInSlurmStep() const {
  constexpr int64_t kFirstSpecialStep = 0xfffffff0;
  for (const char *name : {"SLURM_STEP_ID", "SLURM_STEPID"})
    if (const Result<std::optional<int64_t>> step = number({}, name, 0, kFirstSpecialStep - 1); step.isOk() && *step)
      return true;
  return false;
}

// srun --mpi=pmi2 sets MPICH's variables to the values of its own. An mpiexec that starts its helpers by srun sets
// others.
bool LaunchReader::isSrunForMpich() const {
  return isSet(kMpich.rank) && isSet(kMpich.size) && isInSlurmStep() &&
         variables_(kMpich.rank) == variables_(kSrun.rank) && variables_(kMpich.size) == variables_(kSrun.size);
}

MpiKind LaunchReader::mpiOf(const Launcher &launcher) const {
  if (&launcher != &kSrun)
    return launcher.mpi;
  return isSet("PMIX_RANK") ? MpiKind::openMpi : isSrunForMpich() ? MpiKind::mpich : MpiKind::none;
}

// Slurm's variables stand alone in scripts and shells of its jobs, where no srun has started this process.
const Launcher *LaunchReader::findLauncher() const {
  if (flags_.mode == LaunchFlags::Mode::none)
    return nullptr;
  if (!isSet(kTorchrun.rank) && !isSet(kOpenMpi.rank) && isSrunForMpich())
    return &kSrun;
  for (const Launcher *launcher : {&kTorchrun, &kOpenMpi, &kMpich})
    if (isSet(launcher->rank) || isSet(launcher->size) || isSet(launcher->localRank))
      return launcher;
  return isSet(kSrun.rank) && isSet(kSrun.size) && isInSlurmStep() ? &kSrun : nullptr;
}

std::string LaunchReader::found(const std::vector<const char *> &names) const {
  std::vector<std::string> texts;
  for (const char *name : names)
    texts.push_back(isSet(name) ? fmt::format("{} = {}", name, *variables_(name)) : fmt::format("no {}", name));
  return fmt::format("found {}", fmt::join(texts, ", "));
}

Status LaunchReader::verifyWhole(const Launcher &launcher) const {
  if ((isSet(launcher.rank) || flags_.rank) && (isSet(launcher.size) || flags_.size))
    return Status::ok();
  return errorf("{}'s variables are half set: {}; expected {} and {}, or --rank and --world-size, or --launch none",
                launcher.name, found({launcher.rank, launcher.size, launcher.localRank}), launcher.rank, launcher.size);
}

// RANK set by hand, once for all, is a mistake where srun or mpirun has numbered the processes.
Status LaunchReader::verifyNotContradicted(const Launcher &launcher) const {
  if (&launcher != &kTorchrun || isSet("TORCHELASTIC_RUN_ID") || flags_.rank)
    return Status::ok();
  for (const Launcher *other : {&kOpenMpi, &kMpich, &kSrun}) {
    if (!isSet(other->rank) || !isSet(other->size) || (other == &kSrun && !isInSlurmStep()))
      continue;
    if (variables_(other->rank) == variables_(launcher.rank) && variables_(other->size) == variables_(launcher.size))
      return Status::ok();
    return errorf("{}'s variables contradict {}'s: {}; expected one of them, or equal ones, or --rank and --world-size",
                  launcher.name, other->name, found({launcher.rank, launcher.size, other->rank, other->size}));
  }
  return Status::ok();
}

Result<std::optional<int64_t>> LaunchReader::number(const std::optional<int64_t> &flag, const char *name, int64_t least,
                                                    int64_t most) const {
  if (flag || !isSet(name))
    return flag;
  const std::string text = *variables_(name);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value >= least && value <= most)
    return std::optional(value);
  return errorf("{} = '{}', expected a whole number from {} to {}", name, text, least, most);
}

Status LaunchReader::readRanks(Launch &launch) const {
  const Launcher &names = launcher_ ? *launcher_ : kTorchrun;
  const LaunchFlags &flags = flags_;
  const LaunchReader nowhere(flags_, [](const char *) { return std::nullopt; });
  const LaunchReader &from = launcher_ ? *this : nowhere;
  MGC_ASSIGN(rank, from.number(flags.rank, names.rank, 0, kMostProcesses - 1));
  MGC_ASSIGN(size, from.number(flags.size, names.size, 1, kMostProcesses));
  MGC_ASSIGN(localRank, from.number(flags.localRank, names.localRank, 0, kMostProcesses - 1));
  if (rank.has_value() != size.has_value())
    return errorf("{} without {}: expected both", rank ? "--rank" : "--world-size", rank ? "--world-size" : "--rank");
  if (size.value_or(1) > kMostProcesses)
    return errorf("{} processes ({}): expected at most {}", *size, launch.by, kMostProcesses);
  launch.rank = rank.value_or(0), launch.size = size.value_or(1), launch.localRank = localRank;
  if (launch.rank >= launch.size || localRank.value_or(0) >= launch.size)
    return errorf("rank {}{} of {} processes ({}): expected ranks from 0 to {}", launch.rank,
                  localRank ? fmt::format(" (on this machine {})", *localRank) : "", launch.size, launch.by,
                  launch.size - 1);
  return Status::ok();
}

bool LaunchReader::isSrunAlone() const { return launcher_ == &kSrun && mpiOf(kSrun) == MpiKind::none; }

std::optional<std::string> LaunchReader::hostOfSlurm() const {
  if (!isSrunAlone())
    return std::nullopt;
  for (const char *name : {"SLURM_STEP_NODELIST", "SLURM_NODELIST", "SLURM_JOB_NODELIST"})
    if (const auto list = variables_(name); list && !firstHost(*list).empty())
      return firstHost(*list);
  return variables_("SLURM_LAUNCH_NODE_IPADDR");
}

Result<std::optional<int64_t>> LaunchReader::portOfMaster() const {
  if (flags_.masterPort || flags_.mode == LaunchFlags::Mode::none)
    return flags_.masterPort;
  MGC_ASSIGN(port, number({}, "MASTER_PORT", 1, kMostPort));
  if (port) {
    const bool isAgents = launcher_ == &kTorchrun && variables_("TORCHELASTIC_USE_AGENT_STORE") == "True";
    return std::optional(*port + (isAgents ? 1 : 0));
  }
  if (!isSrunAlone())
    return port;
  MGC_ASSIGN(job, number({}, "SLURM_JOB_ID", 0, INT64_MAX));
  return job ? std::optional(kFirstSlurmPort + *job % kSlurmPorts) : port;
}

Status LaunchReader::readMaster(Launch &launch) const {
  const bool usesVariables = flags_.mode != LaunchFlags::Mode::none;
  std::optional<std::string> host = flags_.masterHost;
  for (const auto &other : {usesVariables ? variables_("MASTER_ADDR") : std::nullopt, hostOfSlurm()})
    if (!host)
      host = other;
  MGC_ASSIGN(port, portOfMaster());
  if ((!host || host->empty() || !port) && launch.mpi == MpiKind::none)
    return errorf("where rank 0 of {} processes ({}) listens is not said: {}; expected both, or --master-addr and "
                  "--master-port{}",
                  launch.size, launch.by, found({"MASTER_ADDR", "MASTER_PORT"}),
                  launcher_ ? fmt::format("; {}", launcher_->variables) : "");
  launch.master = {host.value_or(""), port.value_or(0)};
  return Status::ok();
}

Result<Launch> LaunchReader::read() {
  Launch launch;
  launcher_ = findLauncher();
  if (!launcher_ && flags_.mode == LaunchFlags::Mode::env)
    return errorf("--launch env: {}; expected the variables of torchrun, mpirun or srun",
                  found({kTorchrun.rank, kTorchrun.size, kOpenMpi.rank, kMpich.rank, kSrun.rank}));
  if (launcher_) {
    launch.mpi = mpiOf(*launcher_);
    launch.by = fmt::format("{}'s variables{}", launcher_->name,
                            flags_.rank || flags_.size || flags_.localRank ? " and flags" : "");
    MGC_TRY(verifyWhole(*launcher_));
    MGC_TRY(verifyNotContradicted(*launcher_));
  } else if (flags_.rank || flags_.size) {
    launch.by = "flags";
  }
  MGC_TRY(readRanks(launch));
  if (!launch.isAlone())
    MGC_TRY(readMaster(launch));
  return launch;
}

} // namespace

std::optional<std::string> variableOfThisProcess(const char *name) {
  const char *value = std::getenv(name);
  return value ? std::optional<std::string>(value) : std::nullopt;
}

std::string firstHost(std::string_view list) {
  std::string host;
  while (!list.empty() && list.front() != ',') {
    if (list.front() != '[') {
      host += list.front();
      list.remove_prefix(1);
      continue;
    }
    const size_t close = std::min(list.find(']'), list.size() - 1);
    const std::string_view ranges = list.substr(1, close - 1);
    host += ranges.substr(0, ranges.find_first_of(",-"));
    list.remove_prefix(close + 1);
  }
  return host;
}

Result<Launch> launchOf(const LaunchFlags &flags, const Variables &variables) {
  return LaunchReader(flags, variables).read();
}

} // namespace mgc
