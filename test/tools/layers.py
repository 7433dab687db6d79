#!/usr/bin/python3
"""scripts/layers finds what it is there to find, in a small tree that has it.

    layers.py SOURCE
"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

LAYERS = pathlib.Path(sys.argv.pop(1)).resolve() / "scripts/layers"
TREE = {"runtime/base/CMakeLists.txt": "mgc_library(DEPS)", "runtime/base/Low.h": "struct Low {};\n",
        "plan/CMakeLists.txt": "# names nothing of x/Y.cpp\nmgc_library(DEPS runtime/base)",
        "plan/Plan.h": '#include "runtime/base/Low.h"\nclass Low;\nstruct Plan {\n  struct Low {};\n};\n',
        "frontend/layout/CMakeLists.txt": "mgc_library(DEPS)",
        "frontend/layout/Layout.cpp": 'Views Layout::views() const {\n  return {{"ranks", {{"tp", tp}, {"dp", dp, data}}}};\n}\n',
        "dialects/mg/CMakeLists.txt": "mgc_library(FOLDERS ops DEPS mgc_mlir plan)",
        "dialects/mg/ops/Op.td": 'include "mlir/IR/OpBase.td"\nlet summary = "Rows of a table";\n',
        "plan/Comments.cpp": '// The rows\n// of a table.\nint rows; // number of them, and\n          // of columns\nauto text = "// of";\n',
        "test/run.py": '"""A test\nof nothing."""\nX = ("of",  # parts\n     "what")\n', "dialects/mg/ops/Op.cpp": '#include "plan/Plan.h"\n'}


class Layers(unittest.TestCase):
    def run_on(self, changes):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in {**TREE, **changes}.items():
                path = pathlib.Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return subprocess.run([LAYERS, folder], capture_output=True, text=True, timeout=60)

    def test_a_tree_that_is_right(self):
        done = self.run_on({})
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_what_is_wrong(self):
        for changes, message in [
                ({"runtime/base/High.h": '#include "plan/Plan.h"\n'},
                 "runtime/base/High.h:1: includes plan/Plan.h, but the DEPS of runtime/base are none"),
                ({"dialects/mg/ops/Far.cpp": '\n#include "runtime/base/Low.h"\n'},
                 "dialects/mg/ops/Far.cpp:2: includes runtime/base/Low.h, but the DEPS of dialects/mg are plan"),
                ({"runtime/base/CMakeLists.txt": "mgc_library(DEPS plan)"},
                 "folders depend on each other: plan -> runtime/base -> plan"),
                ({"plan/CMakeLists.txt": "add_library(x STATIC ../runtime/base/Low.cpp)\nmgc_library(DEPS runtime/base)"},
                 "plan/CMakeLists.txt: names ../runtime/base/Low.cpp, a source of another folder"),
                ({"plan/json/Json.cpp": ""}, "plan/json/Json.cpp: lies in a folder without a target"),
                ({"plan/Ir.cpp": '#include "mlir/IR/Value.h"\n'}, "plan/Ir.cpp:1: includes mlir/IR/Value.h; expected no MLIR"),
                ({"plan/Rank.cpp": '// "tp"\nbool isData = axis == "dp";\n'}, 'plan/Rank.cpp:2: names the mesh axis "dp"; expected a role'),
                ({"plan/Rank.h": "\n// Of a rank.\nint rank;\n"}, 'plan/Rank.h:2: a comment begins with "Of"; expected its subject'),
                ({"plan/Rank.h": "int rank;  // in the mesh\nint stage; // that has it\n"}, 'plan/Rank.h:2: a comment begins with "that"'),
                ({"test/Run.h": "int a; /* which of them */\n"}, 'test/Run.h:1: a comment begins with "which"'),
                ({"dialects/mg/ops/Row.td": "let description = [{\n  What is read.\n}];\n"}, 'dialects/mg/ops/Row.td:1: a comment begins with "What"'),
                ({"test/go.py": 'def go():\n    """Those that run."""\n'}, 'test/go.py:2: a comment begins with "Those"'),
                ({"test/go.py": "x = 1  # whose size is one\n"}, 'test/go.py:1: a comment begins with "whose"'),
                ({"scripts/go": "#!/bin/sh\necho # who it was\n"}, 'scripts/go:2: a comment begins with "who"'),
                ({"test/CMakeLists.txt": "# Of tests.\n"}, 'test/CMakeLists.txt:1: a comment begins with "Of"'),
                ({"plan/Low.h": ""}, "files of one name, Low.h: plan/Low.h, runtime/base/Low.h"),
                ({"plan/Other.cpp": "\nenum class Low { a };\n"}, "types of one name, Low: plan/Other.cpp:2, runtime/base/Low.h:1")]:
            with self.subTest(message=message):
                done = self.run_on(changes)
                self.assertEqual(done.returncode, 1)
                self.assertIn("layers: " + message, done.stderr)


if __name__ == "__main__":
    unittest.main()
