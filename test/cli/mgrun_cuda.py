#!/usr/bin/python3
"""Plans for GPUs run by mgrun on the stand-ins of CUDA: python3 mgrun_cuda.py BIN REPOSITORY STAND-INS UNFIT

What goes wrong is named, with rank, step and instruction where there is one; nothing hangs; and how many calls a step costs
the host. UNFIT: the folder with cuda/* and plugin/*, libraries of CUDA and plugins that cannot be used.
"""
import re
import shutil
import signal
import sys
import tempfile
import time
import unittest
from pathlib import Path

STAND_INS, UNFIT = (Path(word).resolve() for word in sys.argv[3:5])
del sys.argv[3:5]
from mgrun_processes import MGRUN, MOCK, Run, kill  # noqa: E402  (reads sys.argv)
from tool_runs import CLEAN, ENDLESS, GOLDEN, ROOT, compile_plan, enter_folder, run  # noqa: E402
sys.path.insert(0, str(ROOT / "test/mutation"))
import mutate  # noqa: E402
import samples  # noqa: E402

LAYOUTS = {"one": "", "four": "--tp 2 --pp 2", "data": "--dp 2 --zero 1", "pipe": "--pp 4 --gbs 1"}
# Layouts of a model with experts: all on each rank, and exchanged among all four.
EXPERTS = {"experts": "--dp 4 --ep 4 --etp 1 --moe-token-dispatcher-type alltoall --gbs 8", "experts-one": "--gbs 8"}
# Functions whose number of calls depends on how long the host had to wait.
WAITS = ("cuStreamQuery", "cuEventQuery")


def setUpModule():
    enter_folder()
    plans = [(name, "sm_90", layout, "llama") for name, layout in LAYOUTS.items()]
    plans += [(name, "sm_90", layout, "mixtral") for name, layout in EXPERTS.items()]
    plans += [(level, level, "", "llama") for level in ("sm_80", "sm_89", "sm_100", "sm_120")]
    for name, level, layout, model in plans:
        compile_plan(name, GOLDEN / model / "config.json", f"--target cuda:{level} --dtype bf16 --seq 32 --mbs 1", layout,
                     "" if "--gbs" in layout else "--gbs 4")


def stand_ins(settings="", libraries=()):
    return {"LD_LIBRARY_PATH": ":".join(map(str, [*libraries, STAND_INS])), "MGC_EMULATE_CUDA": settings}


def mgrun(plan, *arguments, settings="", libraries=(), variables=None):
    """All ranks in one process, on one device."""
    variables = CLEAN | (stand_ins(settings, libraries) if variables is None else variables)
    return run(MGRUN, plan, *arguments, env=variables, timeout=120, code=None)


def processes(arguments, of_rank=lambda rank: "", plan="four", variables_of=lambda rank: {}):
    """A process and a device for each of four ranks; of_rank gives settings of the stand-ins."""
    settings = lambda rank: ",".join(filter(None, ["devices=4", of_rank(rank)]))
    return Run(arguments, plan=plan, of_rank=lambda rank: {
        "variables": stand_ins(settings(rank)) | {"LOCAL_RANK": str(rank)} | variables_of(rank)})


def calls(errors):
    """Calls of the driver's stand-in, by function, and `kernels run`."""
    line = next(line for line in errors.splitlines() if line.startswith("emulated driver: ") and " cu" in line)
    return {name: int(count) for count, name in re.findall(r"(\d+) ([\w ]+)", line)}


def difference(more, less, steps):
    """Calls of one step."""
    found = {name: (more[name] - less.get(name, 0)) / steps for name in more if name not in WAITS}
    return {name: count for name, count in found.items() if count}


def step_calls(plan, *arguments):
    runs = [mgrun(plan, "--mock-data", "--train-iters", str(steps), *arguments, settings="calls=1") for steps in (3, 5)]
    return difference(calls(runs[1].stderr), calls(runs[0].stderr), 2)


def counts_exchanged_by(plan):
    """How many counts of rows a step of one rank with two microbatches and one stage exchanges by: each serves several exchanges."""
    document = mutate.read(Path(plan))["plan"]
    of_program = [len({str(one["operands"][0]) for one in program["instructions"] if one["op"] == "exchangeRows"})
                  for program in document["programs"]]
    return 2 * sum(of_program[call["program"]] for chunk in document["stages"][0]["chunks"]
                   for call, _ in mutate.plan_lists.runs(chunk["calls"], chunk.get("repeats", [])))


def process_step_calls():
    """Calls per step, by process."""
    ends = [processes(["--mock-data", "--train-iters", str(steps)], lambda rank: "calls=1").end() for steps in (3, 5)]
    return [difference(calls(more[2]), calls(less[2]), 2) for less, more in zip(*ends)]


