#!/usr/bin/env python3
# Training speed beside PyTorch: GPT-2 124M (examples/gpt2 without dropout), fp32, AdamW, clipped, 4 x 256 tokens a
# step.
#
#   test/bench/setup-peers                                                   once: PyTorch into build/peers
#   test/bench/train.py --bin build/release/bin [--peers build/peers] [--rounds 3] [--steps 6]
#
# Each round runs in turn PyTorch on all cores, mgc as one rank on all cores, and mgc as two ranks (tp 2) that share
# them, all from the same weights on the same tokens. The first two steps of a run warm up. Printed: the median tokens
# per second over all measured steps, the median over the rounds of the ratio to PyTorch's of the same round, and the
# same for the processor time of a step, which a busy machine changes least. Losses that differ end the run: only equal
# work compares.
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BATCH, SEQUENCE, WARMUP = 4, 256, 2
OPTIMIZER = ["--lr=1e-4", "--lr-decay-style=constant", "--weight-decay=0.01", "--adam-beta1=0.9", "--adam-beta2=0.95",
             "--adam-eps=1e-8", "--clip-grad=1"]


def processor_seconds(pid):
    """User and system seconds of a running process."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def steps_in(log):
    return [json.loads(line) for line in log.read_text().splitlines(keepends=True)
            if line.startswith("{") and line.endswith("\n")] if log.exists() else []


def run(command, out, log=None, steps=0):
    """Runs a command with its output in `out`. Returns its processor seconds between the warmup and the last step that
    `log` records."""
    with open(out, "wb") as file:
        child = subprocess.Popen([str(part) for part in command], stdin=subprocess.DEVNULL, stdout=file,
                                 stderr=subprocess.STDOUT)
    marks = {}
    while log and child.poll() is None and steps not in marks:
        marks.setdefault(len(steps_in(log)), processor_seconds(child.pid))
        time.sleep(0.005)
    if child.wait():
        raise SystemExit(f"{' '.join(map(str, command))}\n{out.read_text()}")
    return marks[steps] - marks[WARMUP] if WARMUP in marks and steps in marks else float("nan")


class Contestant:
    def __init__(self, name, command, log, steps):
        self.name, self.command, self.log, self.steps = name, command, log, steps
        self.rounds = []  # [(seconds of each measured step, processor seconds of a step)]
        self.losses = None

    def measure(self):
        self.log.unlink(missing_ok=True)
        cpu = run(self.command, self.log.with_suffix(".out"), self.log, self.steps)
        steps = steps_in(self.log)
        self.losses = [step["loss"] for step in steps]
        self.rounds.append(([step["seconds"] for step in steps[WARMUP:]], cpu / (self.steps - WARMUP)))

    def seconds(self, number):
        return statistics.median(self.rounds[number][0])


def contestants(options, where, config):
    cores = options.threads or len(os.sched_getaffinity(0))
    peer = [options.peers / "bin" / "python", ROOT / "test/bench/peers/gpt2.py"]
    run([*peer, "prepare", where, "--config", config, "--batch", BATCH, "--sequence", SEQUENCE], where / "prepare.out")
    yield Contestant(f"PyTorch, eager, {cores} threads",
                     [*peer, "train", where, "--config", config, "--steps", options.steps, "--threads", cores],
                     where / "torch.out", options.steps)
    for name, ranks in (("1 rank", 1), ("tp 2", 2)):
        plan, log = where / f"plan-{ranks}", where / f"mgc-{ranks}.log"
        run([options.bin / "mgc", "compile", config, "-o", plan, f"--tp={ranks}", f"--seq={SEQUENCE}", f"--mbs={BATCH}",
             f"--gbs={BATCH}"], where / "compile.out")
        threads = max(cores // ranks, 1)
        yield Contestant(f"mgc, {name}, {threads} thread{'s' if threads > 1 else ''} each",
                         [options.bin / "mgrun", plan, "--data", where / "data.safetensors", "--weights",
                          where / "weights.safetensors", "--log", log, "--train-iters", options.steps, "--threads",
                          threads, *OPTIMIZER], log, options.steps)


def check_losses(all_of_them):
    first = all_of_them[0]
    for other in all_of_them[1:]:
        for step, (a, b) in enumerate(zip(first.losses, other.losses, strict=True)):
            if abs(a - b) > 2e-3 * abs(a):
                raise SystemExit(f"step {step}: loss {a} of {first.name}, {b} of {other.name}: not the same work")


def report(all_of_them, rounds):
    print(f"{'':34}{'tokens/s':>10}{'s/step':>9}{'x PyTorch':>11}{'CPU s/step':>12}{'x PyTorch':>11}")
    first = all_of_them[0]
    for one in all_of_them:
        seconds = statistics.median(value for steps, _ in one.rounds for value in steps)
        ratio = statistics.median(first.seconds(number) / one.seconds(number) for number in range(rounds))
        cpu = statistics.median(cpu for _, cpu in one.rounds)
        cpu_ratio = statistics.median(one.rounds[number][1] / first.rounds[number][1] for number in range(rounds))
        print(f"{one.name:34}{BATCH * SEQUENCE / seconds:10.0f}{seconds:9.3f}{ratio:11.2f}{cpu:12.2f}{cpu_ratio:11.2f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--peers", type=pathlib.Path, default=ROOT / "build/peers")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--threads", type=int, help="instead of all cores")
    options = parser.parse_args()
    if options.steps <= WARMUP:
        raise SystemExit(f"--steps {options.steps}: the first {WARMUP} warm up; expected more")
    options.bin = options.bin.resolve()
    with tempfile.TemporaryDirectory() as folder:
        where = pathlib.Path(folder)
        model = json.loads((ROOT / "examples/gpt2/config.json").read_text())
        model.update(attn_pdrop=0.0, embd_pdrop=0.0, resid_pdrop=0.0)
        config = where / "config.json"
        config.write_text(json.dumps(model))
        all_of_them = list(contestants(options, where, config))
        for _ in range(options.rounds):
            for one in all_of_them:
                one.measure()
            check_losses(all_of_them)
        report(all_of_them, options.rounds)
        print(f"{options.rounds} rounds of {options.steps - WARMUP} steps, load {os.getloadavg()[0]:.1f} on "
              f"{os.cpu_count()} cores")


if __name__ == "__main__":
    main()
