// Tests which process this is, from the variables that launchers set.
#include "runtime/comm/bootstrap/Launch.h"
#include "test/runtime/TempDir.h"

#include <map>

namespace mgc::test {
namespace {

using Set = std::map<std::string, std::string>;
using Mode = LaunchFlags::Mode;

Result<Launch> launchWith(const Set &set, const LaunchFlags &flags = {}) {
  return launchOf(flags, [&](const char *name) -> std::optional<std::string> {
    const auto found = set.find(name);
    return found == set.end() ? std::nullopt : std::optional(found->second);
  });
}

const Set kMaster = {{"MASTER_ADDR", "node1"}, {"MASTER_PORT", "4321"}};
Set with(Set set, const Set &more) {
  for (const auto &[name, value] : more)
    set[name] = value;
  return set;
}
const Set kTorchrun = with(kMaster, {{"RANK", "3"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}});
const Set kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}};
const Set kSrun = {{"SLURM_PROCID", "2"},
                   {"SLURM_NTASKS", "4"},
                   {"SLURM_LOCALID", "0"},
                   {"SLURM_STEP_ID", "0"},
                   {"SLURM_NODELIST", "gpu[007-009,12],other"},
                   {"SLURM_JOB_ID", "123456"}};

void expect(const Result<Launch> &launch, int64_t rank, int64_t size, std::optional<int64_t> localRank,
            const std::string &master) {
  ASSERT_TRUE(isOk(launch));
  EXPECT_EQ(launch->rank, rank);
  EXPECT_EQ(launch->size, size);
  EXPECT_EQ(launch->localRank, localRank);
  EXPECT_EQ(toString(launch->master), master);
}

void expectAlone(const Result<Launch> &launch) {
  ASSERT_TRUE(isOk(launch));
  EXPECT_TRUE(launch->isAlone());
}

TEST(Launch, nothingSetIsOneProcess) {
  for (const Set &set : {Set(), kMaster, Set{{"SLURM_NTASKS", "4"}}, Set{{"SLURM_PROCID", "0"}}})
    expectAlone(launchWith(set));
}

// The script of a job, which no srun started: it holds all ranks.
TEST(Launch, aScriptOfSlurmIsNoTask) {
  const Set script = {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}, {"SLURM_LOCALID", "0"}, {"SLURM_JOB_ID", "5"}};
  for (const Set &set :
       {script, with(script, {{"SLURM_STEP_ID", "4294967291"}}), with(script, {{"SLURM_STEPID", "batch"}})})
    expectAlone(launchWith(set));
}

TEST(Launch, launchersAreUnderstood) {
  expect(launchWith(kTorchrun), 3, 8, 1, "node1:4321");
  expect(launchWith(
             with(kMaster,
                  {{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}})),
         1, 2, 0, "node1:4321");
  expect(launchWith(with(kMaster, {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}})), 1, 2, {}, "node1:4321");
  expect(launchWith(kSrun), 2, 4, 0, "gpu007:23456");
  expect(launchWith(with(kTorchrun, {{"SLURM_JOB_ID", "of no use to torchrun"}})), 3, 8, 1, "node1:4321");
  expect(launchWith(with(kOpenMpi, {{"SLURM_JOB_ID", "x"}})), 1, 2, {}, ":0");
  expect(launchWith(with(kSrun, kMaster)), 2, 4, 0, "node1:4321");
  expect(launchWith(with(kSrun, {{"SLURM_STEP_NODELIST", "other"}})), 2, 4, 0, "other:23456");
  expect(launchWith({{"SLURM_PROCID", "0"},
                     {"SLURM_NTASKS", "2"},
                     {"SLURM_STEPID", "3"},
                     {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.7"},
                     {"MASTER_PORT", "99"}}),
         0, 2, {}, "10.0.0.7:99");
}

// Variables name the kind of MPI; srun says whose MPI its tasks may use.
TEST(Launch, theKindOfMpi) {
  const Set mpich = {{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}};
  const auto kindOf = [](const Set &set) { return launchWith(set)->mpi; };
  EXPECT_EQ(kindOf(kOpenMpi), MpiKind::openMpi);
  EXPECT_EQ(kindOf(mpich), MpiKind::mpich);
  EXPECT_EQ(kindOf(kTorchrun), MpiKind::none);
  EXPECT_EQ(kindOf(kSrun), MpiKind::none);
  EXPECT_EQ(kindOf(with(kSrun, {{"PMIX_RANK", "2"}})), MpiKind::openMpi);
  const Set pmi2 = with(kSrun, mpich);
  EXPECT_EQ(kindOf(pmi2), MpiKind::mpich);
  expect(launchWith(pmi2), 2, 4, 0, ":0"); // srun's; MPI says where rank 0 listens
  // An mpiexec of MPICH in a job starts a helper on each machine by srun.
  const Set mpiexecInJob = with(pmi2, {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}});
  EXPECT_EQ(kindOf(mpiexecInJob), MpiKind::mpich);
  expect(launchWith(mpiexecInJob), 2, 4, {}, ":0");
}

// It tells all where rank 0 listens; what is said counts.
TEST(Launch, withAnMpiTheMasterNeedNotBeSaid) {
  EXPECT_FALSE(launchWith(kOpenMpi)->isMasterKnown());
  const Result<Launch> said = launchWith(with(kOpenMpi, {{"MASTER_ADDR", "node1"}}));
  ASSERT_TRUE(isOk(said));
  EXPECT_EQ(said->master.host, "node1");
  EXPECT_FALSE(said->isMasterKnown());
  EXPECT_TRUE(launchWith(with(kOpenMpi, kMaster))->isMasterKnown());
}

