#!/usr/bin/python3
"""CPU ranks as processes of an MPI: python3 mgrun_mpi.py BIN REPOSITORY KIND MPIRUN [FLAG..] [--sample N]

They give the bits that threads give, and however one of them ends, all end soon and say why. KIND: openmpi or mpich. --sample: one
of N of the tests (samples.py), of the other kind others.
"""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "e2e"))
import samples  # noqa: E402

STEP = 1
if "--sample" in sys.argv:
    at = sys.argv.index("--sample")
    STEP = int(sys.argv[at + 1])
    del sys.argv[at : at + 2]
BIN, ROOT, KIND, MPIRUN = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3], sys.argv[4:]
MGRUN = BIN + "/mgrun"
NAME = {"openmpi": "Open MPI", "mpich": "MPICH"}
LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_", "SLURM_", "OMPI_", "PMI", "MPI_", "TORCHELASTIC_")
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}
MOCK = ["--mock-data", "--train-iters", "4"]
ENDLESS = ["--mock-data", "--train-iters", "1000000", "--log-interval", "1"]
# Into files of each rank; exec: the process that the launcher knows is mgrun.
INTO_FILES = 'echo $$ >"$0.pid"; exec "$@" >"$0.out" 2>"$0.err"'


def compile_plan(name, layout):
    command = [BIN + "/mgc", "compile", ROOT + "/examples/tiny-gpt", "-o", name, "--target-cpu", "native"]
    subprocess.run(command + f"--seq 64 --mbs 2 {layout}".split(), check=True, capture_output=True)


def setUpModule():
    folder = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(folder.cleanup)
    os.chdir(folder.name)
    for name, layout in [("plan", "--tp 2 --pp 2 --gbs 8"), ("zero", "--tp 2 --dp 2 --zero 1 --gbs 8"),
                         ("ring", "--tp 2 --cp 2 --cp-comm-type p2p --gbs 8"), ("other", "--tp 2 --pp 2 --gbs 4"),
                         ("grown", "--tp 2 --pp 2 --gbs 8 --rampup-batch-size 4 4 10")]:
        compile_plan(name, layout)


def read(path):
    return Path(path).read_bytes()


class Run:
    """mpirun of one mgrun for each rank; `of_rank` gives its plan, arguments and variables."""
    number = 0

    def __init__(self, arguments, ranks=4, plan="plan", of_rank=lambda rank: {}, mgrun=MGRUN):
        Run.number += 1
        self.files = [Path(f"run{Run.number}.{rank}") for rank in range(ranks)]
        command = list(MPIRUN)
        for rank, files in enumerate(self.files):
            own = of_rank(rank)
            command += [":"] if rank else []
            command += ["-n", "1", "env", *(f"{name}={value}" for name, value in own.get("variables", {}).items()),
                        "sh", "-c", INTO_FILES, str(files), mgrun, own.get("plan", plan), *arguments, *own.get("arguments", [])]
        self.process = subprocess.Popen(command, env=CLEAN, stdin=subprocess.DEVNULL, text=True, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT)

    def text(self, rank, ending):
        path = Path(f"{self.files[rank]}.{ending}")
        return path.read_text() if path.exists() else ""

    def pid(self, rank):
        return int(self.text(rank, "pid"))

    def wait_for(self, text, rank=0, seconds=60):
        deadline = time.monotonic() + seconds
        while text not in self.text(rank, "err"):
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise AssertionError(f"{text} was never printed: {[self.text(r, 'err') for r in range(len(self.files))]}")
            time.sleep(0.02)

    def end(self, seconds=200):
        """(mpirun's code, errors of each rank); no process is left."""
        try:
            self.said, _ = self.process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        for rank in range(len(self.files)):
            deadline = time.monotonic() + 5
            while os.path.exists(f"/proc/{self.pid(rank)}") and time.monotonic() < deadline:
                time.sleep(0.02)
            assert not os.path.exists(f"/proc/{self.pid(rank)}"), f"rank {rank} is left"
        return self.process.returncode, [self.text(rank, "err") for rank in range(len(self.files))]


