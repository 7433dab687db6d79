#!/usr/bin/python3
"""Algorithms of products on a device, measured and kept: python3 mgrun_tune.py BIN REPOSITORY

On stand-ins of the CUDA libraries (LD_LIBRARY_PATH), whose products have two algorithms that add up in different orders.
"""
import json
import os
import socket
import subprocess
import sys
import tempfile
import unittest

BIN, ROOT = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
CACHE = "products.json"


def setUpModule():
    folder = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(folder.cleanup)
    os.chdir(folder.name)
    for name, flags in (("plan", ["--target", "cuda:sm_90", "--tp", "2"]), ("cpu", ["--target-cpu", "native"])):
        subprocess.run([BIN + "/mgc", "compile", ROOT + "/test/golden/gpt2/config.json", "--seq", "16", "--mbs", "1", "--gbs", "1",
                        *flags, "-o", name], check=True, capture_output=True)


def mgrun(*flags, plan="plan", **variables):
    """Exit code, what it says, and the bits of its losses and norms."""
    if os.path.exists("log.jsonl"):
        os.remove("log.jsonl")
    done = subprocess.run([BIN + "/mgrun", plan, "--mock-data", "--train-iters", "3", "--log", "log.jsonl", *flags], text=True,
                          capture_output=True, stdin=subprocess.DEVNULL, env={**os.environ, **variables}, check=False)
    steps = []
    if os.path.exists("log.jsonl"):
        with open("log.jsonl", encoding="utf-8") as file:
            steps = [(step["loss"], step["grad_norm"]) for step in map(json.loads, file)]
    return done.returncode, done.stderr, steps


def mgrun_in_processes(count, *flags):
    """A process for each rank, with a device and a cache of its own: cacheN.json."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    processes = [subprocess.Popen([BIN + "/mgrun", "plan", "--mock-data", "--train-iters", "2", "--tune-products", "--tune-cache",
                                   f"cache{rank}.json", *flags], text=True, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                  stdout=subprocess.DEVNULL,
                                  env={**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(count),
                                       "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "MGC_EMULATE_CUDA": f"devices={count}"})
                 for rank in range(count)]
    said = [process.communicate()[1] for process in processes]
    return [process.returncode for process in processes], said


def read_cache():
    with open(CACHE, encoding="utf-8") as file:
        return json.load(file)


def write_cache(cache):
    with open(CACHE, "w", encoding="utf-8") as file:
        json.dump(cache, file)


class Tune(unittest.TestCase):
    tuned = "--tune-products", "--tune-cache", CACHE

    def setUp(self):
        if os.path.exists(CACHE):
            os.remove(CACHE)

    def run_well(self, *flags):
        code, said, steps = mgrun(*flags)
        self.assertEqual(code, 0, said)
        self.assertEqual(len(steps), 3)
        return said, steps

    def test_two_loads_choose_alike(self):
        said, first = self.run_well(*self.tuned)
        self.assertRegex(said, r"products: [1-9]\d* measured here, 0 not")
        cache = read_cache()
        said, second = self.run_well(*self.tuned)
        self.assertRegex(said, r"products: 0 measured here, [1-9]\d* not")
        self.assertEqual(first, second)
        self.assertEqual(cache, read_cache())

    def test_the_cache_decides(self):
        self.run_well(*self.tuned)
        cache = read_cache()
        bits = []
        for algorithm in 0, 1:
            write_cache({**cache, "fastest": dict.fromkeys(cache["fastest"], algorithm)})
            bits.append(self.run_well(*self.tuned)[1])
        self.assertNotEqual(bits[0], bits[1], "the second algorithm adds up in another order")
        self.assertEqual(bits[0], self.run_well()[1], "without the flag it is the library's first")

    def test_damaged_entries_are_measured_anew(self):
        self.run_well(*self.tuned)
        good = read_cache()
        keys = sorted(good["fastest"])
        write_cache({**good, "fastest": {**good["fastest"], keys[0]: "fast", keys[1]: 99}})
        said, _ = self.run_well(*self.tuned)
        self.assertIn('found "fast", expected the number of an algorithm; measured anew', said)
        self.assertIn("algorithm 99 of 2 that cuBLASLt", said)
        self.assertRegex(said, f"products: 2 measured here, {len(keys) - 2} not")
        said, _ = self.run_well(*self.tuned)
        self.assertNotIn("measured anew", said)

    def test_processes_choose_alike(self):
        codes, said = mgrun_in_processes(2)
        self.assertEqual(codes, [0, 0], said)
        self.assertRegex(said[0], r"products: [1-9]\d* measured here, 0 not")
        self.assertTrue(os.path.exists("cache0.json"))
        self.assertFalse(os.path.exists("cache1.json"), "what rank 0 has chosen, rank 1 does not measure")

    def test_the_default_cache(self):
        for run in 0, 1:
            code, said, _ = mgrun("--tune-products", XDG_CACHE_HOME=os.path.abspath("home"))
            self.assertEqual(code, 0, said)
            self.assertEqual(" 0 measured here" in said, run == 1)
        self.assertTrue(os.path.exists("home/mgc/device-products.json"))

    def test_wrong_usage(self):
        self.assertEqual(mgrun("--tune-cache", CACHE)[0], 2)
        code, said, _ = mgrun("--tune-products", plan="cpu")
        self.assertEqual(code, 1)
        self.assertIn("--tune-products: means nothing for a plan whose target is cpu", said)
        code, said, _ = mgrun("--tune-products", "--tune-cache", "log.jsonl")
        self.assertEqual(code, 1)
        self.assertIn("--log log.jsonl: is a file of --tune-cache, expected another", said)
        with open(CACHE, "w", encoding="utf-8") as file:
            file.write("dear reader")
        code, said, _ = mgrun(*self.tuned)
        self.assertEqual(code, 1)
        self.assertIn("expected a cache of a device's products", said)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
