"""Tests of ranks that are processes, whatever starts them and carries their data: see mgrun_processes.py and mgrun_mpi.py.

A run of theirs has wait_for(text), processes by rank (pid), and an end: (exit code, output, errors) of each rank; or where all ranks
fail, their errors (fail).
"""
import json
import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "e2e"))
from tool_runs import ENDLESS, expect, read, run, timeless, write  # noqa: E402

MOCK = ["--mock-data", "--train-iters", "4"]


def own(rank, **facts):
    """`of_rank` of a run: these are of one rank alone."""
    return lambda other: facts if other == rank else {}


class Launched:
    """Base of a TestCase with `start(arguments, plan="plan", of_rank=own(..))`, on plans of 4 ranks."""

    def succeed(self, started):
        results = started.end()
        for code, _, errors in results:
            self.assertEqual(code, 0, (errors, started.said))
        return results

    def fail_all(self, started, message, seconds=30):
        said = started.fail(seconds)
        for errors in said:
            self.assertIn(message, errors)
        return said

    def told(self, rank, cause, text):
        """The line that this rank prints about the error of rank `cause`."""
        return f"mgrun: {text}" if rank == cause else f"mgrun: rank {rank} ends because of rank {cause}: {text}"

    def compare_with_one_process(self, plan, arguments=(), length=("--train-iters", "4")):
        files = lambda name: ["--save", name, "--log", name + ".jsonl", "--save-gradients", name + ".safetensors"]
        one, several = (f"{self._testMethodName}.{kind}" for kind in ("one", "processes"))
        run("mgrun", plan, "--mock-data", *length, *arguments, *files(one))
        self.succeed(self.start(["--mock-data", *length, *arguments, *files(several)], plan=plan))
        for suffix in "/model.safetensors", "/config.json", ".safetensors":
            self.assertEqual(read(one + suffix), read(several + suffix), suffix)
        logs = [timeless(name + ".jsonl") for name in (one, several)]
        self.assertEqual(logs[0], logs[1])
        self.assertEqual(len(logs[0]), 4)

    def test_tensor_and_pipeline_parallel_ranks_give_the_same_bits(self):
        self.compare_with_one_process("plan")

    def test_growing_batches_give_the_same_bits(self):
        self.compare_with_one_process("grown", ["--rampup-batch-size", "4", "4", "10"], ["--train-samples", "21"])

    def test_sharded_optimizers_give_the_same_bits(self):
        self.compare_with_one_process("zero")

    def test_weights_are_read_by_all(self):
        self.succeed(self.start([*MOCK, "--save", "first"]))
        self.compare_with_one_process("plan", ["--load", "first/model.safetensors"])

    def test_only_rank_0_shows_something(self):
        results = self.succeed(self.start(MOCK))
        self.assertIn("step 3: loss", results[0][2])
        self.assertIn("4 steps: loss", results[0][1])
        self.assertRegex(results[0][2], rf"rank 0 of 4 processes \({self.launcher}'s variables\), which meet at 127.0.0.1:")
        for _, output, errors in results[1:]:
            self.assertEqual((output, errors), ("", ""))

    def test_a_check_trains_nothing(self):
        results = self.succeed(self.start([*MOCK, "--check", "--save", "unmade", "--log", "unmade.jsonl"]))
        self.assertIn("nothing is refused; nothing was trained", results[0][1])
        self.assertRegex(results[0][1], r"memory +4 of the plan's ranks here take")
        self.assertEqual([output for _, output, _ in results[1:]], ["", "", ""])
        self.assertFalse(os.path.exists("unmade") or os.path.exists("unmade.jsonl"))

    def test_each_process_traces_and_profiles_its_own_rank(self):
        results = self.succeed(self.start([*MOCK, "--profile", "--trace", "trace.json", "--profile-json", "profile.json"]))
        self.assertIn("\ntrace     trace.rank0.json\nprofile   profile.rank0.json\n", results[0][1])
        for rank in range(4):
            events = json.loads(read(f"trace.rank{rank}.json"))["traceEvents"]
            self.assertEqual({event["tid"] for event in events}, {rank})
            layers = {(event["args"]["layer"], event["name"].split("/")[0]) for event in events
                      if event["name"].startswith("layer.") and "layer" in event["args"]}
            self.assertTrue(layers)
            self.assertTrue(all(name in (f"layer.{layer}.forward", f"layer.{layer}.backward") for layer, name in layers), layers)
            self.assertEqual(json.loads(read(f"profile.rank{rank}.json"))["ranks"], 1)
        self.assertIn("of the bound", results[0][1])

    # --- The end -----------------------------------------------------------------------------------------------

    def test_an_error_is_told_in_full_once(self):
        self.succeed(self.start([*MOCK, "--save", "whole"]))
        weights = lambda rank: {"arguments": ["--load", "whole/model.safetensors" if rank != 2 else "plan/plan.json"]}
        for rank, errors in enumerate(self.fail_all(self.start(MOCK, of_rank=weights), "plan/plan.json")):
            told = self.told(rank, 2, "plan/plan.json")
            self.assertIn(told, errors)
            self.assertEqual(told == "", "mgrun: " not in errors, errors)

    def test_other_weights_in_one_process_end_all(self):
        for seed in "1", "2":
            run("mgrun", "plan", "--mock-data", "--train-iters", "1", "--seed", seed, "--save", "from-" + seed)
        weights = lambda rank: {"arguments": ["--load", f"from-{2 if rank == 3 else 1}/model.safetensors"]}
        errors = self.fail_all(self.start(ENDLESS, of_rank=weights), "expected finite weights, and the same checkpoint for all")
        self.assertRegex(errors[0], r"parameter \S+: ranks 3 differ from rank \d")

    def test_an_unwritable_output_of_rank_0_ends_all(self):
        self.fail_all(self.start([*ENDLESS, "--save", "/dev/null"]), "/dev/null")

    def test_a_failing_log_does_not_end_the_training(self):
        results = self.start([*MOCK, "--log", "/dev/full", "--save", "kept"]).end(60)
        self.assertEqual([code for code, _, _ in results], self.codes_of_rank_0s_error, results)
        self.assertIn("/dev/full: cannot be written: No space left on device; the training goes on", results[0][2])
        self.assertIn("4 of the steps are not in it", results[0][2])
        run("mgrun", "plan", *MOCK, "--load", "kept/model.safetensors")

    def test_an_interrupt_of_one_ends_all_after_the_same_step(self):
        started = self.start([*ENDLESS, "--save", "interrupted", "--log", "interrupted.jsonl"])
        started.wait_for("step 2:")
        os.kill(started.pid(1), signal.SIGINT)
        results = started.end(60)
        self.assertEqual([code for code, _, _ in results], [130] * 4, results)
        self.assertIn(f"{len(read('interrupted.jsonl').splitlines())} steps (interrupted)", results[0][1])
        self.assertTrue(os.path.exists("interrupted/model.safetensors"))

    # --- Processes of one run ------------------------------------------------------------------------------------

    def test_a_plan_that_one_does_not_have(self):
        for rank in 0, 2:
            with self.subTest(rank=rank):
                missing = "absent: has no plan.json, expected the folder that mgc compile -o wrote"
                errors = self.fail_all(self.start(MOCK, of_rank=own(rank, plan="absent")), missing)
                self.assertRegex(errors[1], f"rank {rank} .process .* does not come: absent: has no plan.json")

    def test_another_plan(self):
        self.fail_all(self.start(MOCK, of_rank=own(2, plan="other")), "rank 2 (process ")

    def test_other_flags(self):
        for flag, value, other in self.other_flags:
            with self.subTest(flag=flag):
                common = {"--save-dtype": other} if flag == "--save-dtype" else {}
                flags = lambda rank: {"--save": "one", **common, **({flag: value} if rank == 1 else {})}
                arguments = lambda rank: {"arguments": [word for pair in flags(rank).items() for word in pair]}
                self.fail_all(self.start(MOCK, of_rank=arguments),
                              f"expected the same for all:\n  {flag} = {value} on rank 1, {flag} = {other} on rank 0")
                self.assertFalse(os.path.exists("one"), "refused before anything was done")

    def test_other_data(self):
        write("a.txt", "abc" * 2000)
        write("b.txt", "abd" * 2000)
        data = lambda rank: {"arguments": ["--data", "b.txt" if rank == 3 else "a.txt"]}
        self.fail_all(self.start(["--train-iters", "4"], of_rank=data), "rank 3 was given other data than rank 0")

    def test_usage_of_one_process(self):
        for arguments, variables, code, message in self.usage:
            with self.subTest(arguments=arguments, variables=variables):
                expect(code, message, "mgrun", "plan", *MOCK, *arguments, env=self.clean | variables)
