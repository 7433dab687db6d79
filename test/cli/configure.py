#!/usr/bin/python3
"""A second configuration that finds the same compiler under another path, at which CMake forgets what the preset said, and one
without a preset both give optimised programs.

    configure.py SOURCE
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv.pop(1))
SMALL = ["-DMGC_RUNTIME_ONLY=ON", "-DMGC_BUILD_TESTS=OFF", "-DMGC_CUDA=OFF"]


class Configure(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.build = self.folder / "build"

    def configure(self, *arguments, path=os.environ["PATH"]):
        run = subprocess.run(["cmake", *arguments, *SMALL, "-B", self.build], cwd=SOURCE, env=os.environ | {"PATH": path},
                             capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120)
        self.assertEqual(run.returncode, 0, run.stderr)
        return run.stdout + run.stderr

    def expect_optimised(self):
        flags = [line for line in (self.build / "build.ninja").read_text().splitlines() if line.startswith("  FLAGS = ")]
        self.assertTrue(flags)
        for line in flags:
            self.assertIn(" -O2 ", line + " ")
        self.assertIn("CMAKE_BUILD_TYPE:STRING=Release", (self.build / "CMakeCache.txt").read_text())

    def test_another_path_to_the_same_compiler(self):
        self.configure("--preset", "release")
        self.expect_optimised()
        other = self.folder / "bin"
        other.mkdir()
        for compiler in "clang-22", "clang++-22":
            (other / compiler).symlink_to(shutil.which(compiler))
        said = self.configure("--preset", "release", path=f"{other}:{os.environ['PATH']}")
        self.assertIn("require your cache to be deleted", said)  # else this shows nothing
        self.expect_optimised()

    def test_no_preset(self):
        self.configure("-G", "Ninja")
        self.expect_optimised()


if __name__ == "__main__":
    unittest.main()
