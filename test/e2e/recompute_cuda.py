#!/usr/bin/python3
"""Recomputation on GPUs: python3 recompute_cuda.py BIN REPOSITORY, with the stand-ins of a GPU in LD_LIBRARY_PATH.

A training has the same bits whatever its layers save: a backward recomputes a value by a row kernel or a library call, and
the forward computed the same bits. test/composition/test_recompute.py shows it of CPUs.
"""
import pathlib
import sys
import unittest

from tool_runs import GOLDEN, compile_plan, enter_folder, run, timeless

SELECTIVE = "--recompute-granularity selective"
POLICIES = ("", SELECTIVE, f"{SELECTIVE} --recompute-modules core_attn mlp",
            "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1")
MODELS = ("gpt2", "gpt_neox", "qwen2")  # gelu_new behind a bias, gelu behind a bias, biases in front of rope


def setUpModule():
    enter_folder()


def train(model, *flags):
    """The log, and all gradients and weights of a training."""
    pathlib.Path("log").unlink(missing_ok=True)
    compile_plan("plan", GOLDEN / model / "config.json", "--seq 16 --mbs 1 --gbs 2 --target cuda:sm_90", *flags)
    run("mgrun", "plan", *"--mock-data --train-iters 2 --lr 1e-2 --log log --save-gradients gradients --save weights --force".split())
    return timeless("log"), [pathlib.Path(name).read_bytes() for name in ("gradients", "weights/model.safetensors")]


class SameBits(unittest.TestCase):
    def test_policies(self):
        for model in MODELS:
            for dtype in ("f32", "bf16"):
                saving = train(model, "--dtype", dtype, "--no-recompute")
                for policy in POLICIES:
                    with self.subTest(model=model, dtype=dtype, policy=policy):
                        found = train(model, "--dtype", dtype, policy)
                        self.assertEqual(found[0], saving[0])
                        self.assertTrue(found[1] == saving[1], "gradients or weights differ")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
