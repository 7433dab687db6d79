#!/usr/bin/python3
"""CPU ranks on two machines (machines.py): python3 mgrun_machines.py BIN REPOSITORY KIND MPIRUN [FLAG..]

A slow network that loses frames changes no bit; when a machine is cut off, all end and say for whom they waited. Runs are
started by examples/cluster/mpirun.sh. KIND: openmpi or mpich.
"""
import machines

machines.enter()

import re
import subprocess
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "e2e"))
from tool_runs import (BIN, CLEAN, ENDLESS, ROOT, TINY_GPT, compile_plan, enter_folder, read, run, start, wait_for_end,  # noqa: E402
                       wait_until)

KIND, MPIRUN = sys.argv[3], sys.argv[4:]
NODES = ["node1", "node2"]
PLANS = {"plan": "--tp 2 --pp 2", "apart": "--dp 2 --tp 2 --zero 1"}
WAITED = r"rank \d \(stage \d\), step \d+.*: waited 5 s for rank"
# The transports below MPICH look at the kernel, not at the host name, and would share memory between these machines.
OVER_TCP = {"UCX_TLS": "tcp,self", "FI_PROVIDER": "tcp"}
# Into files of each process.
INTO_FILES = """#!/bin/sh
exec "$0.real" "$@" >"run/$$.out" 2>"run/$$.err"
"""


def setUpModule():
    enter_folder()
    for name, layout in PLANS.items():
        compile_plan(name, TINY_GPT, "--target-cpu native --seq 64 --mbs 2 --gbs 8", layout)
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
        return start(*command, env=CLEAN | variables, stderr=subprocess.STDOUT)

    def said(self, ending="err"):
        return [path.read_text() for path in sorted(Path("run").glob("*." + ending))]

    def run_apart(self, plan, save, *arguments, steps="3"):
        process = self.start(plan, save, ["--mock-data", "--train-iters", steps, *arguments])
        output, _ = process.communicate(timeout=300)
        self.assertEqual(process.returncode, 0, (output, self.said()))
        self.assertRegex("".join(self.said()), r"which meet at node1:\d+")

    def test_threads_and_machines_give_the_same_bits(self):
        for plan in PLANS:
            with self.subTest(plan=plan):
                self.run_apart(plan, plan + ".machines")
                run("mgrun", plan, "--mock-data", "--train-iters", "3", "--save", plan + ".threads")
                for file in "model.safetensors", "config.json":
                    self.assertEqual(*[read(f"{plan}.{kind}/{file}") for kind in ("machines", "threads")], file)
        self.assertGreater(NETWORK.switch.dropped, 0)

    def test_the_same_command_goes_on(self):
        for steps in "3", "6":
            self.run_apart("plan", "twice", "--lr-decay-iters", "6", steps=steps)
        self.assertEqual(Path("twice/latest_checkpointed_iteration.txt").read_text().strip(), "6")

    def cut(self, cable, timeout, within, pattern):
        """From then on all end within so many seconds, and one of them at least says why."""
        process = self.start("plan", f"cut{cable}{timeout}", [*ENDLESS, "--timeout", timeout])
        wait_until(lambda: "step 2:" in "".join(self.said()), process, 120)
        NETWORK.cut("node2", cable)
        deadline = time.monotonic() + within
        try:
            for pid in processes_of_mgrun():
                wait_for_end(pid, deadline - time.monotonic())
        finally:
            NETWORK.mend("node2")
            process.kill()  # a launcher may wait for a machine that is gone
            process.communicate()
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
