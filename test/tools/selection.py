#!/usr/bin/python3
"""scripts/test PATH chooses the tests that a change can break, and a seed always chooses the same samples.

    selection.py SOURCE
"""
import os
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop(1)).resolve()


def chosen(*paths, code=0):
    run = subprocess.run([ROOT / "scripts/test", "--list", *paths], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert run.returncode == code, run.stderr
    return set(run.stdout.split()) if code == 0 else run.stderr


class Selection(unittest.TestCase):
    def test_paths(self):
        for path, some, others in [
                ("runtime/comm", {"unit/comm_test", "unit/train_test", "mgrun_events"}, {"lit", "unit/frontend_test", "walkthrough"}),
                ("runtime", {"unit/comm_test", "mgrun_events", "mgc_data"}, {"layers_refuses"}),
                ("runtime/comm/tcp/Socket.cpp", {"unit/comm_test", "mgrun_events"}, {"lit", "mgc_data"}),
                ("plan/Plan.h", {"unit/plan_test", "lit", "mgrun_events"}, {"unit/base_test", "layers_refuses"}),
                ("compiler/grad", {"lit", "e2e/golden-dense"}, {"unit/comm_test", "mgrun_events", "unit/frontend_test"}),
                ("tools/mgrun.cpp", {"e2e/golden-dense", "mgrun_events"}, {"unit/base_test"}),
                ("tools/watch/RunScreen.h", {"mgrun_events"}, {"unit/base_test", "mgc_data"}),
                ("docs/ir.md", {"docs"}, {"lit", "unit/plan_test"}),
                ("test/e2e/samples.py", {"mutation/gpt2", "e2e/golden-dense", "composition/padding"}, {"unit/plan_test"}),
                ("test/runtime/io", {"unit/io_test"}, {"unit/base_test", "lit"})]:
            with self.subTest(path=path):
                found = chosen(path)
                self.assertEqual((some - found, others & found), (set(), set()))

    def test_what_is_no_path(self):
        for path in "runtime/nowhere", "/tmp":
            self.assertIn(f"test: {path}: expected a file or folder of", chosen(path, code=1))
        self.assertIn("test: .gitignore: no test says that it is about this", chosen(".gitignore", code=1))

    def test_a_seed_repeats_its_sample(self):
        def sample(seed):
            program = "import samples; print(*samples.sample(range(12), 3))"
            return subprocess.run([sys.executable, "-c", program], cwd=ROOT / "test/e2e", env=os.environ | {"MGC_TEST_SEED": str(seed)},
                                  capture_output=True, text=True, check=True).stdout.split()

        self.assertEqual(sample(7), sample(7))
        self.assertEqual(sorted(sum((sample(seed) for seed in range(3)), []), key=int), [str(i) for i in range(12)])


unittest.main(argv=sys.argv[:1])
