# lit: FileCheck tests of passes and op errors (.mlir) and of the command line (.test).
# Parameters: bin = folder of mgc, mg-opt and mgrun; llvm = folder of FileCheck and not; out = where tests write.
import os

import lit.formats

config.name = "mgc"
config.test_format = lit.formats.ShTest(True)
config.suffixes = [".mlir", ".test"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = lit_config.params["out"]
config.environment["PATH"] = os.pathsep.join(
    [lit_config.params["llvm"], config.environment.get("PATH", os.environ["PATH"])])
root = os.path.dirname(os.path.dirname(config.test_source_root))
for tool in ("mgc", "mg-opt", "mgrun"):
    config.substitutions.append(("%" + tool + r"\b", os.path.join(lit_config.params["bin"], tool)))
config.substitutions.append(("%each", "/usr/bin/python3 " + os.path.join(config.test_source_root, "each.py")))
config.substitutions.append(("%examples", os.path.join(root, "examples")))
config.substitutions.append(("%golden", os.path.join(root, "test", "golden")))
