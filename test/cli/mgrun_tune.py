#!/usr/bin/python3
"""Algorithms of products on a device, measured and kept: python3 mgrun_tune.py BIN REPOSITORY

On stand-ins of the CUDA libraries (LD_LIBRARY_PATH), whose products have two algorithms that add up in different orders.
"""
import json
import os
import sys
import unittest

from mgrun_processes import Run  # reads sys.argv
from tool_runs import GOLDEN, compile_plan, enter_folder, expect, read, records, run, write

CACHE = "products.json"


def setUpModule():
    enter_folder()
    for name, flags in ("plan", "--target cuda:sm_90 --tp 2"), ("cpu", "--target-cpu native"):
        compile_plan(name, GOLDEN / "gpt2/config.json", "--seq 16 --mbs 1 --gbs 1", flags)


def tuned(*flags, **variables):
    """mgrun's words, and the bits of its losses and norms."""
    if os.path.exists("log.jsonl"):
        os.remove("log.jsonl")
    said = run("mgrun", "plan", "--mock-data", "--train-iters", "3", "--log", "log.jsonl", *flags, env=os.environ | variables).stderr
    steps = [(step["loss"], step["grad_norm"]) for step in records("log.jsonl")]
    assert len(steps) == 3, steps
    return said, steps


def read_cache():
    return json.loads(read(CACHE))


def write_cache(cache):
    write(CACHE, json.dumps(cache))


class Tune(unittest.TestCase):
    flags = "--tune-products", "--tune-cache", CACHE

    def setUp(self):
        if os.path.exists(CACHE):
            os.remove(CACHE)

    def test_two_loads_choose_alike(self):
        said, first = tuned(*self.flags)
        self.assertRegex(said, r"products: [1-9]\d* measured here, 0 not")
        cache = read_cache()
        said, second = tuned(*self.flags)
        self.assertRegex(said, r"products: 0 measured here, [1-9]\d* not")
        self.assertEqual(first, second)
        self.assertEqual(cache, read_cache())

    def test_the_cache_decides(self):
        tuned(*self.flags)
        cache = read_cache()
        bits = []
        for algorithm in 0, 1:
            write_cache({**cache, "fastest": dict.fromkeys(cache["fastest"], algorithm)})
            bits.append(tuned(*self.flags)[1])
        self.assertNotEqual(bits[0], bits[1], "the second algorithm adds up in another order")
        self.assertEqual(bits[0], tuned()[1], "without the flag it is the library's first")

    def test_damaged_entries_are_measured_anew(self):
        tuned(*self.flags)
        good = read_cache()
        keys = sorted(good["fastest"])
        write_cache({**good, "fastest": {**good["fastest"], keys[0]: "fast", keys[1]: 99}})
        said, _ = tuned(*self.flags)
        self.assertIn('found "fast", expected the number of an algorithm; measured anew', said)
        self.assertIn("algorithm 99 of 2 that cuBLASLt", said)
        self.assertRegex(said, f"products: 2 measured here, {len(keys) - 2} not")
        said, _ = tuned(*self.flags)
        self.assertNotIn("measured anew", said)

    def test_processes_choose_alike(self):
        """Each has a device and a cache of its own."""
        results = Run(["--mock-data", "--train-iters", "2", "--tune-products"], range(2), 2,
                      of_rank=lambda rank: {"arguments": ["--tune-cache", f"cache{rank}.json"]}).end()
        self.assertEqual([code for code, _, _ in results], [0, 0], results)
        self.assertRegex(results[0][2], r"products: [1-9]\d* measured here, 0 not")
        self.assertTrue(os.path.exists("cache0.json"))
        self.assertFalse(os.path.exists("cache1.json"), "what rank 0 has chosen, rank 1 does not measure")

    def test_the_default_cache(self):
        for number in 0, 1:
            said, _ = tuned("--tune-products", XDG_CACHE_HOME=os.path.abspath("home"))
            self.assertEqual(" 0 measured here" in said, number == 1)
        self.assertTrue(os.path.exists("home/mgc/device-products.json"))

    def test_wrong_usage(self):
        write(CACHE, "dear reader")
        for code, plan, flags, message in [
                (2, "plan", ["--tune-cache", CACHE], ""),
                (1, "cpu", ["--tune-products"], "--tune-products: means nothing for a plan whose target is cpu"),
                (1, "plan", ["--tune-products", "--tune-cache", "log.jsonl"], "--log log.jsonl: is a file of --tune-cache, expected another"),
                (1, "plan", self.flags, "expected a cache of a device's products")]:
            expect(code, message, "mgrun", plan, "--mock-data", "--train-iters", "3", "--log", "log.jsonl", *flags)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
