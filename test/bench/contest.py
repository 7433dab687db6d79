"""Programs that do the same work, measured in turn: training runs (PyTorch's and mgc's) and single kernels."""
import collections
import ctypes.util
import json
import math
import os
import pathlib
import statistics
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PEERS = ROOT / "test/bench/peers"
WARMUP = 2  # steps
TOLERANCE = 2e-3  # between losses
OPTIMIZER = ["--lr=1e-4", "--lr-decay-style=constant", "--weight-decay=0.01", "--adam-beta1=0.9", "--adam-beta2=0.95",
             "--adam-eps=1e-8", "--clip-grad=1"]
# How malloc is told to keep memory and to use huge pages: with a library of Debian's, and glibc's own.
ALLOCATORS = {
    "jemalloc": {"LD_PRELOAD": "libjemalloc.so.2",
                 "MALLOC_CONF": "thp:always,oversize_threshold:0,dirty_decay_ms:-1,muzzy_decay_ms:-1"},
    "tcmalloc_minimal": {"LD_PRELOAD": "libtcmalloc_minimal.so.4", "TCMALLOC_RELEASE_RATE": "0",
                         "THP_MEM_ALLOC_ENABLE": "1"},
    "glibc": {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:glibc.malloc.mmap_max=0:glibc.malloc.top_pad=67108864:"
                                "glibc.malloc.trim_threshold=17179869184"},
}

# seconds: of each measured step. cpu: processor seconds of a step, of all processes. start: seconds from exec to the
# first step's begin. megabytes: of a rank: the largest resident set of one process over the ranks that are its threads.
Run = collections.namedtuple("Run", "seconds cpu start megabytes losses")


def environment_of(allocator):
    environment = ALLOCATORS[allocator]
    if "LD_PRELOAD" in environment and not ctypes.util.find_library(allocator):
        raise SystemExit(f"{environment['LD_PRELOAD']}: no such library; scripts/setup test/bench/packages installs "
                         "it, --only chooses rows that need none")
    return environment


def processes(pid):
    """A process and its descendants."""
    yield pid
    for children in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        for child in children.read_text().split():
            yield from processes(int(child))


def processor_seconds(pid):
    """User and system seconds of a running process and its descendants."""
    ticks = 0
    for process in processes(pid):
        fields = pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def steps_in(log):
    return [json.loads(line) for line in log.read_text().splitlines(keepends=True)
            if line.startswith("{") and line.endswith("\n")]


def new_steps(log, seen):
    """Waits a moment. Returns the steps in a log that has grown beyond `seen` bytes, and its size."""
    time.sleep(0.01)
    size = log.stat().st_size if log.exists() else 0
    return (steps_in(log) if size > seen else [], size)


def run(command, out, environment=None, log=None, steps=0):
    """Runs a command with its output in `out`; `log` grows by a line for each of its steps. Returns a Run."""
    begin = time.time()
    with open(out, "wb") as file:
        child = subprocess.Popen([str(part) for part in command], stdin=subprocess.DEVNULL, stdout=file,
                                 stderr=subprocess.STDOUT, env={**os.environ, **(environment or {})})
    marks, start, size, done = {}, float("nan"), 0, []
    while log and len(done) < steps and not os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        grown, size = new_steps(log, size)
        if grown and not done:  # a step's line is written as it ends
            start = log.stat().st_mtime - sum(step["seconds"] for step in grown) - begin
        if len(grown) > len(done):
            done = grown
            marks[len(done)] = processor_seconds(child.pid)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{out.read_text()}")
    done = steps_in(log) if log else []
    cpu = (marks[steps] - marks[WARMUP]) / (steps - WARMUP) if {WARMUP, steps} <= marks.keys() else float("nan")
    return Run([step["seconds"] for step in done[WARMUP:]], cpu, start, usage.ru_maxrss / 1024,
               [step["loss"] for step in done])


class Work:
    """A model and the tokens of one step."""

    def __init__(self, name, config, batch, sequence):
        self.name, self.config, self.batch, self.sequence = name, config, batch, sequence
        self.contestants = {}

    def enter(self, contestant):
        """The same contestant serves all rows."""
        return self.contestants.setdefault(contestant.name, contestant)

    def prepare(self, options):
        """Its folder with config.json."""
        self.folder = options.where / self.name
        self.folder.mkdir(exist_ok=True)
        self.config_file().write_text(json.dumps(self.config))

    def config_file(self):
        return self.folder / "config.json"

    def prepare_tensors(self, options):
        """Initial weights and tokens."""
        if not (self.folder / "data.safetensors").exists():
            run([options.peers / "bin/python", PEERS / "train.py", "prepare", self.folder, "--config",
                 self.config_file(), "--batch", self.batch, "--sequence", self.sequence], self.folder / "prepare.out")


def check_losses(contestants):
    """Only equal work compares."""
    first, *others = contestants
    for other in others:
        for step, (a, b) in enumerate(zip(first.runs[-1].losses, other.runs[-1].losses, strict=True)):
            if not abs(a - b) <= TOLERANCE * abs(a):
                raise SystemExit(f"{first.work.name}, step {step}: loss {a} of {first.name}, {b} of {other.name}: not "
                                 f"the same work; expected a difference of at most {TOLERANCE:.1%}")