TEST(Launch, theInnermostLauncherCounts) {
  const Set torchrunInSrun = with(with(kSrun, kTorchrun), {{"TORCHELASTIC_RUN_ID", "x"}});
  expect(launchWith(torchrunInSrun), 3, 8, 1, "node1:4321");
  const Set mpirunInBatch = with(with(kSrun, kMaster), {{"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_SIZE", "4"}});
  expect(launchWith(mpirunInBatch), 3, 4, {}, "node1:4321");
}

TEST(Launch, thePortOfTorchrunsAgentIsNotTaken) {
  expect(launchWith(with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}})), 3, 8, 1, "node1:4322");
  expect(launchWith(with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "False"}})), 3, 8, 1, "node1:4321");
  expect(launchWith(with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}}), {.masterPort = 7}), 3, 8, 1,
         "node1:7");
}

TEST(Launch, whatFlagsAndVariablesSayTogetherNamesBoth) {
  EXPECT_TRUE(fails(launchWith({{"RANK", "0"}, {"WORLD_SIZE", "2"}}, {.rank = 3}),
                    {"rank 3 of 2 processes (torchrun's variables and flags): expected ranks from 0 to 1"}));
}

TEST(Launch, flagsReplaceVariables) {
  const LaunchFlags all{Mode::automatic, 1, 2, 0, 55, "here"};
  expect(launchWith({}, all), 1, 2, 0, "here:55");
  expect(launchWith(kTorchrun, all), 1, 2, 0, "here:55");
  expect(launchWith(kTorchrun, {.rank = 7}), 7, 8, 1, "node1:4321");
  expect(launchWith(with(kMaster, {{"WORLD_SIZE", "8"}}), {.rank = 7}), 7, 8, {}, "node1:4321");
  expect(launchWith(kTorchrun, {Mode::none, 1, 2, {}, 55, "here"}), 1, 2, {}, "here:55");
}

TEST(Launch, noneMeansNoVariables) {
  expectAlone(launchWith(kTorchrun, {.mode = Mode::none}));
  EXPECT_TRUE(fails(launchWith(kTorchrun, {Mode::none, 1, 2, {}, {}, {}}), {"expected both, or --master-addr"}));
}

TEST(Launch, whatIsMissingIsListed) {
  EXPECT_TRUE(
      fails(launchWith({{"RANK", "1"}}),
            {"torchrun's variables are half set: found RANK = 1, no WORLD_SIZE, no LOCAL_RANK; expected RANK and "
             "WORLD_SIZE, or --rank and --world-size, or --launch none"}));
  EXPECT_TRUE(fails(launchWith({{"LOCAL_RANK", "0"}}), {"no RANK, no WORLD_SIZE, LOCAL_RANK = 0"}));
  EXPECT_TRUE(fails(launchWith({{"PMI_SIZE", "2"}}), {"MPICH's variables are half set: found no PMI_RANK"}));
  EXPECT_TRUE(fails(launchWith({}, {.rank = 1}), {"--rank without --world-size"}));
  EXPECT_TRUE(fails(launchWith({}, {.mode = Mode::env}), {"--launch env: found no RANK, no WORLD_SIZE, no OMPI"}));
  EXPECT_TRUE(fails(launchWith({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "node1"}}),
                    {"where rank 0 of 2 processes (torchrun's variables) listens is not said: found MASTER_ADDR = "
                     "node1, no MASTER_PORT; expected both, or --master-addr and --master-port; torchrun sets them"}));
  EXPECT_TRUE(fails(launchWith(with(kTorchrun, {{"MASTER_ADDR", ""}})), {"found MASTER_ADDR = , MASTER_PORT"}));
}

TEST(Launch, whatIsNoNumberIsNamed) {
  for (const char *bad : {"", "x", "1.5", "-1", "99999999999999999999", "8x"})
    EXPECT_TRUE(fails(launchWith(with(kTorchrun, {{"RANK", bad}})),
                      {fmt::format("RANK = '{}', expected a whole number from 0", bad)}));
  EXPECT_TRUE(fails(launchWith(with(kTorchrun, {{"MASTER_PORT", "70000"}})),
                    {"MASTER_PORT = '70000', expected a whole number from 1 to 65535"}));
  EXPECT_TRUE(fails(launchWith(with(kTorchrun, {{"WORLD_SIZE", "0"}})), {"WORLD_SIZE = '0', expected"}));
  EXPECT_TRUE(fails(launchWith(with(kTorchrun, {{"RANK", "8"}})),
                    {"rank 8 (on this machine 1) of 8 processes", "expected ranks from 0 to 7"}));
}

TEST(Launch, contradictionsAreListed) {
  const Set both = with(kTorchrun, {{"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "8"}, {"SLURM_STEP_ID", "0"}});
  EXPECT_TRUE(fails(launchWith(both), {"torchrun's variables contradict srun's: found RANK = 3, WORLD_SIZE = 8, "
                                       "SLURM_PROCID = 2, SLURM_NTASKS = 8; expected one of them"}));
  expect(launchWith(with(both, {{"SLURM_PROCID", "3"}})), 3, 8, 1, "node1:4321");
}

TEST(Launch, theFirstHostOfALIst) {
  for (const auto &[list, host] : std::vector<std::pair<std::string, std::string>>{{"node1", "node1"},
                                                                                   {"node1,node2", "node1"},
                                                                                   {"node[003-005,9]", "node003"},
                                                                                   {"a[7]b[1-2],c", "a7b1"},
                                                                                   {"n[1,3]x", "n1x"},
                                                                                   {"n[", "n"},
                                                                                   {"[]", ""},
                                                                                   {"", ""}})
    EXPECT_EQ(firstHost(list), host) << list;
}

} // namespace
} // namespace mgc::test