class HostTime(unittest.TestCase):
    def test_a_captured_step_is_one_launch_and_the_copies_of_its_inputs_and_results(self):
        for found in [step_calls("one"), *process_step_calls()]:
            kernels = found.pop("kernels run")
            self.assertGreater(kernels, 100)
            self.assertEqual(found.pop("cuGraphLaunch"), 1, found)
            self.assertEqual(found.pop("cuMemcpyDtoHAsync_v2"), 1, found)
            self.assertLessEqual(found.pop("cuMemcpyHtoDAsync_v2"), 6)  # five inputs, step scalars
            self.assertEqual(found, {})

    def test_ranks_that_share_a_device_enqueue_the_same_calls_in_each_step(self):
        for plan in "four", "data":
            found = step_calls(plan)
            self.assertEqual(found["cuLaunchKernel"], found["kernels run"])
            self.assertNotIn("cuGraphLaunch", found)
            self.assertTrue(all(count == int(count) for count in found.values()), found)
            self.assertFalse({"cuMemAlloc_v2", "cuMemHostAlloc", "cuEventCreate", "cuStreamCreateWithPriority"} & set(found), found)

    def test_without_graphs_the_calls_are_those_of_the_instructions(self):
        found = step_calls("one", "--no-graphs")
        self.assertEqual(found["cuLaunchKernel"], found["kernels run"])


def losses_of(output):
    return re.search("loss .* -> .*,", output)[0]


class Experts(unittest.TestCase):
    def test_processes_exchange_rows_as_ranks_that_share_a_device(self):
        """In bf16: tensor cores. Sums over ranks have one order on both."""
        shared = losses_of(mgrun("experts", *MOCK, settings="delay=100").stdout)
        ends = processes(MOCK, plan="experts").end()
        self.assertEqual([code for code, _, _ in ends], [0] * 4, ends)
        self.assertEqual(losses_of(ends[0][1]), shared)

    def test_the_layout_changes_the_loss_by_rounding_alone(self):
        first, last = ([float(number) for number in re.findall(r"[\d.]+", losses_of(mgrun(plan, *MOCK).stdout))[:2]] for plan in EXPERTS)
        for one, other in zip(first, last):
            self.assertAlmostEqual(one, other, delta=0.01)

    def test_a_step_with_exchanges_is_no_graph_and_reads_their_counts_once(self):
        ends = [processes(["--mock-data", "--train-iters", str(steps)], lambda rank: "calls=1", plan="experts").end() for steps in (3, 5)]
        for less, more in zip(*ends):
            found = difference(calls(more[2]), calls(less[2]), 2)
            self.assertNotIn("cuGraphLaunch", found)
            self.assertEqual(found["cuMemcpyDtoHAsync_v2"], 1 + counts_exchanged_by("experts"))  # results, and counts
            self.assertFalse({"cuMemAlloc_v2", "cuMemHostAlloc"} & set(found), found)

    def test_a_step_with_experts_on_each_rank_is_a_graph(self):
        found = step_calls("experts-one")
        self.assertEqual(found["cuGraphLaunch"], 1, found)


