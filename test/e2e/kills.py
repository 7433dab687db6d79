#!/usr/bin/python3
"""Trainings that are killed at any time: python3 kills.py BIN REPOSITORY [--kills N] [--seed S] [--mpirun MPIRUN FLAG..]

Each seed chooses a phase (start, step, save, end), a moment in it, a victim and a signal. The victim is the process whose
threads are all ranks, or one of the ranks' processes, or mpirun. After each kill all processes have ended by the deadline, and
what the folder has is whole; the same command started again goes on, and at the end weights, state and log have the bits of a
run that was not killed.
"""
import argparse
import concurrent.futures
import dataclasses
import itertools
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from tool_runs import CLEAN, GOLDEN, compile_plan, timeless, words

STEPS, INTERVAL, RANKS = 16, 2, 4
TIMEOUT = 4  # a rank's wait for another, s
MARGIN = 25  # for what is not a wait of a rank: the launcher ends what is left, the machine has other work, s
PHASES = ("start", "step", "save", "end")
JOB = "MGC_KILLS_JOB"  # in the environment of each process of a job


@dataclasses.dataclass(frozen=True)
class Fault:
    phase: str
    number: int    # number of the step or of the save, from 0
    delay: float   # after the phase was seen to begin, s
    victim: int    # rank; RANKS: the process that was started
    signal: int

    def __str__(self):
        place = f"{self.phase} {self.number}" if self.phase in ("step", "save") else self.phase
        victim = "the process that was started" if self.victim == RANKS else f"rank {self.victim}"
        return f"{signal.Signals(self.signal).name} to {victim}, {self.delay * 1e3:.1f} ms into {place}"


