#!/usr/bin/env python3
# Training speed beside PyTorch: GPT-2 124M (examples/gpt2 without dropout), fp32, AdamW, clipped, 4 x 256 tokens a step.
#
#   test/bench/setup-peers                                                   once: PyTorch into build/peers
#   test/bench/train.py --bin build/release/bin [--peers build/peers] [--rounds 3] [--steps 6]
#
# Each round runs in turn PyTorch on all cores, mgc as one rank on all cores, and mgc as two ranks (tp 2) that share
# them, all from the same weights on the same tokens. The first two steps of a run warm up. Printed: the median tokens
# per second over all measured steps, the median over the rounds of the ratio to PyTorch's of the same round, and the
# same for the processor time of the whole process. Losses that differ end the run: only equal work compares.
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BATCH, SEQUENCE, WARMUP = 4, 256, 2
OPTIMIZER = ["--lr=1e-4", "--lr-decay-style=constant", "--weight-decay=0.01", "--adam-beta1=0.9", "--adam-beta2=0.95",
             "--adam-eps=1e-8", "--clip-grad=1"]


def run(command, log):
    """Runs a command with its output in `log`. Returns its processor seconds."""
    with open(log, "wb") as file:
        child = subprocess.Popen([str(part) for part in command], stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(child.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(map(str, command))}\n{pathlib.Path(log).read_text()}")
    return usage.ru_utime + usage.ru_stime


class Contestant:
    def __init__(self, name, command, log):
        self.name, self.command, self.log = name, command, log
        self.rounds = []  # [(seconds of each measured step), processor seconds]
        self.losses = None

    def measure(self):
        cpu = run(self.command, self.log.with_suffix(".out"))
        log = self.log if self.log.exists() else self.log.with_suffix(".out")
        steps = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
        self.losses = [step["loss"] for step in steps]
        self.rounds.append(([step["seconds"] for step in steps[WARMUP:]], cpu))

    def seconds(self, number):
        return statistics.median(self.rounds[number][0])


def contestants(options, where, config):
    cores = len(os.sched_getaffinity(0))
    peer = [options.peers / "bin" / "python", ROOT / "test/bench/peers/gpt2.py"]
    run([*peer, "prepare", where, "--config", config, "--batch", BATCH, "--sequence", SEQUENCE], where / "prepare.out")
    yield Contestant(f"PyTorch, eager, {cores} threads",
                     [*peer, "train", where, "--config", config, "--steps", options.steps, "--threads", cores], where / "torch.log")
    for name, ranks in (("1 rank", 1), ("tp 2", 2)):
        plan, log = where / f"plan-{ranks}", where / f"mgc-{ranks}.log"
        run([options.bin / "mgc", "compile", config, "-o", plan, f"--tp={ranks}", f"--seq={SEQUENCE}", f"--mbs={BATCH}",
             f"--gbs={BATCH}"], where / "compile.out")
        threads = max(cores // ranks, 1)
        yield Contestant(f"mgc, {name}, {threads} thread{'s' if threads > 1 else ''} each",
                         [options.bin / "mgrun", plan, "--data", where / "data.safetensors", "--weights",
                          where / "weights.safetensors", "--log", log, "--train-iters", options.steps, "--threads", threads,
                          *OPTIMIZER], log)


def check_losses(all_of_them):
    first = all_of_them[0]
    for other in all_of_them[1:]:
        for step, (a, b) in enumerate(zip(first.losses, other.losses, strict=True)):
            if abs(a - b) > 2e-3 * abs(a):
                raise SystemExit(f"step {step}: loss {a} of {first.name}, {b} of {other.name}: not the same work")


def report(all_of_them, rounds):
    print(f"{'':34}{'tokens/s':>10}{'s/step':>9}{'x PyTorch':>11}{'CPU s/run':>11}{'x PyTorch':>11}")
    first = all_of_them[0]
    for one in all_of_them:
        seconds = statistics.median(value for steps, _ in one.rounds for value in steps)
        ratio = statistics.median(first.seconds(number) / one.seconds(number) for number in range(rounds))
        cpu = statistics.median(cpu for _, cpu in one.rounds)
        cpu_ratio = statistics.median(one.rounds[number][1] / first.rounds[number][1] for number in range(rounds))
        print(f"{one.name:34}{BATCH * SEQUENCE / seconds:10.0f}{seconds:9.3f}{ratio:11.2f}{cpu:11.1f}{cpu_ratio:11.2f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--peers", type=pathlib.Path, default=ROOT / "build/peers")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=6)
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
        print(f"{options.rounds} rounds of {options.steps - WARMUP} steps, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
