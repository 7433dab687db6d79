#!/usr/bin/python3
"""CPU ranks on two machines (machines.py): python3 mgrun_machines.py BIN REPOSITORY KIND MPIRUN [FLAG..]

A slow network that loses frames changes no bit; when a machine is cut off, all end and say for whom they waited. Runs are
started by examples/cluster/mpirun.sh. KIND: openmpi or mpich.
"""
import machines

machines.enter()

import os
import re
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

BIN, ROOT, KIND, MPIRUN = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve(), sys.argv[3], sys.argv[4:]
NODES = ["node1", "node2"]
LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_", "SLURM_", "OMPI_", "PMI", "MPI_", "TORCHELASTIC_")
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}
PLANS = {"plan": "--tp 2 --pp 2", "apart": "--dp 2 --tp 2 --zero 1"}
ENDLESS = ["--mock-data", "--train-iters", "1000000", "--log-interval", "1"]
WAITED = r"rank \d \(stage \d\), step \d+.*: waited 5 s for rank"
# The transports below MPICH look at the kernel, not at the host name, and would share memory between these machines.
OVER_TCP = {"UCX_TLS": "tcp,self", "FI_PROVIDER": "tcp"}
# Into files of each process.
INTO_FILES = """#!/bin/sh
exec "$0.real" "$@" >"run/$$.out" 2>"run/$$.err"
"""


def setUpModule():
    folder = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(folder.cleanup)
    os.chdir(folder.name)
    for name, layout in PLANS.items():
        command = [BIN / "mgc", "compile", ROOT / "examples/tiny-gpt", "-o", name, "--target-cpu", "native", "--seq", "64", "--mbs",
                   "2", "--gbs", "8", *layout.split()]
        subprocess.run(command, check=True, capture_output=True)
    Path("bin").mkdir()
    Path("bin/mgrun.real").symlink_to(BIN / "mgrun")
    Path("bin/mgrun").write_text(INTO_FILES)
    Path("bin/mgrun").chmod(0o755)
    Path("hosts").write_text("# two ranks on each\nnode1:2\nnode2:2\n")
    global NETWORK
    NETWORK = machines.Network(NODES, Path("network"), delay=0.0005, loss=0.005)


def processes_of_mgrun():
    names = {}
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            names[int(entry.parent.name)] = entry.read_bytes().split(b"\0")[0]
        except OSError:  # it has just ended
            pass
    return [number for number, name in names.items() if name.endswith(b"mgrun.real")]


class Machines(unittest.TestCase):
    def start(self, plan, save, arguments):
        subprocess.run("rm -rf run; mkdir run", shell=True, check=True)
        agent = str(NETWORK.agent())
        variables = {"MPIRUN": " ".join(MPIRUN), "PATH": f"{Path('bin').resolve()}:{CLEAN['PATH']}", "HYDRA_LAUNCHER": "rsh",
                     "HYDRA_LAUNCHER_EXEC": agent, "OMPI_MCA_plm_rsh_agent": agent, **OVER_TCP}
        command = [ROOT / "examples/cluster/mpirun.sh", "hosts", Path(plan).resolve(), Path(save).resolve(), *arguments]
        return subprocess.Popen(command, env=CLEAN | variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True)

    def said(self, ending="err"):
        return [path.read_text() for path in sorted(Path("run").glob("*." + ending))]

    def run_apart(self, plan, save, *arguments, steps="3"):
        run = self.start(plan, save, ["--mock-data", "--train-iters", steps, *arguments])
        output, _ = run.communicate(timeout=300)
        self.assertEqual(run.returncode, 0, (output, self.said()))
        self.assertRegex("".join(self.said()), r"which meet at node1:\d+")

    def test_threads_and_machines_give_the_same_bits(self):
        for plan in PLANS:
            with self.subTest(plan=plan):
                self.run_apart(plan, plan + ".machines")
                subprocess.run([BIN / "mgrun", plan, "--mock-data", "--train-iters", "3", "--save", plan + ".threads"], check=True,
                               capture_output=True, env=CLEAN)
                for file in "model.safetensors", "config.json":
                    self.assertEqual(*[Path(f"{plan}.{kind}", file).read_bytes() for kind in ("machines", "threads")], file)
        self.assertGreater(NETWORK.switch.dropped, 0)

    def test_the_same_command_goes_on(self):
        for steps in "3", "6":
            self.run_apart("plan", "twice", "--lr-decay-iters", "6", steps=steps)
        self.assertEqual(Path("twice/latest_checkpointed_iteration.txt").read_text().strip(), "6")

    def cut(self, cable, timeout, within, pattern):
        """From then on all end within so many seconds, and one of them at least says why."""
        run = self.start("plan", f"cut{cable}{timeout}", [*ENDLESS, "--timeout", timeout])
        deadline = time.monotonic() + 120
        while "step 2:" not in "".join(self.said()):
            self.assertLess(time.monotonic(), deadline, self.said())
            self.assertIsNone(run.poll(), self.said())
            time.sleep(0.05)
        NETWORK.cut("node2", cable)
        begin = time.monotonic()
        try:
            while processes_of_mgrun():
                self.assertLess(time.monotonic() - begin, within, (processes_of_mgrun(), self.said()))
                time.sleep(0.1)
        finally:
            NETWORK.mend("node2")
            run.kill()  # a launcher may wait for a machine that is gone
            run.communicate()
        errors = self.said()
        self.assertEqual(len(errors), 4)
        self.assertTrue(any(re.search(pattern, text) for text in errors), errors)
        for text in errors:
            self.assertIn("mgrun: ", text)

    def test_a_cut_cable_ends_all(self):
        self.cut(True, "5", 40, WAITED)

    def test_an_interface_that_is_down_ends_all(self):
        self.cut(False, "5", 40, WAITED)

    def test_silence_is_noticed_before_the_deadline(self):
        self.cut(True, "600", 60, r"rank \d\b.*does not answer any more: is its machine down, or the network between\?")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
