#!/usr/bin/python3
"""CPU ranks as processes of an MPI: python3 mgrun_mpi.py BIN REPOSITORY KIND MPIRUN [FLAG..]

They give the bits that threads give, and however one of them ends, all end soon and say why (launched.py). KIND: openmpi or mpich.
As a sample (samples.py), it runs other tests than that of the other kind.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

import launched
from launched import MOCK, own
from tool_runs import (BIN, CLEAN, ENDLESS, TINY_GPT, compile_plan, enter_folder, has_unnamed_file, read, run, start, wait_for_end,
                       wait_until, write, write_word_level)
import samples

KIND, MPIRUN = sys.argv[3], sys.argv[4:]
NAME = {"openmpi": "Open MPI", "mpich": "MPICH"}
PLUGINS = BIN.parent / "lib"
# Into files of each rank; exec: the process that the launcher knows is mgrun.
INTO_FILES = 'echo $$ >"$0.pid"; exec "$@" >"$0.out" 2>"$0.err"'


def compile_tiny(name, layout):
    compile_plan(name, TINY_GPT, "--target-cpu native --seq 64 --mbs 2", layout)


def setUpModule():
    enter_folder()
    for name, layout in [("plan", "--tp 2 --pp 2 --gbs 8"), ("zero", "--tp 2 --dp 2 --zero 1 --gbs 8"),
                         ("ring", "--tp 2 --cp 2 --cp-comm-type p2p --gbs 8"), ("other", "--tp 2 --pp 2 --gbs 4"),
                         ("grown", "--tp 2 --pp 2 --gbs 8 --rampup-batch-size 4 4 10")]:
        compile_tiny(name, layout)


class Run:
    """mpirun of one mgrun for each rank; `of_rank` gives its plan, arguments and variables."""
    number = 0
    failed = []  # runs whose mpirun is still to end

    def __init__(self, arguments, ranks=4, plan="plan", of_rank=lambda rank: {}, mgrun=BIN / "mgrun"):
        Run.number += 1
        self.files = [Path(f"run{Run.number}.{rank}") for rank in range(ranks)]
        command = list(MPIRUN)
        for rank, files in enumerate(self.files):
            facts = of_rank(rank)
            command += [":"] if rank else []
            command += ["-n", 1, "env", *(f"{name}={value}" for name, value in facts.get("variables", {}).items()),
                        "sh", "-c", INTO_FILES, files, mgrun, facts.get("plan", plan), *arguments, *facts.get("arguments", [])]
        self.process = start(*command, stderr=subprocess.STDOUT)

    def text(self, rank, ending):
        path = Path(f"{self.files[rank]}.{ending}")
        return path.read_text() if path.exists() else ""

    def pid(self, rank):
        return int(self.text(rank, "pid"))

    def wait_for(self, text, rank=0):
        wait_until(lambda: text in self.text(rank, "err"), self.process)

    def end(self, seconds=200):
        """(mpirun's code, output, errors) of each rank; no process is left."""
        try:
            self.said, _ = self.process.communicate(timeout=seconds)
        finally:
            self.process.kill()
        for rank in range(len(self.files)):
            wait_for_end(self.pid(rank), 5)
        return [(self.process.returncode, self.text(rank, "out"), self.text(rank, "err")) for rank in range(len(self.files))]

    def fail(self, seconds):
        """Errors of the ranks, all of which end. Open MPI's mpirun stays as long as it would wait for them: what code it ends with is
        looked at when the tests are done."""
        Run.failed.append(self)
        for rank in range(len(self.files)):
            wait_until(lambda rank=rank: self.text(rank, "pid").endswith("\n"), self.process)
            wait_for_end(self.pid(rank), seconds)
        return [self.text(rank, "err") for rank in range(len(self.files))]


class Mpi(launched.Launched, unittest.TestCase):
    start = staticmethod(Run)
    launcher, clean = NAME[KIND], CLEAN
    codes_of_rank_0s_error = [1] * 4
    other_flags = [("--seed", "5", "1234"), ("--lr", "5", "0.001"), ("--save-dtype", "f32", "bf16")]
    usage = [([], {"RANK": "0", "WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}, 1,
              "plan: the plan is for CPUs, and MPI carries the data of its 4 processes (torchrun's variables): no launcher of an "
              "MPI has started them; expected mpirun -n 4 mgrun of Open MPI or MPICH, or one process, which runs all ranks")]

    @classmethod
    def tearDownClass(cls):
        for started in Run.failed:
            said, _ = started.process.communicate(timeout=60)
            assert started.process.returncode != 0, said

    def succeed(self, started):
        results = super().succeed(started)
        self.assertFalse(re.search("warn|leak", started.said, re.I), started.said)
        return results

    def told(self, rank, cause, text):
        return f"mgrun: rank {cause}: {text}" if rank == 0 else ""

    def fail_all(self, started, message, seconds=30):
        """They share a screen: rank 0 tells an error, once they have met."""
        said = started.fail(seconds)
        self.assertIn(message, said[0])
        for errors in said[1:]:
            self.assertTrue("mgrun: " not in errors or message in errors, said)  # MPICH says that it was ended
        return said

    def fail_before_mpi(self, started, message):
        """mpirun may kill the others before they have said so too."""
        errors = "".join(started.fail(30))
        self.assertIn(message, errors)
        return errors

    def test_rings_of_keys_give_the_same_bits(self):
        self.compare_with_one_process("ring")

    def test_delays_change_nothing(self):
        self.compare_with_one_process("plan", ["--inject-delays", "3"])

    def test_one_that_is_late_to_end_does_not_stay(self):
        """MPI ends after the last call of all. Over TCP, where MPICH's MPI_Finalize waits for what the others do in theirs."""
        mgrun = self.without_plugins(KIND, folder="bin.late")
        plugin = mgrun.parent / f"libmgc_mpi_{KIND}.so"
        plugin.rename(f"{plugin}.real")
        plugin.write_bytes(read(BIN.parent / "test/cli/liblate_mpi_plugin.so"))
        for late in 0, 3:
            def of_rank(rank, late=late):
                own = {"UCX_TLS": "tcp,self", "FI_PROVIDER": "tcp", "ORDER": f"order{late}.{rank}"}
                return {"variables": own | ({"LATE": "1"} if rank == late else {})}
            self.succeed(Run([*MOCK, "--timeout", "20"], mgrun=mgrun, of_rank=of_rank))
            words = [line.split() for rank in range(4) for line in Path(f"order{late}.{rank}").read_text().splitlines()]
            times = {what: [int(time) for word, time in words if word == what] for what in ("dropped", "stop")}
            self.assertEqual([len(times["dropped"]), len(times["stop"])], [4, 4])
            self.assertGreater(min(times["stop"]), max(times["dropped"]))

    def test_one_process_of_one_runs_all_ranks(self):
        self.assertIn("4 steps: loss", self.succeed(Run(MOCK, ranks=1))[0][1])

    def test_a_master_that_is_said(self):
        address = lambda rank: {"variables": {"MASTER_ADDR": "localhost"}}
        self.assertIn("which meet at localhost:", self.succeed(Run(MOCK, of_rank=address))[0][2])

    # --- The end -----------------------------------------------------------------------------------------------

    def errors_of_a_kill(self, rank):
        started = Run(ENDLESS)
        started.wait_for("step 3:")
        begin = time.monotonic()
        os.kill(started.pid(rank), signal.SIGKILL)
        results = started.end(30)
        self.assertLess(time.monotonic() - begin, 10)
        self.assertNotEqual(results[0][0], 0)
        return [errors for _, _, errors in results], started.said

    def test_a_killed_process_ends_all(self):
        for rank in 2, 0:
            with self.subTest(rank=rank):
                for attempt in range(6):
                    errors, said = self.errors_of_a_kill(rank)
                    named = [text for text in errors if re.search(rf"rank {rank}\b.*ended without a word", text)]
                    # MPICH's mpirun, or UCX below it, may end the others before they can say it (docs/processes.md).
                    if named or not (KIND == "mpich" and ("signal 9" in said or any("ucs_fatal_error" in text for text in errors))):
                        break
                self.assertTrue(named, (errors, said))
                place = r"rank \d \(stage \d\), step \d+|rank \d, before step \d+"  # in an instruction, or between steps
                self.assertTrue(any(re.search(place, text) for text in named), (errors, said))

    @unittest.skipUnless(KIND == "mpich", "of others SIGUSR1 is a request to end")
    def test_its_launchers_notice_of_a_death_is_no_request_to_end(self):
        started = Run(ENDLESS)
        started.wait_for("step 2:")
        for _ in range(2):
            for rank in range(4):
                os.kill(started.pid(rank), signal.SIGUSR1)
            time.sleep(1.1)  # two within a second are one request
        started.wait_for(f"step {started.text(0, 'err').count('step ') + 20}:")
        os.kill(started.pid(1), signal.SIGTERM)
        results = started.end(60)
        self.assertNotEqual(results[0][0], 0)
        self.assertIn("(interrupted)", results[0][1])

    def test_a_process_that_stands_still_is_named_at_the_deadline(self):
        started = Run([*ENDLESS, "--timeout", "2"])
        started.wait_for("step 3:")
        os.kill(started.pid(3), signal.SIGSTOP)
        errors = started.fail(20)
        self.assertTrue(any(re.search(r"rank \d \(stage \d\), step \d+.*: waited 2 s for rank", text) for text in errors), errors)

    def test_an_interrupt_while_lines_are_tokenized(self):
        write_word_level("tokenizer.json", ["work", "play"], "play")
        write("texts.jsonl", (json.dumps({"text": "work play " * 200}) + "\n") * 100000)
        started = Run(["--train-iters", "1000000", "--data", "texts.jsonl", "--tokenizer-model", "tokenizer.json"],
                      of_rank=lambda rank: {"variables": {"TMPDIR": os.getcwd()}})
        wait_until(lambda: started.text(2, "pid").endswith("\n") and has_unnamed_file(started.pid(2), os.getcwd()), started.process)
        os.kill(started.pid(2), signal.SIGTERM)
        # The code is that of one of them: the others end with 1.
        self.assertIn("texts.jsonl: a request to end came while its lines were tokenized", "".join(started.fail(60)))

    def test_an_interrupt_of_mpirun_ends_all(self):
        """Open MPI's passes SIGUSR1 on, and all save; others end them at once."""
        started = Run([*ENDLESS, "--save", "stopped"])
        started.wait_for("step 2:")
        started.process.send_signal(signal.SIGUSR1 if KIND == "openmpi" else signal.SIGINT)
        self.assertNotEqual(started.end(60)[0][0], 0)
        if KIND == "openmpi":
            self.assertTrue(os.path.exists("stopped/model.safetensors"), started.said)

    # --- Processes of one run ------------------------------------------------------------------------------------

    def test_a_wrong_number_of_processes(self):
        self.fail_all(Run(MOCK, ranks=2), f"the plan has 4 ranks, found 2 processes ({NAME[KIND]}'s variables)")

    def test_processes_that_disagree_on_their_number(self):
        errors = Run([*MOCK, "--timeout", "3"], of_rank=own(3, arguments=["--world-size", "8"])).fail(30)
        self.assertRegex(errors[3], r"counts this process as rank 3 of 4, the launcher as rank 3 of 8 .*expected the same")

    # --- Choice of the MPI -----------------------------------------------------------------------------------------

    def without_plugins(self, *kept, folder=None):
        """A folder with mgrun and the plugins of these kinds: its mgrun."""
        folder = Path(folder or f"bin.{'.'.join(kept)}").resolve()
        if not folder.exists():
            folder.mkdir()
            shutil.copy(BIN / "mgrun", folder)
            for kind in kept:
                shutil.copy(PLUGINS / f"libmgc_mpi_{kind}.so", folder)
        return folder / "mgrun"

    def test_a_plugin_that_is_missing(self):
        errors = self.fail_before_mpi(Run(MOCK, mgrun=self.without_plugins()),
                                      f"the plugin for {NAME[KIND]}, libmgc_mpi_{KIND}.so, is not at")
        self.assertIn(f"it is built where CMake finds an mpicc of {NAME[KIND]}", errors)

    def test_the_plugin_of_the_other_kind(self):
        other = "mpich" if KIND == "openmpi" else "openmpi"
        if not os.path.exists(PLUGINS / f"libmgc_mpi_{other}.so"):
            self.skipTest(f"no plugin for {NAME[other]}")
        self.fail_before_mpi(Run(MOCK, mgrun=self.without_plugins(other)), f"there is that for {NAME[other]}: its mpirun would work")
        disguised = self.without_plugins(other, KIND)
        shutil.copy(PLUGINS / f"libmgc_mpi_{other}.so", disguised.parent / f"libmgc_mpi_{KIND}.so")
        self.fail_before_mpi(Run(MOCK, mgrun=disguised),
                             f"was built for {NAME[other]}, the launcher is that of {NAME[KIND]}; expected the plugin for {NAME[KIND]}")

    def test_a_launcher_that_is_none(self):
        """Processes that say they are of an mpirun: MPI knows each as a world of its own."""
        size = {"openmpi": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), "mpich": ("PMI_RANK", "PMI_SIZE")}[KIND]
        alone = run("mgrun", "plan", *MOCK, "--timeout", "40", env=CLEAN | {size[0]: "1", size[1]: "4"}, code=None)
        self.assertNotEqual(alone.returncode, 0)
        self.assertRegex(alone.stderr, "counts this process as rank 0 of 1, the launcher as rank 1 of 4|MPI_Init_thread")

    def test_many_ranks_start(self):
        compile_tiny("wide", "--dp 32 --gbs 64")
        self.succeed(Run(["--mock-data", "--train-iters", "1", "--threads", "1"], ranks=32, plan="wide"))


if __name__ == "__main__":
    samples.main(sys.argv[:1], list(NAME).index(KIND))
