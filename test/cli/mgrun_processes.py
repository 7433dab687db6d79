#!/usr/bin/python3
"""GPU ranks as processes of their own, without an MPI: python3 mgrun_processes.py BIN REPOSITORY [MGRUN]

On the stand-ins of CUDA, which LD_LIBRARY_PATH has. They give the bits of ranks that share a device, and however one of them ends,
all end soon and say why (launched.py). Ports are free ones. CPU ranks: mgrun_mpi.py.
"""
import contextlib
import os
import signal
import socket
import sys
import time
import unittest

import launched
import samples
from launched import MOCK, own
from tool_runs import BIN, CLEAN, ENDLESS, GOLDEN, compile_plan, end, enter_folder, free_port, run, start, wait_for

MGRUN = os.path.abspath(sys.argv[3]) if len(sys.argv) > 3 else BIN / "mgrun"


def setUpModule():
    enter_folder()
    for name, layout in [("plan", "--tp 2 --pp 2 --gbs 8"), ("zero", "--tp 2 --dp 2 --zero 1 --gbs 8"),
                         ("other", "--tp 2 --pp 2 --gbs 4"), ("grown", "--tp 2 --pp 2 --gbs 8 --rampup-batch-size 4 4 10")]:
        compile_plan(name, GOLDEN / "gpt2/config.json", "--target cuda:sm_90 --dtype bf16 --seq 16 --mbs 2", layout)


# A launcher's variables: rank, number of ranks, rank on its machine.
VARIABLES = {"torchrun": ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
             "srun": ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID")}


def told(launcher, rank, size):
    step = {"SLURM_STEP_ID": "0"} if launcher == "srun" else {}
    return dict(zip(VARIABLES[launcher], map(str, (rank, size, rank)))) | step


class Run:
    """One mgrun per entry of `ranks`, as the launcher would start them; `of_rank` gives plan, arguments and variables of each."""
    said = ""  # by the launcher

    def __init__(self, arguments, ranks=range(4), world=4, plan="plan", of_rank=lambda rank: {}, launcher="torchrun"):
        self.port, self.processes = free_port(), []
        for rank in ranks:
            facts = of_rank(rank)
            variables = CLEAN | told(launcher, rank, world) | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(self.port),
                                                               "MGC_EMULATE_CUDA": f"devices={min(world, 8)}"}
            variables = {name: value for name, value in (variables | facts.get("variables", {})).items() if value is not None}
            self.processes.append(start(MGRUN, facts.get("plan", plan), *arguments, *facts.get("arguments", []), env=variables))

    def pid(self, rank):
        return self.processes[rank].pid

    def wait_for(self, text, rank=0):
        return wait_for(self.processes[rank], text)

    def end(self, timeout=200):
        """(code, output, errors) of each."""
        deadline = time.monotonic() + timeout
        try:
            return [(process.returncode, *said) for process in self.processes
                    for said in [process.communicate(timeout=max(0.1, deadline - time.monotonic()))]]
        finally:
            for process in self.processes:
                process.kill()

    def fail(self, timeout):
        """Errors of each."""
        results = self.end(timeout)
        assert all(code == 1 for code, _, _ in results), results
        return [errors for _, _, errors in results]


def kill(test, run_, rank, seconds):
    """One process; the others end within so many seconds, and name it."""
    run_.processes[rank].kill()
    begin = time.monotonic()
    results = run_.end(4 * seconds)
    test.assertLess(time.monotonic() - begin, seconds)
    for other, (code, _, errors) in enumerate(results):
        if other != rank:
            test.assertEqual(code, 1, errors)
            test.assertRegex(errors, f"rank {rank}\\b.*ended without a word")
    return [errors for _, _, errors in results]