class Absent(unittest.TestCase):
    def refuse(self, run, *parts):
        self.assertEqual(run.returncode, 1, run.stderr)
        for part in parts:
            self.assertIn(part, run.stderr)
        self.assertEqual(run.stdout, "")

    def test_no_driver(self):
        run = mgrun("one", *MOCK, variables={})
        if "libcuda.so.1 was not found" not in run.stderr:
            self.skipTest("this machine has a driver")
        self.refuse(run, "install the driver", "--target cpu")
        self.assertEqual(mgrun("one", "--help", variables={}).returncode, 0)

    def test_no_gpu(self):
        self.refuse(mgrun("one", *MOCK, settings="devices=0"), "CUDA_ERROR_NO_DEVICE", "CUDA_VISIBLE_DEVICES")
        self.refuse(mgrun("one", *MOCK, "--device", "3"), "GPU 3", "the driver sees 1")

    def test_a_plan_for_a_newer_gpu(self):
        self.refuse(mgrun("sm_100", *MOCK), "need compute capability 10.0 (sm_100)", "has 9.0", "--target cuda:sm_90")
        self.refuse(mgrun("one", *MOCK, settings="capability=80"), "need compute capability 9.0 (sm_90)", "has 8.0")
        self.refuse(mgrun("one", *MOCK, settings="capability=89"), "has 8.9", "--target cuda:sm_89")
        self.refuse(mgrun("sm_89", *MOCK, settings="capability=86"), "need compute capability 8.9 (sm_89)", "has 8.6")

    def test_a_kernel_that_would_not_run(self):
        """By a plan that was edited, its hashes too."""
        shutil.copytree("one", "skipping")
        path = Path("skipping/kernels/sm_90.ptx")
        kernels, edits = re.subn(rb"(_launch\[24\] = \{)(\d+, ){8}", rb"\g<1>" + 8 * b"0, ", path.read_bytes(), count=1)
        self.assertEqual(edits, 1)
        path.write_bytes(kernels)
        document = mutate.read(Path("skipping"))
        document["plan"]["kernels"][0]["hash"] = f"{mutate.fnv1a(kernels):016x}"
        mutate.write(document, Path("skipping"))
        self.refuse(mgrun("skipping", *MOCK), "launched with 0 blocks, which do nothing of its range of ", "compile the plan again")

    def test_plans_for_older_gpus_run(self):
        losses = [re.search("loss .* -> .*,", mgrun(plan, *MOCK, settings=f"capability={capability}").stdout)[0]
                  for plan, capability in [("one", 90), ("sm_80", 90), ("one", 100), ("sm_80", 86), ("sm_89", 89),
                                           ("sm_120", 120)]]
        self.assertEqual(len(set(losses)), 1, losses)

    def test_too_little_memory_is_said_before_anything_is_allocated(self):
        run = mgrun("four", *MOCK, settings="memory=100000000,calls=1")
        self.refuse(run, "has too little memory: 4 of the plan's ranks need ", "100000000 bytes (0.09 GiB) are free of 100000000",
                    "nothing was allocated", "a device for each of the 4 ranks would fit")
        called = calls(run.stderr)  # each device has a pinned line for what its kernels report
        self.assertEqual((called.get("cuMemAlloc_v2", 0), called.get("cuMemHostAlloc", 0)), (0, 1), run.stderr)
        self.refuse(mgrun("one", *MOCK, settings="memory=1000000"), "a layout whose ranks need ", "smaller microbatches")

    def test_memory_that_another_process_takes_in_between(self):
        self.refuse(mgrun("one", *MOCK, settings="fail-allocation=1"), "rank 0: GPU 0", "CUDA_ERROR_OUT_OF_MEMORY",
                    "other processes may use the GPU")

    def test_a_plugin_that_is_none(self):
        self.assertEqual(mgrun("one", *MOCK, "--device-plugin", "/nowhere/libmgc_cuda.so").returncode, 2)
        for plugin, part in [(UNFIT / "plugin/libno_plugin.so", "is no plugin for devices"),
                             (UNFIT / "plugin/libother_plugin.so", ": build the plugin and mgrun from the same sources")]:
            self.refuse(mgrun("one", *MOCK, "--device-plugin", plugin), str(plugin), part)

    def broken(self, *names):
        """A folder with files of these names that are no libraries: what the loader finds first."""
        folder = Path(tempfile.mkdtemp(dir="."))
        for name in names:
            (folder / name).write_bytes(b"")
        return [folder.resolve()]

    def test_no_cublaslt(self):
        run = mgrun("one", *MOCK, libraries=self.broken("libcublasLt.so.13", "libcublasLt.so.12"))
        self.refuse(run, "libcublasLt.so.13 or libcublasLt.so.12 was not found", "nvidia-cublas", "LD_LIBRARY_PATH")
        self.refuse(mgrun("one", *MOCK, libraries=[UNFIT / "cuda/old_cublaslt"]), "libcublasLt.so.13 lacks ", "expected cuBLASLt 12")

    def test_without_cudnn_attention_takes_the_plugins_own_kernels(self):
        for libraries in self.broken("libcudnn.so.9"), [UNFIT / "cuda/old_cudnn"]:
            run = mgrun("one", *MOCK, libraries=libraries)
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertIn("2 attentions by own kernels (", run.stderr)

    def test_nccl(self):
        for libraries, part in [(self.broken("libnccl.so.2"), "libnccl.so.2 was not found"),
                                ([UNFIT / "cuda/old_nccl"], "is NCCL 0.0.0; expected NCCL 2.18.0 or a later 2.x")]:
            self.assertEqual(mgrun("four", *MOCK, libraries=libraries).returncode, 0, "ranks that share a device need none")
            for errors in processes(MOCK, variables_of=lambda rank, libraries=libraries: stand_ins("devices=4", libraries)).fail(60):
                self.assertIn(part, errors)

    def test_one_process_without_nccl_ends_all(self):
        libraries = self.broken("libnccl.so.2")
        run = processes(MOCK, variables_of=lambda rank: stand_ins("devices=4", libraries) if rank == 2 else {})
        for rank, errors in enumerate(run.fail(60)):
            self.assertIn("rank 2" if rank != 2 else "NCCL", errors)

    def test_processes_with_different_libraries(self):
        other = lambda rank: {"MGC_EMULATE_NCCL_VERSION": "22703"} if rank == 2 else {}
        for errors in processes(MOCK, variables_of=other).fail(60):
            self.assertRegex(errors, "rank 2 has driver .*, NCCL 2.27.3; rank 0 has driver .*; expected the same for all ranks")


