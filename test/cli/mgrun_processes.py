#!/usr/bin/python3
"""GPU ranks as processes of their own, without an MPI: python3 mgrun_processes.py BIN REPOSITORY [MGRUN]

On the stand-ins of CUDA, which LD_LIBRARY_PATH has. They give the bits of ranks that share a device, and however one of them ends,
all end soon and say why. Ports are free ones. CPU ranks: mgrun_mpi.py.
"""
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

BIN, ROOT = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
MGRUN = os.path.abspath(sys.argv[3]) if len(sys.argv) > 3 else BIN + "/mgrun"
LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_", "SLURM_", "OMPI_", "PMI", "MPI_", "TORCHELASTIC_")
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}
MOCK = ["--mock-data", "--train-iters", "4"]
ENDLESS = ["--mock-data", "--train-iters", "1000000"]


def setUpModule():
    folder = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(folder.cleanup)
    os.chdir(folder.name)
    for name, layout in [("plan", "--tp 2 --pp 2 --gbs 8"), ("zero", "--tp 2 --dp 2 --zero 1 --gbs 8"),
                         ("other", "--tp 2 --pp 2 --gbs 4"),
                         ("grown", "--tp 2 --pp 2 --gbs 8 --rampup-batch-size 4 4 10")]:
        command = [BIN + "/mgc", "compile", ROOT + "/test/golden/gpt2/config.json", "-o", name, "--target", "cuda:sm_90"]
        subprocess.run(command + f"--dtype bf16 --seq 16 --mbs 2 {layout}".split(), check=True, capture_output=True)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


