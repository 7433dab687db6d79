#!/usr/bin/python3
"""CPU ranks under Slurm on two machines (test/cli/machines.py): python3 slurm_check.py BUILD [TEST..]

Both srun modes of starting an MPI give the bits of threads; the batch script of examples/cluster is requeued and goes on; a
killed task ends the step with its cause. scripts/slurm-check runs it.
"""
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "test/cli"))

import machines

machines.enter()

import os
import signal
import subprocess
import tempfile
import time
import unittest

BUILD = Path(sys.argv[1]).resolve()
NODES = ["node1", "node2"]
KINDS = {kind: flag for kind, flag in {"openmpi": "pmix", "mpich": "pmi2"}.items()
         if (BUILD / f"lib/libmgc_mpi_{kind}.so").exists()}
MOCK = ["--mock-data", "--train-iters", "4"]

# No control groups and no systemd are needed: processes are found by their parents (linuxproc). TmpFS: Slurm's PMIx makes a
# folder there whose name is that of the step alone, so machines that share a file system need one each. cred_expire: a job that
# is requeued waits for so many seconds.
CONFIGURATION = """ClusterName=check
SlurmctldHost=head
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
TmpFS={folder}/tmp-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
SwitchType=switch/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
NodeName=node[1-2] CPUs=2
PartitionName=all Nodes=ALL Default=YES MaxTime=60 State=UP
"""


class Cluster:
    def __init__(self, folder):
        self.folder = folder.resolve()
        self.network = machines.Network(NODES, folder / "network")
        for name in "state", *(f"{kind}-{node}" for kind in ("spool", "tmp") for node in NODES):
            (self.folder / name).mkdir()
        (self.folder / "munge.key").write_bytes(os.urandom(128))
        (self.folder / "munge.key").chmod(0o400)
        self.folder.chmod(0o755)
        (self.folder / "slurm.conf").write_text(CONFIGURATION.format(folder=self.folder))
        self.variables = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "PMI", "OMPI_"))}
        self.variables |= {"SLURM_CONF": str(self.folder / "slurm.conf"), "PATH": f"{BUILD / 'bin'}:{os.environ['PATH']}"}
        self.daemons = []
        files = [f"--{name.replace(' ', '-')}={self.folder}/munge.{name.split()[0]}" for name in
                 ("key file", "socket", "pid file", "log file", "seed file")]
        self.daemon("munged", ["munged", "--foreground", "--force", *files])
        self.wait(lambda: (self.folder / "munge.socket").exists(), "munged")
        self.daemon("slurmctld", ["slurmctld", "-D"])
        for node in NODES:
            self.daemon(node, [*self.network.on(node), "slurmd", "-D", "-N", node])
        self.wait(lambda: self.run(["sinfo", "--noheader", "--states=idle", "--format=%D"]).stdout.strip() == "2", "both nodes")

    def daemon(self, name, command):
        with open(self.folder / (name + ".out"), "w") as out:
            self.daemons.append(subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, env=self.variables))

    def logs(self):
        return "".join(f"--- {path.name}\n{path.read_text()[-1500:]}" for pattern in ("*.out", "*.log")
                       for path in sorted(self.folder.glob(pattern)))

    def wait(self, isDone, what, seconds=60):
        deadline = time.monotonic() + seconds
        while not isDone():
            if time.monotonic() > deadline:
                raise AssertionError(f"waited {seconds} s for {what}\n{self.logs()}")
            time.sleep(0.2)

    def run(self, command, seconds=120):
        return subprocess.run(command, env=self.variables, capture_output=True, text=True, timeout=seconds)

    def stop(self):
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in self.daemons:
            daemon.wait(20)


def setUpModule():
    folder = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(folder.cleanup)
    os.chdir(folder.name)
    Path("cluster").mkdir()
    global CLUSTER
    CLUSTER = Cluster(Path("cluster"))
    unittest.addModuleCleanup(CLUSTER.stop)
    compile_plan = [BUILD / "bin/mgc", "compile", ROOT / "examples/tiny-gpt", "-o", "plan", "--target-cpu", "native", "--seq", "64",
                    "--mbs", "2", "--gbs", "8", "--tp", "2", "--pp", "2"]
    subprocess.run(compile_plan, check=True, capture_output=True)


def srun(kind, *arguments):
    return ["srun", "--nodes=2", "--ntasks=4", "--mpi=" + KINDS[kind], "mgrun", "plan", *arguments]