def choose(random_, is_launched):
    phase = random_.choice(PHASES)
    number = random_.randrange(STEPS - 1 if phase == "step" else STEPS // INTERVAL)
    delay = random_.uniform(0, {"start": 0.8 if is_launched else 0.25, "step": 0.03, "save": 0.02, "end": 0.1}[phase])
    victim = random_.randrange(RANKS + 1) if is_launched else RANKS
    signals = [signal.SIGKILL] * 3 + [signal.SIGSTOP if victim < RANKS else signal.SIGTERM]
    return Fault(phase, number, delay, victim, random_.choice(signals))


def processes_of(job):
    """{process: command} of those of the job that are no zombies."""
    found, mark = {}, f"{JOB}={job}".encode()
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            if mark in pathlib.Path(entry.path, "environ").read_bytes().split(b"\0"):
                found[int(entry.name)] = pathlib.Path(entry.path, "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            pass  # it has ended meanwhile
    return found


def variable(process, names):
    try:
        entries = pathlib.Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    values = dict(entry.decode().split("=", 1) for entry in entries if b"=" in entry)
    return next((int(values[name]) for name in names if name in values), None)


class Job:
    """One process or mpirun with a process for each rank; it saves into `folder` and goes on from there."""
    numbers = itertools.count(1)

    def __init__(self, setting, folder, flags):
        number = next(Job.numbers)
        self.setting, self.folder, self.name = setting, pathlib.Path(folder), f"{os.getpid()}.{number}"
        self.output = open(f"job{number}.txt", "w+", encoding="utf-8", errors="replace")
        command = [*setting.mpirun, "-n", RANKS] if setting.mpirun else []
        command += [setting.mgrun, "plan", *"--mock-data --threads 1 --lr 3e-3 --log-interval 1".split(), "--timeout", TIMEOUT,
                    "--train-iters", STEPS, "--save", folder, "--save-interval", INTERVAL, "--save-retain", 2,
                    "--log", f"{folder}.jsonl", *flags]
        self.process = subprocess.Popen(words(command), env=CLEAN | {JOB: self.name}, stdin=subprocess.DEVNULL,
                                        stdout=self.output, stderr=self.output)

    def has_ended(self):
        return self.process.poll() is not None

    def said(self):
        self.output.seek(0)
        return self.output.read()

    def steps(self):
        log = pathlib.Path(f"{self.folder}.jsonl")
        return log.read_bytes().count(b"\n") if log.exists() else 0

    def is_in(self, fault, before):
        if fault.phase == "start":
            return True
        if fault.phase == "step":
            return self.steps() - before > fault.number
        if fault.phase == "end":
            return f"step {STEPS - 1}:" in self.said()
        name = f"iter_{(fault.number + 1) * INTERVAL:07}"
        return (self.folder / (name + ".saving")).exists() or (self.folder / name).exists()

    def rank(self, rank):
        """The process of the rank; None: there is none."""
        for process, command in processes_of(self.name).items():
            if "mgrun" in command.split(" ")[0] and variable(process, ("OMPI_COMM_WORLD_RANK", "PMI_RANK")) == rank:
                return process
        return None

    def suffer(self, fault):
        """Whether the fault came before the end."""
        before = self.steps()
        while not self.has_ended() and not self.is_in(fault, before):
            time.sleep(0.0005)
        time.sleep(fault.delay)
        self.target = self.process.pid if fault.victim == RANKS else self.rank(fault.victim)
        if self.target is None or self.has_ended():
            return False
        try:
            os.kill(self.target, fault.signal)
        except ProcessLookupError:
            return False
        return True

    def end(self, seconds):
        """Waits for all processes; those that are left at the deadline."""
        deadline = time.monotonic() + seconds
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            pass
        while left := processes_of(self.name):
            if time.monotonic() > deadline:
                for process in left:
                    os.kill(process, signal.SIGKILL)
                self.process.wait()
                return left
            time.sleep(0.02)
        return {}


def contents(folder):
    expect(os.path.isdir(folder), f"{folder} is not there: {sorted(os.listdir(pathlib.Path(folder).parent))}")
    return {path.name: path.read_bytes() for path in pathlib.Path(folder).iterdir()
            if path.is_file() and path.name != "run.toml"}


def log_of(folder):
    return timeless(f"{folder}.jsonl")


def checkpoints(folder):
    return sorted(int(path.name[5:]) for path in pathlib.Path(folder).glob("iter_*") if path.name[5:].isdigit())


def whole(path):
    """Whether a safetensors file ends where its header says."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + length])
    return len(data) == 8 + length + max(entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__")


class Failure(Exception):
    pass


def expect(condition, text):
    if not condition:
        raise Failure(text)


class Trial:
    """A training that is killed once or more, and goes on."""

    def __init__(self, setting, seed):
        self.setting, self.random = setting, random.Random(seed)
        self.folder = f"trial{seed}"
        self.flags = ["--restart-from-latest", *(["--async-save"] if self.random.random() < 0.5 else [])]
        self.kills, self.history, self.seconds = 0, [], 0.0
        self.launchers = 0  # launchers that stayed when all ranks had ended; they are killed here
        self.finished = 0  # ranks that were stopped when the run was over, and all others had ended; likewise

    def kill(self):
        fault = choose(self.random, bool(self.setting.mpirun))
        job = Job(self.setting, self.folder, self.flags)
        is_killed = job.suffer(fault)
        begin = time.monotonic()
        left = job.end(TIMEOUT + MARGIN)
        self.seconds = max(self.seconds, time.monotonic() - begin)
        self.kills += 1
        self.history.append(f"{fault}{'' if is_killed else ' (it had ended)'}: ended after {time.monotonic() - begin:.1f} s, "
                            f"code {job.process.returncode}, {job.steps()} steps logged, checkpoints {checkpoints(self.folder)}")
        ranks = {process for process, command in left.items() if "bin/mgrun" in command.split(" ")[0]}
        self.launchers += bool(left) and not ranks
        # All others have ended well: nobody waits for it but the launcher.
        is_over = ranks == {job.target} and fault.signal == signal.SIGSTOP and f"weights   {self.folder}" in job.said()
        self.finished += is_over
        expect(not ranks or is_over, f"processes are left: {left}\n{job.said()}")
        if is_killed:
            self.verify_cause(fault, job.said())
        self.verify_folder(job)

    def verify_cause(self, fault, said):
        """A rank that was killed between others' steps is named with where they were."""
        if fault.phase != "step" or fault.victim == RANKS:
            return
        cause = "ended without a word" if fault.signal == signal.SIGKILL else rf"waited {TIMEOUT} s for"
        expect(re.search(cause, said), f"no rank said {cause!r}:\n{said}")
        if fault.signal == signal.SIGKILL:
            expect(re.search(rf"rank {fault.victim}\b.*ended without a word", said), f"rank {fault.victim} was not named:\n{said}")

    def verify_folder(self, job):
        """Nothing that was complete is lost, and all files under their names are whole."""
        steps, found = job.steps(), checkpoints(self.folder)
        done = max(0, steps - 1) // INTERVAL * INTERVAL  # a save is complete before the next step is logged
        done -= INTERVAL if "--async-save" in self.flags else 0
        expect(done <= 0 or (found and found[-1] >= done), f"{steps} steps are logged, checkpoints {found}")
        expect(len(found) <= 3, f"checkpoints {found}, of which 2 were to stay")
        folders = [pathlib.Path(self.folder), *(pathlib.Path(self.folder, f"iter_{step:07}") for step in found)]
        for path in (path for folder in folders for path in folder.glob("*.safetensors")):
            expect(whole(path), f"{path} is not whole")

    def go_on(self):
        found = checkpoints(self.folder)
        job = Job(self.setting, self.folder, self.flags)
        left = job.end(120)
        said = job.said()
        expect(not left and job.process.returncode == 0, f"does not go on: code {job.process.returncode}, left: {left}\n{said}")
        expect(not found or f"goes on after {found[-1]} steps" in said, f"checkpoints {found}:\n{said}")
        expect(contents(self.setting.alive) == contents(self.folder), f"weights differ: {sorted(os.listdir(self.folder))}\n{said}")
        # A checkpoint that a request to end saved, after another step, may be among the two that stay.
        kept = checkpoints(self.folder)
        expect(len(kept) == 2 and kept[-1] == STEPS and (STEPS - INTERVAL in kept or kept[0] % INTERVAL), f"checkpoints {kept}\n{said}")
        for name in (f"iter_{step:07}" for step in kept if step % INTERVAL == 0):
            expect(contents(f"{self.setting.alive}/{name}") == contents(f"{self.folder}/{name}"), f"{name} differs\n{said}")
        others = lambda folder: sorted(name for name in os.listdir(folder) if not name.startswith("iter_"))
        expect(others(self.setting.alive) == others(self.folder), f"{sorted(os.listdir(self.folder))}\n{said}")
        expect(log_of(self.setting.alive) == log_of(self.folder), f"the log differs: {[line['step'] for line in log_of(self.folder)]}")

    def run(self):
        """The failure's text, or nothing."""
        try:
            for _ in range(self.random.choice((1, 1, 2, 3))):
                self.kill()
            self.go_on()
            shutil.rmtree(self.folder)
        except Failure as failure:
            return f"{' '.join(self.flags)}\n  " + "\n  ".join(self.history) + f"\n{failure}\n"
        return None


@dataclasses.dataclass(frozen=True)
class Setting:
    mgrun: str
    mpirun: list
    alive: str  # the folder of a run that nobody killed


def prepare(arguments):
    binary = pathlib.Path(arguments.bin).resolve() / "mgrun"
    os.chdir(arguments.work)
    compile_plan("plan", GOLDEN / "llama/config.json", "--target-cpu native --pp 2 --dp 2 --zero 1 --seq 16 --gbs 8 --mbs 1")
    setting = Setting(str(binary), arguments.mpirun, "alive")
    job = Job(setting, setting.alive, [])
    left = job.end(120)
    expect(not left and job.process.returncode == 0, f"the run that nobody kills: {job.said()}")
    expect(len(log_of(setting.alive)) == STEPS, job.said())
    return setting


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin")
    parser.add_argument("repository")
    parser.add_argument("--kills", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1, help="of the first trial; later ones count up")
    parser.add_argument("--jobs", type=int, default=1, help="trainings at once: most of the time launchers wait")
    parser.add_argument("--mpirun", nargs=argparse.REMAINDER, default=[], help="the launcher and its flags; without it ranks are threads")
    arguments = parser.parse_args()
    begin, trials, failures = time.monotonic(), [], 0
    with tempfile.TemporaryDirectory(prefix="mgc-kills-") as arguments.work, concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        setting = prepare(arguments)
        while sum(trial.kills for trial in trials) < arguments.kills:
            some = [Trial(setting, arguments.seed + len(trials) + i) for i in range(arguments.jobs)]
            for seed, failure in enumerate(pool.map(Trial.run, some), arguments.seed + len(trials)):
                if failure:
                    failures += 1
                    print(f"FAILED --seed {seed} {failure}", flush=True)
            trials += some
        os.chdir("/")
    kills, launchers, finished = (sum(getattr(trial, what) for trial in trials) for what in ("kills", "launchers", "finished"))
    slowest = max(trial.seconds for trial in trials)
    print(f"{kills} kills in {len(trials)} trainings, {failures} failed; the slowest end took {slowest:.1f} s; "
          f"{launchers} launchers stayed when all ranks had ended, {finished} ranks were stopped when the run was over; "
          f"{time.monotonic() - begin:.0f} s in all")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
