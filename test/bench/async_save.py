#!/usr/bin/env python3
# The cost of --async-save to a step: the same training with and without saves.
#
#   test/bench/async_save.py --bin build/release/bin [--interval 6] [--saves 3] [--rounds 2] [--folder /tmp] [--quick]
#
# Each round trains twice, the second round in the other order. A step lasts from the line that mgrun writes after the step
# before to its own, so a copy of the state between two steps counts. Prints the seconds of the training that saves over
# those of the other, at the same steps: of the median step of those during which a save is written, of the median of all
# steps, and of the sum of all steps. Goal: at most 1.02. A save must be written before the next one begins, else --interval
# is too small. --folder: where the checkpoints go, so on which disk.
import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import tempfile
import threading
import time

from contest import WARMUP

MODEL = {"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "n_positions": 256, "vocab_size": 16384}  # 98 M
TINY = {"model_type": "gpt2", "n_layer": 2, "n_embd": 256, "n_head": 4, "n_positions": 256, "vocab_size": 4096}
POLL = 2e-3  # seconds


class Saves(threading.Thread):
    """When a checkpoint was being written: its folder is named .saving until it is complete."""

    def __init__(self, folder):
        super().__init__()
        self.folder, self.spans, self.done = folder, {}, threading.Event()
        self.start()

    def run(self):
        while not self.done.wait(POLL):
            now = time.monotonic()
            for path in self.folder.glob("iter_*.saving"):
                self.spans.setdefault(path.name, [now, now])[1] = now

    def end(self):
        self.done.set()
        self.join()
        return sorted(self.spans.values())


def train(mgrun, plan, steps, folder, flags):
    """When each step ended, and when saves were written."""
    saves = Saves(folder)
    try:
        command = [mgrun, plan, "--mock-data", "--train-iters", str(steps), "--log-interval", "1", *flags]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        ends, said = [], []
        for line in process.stderr:
            said.append(line)
            if line.startswith("step "):
                ends.append(time.monotonic())
        if process.wait() != 0:
            raise SystemExit("".join(said))
    finally:
        spans = saves.end()
    return ends, spans


def ratios(with_saves, without, interval):
    """Of the steps during which a save is written, of all, of their sum."""
    ends, spans = with_saves
    spans = [span for span in spans if span[0] < ends[-1]]  # but the one at the end
    for step in range(interval, len(ends), interval):
        busy = [span for span in spans if span[0] < ends[step - 1] - POLL and span[1] > ends[step - 1] + POLL]
        if busy:
            raise SystemExit(f"the save before step {step} was not written when that step began: expected --interval above {interval}")
    steps = range(WARMUP, len(ends))
    own, other = ({step: times[step] - times[step - 1] for step in steps} for times in (ends, without[0]))
    during = [step for step in steps if any(begin < ends[step] and end > ends[step - 1] for begin, end in spans)]
    if not during:
        raise SystemExit("no step ran while a save was written")
    median = lambda seconds, of: statistics.median(seconds[step] for step in of)
    print(f"  {len(during)} of {len(own)} steps while a save is written; a save takes "
          f"{statistics.median(end - begin for begin, end in spans):.2f} s, a step {median(other, steps):.3f} s", flush=True)
    return median(own, during) / median(other, during), median(own, steps) / median(other, steps), sum(own.values()) / sum(other.values())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--interval", type=int, default=6)
    parser.add_argument("--saves", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--folder", type=pathlib.Path)
    parser.add_argument("--quick", action="store_true", help="a tiny model: not for its figures")
    options = parser.parse_args()
    steps = options.interval * (options.saves + 1)
    found = []
    with tempfile.TemporaryDirectory(dir=options.folder) as scratch:
        where = pathlib.Path(scratch)
        config = where / "config.json"
        config.write_text(json.dumps((TINY if options.quick else MODEL) | {"attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0}))
        subprocess.run([options.bin / "mgc", "compile", config, "--seq", "256", "--mbs", "1", "--gbs", "1", "-o", where / "plan"],
                       check=True, capture_output=True)
        saving = ["--save", where / "out", "--async-save", "--save-interval", str(options.interval)]
        for number in range(options.rounds):
            runs = [None, None]
            for side in ((0, 1), (1, 0))[number % 2]:
                shutil.rmtree(where / "out", ignore_errors=True)
                runs[side] = train(options.bin / "mgrun", where / "plan", steps, where / "out", (saving, [])[side])
            found.append(ratios(*runs, options.interval))
    for name, values in zip(("median step while a save is written", "median of all steps", "all steps together"), zip(*found)):
        print(f"{name:36} x{statistics.median(values):.3f}   ({', '.join(f'{value:.3f}' for value in values)})")


if __name__ == "__main__":
    main()