class Processes(launched.Launched, unittest.TestCase):
    start = staticmethod(Run)
    launcher, clean = "torchrun", CLEAN
    codes_of_rank_0s_error = [1, 0, 0, 0]
    other_flags = [("--seed", "5", "1234"), ("--lr", "5", "0.001"), ("--lr-decay-style", "cosine", "linear"), ("--clip-grad", "0.5", "1"),
                   ("--save", "two", "one"), ("--save-dtype", "f32", "bf16"), ("--save-interval", "2", "0")]
    usage = [(["--launch", "maybe"], {}, 2, "--launch"),
             (["--rank", "-1"], {}, 2, "found '-1', expected a whole number, at least 0"),
             (["--master-port", "0"], {}, 2, "at least 1, at most 65535"),
             (["--launch", "env"], {}, 1, "expected the variables of torchrun, mpirun or srun"),
             (["--rank", "1"], {}, 1, "--rank without --world-size"),
             ([], {"RANK": "1"}, 1, "torchrun's variables are half set: found RANK = 1, no WORLD_SIZE"),
             ([], {"RANK": "1", "WORLD_SIZE": "4"}, 1, "found no MASTER_ADDR, no MASTER_PORT"),
             ([], {"RANK": "x", "WORLD_SIZE": "4"}, 1, "RANK = 'x', expected a whole number")]

    def test_flags_replace_variables(self):
        port = str(free_port())
        flags = lambda rank: {"arguments": ["--launch", "none", "--rank", str(rank), "--world-size", "4", "--master-addr",
                                            "localhost", "--master-port", port]}
        self.succeed(Run(MOCK, of_rank=flags))

    def test_every_launcher(self):
        for launcher in VARIABLES:
            with self.subTest(launcher=launcher):
                self.succeed(Run(MOCK, launcher=launcher))

    def test_srun_without_master_addr(self):
        names = {"MASTER_ADDR": None, "SLURM_NODELIST": "localhost"}
        self.succeed(Run(MOCK, launcher="srun", of_rank=lambda rank: {"variables": names}))

    def test_one_process_of_one_runs_all_ranks(self):
        self.assertIn("4 steps: loss", run(MGRUN, "plan", *MOCK, env=CLEAN | {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}).stdout)

    # --- The end -----------------------------------------------------------------------------------------------

    def test_a_killed_process_ends_all(self):
        for rank in 2, 0:
            with self.subTest(rank=rank):
                run_ = Run(ENDLESS)
                run_.wait_for("step 3:")
                kill(self, run_, rank, 5)

    def test_a_process_that_stands_still_ends_all_at_the_deadline(self):
        run_ = Run([*ENDLESS, "--timeout", "2"])
        run_.wait_for("step 3:")
        run_.processes[3].send_signal(signal.SIGSTOP)
        said = run_.wait_for("waited 2 s for")
        run_.processes[3].send_signal(signal.SIGCONT)
        said += "".join(run_.fail(30))
        self.assertRegex(said, r"rank \d.* step \d+.*: waited 2 s for")

    def test_a_world_that_no_layout_has(self):
        for arguments, world, messages in [([], 2**24 + 1, ["WORLD_SIZE = '16777217'"]),
                                           (["--world-size", "99999999999"], 4, ["99999999999 processes", "expected at most 16777216"])]:
            for message in messages:
                self.fail_all(Run([*ENDLESS, *arguments], [0], world), message)

    def test_an_interrupt_while_others_have_not_come(self):
        run_ = Run(ENDLESS, [0])
        run_.wait_for("which meet at")
        end(run_.processes[0], signal.SIGINT, -signal.SIGINT, 10)

    # --- Processes of one run ------------------------------------------------------------------------------------

    def test_a_wrong_number_of_processes(self):
        self.fail_all(Run(MOCK, range(2), 2), "the plan has 4 ranks, found 2 processes (torchrun's variables)")

    def test_processes_that_disagree_on_their_number(self):
        results = self.fail_all(Run([*MOCK, "--timeout", "3"], of_rank=own(3, variables={"WORLD_SIZE": "8"})), "found 8")
        self.assertIn("the plan has 4 ranks, found 8 processes", results[3])
        self.assertRegex(results[0], "rank 3 .process .* does not come: plan: the plan has 4 ranks, found 8")

    def test_a_rank_that_is_missing(self):
        message = "rank 2 of them has not come; here are rank 0 (process "
        self.assertEqual(len(self.fail_all(Run([*MOCK, "--timeout", "1"], [0, 1, 3]), message)), 3)

    def test_wrong_starts_by_every_launcher(self):
        for launcher in VARIABLES:
            with self.subTest(launcher=launcher):
                eight = own(3, variables=told(launcher, 3, 8))
                self.fail_all(Run(MOCK, range(2), 2, launcher=launcher), f"the plan has 4 ranks, found 2 processes ({launcher}'s variables)")
                self.fail_all(Run(MOCK, [0, 1, 1, 3], launcher=launcher), "two processes are rank 1: process ")
                self.fail_all(Run([*MOCK, "--timeout", "1"], [0, 1, 3], launcher=launcher), "rank 2 of them has not come")
                self.fail_all(Run([*MOCK, "--timeout", "3"], launcher=launcher, of_rank=eight), "found 8 processes")

    def test_a_wrong_master_addr(self):
        begin = time.monotonic()
        self.fail_all(Run([*MOCK, "--master-addr", "192.0.2.1"], [0]), "'192.0.2.1' is no address of this machine")
        self.assertLess(time.monotonic() - begin, 10, "said at once")
        for text in "no-such-machine.invalid", "127.0.0.2":
            with self.subTest(address=text):
                results = Run([*MOCK, "--timeout", "2"], of_rank=own(2, variables={"MASTER_ADDR": text})).end(30)
                for rank, (code, _, errors) in enumerate(results):
                    self.assertEqual(code, 1, errors)
                    self.assertIn(text if rank == 2 else "rank 2 of them has not come", errors)

    def test_rank_0_that_is_missing(self):
        self.fail_all(Run([*MOCK, "--timeout", "1"], [1, 2, 3]), "Connection refused; is rank 0 running")

    def test_two_equal_ranks(self):
        self.fail_all(Run(MOCK, [0, 1, 1, 3]), "two processes are rank 1: process ")

    def test_a_port_that_is_taken(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = str(taken.getsockname()[1])
            self.fail_all(Run([*MOCK, "--master-port", port], [0]), f"cannot listen on 127.0.0.1:{port}: Address already in use")

    def test_strangers_on_the_port(self):
        run_ = Run(MOCK, [0, 1, 2])
        run_.wait_for("which meet at")
        for garbage in b"GET / HTTP/1.1\r\n\r\n", os.urandom(100_000), b"":
            for _ in range(100):
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", run_.port), 5) as stranger:
                    stranger.sendall(garbage)
                    break
        variables = told("torchrun", 3, 4) | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(run_.port), "MGC_EMULATE_CUDA": "devices=4"}
        run_.processes.append(start(MGRUN, "plan", *MOCK, env=CLEAN | variables))
        self.succeed(run_)


if __name__ == "__main__":
    samples.main(sys.argv[:1] + sys.argv[4:])
