#!/usr/bin/python3
"""Memory that does not suffice: python3 memory.py BIN REPOSITORY [MPIRUN FLAG..]

Of the machine for all its ranks, before any is taken; of the address space (ulimit -v), from a size at which nothing starts up
to one at which all is well: an error, never a signal.
"""
import json
import re
import resource
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "e2e"))
from tool_runs import BIN, ROOT, TINY_GPT, compile_plan, enter_folder, run  # noqa: E402

MPIRUN = sys.argv[3:]
GIB = 1 << 30
GPT2_PARAMETERS = 768 * (50257 + 1024 + 12 * (12 * 768 + 13) + 2)  # a block: 12 h^2 of matrices, 13 h of biases and norms
setUpModule = enter_folder


def within(most):
    """For preexec_fn: a process may have so much address space, in bytes."""
    return lambda: resource.setrlimit(resource.RLIMIT_AS, (most, most))


def bytes_of_stages(model, name, *layout):
    compile_plan(name, ROOT / "examples" / model, *layout)
    return [stage["bytes"] for stage in json.loads(Path(name, "plan.json").read_text())["plan"]["stages"]]


def available():
    return int(re.search(r"MemAvailable:\s+(\d+)", Path("/proc/meminfo").read_text())[1]) << 10


class Machine(unittest.TestCase):
    def test_all_ranks_of_a_process(self):
        compile_plan("large", ROOT / "examples/llama-3.1-405b", "--tp 8 --pp 2 --seq 4096 --mbs 1 --gbs 4")
        said = run("mgrun", "large", "--mock-data", "--train-iters", "1", code=1).stderr
        self.assertRegex(said, r"16 of the plan's ranks here need \d+ bytes \(\d+\.\d+ GiB\), \d+ bytes \(\d+\.\d+ GiB\) are "
                                     r"available \(MemAvailable of /proc/meminfo\); nothing was allocated")
        self.assertRegex(said, r"what would fit: a plan whose ranks need \d+\.\d times less")

    def test_ranks_of_several_processes(self):
        """Each would fit alone."""
        if not MPIRUN:
            self.skipTest("no mpirun")
        layout = lambda mbs: ["--dp", 2, "--seq", 64, "--mbs", mbs, "--gbs", 2 * mbs]
        few, more = (bytes_of_stages("tiny-gpt", "small", *layout(mbs))[0] for mbs in (64, 128))
        samples = 64 + int(0.6 * available() - few) // ((more - few) // 64)
        most = bytes_of_stages("tiny-gpt", "two", *layout(samples))[0]
        self.assertLess(most, available())
        said = run(*MPIRUN, "-n", "2", BIN / "mgrun", "two", "--mock-data", "--train-iters", "1", code=1).stderr
        self.assertEqual(said.count("2 of the plan's ranks here need"), 1, said)  # by rank 0, as under every MPI
        self.assertIn("2 machines like this one with at most 1 of the ranks each, as processes", said)


class CopyOfTheState(unittest.TestCase):
    def test_async_save_keeps_one(self):
        """Weights and two moments of all parameters, f32, whatever the layout."""
        for layout in "--dp 2", "--dp 2 --zero 1", "--tp 2 --pp 2":
            with self.subTest(layout=layout):
                compile_plan("large", ROOT / "examples/gpt2", layout, "--seq 256 --mbs 1 --gbs 4")
                alone = self.need()
                self.assertEqual(self.need("--save", "out", "--save-interval", "1"), alone)
                copied = self.need("--save", "out", "--save-interval", "1", "--async-save") - alone
                self.assertEqual(copied, 3 * 4 * GPT2_PARAMETERS)
                self.assertEqual(self.need("--save", "out", "--save-interval", "2", "--async-save"), alone)  # at the end alone

    def need(self, *flags):
        """Bytes for all ranks."""
        said = run("mgrun", "large", "--mock-data", "--train-iters", "2", *flags, code=1, preexec_fn=within(GIB)).stderr
        self.assertEqual("or no --async-save" in said, "--async-save" in flags and flags[3] == "1", said)
        return int(re.search(r"ranks here need (\d+) bytes", said)[1])


class AddressSpace(unittest.TestCase):
    def sweep(self, begin, end, step, *command):
        """Runs the command under address space limits from begin to end, in MiB: small ones fail with a message, large ones suffice."""
        codes = []
        for mebibytes in range(begin, end, step):
            done = run(*command, code=None, preexec_fn=within(mebibytes << 20))
            code = done.returncode
            if code == -6 and re.match("terminate called without|LLVM ERROR: out of memory", done.stderr):
                code = 127  # static constructors of LLVM's libraries: a window of half a MiB, before main
            self.assertIn(code, (0, 1, 127), f"{mebibytes} MiB: {done.stderr}")  # 127: the loader's, in its own words
            if code == 1:
                self.assertRegex(done.stderr, "expected [0-9]+ or more|not enough memory|the system gives no (more )?memory")
            codes.append(code)
        self.assertEqual(codes, sorted(codes, reverse=True))  # a limit above one that suffices suffices too
        self.assertEqual({codes[0], codes[-1]}, {0, 127})

    def test_mgrun(self):
        compile_plan("plan", TINY_GPT, "--tp 2 --pp 2 --dp 2 --seq 64 --mbs 2 --gbs 16")
        self.sweep(20, 1000, 47, "mgrun", "plan", *"--mock-data --train-iters 2 --threads 2".split())

    def test_mgc(self):
        self.sweep(40, 1500, 91, "mgc", "compile", TINY_GPT, "-o", "again", *"--tp 2 --pp 2 --seq 64 --mbs 2 --gbs 16".split())

    def test_mg_opt(self):
        Path("empty.mlir").write_text("module {}\n")
        self.sweep(40, 1500, 91, "mg-opt", "empty.mlir")


unittest.main(argv=sys.argv[:1])