# A launcher's variables: rank, number of ranks, rank on its machine.
VARIABLES = {"torchrun": ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
             "srun": ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID")}


def told(launcher, rank, size):
    step = {"SLURM_STEP_ID": "0"} if launcher == "srun" else {}
    return dict(zip(VARIABLES[launcher], map(str, (rank, size, rank)))) | step


class Run:
    """One mgrun per entry of `ranks`, as the launcher would start them."""

    def __init__(self, ranks, arguments, world=4, plan="plan", of_rank=lambda rank: {}, launcher="torchrun"):
        self.port = free_port()
        self.processes = []
        for rank in ranks:
            own = of_rank(rank)
            variables = CLEAN | told(launcher, rank, world) | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(self.port),
                                                               "MGC_EMULATE_CUDA": f"devices={min(world, 8)}"}
            variables |= own.get("variables", {})
            variables = {name: value for name, value in variables.items() if value is not None}
            command = [MGRUN, own.get("plan", plan), *arguments, *own.get("arguments", [])]
            self.processes.append(subprocess.Popen(command, env=variables, stdin=subprocess.DEVNULL, text=True,
                                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE))

    def wait_for(self, text, process=0):
        for line in self.processes[process].stderr:
            if text in line:
                return
        raise AssertionError(f"{text} was never printed")

    def end(self, timeout=200):
        """(code, output, errors) of each."""
        results, deadline = [], time.monotonic() + timeout
        for process in self.processes:
            try:
                output, errors = process.communicate(timeout=max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                for other in self.processes:
                    other.kill()
                raise
            results.append((process.returncode, output, errors))
        return results


def kill(test, run, rank, seconds):
    """One process; the others end within so many seconds, and name it."""
    run.processes[rank].kill()
    begin = time.monotonic()
    results = run.end(4 * seconds)
    test.assertLess(time.monotonic() - begin, seconds)
    for other, (code, _, errors) in enumerate(results):
        if other != rank:
            test.assertEqual(code, 1, errors)
            test.assertRegex(errors, f"rank {rank}\\b.*ended without a word")
    return [errors for _, _, errors in results]


class Processes(unittest.TestCase):
    def succeed(self, run):
        for code, _, errors in run.end():
            self.assertEqual(code, 0, errors)

    def fail_all(self, run, message, timeout=20):
        results = run.end(timeout)
        for code, _, errors in results:
            self.assertEqual(code, 1, errors)
            self.assertIn(message, errors)
        return results

    def compare_with_one_process(self, plan, arguments=(), length=("--train-iters", "4")):
        files = lambda name: ["--save", name, "--log", name + ".jsonl", "--save-gradients", name + ".safetensors"]
        one, several = (f"{self._testMethodName}.{kind}" for kind in ("one", "processes"))
        subprocess.run([MGRUN, plan, "--mock-data", *length, *arguments, *files(one)], check=True, capture_output=True, env=CLEAN)
        self.succeed(Run(range(4), ["--mock-data", *length, *arguments, *files(several)], plan=plan))
        for suffix in "/model.safetensors", "/config.json", ".safetensors":
            self.assertEqual(read(one + suffix), read(several + suffix), suffix)
        logs = [[{key: value for key, value in json.loads(line).items() if not key.endswith("seconds")}
                 for line in read(name + ".jsonl").splitlines()] for name in (one, several)]
        self.assertEqual(logs[0], logs[1])
        self.assertEqual(len(logs[0]), 4)

    def test_tensor_and_pipeline_parallel_ranks_give_the_same_bits(self):
        self.compare_with_one_process("plan")

    def test_growing_batches_give_the_same_bits(self):
        self.compare_with_one_process("grown", ["--rampup-batch-size", "4", "4", "10"], ["--train-samples", "21"])

    def test_sharded_optimizers_give_the_same_bits(self):
        self.compare_with_one_process("zero")

    def test_weights_are_read_by_all(self):
        self.succeed(Run(range(4), [*MOCK, "--save", "first"]))
        self.compare_with_one_process("plan", ["--load", "first/model.safetensors"])

    def test_only_rank_0_shows_something(self):
        results = Run(range(4), MOCK).end()
        self.assertIn("step 3: loss", results[0][2])
        self.assertIn("4 steps: loss", results[0][1])
        for code, output, errors in results[1:]:
            self.assertEqual((code, output, errors), (0, "", ""))

    def test_flags_replace_variables(self):
        port = str(free_port())
        flags = lambda rank: {"arguments": ["--launch", "none", "--rank", str(rank), "--world-size", "4", "--master-addr",
                                            "localhost", "--master-port", port]}
        self.succeed(Run(range(4), MOCK, of_rank=flags))

    def test_every_launcher(self):
        for launcher in VARIABLES:
            with self.subTest(launcher=launcher):
                self.succeed(Run(range(4), MOCK, launcher=launcher))

    def test_srun_without_master_addr(self):
        names = {"MASTER_ADDR": None, "SLURM_NODELIST": "localhost"}
        self.succeed(Run(range(4), MOCK, launcher="srun", of_rank=lambda rank: {"variables": names}))

    def test_one_process_of_one_runs_all_ranks(self):
        variables = CLEAN | {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}
        run = subprocess.run([MGRUN, "plan", *MOCK], env=variables, capture_output=True, text=True, timeout=60)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("4 steps: loss", run.stdout)

    def test_each_process_traces_and_profiles_its_own_rank(self):
        results = Run(range(4), [*MOCK, "--profile", "--trace", "trace.json", "--profile-json", "profile.json"]).end()
        for rank, (code, _, errors) in enumerate(results):
            self.assertEqual(code, 0, errors)
            events = json.loads(read(f"trace.rank{rank}.json"))["traceEvents"]
            self.assertEqual({event["tid"] for event in events}, {rank})
            layers = {(event["args"]["layer"], event["name"].split("/")[0]) for event in events
                      if event["name"].startswith("layer.") and "layer" in event["args"]}
            self.assertTrue(layers)
            self.assertTrue(all(name in (f"layer.{layer}.forward", f"layer.{layer}.backward") for layer, name in layers), layers)
            self.assertEqual(json.loads(read(f"profile.rank{rank}.json"))["ranks"], 1)
        self.assertIn("of the bound", results[0][1])

    # --- The end -----------------------------------------------------------------------------------------------

    def test_a_killed_process_ends_all(self):
        for rank in 2, 0:
            with self.subTest(rank=rank):
                run = Run(range(4), [*ENDLESS, "--log-interval", "1"])
                run.wait_for("step 3:")
                kill(self, run, rank, 5)

    def test_a_process_that_stands_still_ends_all_at_the_deadline(self):
        run = Run(range(4), [*ENDLESS, "--log-interval", "1", "--timeout", "2"])
        run.wait_for("step 3:")
        run.processes[3].send_signal(signal.SIGSTOP)
        time.sleep(4)
        run.processes[3].send_signal(signal.SIGCONT)
        messages = [errors for code, _, errors in run.end(30) if code == 1]
        self.assertEqual(len(messages), 4)
        self.assertTrue(any(re.search(r"rank \d.* step \d+.*: waited 2 s for", errors) for errors in messages), messages)

    def test_an_error_is_told_in_full_once(self):
        self.succeed(Run(range(4), [*MOCK, "--save", "whole"]))
        weights = lambda rank: {"arguments": ["--load", "whole/model.safetensors" if rank != 2 else "plan/plan.json"]}
        results = Run(range(4), MOCK, of_rank=weights).end(20)
        for rank, (code, _, errors) in enumerate(results):
            self.assertEqual(code, 1, errors)
            self.assertIn("mgrun: plan/plan.json" if rank == 2 else f"mgrun: rank {rank} ends because of rank 2: plan/plan.json",
                          errors)

    def test_other_weights_in_one_process_end_all(self):
        for seed in "1", "2":
            subprocess.run([MGRUN, "plan", "--mock-data", "--train-iters", "1", "--seed", seed, "--save", "from-" + seed],
                           check=True, capture_output=True, env=CLEAN)
        weights = lambda rank: {"arguments": ["--load", f"from-{2 if rank == 3 else 1}/model.safetensors"]}
        results = self.fail_all(Run(range(4), ENDLESS, of_rank=weights), "expected finite weights, and the same checkpoint for all")
        self.assertRegex(results[0][2], r"parameter \S+: ranks 3 differ from rank \d")

    def test_a_world_that_no_layout_has(self):
        code, _, errors = Run([0], ENDLESS, world=2**24 + 1).end(20)[0]
        self.assertEqual(code, 1)
        self.assertIn("WORLD_SIZE = '16777217'", errors)
        code, _, errors = Run([0], [*ENDLESS, "--world-size", "99999999999"]).end(20)[0]
        self.assertEqual(code, 1)
        self.assertIn("99999999999 processes", errors)
        self.assertIn("expected at most 16777216", errors)

    def test_an_interrupt_while_others_have_not_come(self):
        run = Run([0], ENDLESS)
        run.wait_for("which meet at")
        time.sleep(0.3)
        run.processes[0].send_signal(signal.SIGINT)
        self.assertEqual(run.end(10)[0][0], -signal.SIGINT)

    def test_an_unwritable_output_of_rank_0_ends_all(self):
        self.fail_all(Run(range(4), [*ENDLESS, "--save", "/dev/null"]), "/dev/null")

    def test_a_failing_log_does_not_end_the_training(self):
        results = Run(range(4), [*MOCK, "--log", "/dev/full", "--save", "kept"]).end(60)
        for rank, (code, _, errors) in enumerate(results):
            self.assertEqual(code, 1 if rank == 0 else 0, errors)
        self.assertIn("/dev/full: cannot be written: No space left on device; the training goes on", results[0][2])
        self.assertIn("4 of the steps are not in it", results[0][2])
        run = subprocess.run([MGRUN, "plan", *MOCK, "--load", "kept/model.safetensors"], env=CLEAN, capture_output=True, timeout=60)
        self.assertEqual(run.returncode, 0)

    def test_an_interrupt_of_one_ends_all_after_the_same_step(self):
        run = Run(range(4), [*ENDLESS, "--log-interval", "1", "--save", "interrupted", "--log", "interrupted.jsonl"])
        run.wait_for("step 2:")
        run.processes[1].send_signal(signal.SIGINT)
        results = run.end(30)
        self.assertEqual([code for code, _, _ in results], [130] * 4, results)
        self.assertIn("(interrupted)", results[0][1])
        self.assertIn(f"{len(read('interrupted.jsonl').splitlines())} steps (interrupted)", results[0][1])
        self.assertTrue(os.path.exists("interrupted/model.safetensors"))

    # --- Processes of one run ------------------------------------------------------------------------------------

    def test_a_wrong_number_of_processes(self):
        self.fail_all(Run(range(2), MOCK, world=2), "the plan has 4 ranks, found 2 processes (torchrun's variables)")

    def test_processes_that_disagree_on_their_number(self):
        size = lambda rank: {"variables": {"WORLD_SIZE": "8"}, "plan": "plan"} if rank == 3 else {}
        results = Run(range(4), [*MOCK, "--timeout", "3"], of_rank=size).end(20)
        self.assertIn("the plan has 4 ranks, found 8 processes", results[3][2])
        self.assertRegex(results[0][2], "rank 3 .process .* does not come: plan: the plan has 4 ranks, found 8")

    def test_a_rank_that_is_missing(self):
        results = self.fail_all(Run([0, 1, 3], [*MOCK, "--timeout", "1"]), "rank 2 of them has not come; here are rank 0 (process ")
        self.assertEqual(len(results), 3)

    def test_wrong_starts_by_every_launcher(self):
        for launcher in VARIABLES:
            with self.subTest(launcher=launcher):
                own = lambda rank, size: {"variables": told(launcher, rank, size)}
                self.fail_all(Run(range(2), MOCK, world=2, launcher=launcher),
                              f"the plan has 4 ranks, found 2 processes ({launcher}'s variables)")
                self.fail_all(Run([0, 1, 1, 3], MOCK, launcher=launcher), "two processes are rank 1: process ")
                self.fail_all(Run([0, 1, 3], [*MOCK, "--timeout", "1"], launcher=launcher), "rank 2 of them has not come")
                results = Run(range(4), [*MOCK, "--timeout", "3"], launcher=launcher,
                              of_rank=lambda rank: own(rank, 8) if rank == 3 else {}).end(20)
                self.assertTrue(all(code == 1 and "found 8 processes" in errors for code, _, errors in results), results)

    def test_a_wrong_master_addr(self):
        (begin, (code, _, errors)) = (time.monotonic(), Run([0], [*MOCK, "--master-addr", "192.0.2.1"]).end(20)[0])
        self.assertEqual(code, 1)
        self.assertIn("'192.0.2.1' is no address of this machine", errors)
        self.assertLess(time.monotonic() - begin, 10, "said at once")
        address = lambda text: lambda rank: {"variables": {"MASTER_ADDR": text}} if rank == 2 else {}
        for text in "no-such-machine.invalid", "127.0.0.2":
            with self.subTest(address=text):
                results = Run(range(4), [*MOCK, "--timeout", "2"], of_rank=address(text)).end(30)
                for rank, (code, _, errors) in enumerate(results):
                    self.assertEqual(code, 1, errors)
                    self.assertIn(text if rank == 2 else "rank 2 of them has not come", errors)

    def test_rank_0_that_is_missing(self):
        self.fail_all(Run([1, 2, 3], [*MOCK, "--timeout", "1"]), "Connection refused; is rank 0 running")

    def test_a_plan_that_one_does_not_have(self):
        for rank in 0, 2:
            with self.subTest(rank=rank):
                absent = lambda other: {"plan": "absent"} if other == rank else {}
                missing = "absent: has no plan.json, expected the folder that mgc compile -o wrote"
                results = self.fail_all(Run(range(4), MOCK, of_rank=absent), missing)
                self.assertRegex(results[1][2], f"rank {rank} .process .* does not come: absent: has no plan.json")

    def test_two_equal_ranks(self):
        self.fail_all(Run([0, 1, 1, 3], MOCK), "two processes are rank 1: process ")

    def test_another_plan(self):
        self.fail_all(Run(range(4), MOCK, of_rank=lambda rank: {"plan": "other"} if rank == 2 else {}),
                      "rank 2 (process ")

    def test_other_flags(self):
        for flag, value, other in [("--seed", "5", "1234"), ("--lr", "5", "0.001"), ("--lr-decay-style", "cosine", "linear"),
                                   ("--clip-grad", "0.5", "1"), ("--save", "two", "one"), ("--save-dtype", "f32", "bf16"),
                                   ("--save-interval", "2", "0")]:
            with self.subTest(flag=flag):
                common = {"--save-dtype": other} if flag == "--save-dtype" else {}
                own = lambda rank: {"--save": "one", **common, **({flag: value} if rank == 1 else {})}
                arguments = lambda rank: {"arguments": [word for pair in own(rank).items() for word in pair]}
                self.fail_all(Run(range(4), MOCK, of_rank=arguments),
                              f"expected the same for all:\n  {flag} = {value} on rank 1, {flag} = {other} on rank 0")
                self.assertFalse(os.path.exists("one"), "refused before anything was done")

    def test_other_data(self):
        for name, text in [("a.txt", b"abc" * 2000), ("b.txt", b"abd" * 2000)]:
            with open(name, "wb") as file:
                file.write(text)
        data = lambda rank: {"arguments": ["--data", "b.txt" if rank == 3 else "a.txt"]}
        self.fail_all(Run(range(4), ["--train-iters", "4"], of_rank=data), "rank 3 was given other data than rank 0")

    def test_a_port_that_is_taken(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = str(taken.getsockname()[1])
            (result,) = Run([0], MOCK, of_rank=lambda rank: {"arguments": ["--master-port", port]}).end(20)
        self.assertEqual(result[0], 1)
        self.assertIn(f"cannot listen on 127.0.0.1:{port}: Address already in use", result[2])

    def test_strangers_on_the_port(self):
        run = Run([0, 1, 2], MOCK)
        run.wait_for("which meet at")
        for garbage in b"GET / HTTP/1.1\r\n\r\n", os.urandom(100_000), b"":
            for _ in range(100):
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", run.port), 5) as stranger:
                    stranger.sendall(garbage)
                    break
        run.processes.append(subprocess.Popen(
            [MGRUN, "plan", *MOCK], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=CLEAN | {"RANK": "3", "WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1", "MGC_EMULATE_CUDA": "devices=4",
                         "MASTER_PORT": str(run.port)}))
        self.succeed(run)

    def test_usage(self):
        for arguments, variables, code, message in [
                (["--launch", "maybe"], {}, 2, "--launch"),
                (["--rank", "-1"], {}, 2, "found '-1', expected a whole number, at least 0"),
                (["--master-port", "0"], {}, 2, "at least 1, at most 65535"),
                (["--launch", "env"], {}, 1, "expected the variables of torchrun, mpirun or srun"),
                (["--rank", "1"], {}, 1, "--rank without --world-size"),
                ([], {"RANK": "1"}, 1, "torchrun's variables are half set: found RANK = 1, no WORLD_SIZE"),
                ([], {"RANK": "1", "WORLD_SIZE": "4"}, 1, "found no MASTER_ADDR, no MASTER_PORT"),
                ([], {"RANK": "x", "WORLD_SIZE": "4"}, 1, "RANK = 'x', expected a whole number")]:
            with self.subTest(arguments=arguments, variables=variables):
                run = subprocess.run([MGRUN, "plan", *MOCK, *arguments], env=CLEAN | variables, capture_output=True,
                                     text=True, timeout=60)
                self.assertEqual(run.returncode, code, run.stderr)
                self.assertIn(message, run.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[4:], verbosity=1)