class Contestant:
    environment = {}

    def __init__(self, name, work):
        self.name, self.work, self.runs = name, work, []

    def file(self, kind):
        return self.work.folder / f"{self.name.replace(' ', '-').replace(',', '').replace('%', '')}.{kind}"

    def measure(self, options):
        self.work.prepare_tensors(options)
        log = self.log()
        log.unlink(missing_ok=True)
        one = run(self.command(options), self.file("out"), self.environment, log, options.steps)
        self.runs.append(one._replace(megabytes=one.megabytes / self.ranks_a_process()))

    def ranks_a_process(self):
        return 1

    def each(self, field):
        """One number per round."""
        values = [getattr(one, field) for one in self.runs]
        return [statistics.median(value) for value in values] if field == "seconds" else values

    def median(self, field):
        return statistics.median(self.each(field))


class Peer(Contestant):
    """PyTorch. model: a command of peers/train.py; checkpoint: of each layer."""

    def __init__(self, work, model, compiled=False, allocator=None, checkpoint=False):
        self.model, self.compiled, self.allocator, self.checkpoint = model, compiled, allocator, checkpoint
        super().__init__(f"{model} {'compiled' if compiled else 'eager'}{f', {allocator}' if allocator else ''}"
                         f"{', checkpoint' if checkpoint else ''}", work)

    def prepare(self, options):
        self.work.prepare(options)
        self.environment = {"OMP_NUM_THREADS": str(options.threads if self.ranks() == 1 else 1)}
        if self.allocator:
            self.environment.update(environment_of(self.allocator))

    def ranks(self):
        return 1 if self.model in ("lean", "transformers") else 2

    def log(self):
        return self.file("out")

    def command(self, options):
        python = options.peers / "bin/python"
        several = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", self.ranks()]
        return [python, *(several if self.ranks() > 1 else []), PEERS / "train.py", self.model, self.work.folder,
                "--config", self.work.config_file(), "--steps", options.steps, "--threads",
                self.environment["OMP_NUM_THREADS"], *(["--compile", options.compile] if self.compiled else []),
                *(["--checkpoint"] if self.checkpoint else [])]


class Mgc(Contestant):
    """mgc with a layout such as {"tp": 2}, on all cores, each rank a thread; `microbatch` in sequences. policy: a name and
    more options of mgc compile."""

    def __init__(self, work, layout=None, microbatch=None, flags=(), policy=("", ())):
        self.layout, self.flags = layout or {}, flags
        self.microbatch = microbatch or work.batch // self.layout.get("dp", 1)
        spelled = " ".join(f"{axis} {extent}" for axis, extent in self.layout.items())
        name, self.compile_flags = policy
        super().__init__(f"mgc {spelled or '1 rank'}{' profiled' if flags else ''}{f', {name}' if name else ''}", work)

    def prepare(self, options):
        """The plan."""
        self.work.prepare(options)
        run(self.compile_command(options), self.file("compile"))

    def compile_command(self, options):
        return [options.bin / "mgc", "compile", self.work.config_file(), "-o", self.file("plan"),
                f"--seq={self.work.sequence}", f"--mbs={self.microbatch}", f"--gbs={self.work.batch}",
                *(f"--{axis}={extent}" for axis, extent in self.layout.items()), *self.compile_flags]

    def explained(self, options):
        """The facts of its plan."""
        command = [options.bin / "mgc", "explain", "--json", self.file("plan")]
        return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)

    def sent(self, options):
        """Bytes that a rank of the first stage sends in a step, by the plan."""
        return sum(one["bytes"] for one in self.explained(options)["stages"][0]["traffic"])

    def ranks(self):
        return math.prod(self.layout.get(axis, 1) for axis in ("tp", "pp", "cp", "dp"))

    ranks_a_process = ranks

    def log(self):
        return self.file("jsonl")

    def command(self, options):
        return [options.bin / "mgrun", self.file("plan"), "--data", self.work.folder / "data.safetensors", "--load",
                self.work.folder / "weights.safetensors", "--log", self.log(), "--train-iters", options.steps,
                *OPTIMIZER, *(str(flag).format(contestant=self) for flag in self.flags)]


class Mpi(Mgc):
    """The same with a process for each rank, by Open MPI's mpirun."""

    def __init__(self, work, layout, microbatch=None):
        super().__init__(work, layout, microbatch)
        self.name += " mpi"

    ranks_a_process = Contestant.ranks_a_process

    def command(self, options):
        return ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n", self.ranks(),
                *super().command(options)]


class Side:
    """A program that answers each line of numbers with a line of numbers."""

    def __init__(self, *command):
        self.child = subprocess.Popen([str(part) for part in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      text=True)

    def measure(self, *numbers):
        print(*numbers, file=self.child.stdin, flush=True)
        answer = self.child.stdout.readline().split()
        if not answer:
            raise SystemExit(f"{self.child.args[0]} has no answer to {' '.join(map(str, numbers))}")
        return [float(value) for value in answer]
