#!/usr/bin/python3
"""Recomputation: python3 recompute_bits.py BIN REPOSITORY TARGET, for a GPU with its stand-ins in LD_LIBRARY_PATH.

A training has the same bits whatever its layers save: a backward recomputes a value by a row kernel or a library call, and
the forward computed the same bits; and sums over rows have one order, whatever they are fused with.
test/composition/test_recompute.py shows it of more layouts on CPUs.
"""
import pathlib
import sys
import unittest

from tool_runs import GOLDEN, compile_plan, enter_folder, run, timeless

SELECTIVE = "--recompute-granularity selective"
POLICIES = ("", SELECTIVE, f"{SELECTIVE} --recompute-modules core_attn mlp",
            "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1")
# Models for GPUs: gelu_new behind a bias, gelu behind a bias, biases in front of rope. For CPUs: norms in other places.
MODELS = {"cuda:sm_90": ("gpt2", "gpt_neox", "qwen2"), "cpu": ("bert", "gemma2", "gpt_neox", "olmo2")}
TARGET = sys.argv[3]


def setUpModule():
    enter_folder()


def train(model, *flags):
    """The log, and all gradients and weights of a training."""
    pathlib.Path("log").unlink(missing_ok=True)
    compile_plan("plan", GOLDEN / model / "config.json", f"--seq 16 --mbs 1 --gbs 2 --target {TARGET}", *flags)
    run("mgrun", "plan", *"--mock-data --train-iters 2 --lr 1e-2 --log log --save-gradients gradients --save weights --force".split())
    return timeless("log"), [pathlib.Path(name).read_bytes() for name in ("gradients", "weights/model.safetensors")]


class SameBits(unittest.TestCase):
    def test_policies(self):
        for model in MODELS[TARGET]:
            for dtype in ("f32", "bf16"):
                saving = train(model, "--dtype", dtype, "--no-recompute")
                for policy in POLICIES:
                    with self.subTest(model=model, dtype=dtype, policy=policy):
                        found = train(model, "--dtype", dtype, policy)
                        self.assertEqual(found[0], saving[0])
                        self.assertTrue(found[1] == saving[1], "gradients or weights differ")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[4:], verbosity=2)
