"""mgrun --data-path: indexed files, blends, splits, a cache. usage: mgrun_data.py BIN ROOT"""
import json
import os
import pathlib
import random
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

BIN, ROOT = (pathlib.Path(word).resolve() for word in sys.argv[1:3])


def write_indexed(prefix, sequences):
    """The format of Megatron-LM: a sequence is a document."""
    with open(f"{prefix}.bin", "wb") as out:
        for tokens in sequences:
            out.write(struct.pack(f"<{len(tokens)}H", *tokens))
    lengths = [len(tokens) for tokens in sequences]
    offsets = [2 * sum(lengths[:i]) for i in range(len(lengths))]
    with open(f"{prefix}.idx", "wb") as out:
        out.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, len(lengths), len(lengths) + 1))
        out.write(struct.pack(f"<{len(lengths)}i{len(lengths)}q{len(lengths) + 1}q", *lengths, *offsets, *range(len(lengths) + 1)))


def run(*words):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=120)


def has_open_file_in(folder, process):
    for file in pathlib.Path(f"/proc/{process.pid}/fd").iterdir():
        try:
            if os.readlink(file).startswith(folder):
                return True
        except FileNotFoundError:  # closed meanwhile
            pass
    return False


class Data(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        os.chdir(cls.folder.name)
        rng = random.Random(1)
        for name, count in (("a", 300), ("b", 100)):
            write_indexed(name, [[rng.randrange(128) for _ in range(rng.randrange(1, 60))] + [0] for _ in range(count)])
        for plan, flags in (("plan", []), ("evaluated", ["--evaluation"]), ("dp2", ["--dp", "2"]), ("packed", ["--reset-attention-mask", "--reset-position-ids"])):
            done = run(BIN / "mgc", "compile", ROOT / "test/golden/llama/config.json", "--seq", 16, "--gbs", 8, "--mbs", 2,
                       *flags, "-o", plan)
            assert done.returncode == 0, done.stderr

    @classmethod
    def tearDownClass(cls):
        os.chdir("/")
        cls.folder.cleanup()

    def losses(self, plan, *flags, steps=3):
        path = pathlib.Path("log.jsonl")
        path.unlink(missing_ok=True)
        done = run(BIN / "mgrun", plan, "--train-iters", steps, "--log", path, *flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line)["loss"] for line in path.read_text().splitlines()], done.stdout + done.stderr

    def expect(self, code, message, *flags):
        done = run(BIN / "mgrun", "plan", "--train-iters", 1, *flags)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertIn(message, done.stderr)

    def test_one_prefix(self):
        losses, text = self.losses("plan", "--data-path", "a")
        self.assertIn("a: ", text)
        self.assertEqual(losses, self.losses("plan", "--data-path", "a.bin")[0])
        whole = self.losses("plan", "--data-path", "a", "--split", "1")[0]
        self.assertEqual(whole, self.losses("plan", "--train-data-path", "a")[0])
        self.expect(2, "--valid-data-path: would do nothing: there is no --eval-interval", "--train-data-path", "a", "--valid-data-path", "b")
        self.assertNotEqual(losses, self.losses("plan", "--data-path", "a", "--split", "50,50")[0])
        self.assertNotEqual(losses, self.losses("plan", "--data-path", "a", "--seed", 7)[0])

    def test_the_same_in_every_layout(self):
        for flags in (["--data-path", "a"], ["--data-path", "0.3", "a", "0.7", "b"]):
            for one, two in zip(self.losses("plan", *flags)[0], self.losses("dp2", *flags)[0]):
                self.assertAlmostEqual(one, two, places=4)

    def test_blends_and_cache(self):
        blend = ["--data-path", "0.3", "a", "0.7", "b"]
        losses, text = self.losses("plan", *blend)
        self.assertIn("25 samples of a blend: 8 of a: ", text)
        for _ in range(2):
            self.assertEqual(losses, self.losses("plan", *blend, "--data-cache-path", "cache")[0])
        self.assertEqual(len(list(pathlib.Path("cache").iterdir())), 2)
        pathlib.Path("cache", next(pathlib.Path("cache").iterdir()).name).write_bytes(b"")
        self.expect(1, "cache/gpt-", *blend, "--data-cache-path", "cache")

    def test_documents(self):
        by_token, _ = self.losses("packed", "--data-path", "a", "--eod-token-id", 0)
        by_sequence, _ = self.losses("packed", "--data-path", "a", "--dataloader-inter-document-masking")
        self.assertNotEqual(by_token, by_sequence)  # tokens 0 stand within sequences, too

    def test_cyclic(self):
        cyclic = ["--data-path", "a", "--dataloader-type", "cyclic"]
        sharded, shared = self.losses("dp2", *cyclic)[0], self.losses("dp2", *cyclic, "--no-data-sharding")[0]
        self.assertNotEqual(sharded, shared)
        self.assertEqual(sharded, self.losses("dp2", *cyclic)[0])

    def test_a_run_that_ends_while_it_tokenizes(self):
        """A request to end is heard, and no file stays, however the run ends."""
        model = {"type": "WordLevel", "vocab": {str(i): i for i in range(100)}, "unk_token": "0"}
        pathlib.Path("tokenizer.json").write_text(json.dumps({"pre_tokenizer": {"type": "WhitespaceSplit"}, "model": model}))
        with open("large.jsonl", "w") as out:
            out.writelines([json.dumps({"text": "1 2 3 4 5 6 7 8 9 " * 50}) + "\n"] * 100000)
        with open("one.jsonl", "w") as out:
            out.write(json.dumps({"text": "1 2 3 4 5 6 7 8 9 " * 50}) + "\n")
        trained = ["plan", "--data", "large.jsonl"]
        evaluated = ["evaluated", "--data", "one.jsonl", "--valid-data", "large.jsonl", "--eval-interval", "1"]
        for end, code, data in ((signal.SIGTERM, 130, trained), (signal.SIGKILL, -signal.SIGKILL, trained),
                                (signal.SIGTERM, 130, evaluated)):
            with tempfile.TemporaryDirectory() as folder:
                command = [BIN / "mgrun", *data, "--train-iters", "100000", "--tokenizer-model", "tokenizer.json"]
                process = subprocess.Popen(command, env=os.environ | {"TMPDIR": folder}, stdout=subprocess.PIPE,
                                           stderr=subprocess.PIPE, text=True)
                while not has_open_file_in(folder, process):
                    self.assertIsNone(process.poll())
                    time.sleep(0.01)
                time.sleep(0.3 if data is evaluated else 0)  # the first file is short
                process.send_signal(end)
                _, errors = process.communicate(timeout=60)
                self.assertEqual(process.returncode, code, errors)
                self.assertEqual(os.listdir(folder), [])
                if end == signal.SIGTERM:
                    self.assertIn("large.jsonl: a request to end came while its lines were tokenized", errors)

    def test_lines_are_tokenized(self):
        """The same losses as those of the files that mgc-data makes."""
        model = {"type": "WordLevel", "vocab": {str(i): i for i in range(100)}, "unk_token": "0"}
        pathlib.Path("tokenizer.json").write_text(json.dumps({"pre_tokenizer": {"type": "WhitespaceSplit"}, "model": model}))
        rng = random.Random(3)
        with open("small.jsonl", "w") as out:
            for _ in range(50):
                out.write(json.dumps({"text": " ".join(str(rng.randrange(100)) for _ in range(rng.randrange(1, 60)))}) + "\n")
        done = run(BIN / "mgc-data", "preprocess", "--input", "small.jsonl", "--output-prefix", "small", "--tokenizer-model",
                   "tokenizer.json")
        self.assertEqual(done.returncode, 0, done.stderr)
        losses, text = self.losses("plan", "--data", "small.jsonl", "--tokenizer-model", "tokenizer.json")
        self.assertIn("small.jsonl: ", text)
        self.assertEqual(losses, self.losses("plan", "--train-data-path", "small_text_document")[0])

    def test_errors(self):
        self.expect(1, "c.idx", "--data-path", "c")
        self.expect(2, "--split a: expected", "--data-path", "a", "--split", "a")
        self.expect(2, "excludes", "--data-path", "a", "--train-data-path", "b")
        self.expect(2, "requires", "--valid-data-path", "a")
        self.expect(2, "--data-cache-path: would do nothing", "--mock-data", "--data-cache-path", "x")
        self.expect(2, "--no-data-sharding: would do nothing", "--data-path", "a", "--no-data-sharding")
        self.expect(1, "split train has no sequences", "--data-path", "a", "--split", "0,1")
        self.expect(1, "4294967295", "--data-path", "a", "--seed", 1 << 32)
        write_indexed("large", [[500] * 400] * 20)
        self.expect(1, "large.bin: sequence", "--data-path", "large")
        with open("a.bin", "rb") as whole, open("cut.bin", "wb") as out:
            out.write(whole.read()[:-2])
        pathlib.Path("cut.idx").write_bytes(pathlib.Path("a.idx").read_bytes())
        self.expect(1, "cut off", "--data-path", "cut")
        self.expect(1, "is a file of --data-path", "--data-path", "a", "--log", "a.bin")


unittest.main(argv=sys.argv[:1], verbosity=1)
