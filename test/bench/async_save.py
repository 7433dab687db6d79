#!/usr/bin/env python3
# The cost of --async-save to a step: the steps of a training during which a save is written, compared with its others.
#
#   test/bench/async_save.py --bin build/release/bin [--interval 25] [--saves 3] [--rounds 2] [--folder /tmp] [--quick]
#
# A step lasts from the line that mgrun writes after the step before to its own, so a copy of the state between two steps counts.
# Both kinds of steps are of the same training: on a shared machine two trainings differ by more than a save costs. Prints the
# median of the first kind over that of the second, and how much longer all steps take by what those of the first kind take above
# that second median. Goal: at most 1.02. --folder: where the checkpoints go, so on which disk.
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


def ratios(ends, spans, interval):
    """Ratios for the median step during which a save is written, and for all steps."""
    spans = [span for span in spans if span[0] < ends[-1]]  # but the one at the end
    for step in range(interval, len(ends), interval):
        if any(span[0] < ends[step - 1] - POLL and span[1] > ends[step - 1] + POLL for span in spans):
            raise SystemExit(f"the save before step {step} was not written when that step began: expected --interval above {interval}")
    seconds = {step: ends[step] - ends[step - 1] for step in range(WARMUP, len(ends))}
    during = {step for step in seconds if any(begin < ends[step] and end > ends[step - 1] for begin, end in spans)}
    if not during or len(during) == len(seconds):
        raise SystemExit(f"{len(during)} of {len(seconds)} steps ran while a save was written: expected some, and some others")
    usual = statistics.median(seconds[step] for step in seconds.keys() - during)
    extra = sum(seconds[step] - usual for step in during)
    print(f"  {len(during)} of {len(seconds)} steps while a save is written; a save takes "
          f"{statistics.median(end - begin for begin, end in spans):.2f} s, another step {usual:.3f} s", flush=True)
    return statistics.median(seconds[step] for step in during) / usual, 1 + extra / (len(seconds) * usual)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--interval", type=int, default=25)
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
        for _ in range(options.rounds):
            shutil.rmtree(where / "out", ignore_errors=True)
            found.append(ratios(*train(options.bin / "mgrun", where / "plan", steps, where / "out", saving), options.interval))
    for name, values in zip(("median step while a save is written", "all steps"), zip(*found)):
        print(f"{name:36} x{statistics.median(values):.3f}   ({', '.join(f'{value:.3f}' for value in values)})")


if __name__ == "__main__":
    main()