class Faults(unittest.TestCase):
    PLACE = r"rank 1 \(stage 0\), step 3, microbatch \d, \w+\.\d+, [\w.]+/\w+"

    def setUp(self):
        self.begin = time.monotonic()

    def tearDown(self):
        self.assertLess(time.monotonic() - self.begin, 100, "it hung")

    def middle_of_step_3(self, per_step):
        return int(3.5 * per_step)

    def test_a_fault_of_ranks_that_share_a_device(self):
        launch = self.middle_of_step_3(step_calls("four")["kernels run"])
        run = mgrun("four", *ENDLESS, settings=f"fail-launch={launch}")
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertRegex(run.stderr, self.PLACE)
        self.assertIn("CUDA_ERROR_ILLEGAL_ADDRESS", run.stderr)

    def test_a_fault_in_one_of_several_processes(self):
        launch = self.middle_of_step_3(process_step_calls()[1]["kernels run"])
        for rank, errors in enumerate(processes(ENDLESS, lambda rank: f"fail-launch={launch}" if rank == 1 else "").fail(60)):
            self.assertRegex(errors, self.PLACE + ": .*CUDA_ERROR_ILLEGAL_ADDRESS")
            self.assertIn("mgrun: rank 1 " if rank == 1 else f"mgrun: rank {rank} ends because of rank 1: ", errors)

    def test_a_device_that_hangs(self):
        """Under one rank, or one of several."""
        for plan, place in ("one", self.PLACE.replace("rank 1", "rank 0")), (
                "four", r"rank \d \(stage \d\), step 3, .*"):
            with self.subTest(plan=plan):
                launch = self.middle_of_step_3(step_calls(plan)["kernels run"])
                run = mgrun(plan, *ENDLESS, "--timeout", "2", settings=f"hang-launch={launch}")
                self.assertEqual(run.returncode, 1, run.stderr)
                self.assertRegex(run.stderr, place + ": waited 2 s for the device to end")

    def test_a_device_that_hangs_in_one_of_several_processes(self):
        launch = self.middle_of_step_3(process_step_calls()[1]["kernels run"])
        for errors in processes([*ENDLESS, "--timeout", "3"], lambda rank: f"hang-launch={launch}" if rank == 1 else "").fail(60):
            self.assertRegex(errors, r"rank \d \(stage \d\), step 3, .*: waited 3 s for the device to end")

    def test_a_process_that_is_killed_in_a_step(self):
        # NCCL 2.21 aborts one communicator after another. A graph has both of a rank.
        for rank, version in (0, "22703"), (2, "22703"), (1, "22105"):
            with self.subTest(rank=rank, version=version):
                run = processes(ENDLESS,
                                variables_of=lambda rank, it=version: {"MGC_EMULATE_NCCL_VERSION": it})
                run.wait_for("step 3:")
                for errors in kill(self, run, rank, 20):
                    self.assertNotIn("waits for work or graphs", errors)

    def test_a_process_that_is_killed_when_all_have_come(self):
        run = processes(ENDLESS)
        run.wait_for("which meet at")
        time.sleep(1)
        kill(self, run, 2, 20)

    def test_a_pipeline_of_one_microbatch(self):
        """Each stage posts what it receives before it sends; with NCCL the first use of a channel waits for the other host."""
        results = processes(["--mock-data", "--train-iters", "3", "--timeout", "20"], plan="pipe").end(60)
        for code, _, errors in results:
            self.assertEqual(code, 0, errors)

    def test_a_network_that_drops_data(self):
        run = processes(["--mock-data", "--timeout", "4"], plan="pipe", variables_of=lambda rank: {"MGC_EMULATE_NCCL_SILENT": "1"})
        for errors in run.fail(60):
            self.assertIn("the first bytes from the one to the other have not come within 2000 ms", errors)

    def test_an_interrupt_ends_all_after_the_same_step(self):
        run = processes(ENDLESS)
        run.wait_for("step 2:")
        run.processes[1].send_signal(signal.SIGINT)
        self.assertEqual([code for code, _, _ in run.end(60)], [130] * 4)


if __name__ == "__main__":
    samples.main(sys.argv[:1] + sys.argv[4:])
