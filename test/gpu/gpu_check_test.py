#!/usr/bin/python3
"""scripts/gpu-check on the stand-ins of CUDA: gpu_check_test.py BUILD STAND-INS

Packs one model, and checks it with a build that is there already. Its rows must say what happened, whatever happens.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

BUILD, STAND_INS = (str(pathlib.Path(word).resolve()) for word in sys.argv[1:3])
HERE = pathlib.Path(__file__).resolve().parent

sys.path.insert(0, str(HERE.parent / "e2e"))
import cases  # noqa: E402
import check as checking  # noqa: E402
import checks  # noqa: E402
import machine as machines  # noqa: E402
import samples  # noqa: E402
import speed  # noqa: E402


def setUpModule():
    folder = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(folder.cleanup)
    os.chdir(folder.name)
    os.mkdir("tools")
    pathlib.Path("tools/nvidia-smi").write_text("#!/bin/sh\necho 'Stand-in of an H100, 8192, 9.0, 580.0'\n")
    os.chmod("tools/nvidia-smi", 0o755)
    subprocess.run([sys.executable, HERE / "pack.py", "--bin", BUILD + "/bin", "--out", "pack", "--models", "llama,mixtral", "--benches", "none",
                    "--packages", "none"], check=True, stdout=subprocess.DEVNULL)


def check(*flags, path="tools:" + os.environ["PATH"], stand_ins=""):
    """Exit code, and rows as [check, outcome, detail] of the table that was left."""
    variables = {**os.environ, "PATH": path, "LD_LIBRARY_PATH": STAND_INS, "MGC_EMULATE_CUDA": stand_ins}
    done = subprocess.run([sys.executable, HERE / "check.py", "--pack", "pack", "--build", BUILD, "--out", "out", *flags],
                          env=variables, capture_output=True, text=True)
    lines = pathlib.Path("out/table.md").read_text().splitlines()
    return done.returncode, [[cell.strip() for cell in line.split("|")[1:4]] for line in lines if line.startswith("| ")][1:]


class GpuCheck(unittest.TestCase):
    def outcomes(self, rows):
        return [(name, outcome) for name, outcome, _ in rows]

    def test_a_model_passes(self):
        code, rows = check("--only", "goldens,repeat,refusals,speed,peers")
        self.assertEqual(self.outcomes(rows), [("device", "passed"), ("goldens-f32", "passed"), ("goldens-bf16", "passed"),
                                               ("experts-f32", "passed"), ("repeat", "passed"), ("refusal too-large", "passed"), ("refusal too-new", "passed"),
                                               ("speed", "skipped"), ("PyTorch", "skipped")], rows)
        self.assertEqual(code, 0, rows)
        self.assertIn("5 of 5 runs agree", rows[1][2])
        self.assertIn("3 of 3 runs agree", rows[3][2])

    def test_what_never_ends_is_killed_and_the_rest_goes_on(self):
        code, rows = check("--only", "repeat,refusals", "--budget", "6", stand_ins="hang-launch=100")
        self.assertEqual(self.outcomes(rows)[1], ("repeat", "failed"), rows)
        self.assertIn("not done after", rows[1][2])
        self.assertEqual(rows[2][:2], ["refusals", "skipped"], rows)
        self.assertEqual(code, 1)

    def test_a_fault_is_a_failed_row(self):
        code, rows = check("--only", "repeat", stand_ins="fail-launch=100")
        self.assertEqual(rows[1][:2], ["repeat", "failed"], rows)
        self.assertIn("CUDA_ERROR_ILLEGAL_ADDRESS", rows[1][2])
        self.assertEqual(code, 1)

    def test_without_a_gpu_nothing_passes(self):
        os.makedirs("nothing", exist_ok=True)
        code, rows = check(path="nothing")
        self.assertEqual({outcome for _, outcome, _ in rows}, {"skipped"}, rows)
        self.assertEqual(code, 1)

    def test_speed_of_a_case(self):
        """A golden plan in the place of a benchmark's: the rows that its log and its profile give."""
        shutil.copytree("pack/golden/bf16/llama/" + cases.DENSE.layouts[0], "pack/bench/tiny/plan")
        shutil.copy(HERE.parent / "golden/llama/config.json", "pack/bench/tiny/config.json")
        pathlib.Path("pack/bench/tiny/case.json").write_text(json.dumps({"layers": 4, "sequence": 32, "batch": 2, "microbatches": 1}))
        os.makedirs("out", exist_ok=True)
        options = argparse.Namespace(pack=pathlib.Path("pack").resolve(), out=pathlib.Path("out").resolve(), build=pathlib.Path(BUILD),
                                     budget=300, torch="/nowhere/python", environment=dict(os.environ))
        with mock.patch.dict(os.environ, {"LD_LIBRARY_PATH": STAND_INS}):
            machine = machines.Machine(options, {"models": ["llama"], "benches": []})
        machine.gpu = ("NVIDIA H100 80GB HBM3", 80 << 30, 9.0)
        rows = speed.bench_rows(machine, speed.Case(machine, argparse.Namespace(name="tiny")), True)
        self.assertEqual({row.outcome for row in rows}, {"measured"}, rows)
        self.assertRegex(rows[0].detail, r"^4 layers: [\d.]+ ms, \d+ tokens/s, MFU [\d.]+ % of 989 TFLOP/s \(goal 60\), [\d.]+ MiB of the plan, .* before, host [\d.]+ % \(goal 2\)$")
        self.assertRegex(rows[1].detail, r"^[\d.]+ ms, step [\d.]+ of it \(goal 1.15\); copy \d+ GB/s; ")
        self.assertGreater(len([row for row in rows if row.check == "row kernel"]), 10, rows)
        self.assertEqual([row.detail for row in speed.check_peers(machine)], ["no torch (/nowhere/python)"])

    def machine_of(self, budget=300, capability=9.0):
        folder = pathlib.Path("tools").resolve()
        options = argparse.Namespace(pack=folder, out=folder, build=pathlib.Path(BUILD), budget=budget, torch="/nowhere/python",
                                     environment={})
        machine = machines.Machine(options, {"models": ["llama"], "benches": []})
        machine.gpu = ("NVIDIA H100 80GB HBM3", 80 << 30, capability)
        return machine

    def test_the_end_of_the_budget_inside_a_check_fails_nothing(self):
        machine = self.machine_of(budget=0)
        with mock.patch.object(checks, "find_tool", return_value="/nowhere/tool"):
            rows = checks.check_goldens(machine) + checks.check_sanitizer(machine) + checks.check_refusals(machine)
        case = argparse.Namespace(name="tiny")
        rows += [*speed.bench_rows(machine, case, True), *speed.bound_rows(machine, case, 1, True), speed.peer_row(machine, case)]
        self.assertEqual(len(rows), 10, rows)
        self.assertEqual({(row.outcome, row.detail) for row in rows}, {("skipped", "the 0 s of --budget are over")}, rows)

    def test_plans_are_not_for_older_gpus(self):
        for name in checking.OF_PLANS:
            self.assertEqual(checking.run_check(self.machine_of(capability=8.0), name),
                             [machines.skipped(name, "the packed plans are for cuda:sm_90; this GPU has compute capability 8.0")])

    def test_a_sanitizer_that_cannot_work_is_no_failure_and_one_that_finds_something_is(self):
        self.assertEqual(checks.why_unusable("========= Error: device not supported. Please refer to the manual"),
                         "Error: device not supported. Please refer to the manual")
        self.assertEqual(checks.why_unusable("mgrun: this is not supported\n========= ERROR SUMMARY: 3 errors"), "")
        self.assertEqual(checks.why_unusable("========= Invalid read\n========= not supported\n========= ERROR SUMMARY: 1 error"), "")
        self.assertEqual(checks.why_unusable("mgrun: this is not supported"), "")

    def test_peaks_are_of_the_gpu_that_is_meant(self):
        peaks = {"NVIDIA H100 PCIe": 756e12, "NVIDIA H100 NVL": 835e12, "NVIDIA H100 80GB HBM3": 989e12, "NVIDIA H200": 989e12,
                 "NVIDIA L4": None}
        self.assertEqual({name: speed.peak_of(name) for name in peaks}, peaks)

    def test_floating_point_operations(self):
        """One layer of Llama-3-8B and its head, counted by hand for 4096 tokens."""
        config = json.loads((HERE.parent.parent / "examples/llama-3-8b/config.json").read_text())
        layer, head = 4096 * (6144 + 4096 + 3 * 14336), 4096 * 128256
        attention = 2 * 2 * 4096 * (4096 * 4097 // 2)  # two products, a multiplication and an addition each
        case = {"layers": 1, "batch": 1, "microbatches": 8, "sequence": 4096}
        self.assertEqual(speed.matrix_flops(case, config), 8 * 3 * (2 * 4096 * (layer + head) + attention))

    def test_floating_point_operations_of_experts(self):
        """One layer of Qwen3-30B-A3B and its head: a token has 8 of 128 experts."""
        config = json.loads((HERE.parent.parent / "examples/qwen3-30b-a3b/config.json").read_text())
        layer, head = 2048 * (2 * 4096 + 2 * 512 + 3 * 8 * 768 + 128), 2048 * 151936
        attention = 2 * 2 * 4096 * (4096 * 4097 // 2)
        case = {"layers": 1, "batch": 1, "microbatches": 1, "sequence": 4096}
        self.assertEqual(speed.matrix_flops(case, config), 3 * (2 * 4096 * (layer + head) + attention))

    def test_a_folder_that_is_no_pack_is_refused(self):
        done = subprocess.run([sys.executable, HERE / "check.py", "--pack", "tools"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("nothing packed there; run scripts/gpu-check pack", done.stderr)

    def test_the_pack_says_what_is_in_it(self):
        facts = json.loads(pathlib.Path("pack/packed.json").read_text())
        self.assertEqual((facts["models"], facts["benches"]), (["llama", "mixtral"], []))


if __name__ == "__main__":
    samples.main(sys.argv[:1] + sys.argv[3:])