class Slurm(unittest.TestCase):
    def threads(self, name, *arguments):
        run = CLUSTER.run(["mgrun", "plan", "--mock-data", *arguments, "--save", name])
        self.assertEqual(run.returncode, 0, run.stderr)

    def assert_same_weights(self, one, other):
        self.assertEqual(*[Path(name, "model.safetensors").read_bytes() for name in (one, other)])

    def test_tasks_give_the_bits_of_threads(self):
        self.threads("threads", "--train-iters", "4")
        for kind in KINDS:
            with self.subTest(kind=kind):
                run = CLUSTER.run(srun(kind, *MOCK, "--save", kind))
                self.assertEqual(run.returncode, 0, (run.stderr, CLUSTER.logs()))
                self.assertRegex(run.stderr, r"rank 0 of 4 processes \(.*'s variables\), which meet at node1:\d+")
                self.assert_same_weights("threads", kind)

    def test_a_killed_task_ends_all(self):
        for kind in KINDS:
            with self.subTest(kind=kind), open(kind + ".err", "w+") as errors:
                endless = srun(kind, "--mock-data", "--train-iters", "1000000", "--log-interval", "1", "--timeout", "30")
                endless[1:1] = ["--label", "--kill-on-bad-exit=0"]
                run = subprocess.Popen(endless, env=CLUSTER.variables, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors)
                CLUSTER.wait(lambda: "step 2:" in Path(kind + ".err").read_text(), "step 2")
                victim = next(int(path.parent.name) for path in Path("/proc").glob("[0-9]*/environ")
                              if b"SLURM_PROCID=2" in path.read_bytes() and path.with_name("comm").read_text().startswith("mgrun"))
                os.kill(victim, signal.SIGKILL)
                code = run.wait(60)
                text = Path(kind + ".err").read_text()
                self.assertNotEqual(code, 0, text)
                self.assertRegex(text, r"rank 2\b.*ended without a word")

    def submitted(self, kind, save, *steps):
        """The job of the batch script, once it has done two steps."""
        out = Path(save + ".out")
        script = [ROOT / "examples/cluster/slurm.sbatch", "plan", save, "--mock-data", "--log-interval", "1", *steps]
        run = CLUSTER.run(["sbatch", "--parsable", "--nodes=2", "--ntasks-per-node=2", "--time=30", f"--output={out}",
                           f"--export=ALL,MPI={KINDS[kind]}", *script])
        self.assertEqual(run.returncode, 0, run.stderr)
        CLUSTER.wait(lambda: out.exists() and "step 2:" in out.read_text(), "step 2")
        return run.stdout.strip(), out

    def facts(self, job):
        return CLUSTER.run(["scontrol", "show", "job", job]).stdout

    def test_a_batch_that_must_end_goes_on(self):
        for kind in KINDS:
            with self.subTest(kind=kind):
                job, out = self.submitted(kind, kind + ".batch", "--train-iters", "12")
                # Slurm does this two minutes before the limit.
                CLUSTER.run(["scancel", "--signal=USR1", job])
                CLUSTER.wait(lambda: "requeued" in out.read_text(), "the requeue")
                self.assertIn("(interrupted)", out.read_text())
                CLUSTER.wait(lambda: "JobState=COMPLETED" in self.facts(job), "the end of the job", 240)
                self.assertIn("Restarts=1", self.facts(job))
        self.threads("whole", "--train-iters", "12")
        for kind in KINDS:
            self.assert_same_weights("whole", kind + ".batch")

    def test_a_batch_that_slurm_requeues_goes_on(self):
        """As it does when a machine fails or another job comes first."""
        for kind in KINDS:
            with self.subTest(kind=kind):
                job, out = self.submitted(kind, kind + ".requeued", "--train-iters", "12", "--save-interval", "1")
                self.assertEqual(CLUSTER.run(["scontrol", "requeue", job]).returncode, 0)
                CLUSTER.wait(lambda: "JobState=COMPLETED" in self.facts(job), "the end of the job", 240)
                self.assertIn("Restarts=1", self.facts(job))
                self.assertRegex(out.read_text(), r"goes on after \d+ steps")
        self.threads("unbroken", "--train-iters", "12")
        for kind in KINDS:
            self.assert_same_weights("unbroken", kind + ".requeued")

    def test_scancel_ends_a_batch_for_good(self):
        for kind in KINDS:
            with self.subTest(kind=kind):
                save = kind + ".canceled"
                job, out = self.submitted(kind, save, "--train-iters", "1000000")
                CLUSTER.run(["scancel", job])
                CLUSTER.wait(lambda: "JobState=CANCELLED" in self.facts(job), "the end of the job")
                CLUSTER.wait(lambda: not CLUSTER.run(["squeue", "--noheader"]).stdout.strip(), "an empty queue")
                self.assertIn("Restarts=0", self.facts(job))
                self.assertIn("(interrupted)", out.read_text())
                self.threads(kind + ".continued", "--load", save, "--train-iters", "1000000", "--exit-interval", "1")  # whole


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