class Mpi(unittest.TestCase):
    def succeed(self, run):
        code, errors = run.end()
        self.assertEqual(code, 0, (errors, run.said))
        self.assertFalse(re.search("warn|leak", run.said, re.I), run.said)

    def fail_all(self, run, message, seconds=30):
        code, errors = run.end(seconds)
        self.assertNotEqual(code, 0, errors)
        for text in errors:
            self.assertIn(message, text)
        return errors

    def fail_before_mpi(self, run, message):
        """mpirun may kill the others before they have said so too."""
        code, errors = run.end(30)
        self.assertNotEqual(code, 0, errors)
        self.assertIn(message, "".join(errors))
        return "".join(errors)

    def compare_with_threads(self, plan, arguments=(), length=("--train-iters", "4")):
        files = lambda name: ["--save", name, "--log", name + ".jsonl", "--save-gradients", name + ".safetensors"]
        threads, several = (f"{self._testMethodName}.{kind}" for kind in ("threads", "processes"))
        subprocess.run([MGRUN, plan, "--mock-data", *length, *arguments, *files(threads)], check=True, capture_output=True, env=CLEAN)
        self.succeed(Run(["--mock-data", *length, *arguments, *files(several)], plan=plan))
        for suffix in "/model.safetensors", "/config.json", ".safetensors":
            self.assertEqual(read(threads + suffix), read(several + suffix), suffix)
        logs = [[{key: value for key, value in json.loads(line).items() if key != "seconds"}
                 for line in read(name + ".jsonl").splitlines()] for name in (threads, several)]
        self.assertEqual(logs[0], logs[1])
        self.assertEqual(len(logs[0]), 4)

    def test_tensor_and_pipeline_parallel_ranks_give_the_same_bits(self):
        self.compare_with_threads("plan")

    def test_sharded_optimizers_give_the_same_bits(self):
        self.compare_with_threads("zero")

    def test_growing_batches_give_the_same_bits(self):
        self.compare_with_threads("grown", ["--rampup-batch-size", "4", "4", "10"], ["--train-samples", "21"])

    def test_rings_of_keys_give_the_same_bits(self):
        self.compare_with_threads("ring")

    def test_delays_change_nothing(self):
        self.compare_with_threads("plan", ["--inject-delays", "3"])

    def test_weights_are_read_by_all(self):
        self.succeed(Run([*MOCK, "--save", "first"]))
        self.compare_with_threads("plan", ["--load", "first/model.safetensors"])

    def test_one_that_is_late_to_end_does_not_stay(self):
        """MPI ends after the last call of all. Over TCP, where MPICH's MPI_Finalize waits for what the others do in theirs."""
        folder = Path(self.without_plugins(KIND, folder="bin.late")).parent
        plugin = folder / f"libmgc_mpi_{KIND}.so"
        plugin.rename(f"{plugin}.real")
        plugin.write_bytes(read(f"{BIN}/../test/cli/liblate_mpi_plugin.so"))
        for late in 0, 3:
            def of_rank(rank, late=late):
                own = {"UCX_TLS": "tcp,self", "FI_PROVIDER": "tcp", "ORDER": f"order{late}.{rank}"}
                return {"variables": own | ({"LATE": "1"} if rank == late else {})}
            self.succeed(Run([*MOCK, "--timeout", "20"], mgrun=str(folder / "mgrun"), of_rank=of_rank))
            words = [line.split() for rank in range(4) for line in Path(f"order{late}.{rank}").read_text().splitlines()]
            times = {what: [int(time) for word, time in words if word == what] for what in ("dropped", "stop")}
            self.assertEqual([len(times["dropped"]), len(times["stop"])], [4, 4])
            self.assertGreater(min(times["stop"]), max(times["dropped"]))

    def test_only_rank_0_shows_something(self):
        run = Run(MOCK)
        self.succeed(run)
        self.assertIn("step 3: loss", run.text(0, "err"))
        self.assertIn("4 steps: loss", run.text(0, "out"))
        self.assertIn(f"rank 0 of 4 processes ({NAME[KIND]}'s variables), which meet at 127.0.0.1:", run.text(0, "err"))
        for rank in range(1, 4):
            self.assertEqual((run.text(rank, "out"), run.text(rank, "err")), ("", ""))

    def test_one_process_of_one_runs_all_ranks(self):
        run = Run(MOCK, ranks=1)
        self.succeed(run)
        self.assertIn("4 steps: loss", run.text(0, "out"))

    def test_each_process_traces_and_profiles_its_own_rank(self):
        run = Run([*MOCK, "--profile", "--trace", "trace.json", "--profile-json", "profile.json"])
        self.succeed(run)
        self.assertIn("\ntrace     trace.rank0.json\nprofile   profile.rank0.json\n", run.text(0, "out"))
        for rank in range(4):
            events = json.loads(read(f"trace.rank{rank}.json"))["traceEvents"]
            self.assertEqual({event["tid"] for event in events}, {rank})
            self.assertEqual(json.loads(read(f"profile.rank{rank}.json"))["ranks"], 1)

    def test_a_master_that_is_said(self):
        address = lambda rank: {"variables": {"MASTER_ADDR": "localhost"}}
        run = Run(MOCK, of_rank=address)
        self.succeed(run)
        self.assertIn("which meet at localhost:", run.text(0, "err"))

    # --- The end -----------------------------------------------------------------------------------------------

    def errors_of_a_kill(self, rank):
        run = Run([*ENDLESS])
        run.wait_for("step 3:")
        begin = time.monotonic()
        os.kill(run.pid(rank), signal.SIGKILL)
        code, errors = run.end(30)
        self.assertLess(time.monotonic() - begin, 10)
        self.assertNotEqual(code, 0)
        return errors, run.said

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
        run = Run([*ENDLESS])
        run.wait_for("step 2:")
        for _ in range(2):
            for rank in range(4):
                os.kill(run.pid(rank), signal.SIGUSR1)
            time.sleep(1.1)  # two within a second are one request
        run.wait_for(f"step {run.text(0, 'err').count('step ') + 20}:")
        self.assertIsNone(run.process.poll())
        os.kill(run.pid(1), signal.SIGTERM)
        self.assertNotEqual(run.end(60)[0], 0)
        self.assertIn("(interrupted)", run.text(0, "out"))

    def test_a_process_that_stands_still_is_named_at_the_deadline(self):
        run = Run([*ENDLESS, "--timeout", "2"])
        run.wait_for("step 3:")
        os.kill(run.pid(3), signal.SIGSTOP)
        begin = time.monotonic()
        code, errors = run.end(40)
        self.assertLess(time.monotonic() - begin, 20)
        self.assertNotEqual(code, 0)
        self.assertTrue(any(re.search(r"rank \d \(stage \d\), step \d+.*: waited 2 s for rank", text) for text in errors), errors)

    def test_an_error_is_told_in_full_once(self):
        self.succeed(Run([*MOCK, "--save", "whole"]))
        weights = lambda rank: {"arguments": ["--load", "whole/model.safetensors" if rank != 2 else "plan/plan.json"]}
        code, errors = Run(MOCK, of_rank=weights).end(30)
        self.assertNotEqual(code, 0)
        for rank, text in enumerate(errors):
            self.assertIn("mgrun: plan/plan.json" if rank == 2 else f"mgrun: rank {rank} ends because of rank 2: plan/plan.json", text)

    def test_other_weights_in_one_process_end_all(self):
        for seed in "1", "2":
            subprocess.run([MGRUN, "plan", "--mock-data", "--train-iters", "1", "--seed", seed, "--save", "from-" + seed],
                           check=True, capture_output=True, env=CLEAN)
        weights = lambda rank: {"arguments": ["--load", f"from-{2 if rank == 3 else 1}/model.safetensors"]}
        errors = self.fail_all(Run(ENDLESS, of_rank=weights), "expected finite weights, and the same checkpoint for all")
        self.assertRegex(errors[0], r"parameter \S+: ranks 3 differ from rank \d")

    def test_an_unwritable_output_of_rank_0_ends_all(self):
        self.fail_all(Run([*ENDLESS, "--save", "/dev/null"]), "/dev/null")

    def test_a_failing_log_does_not_end_the_training(self):
        run = Run([*MOCK, "--log", "/dev/full", "--save", "kept"])
        code, errors = run.end(60)
        self.assertEqual(code, 1, errors)
        self.assertIn("/dev/full: cannot be written: No space left on device; the training goes on", errors[0])
        self.assertIn("4 of the steps are not in it", errors[0])
        self.assertEqual(subprocess.run([MGRUN, "plan", *MOCK, "--load", "kept/model.safetensors"], env=CLEAN, capture_output=True).returncode, 0)

    def test_an_interrupt_of_one_ends_all_after_the_same_step(self):
        run = Run([*ENDLESS, "--save", "interrupted", "--log", "interrupted.jsonl"])
        run.wait_for("step 2:")
        os.kill(run.pid(1), signal.SIGINT)
        code, errors = run.end(60)
        self.assertEqual(code, 130, errors)
        self.assertIn(f"{len(read('interrupted.jsonl').splitlines())} steps (interrupted)", run.text(0, "out"))
        self.assertTrue(os.path.exists("interrupted/model.safetensors"))

    @staticmethod
    def has_unnamed_file(run, rank):
        try:
            links = [os.readlink(path) for path in Path(f"/proc/{run.pid(rank)}/fd").iterdir()]
        except (ValueError, OSError):  # it has not begun, or a file was closed meanwhile
            return False
        return any(link.startswith(os.getcwd()) and link.endswith("(deleted)") for link in links)

    def test_an_interrupt_while_lines_are_tokenized(self):
        model = {"type": "WordLevel", "vocab": {"work": 0, "play": 1}, "unk_token": "play"}
        Path("tokenizer.json").write_text(json.dumps({"pre_tokenizer": {"type": "WhitespaceSplit"}, "model": model}))
        Path("texts.jsonl").write_text((json.dumps({"text": "work play " * 200}) + "\n") * 100000)
        run = Run(["--train-iters", "1000000", "--data", "texts.jsonl", "--tokenizer-model", "tokenizer.json"],
                  of_rank=lambda rank: {"variables": {"TMPDIR": os.getcwd()}})
        deadline = time.monotonic() + 60
        while not self.has_unnamed_file(run, 2):
            self.assertLess(time.monotonic(), deadline, run.text(2, "err"))
            time.sleep(0.02)
        os.kill(run.pid(2), signal.SIGTERM)
        code, errors = run.end(60)
        self.assertNotEqual(code, 0, errors)  # the code of one of them: the others end with 1
        self.assertIn("texts.jsonl: a request to end came while its lines were tokenized", errors[2])

    def test_an_interrupt_of_mpirun_ends_all(self):
        """Open MPI's passes SIGUSR1 on, and all save; others end them at once."""
        run = Run([*ENDLESS, "--save", "stopped"])
        run.wait_for("step 2:")
        run.process.send_signal(signal.SIGUSR1 if KIND == "openmpi" else signal.SIGINT)
        self.assertNotEqual(run.end(60)[0], 0)
        if KIND == "openmpi":
            self.assertTrue(os.path.exists("stopped/model.safetensors"), run.said)

    # --- Processes of one run ------------------------------------------------------------------------------------

    def test_a_wrong_number_of_processes(self):
        self.fail_all(Run(MOCK, ranks=2), f"the plan has 4 ranks, found 2 processes ({NAME[KIND]}'s variables)")

    def test_processes_that_disagree_on_their_number(self):
        size = lambda rank: {"arguments": ["--world-size", "8"]} if rank == 3 else {}
        code, errors = Run([*MOCK, "--timeout", "3"], of_rank=size).end(30)
        self.assertNotEqual(code, 0)
        self.assertRegex(errors[3], r"counts this process as rank 3 of 4, the launcher as rank 3 of 8 .*expected the same")

    def test_a_plan_that_one_does_not_have(self):
        for rank in 0, 2:
            with self.subTest(rank=rank):
                absent = lambda other: {"plan": "absent"} if other == rank else {}
                missing = "absent: has no plan.json, expected the folder that mgc compile -o wrote"
                errors = self.fail_all(Run(MOCK, of_rank=absent), missing)
                self.assertRegex(errors[1], f"rank {rank} .process .* does not come: absent: has no plan.json")

    def test_another_plan(self):
        self.fail_all(Run(MOCK, of_rank=lambda rank: {"plan": "other"} if rank == 2 else {}), "rank 2 (process ")

    def test_other_flags(self):
        for flag, value, other in [("--seed", "5", "1234"), ("--lr", "5", "0.001"), ("--save-dtype", "f32", "bf16")]:
            with self.subTest(flag=flag):
                common = {"--save-dtype": other} if flag == "--save-dtype" else {}
                own = lambda rank: {"--save": "one", **common, **({flag: value} if rank == 1 else {})}
                arguments = lambda rank: {"arguments": [word for pair in own(rank).items() for word in pair]}
                self.fail_all(Run(MOCK, of_rank=arguments),
                              f"expected the same for all:\n  {flag} = {value} on rank 1, {flag} = {other} on rank 0")
                self.assertFalse(os.path.exists("one"), "refused before anything was done")

    def test_other_data(self):
        for name, text in [("a.txt", b"abc" * 2000), ("b.txt", b"abd" * 2000)]:
            Path(name).write_bytes(text)
        data = lambda rank: {"arguments": ["--data", "b.txt" if rank == 3 else "a.txt"]}
        self.fail_all(Run(["--train-iters", "4"], of_rank=data), "rank 3 was given other data than rank 0")

    # --- Choice of the MPI -----------------------------------------------------------------------------------------

    def without_plugins(self, *kept, folder=None):
        """A folder with mgrun and the plugins of these kinds."""
        folder = Path(folder or f"bin.{'.'.join(kept)}")
        if not folder.exists():
            folder.mkdir()
            os.link(MGRUN, folder / "mgrun") if os.stat(MGRUN).st_dev == os.stat(".").st_dev else \
                (folder / "mgrun").write_bytes(read(MGRUN))
            (folder / "mgrun").chmod(0o755)
            for kind in kept:
                (folder / f"libmgc_mpi_{kind}.so").write_bytes(read(f"{BIN}/../lib/libmgc_mpi_{kind}.so"))
        return str((folder / "mgrun").resolve())

    def test_a_plugin_that_is_missing(self):
        errors = self.fail_before_mpi(Run(MOCK, mgrun=self.without_plugins()),
                                      f"the plugin for {NAME[KIND]}, libmgc_mpi_{KIND}.so, is not at")
        self.assertIn(f"it is built where CMake finds an mpicc of {NAME[KIND]}", errors)

    def test_the_plugin_of_the_other_kind(self):
        other = "mpich" if KIND == "openmpi" else "openmpi"
        if not os.path.exists(f"{BIN}/../lib/libmgc_mpi_{other}.so"):
            self.skipTest(f"no plugin for {NAME[other]}")
        self.fail_before_mpi(Run(MOCK, mgrun=self.without_plugins(other)), f"there is that for {NAME[other]}: its mpirun would work")
        disguised = Path(self.without_plugins(other, KIND)).parent
        (disguised / f"libmgc_mpi_{KIND}.so").write_bytes(read(f"{BIN}/../lib/libmgc_mpi_{other}.so"))
        self.fail_before_mpi(Run(MOCK, mgrun=str(disguised / "mgrun")),
                             f"was built for {NAME[other]}, the launcher is that of {NAME[KIND]}; expected the plugin for {NAME[KIND]}")

    def test_a_launcher_that_is_none(self):
        """Processes that say they are of an mpirun: MPI knows each as a world of its own."""
        size = {"openmpi": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), "mpich": ("PMI_RANK", "PMI_SIZE")}[KIND]
        run = subprocess.run([MGRUN, "plan", *MOCK, "--timeout", "40"], env=CLEAN | {size[0]: "1", size[1]: "4"}, capture_output=True,
                             text=True, timeout=60, check=False)
        self.assertNotEqual(run.returncode, 0)
        self.assertRegex(run.stderr, "counts this process as rank 0 of 1, the launcher as rank 1 of 4|MPI_Init_thread")

    def test_cpu_ranks_without_mpi(self):
        variables = {"RANK": "0", "WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
        run = subprocess.run([MGRUN, "plan", *MOCK], env=CLEAN | variables, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(run.returncode, 1)
        self.assertIn("plan: the plan is for CPUs, and MPI carries the data of its 4 processes (torchrun's variables): no launcher of an "
                      "MPI has started them; expected mpirun -n 4 mgrun of Open MPI or MPICH, or one process, which runs all ranks",
                      run.stderr)

    def test_many_ranks_start(self):
        compile_plan("wide", "--dp 32 --gbs 64")
        run = Run(["--mock-data", "--train-iters", "1", "--threads", "1"], ranks=32, plan="wide")
        self.succeed(run)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1, testLoader=samples.Loader(STEP, list(NAME).index(KIND)))
