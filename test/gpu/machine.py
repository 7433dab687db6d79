# The machine that is checked, as checks see it: where things lie, commands with deadlines, rows of the table.
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


@dataclass
class Row:
    check: str
    outcome: str  # passed, failed, skipped, measured
    detail: str


def passed(check, detail):
    return Row(check, "passed", detail)


def failed(check, detail):
    return Row(check, "failed", detail)


def skipped(check, detail):
    return Row(check, "skipped", detail)


def measured(check, detail):
    return Row(check, "measured", detail)


def last_lines(text, count=3):
    return " / ".join(line.strip() for line in text.strip().splitlines()[-count:])[-400:]


def find_tool(name):
    """Its path, in PATH or with the CUDA toolkit; or nothing."""
    beside = [pathlib.Path(nvcc).parent for nvcc in (shutil.which("nvcc"), "/usr/local/cuda/bin/nvcc") if nvcc]
    return shutil.which(name) or next((str(folder / name) for folder in beside if os.access(folder / name, os.X_OK)), None)


def wheel_folder():
    """The first folder of this Python's packages with nvidia/*: where cuDNN and NCCL lie on machines that have them from wheels."""
    return next((pathlib.Path(base) for base in sys.path if base and (pathlib.Path(base) / "nvidia").is_dir()), None)


class Machine:
    """The state that the checks share."""

    def __init__(self, options, packed):
        self.options, self.pack, self.out, self.build = options, options.pack, options.out, options.build
        self.packed = packed
        self.mgrun = self.build / "bin/mgrun"
        self.end = time.monotonic() + options.budget
        self.gpu = None  # name, memory in bytes, compute capability as 9.0
        self.prefix = self.build / "packages/usr"  # unpacked by the check `build`
        self.wheels = wheel_folder()
        self.environment = {**os.environ, "LD_LIBRARY_PATH": ":".join(self.library_folders())}

    def library_folders(self):
        """The folders set already, then cuDNN, NCCL and the toolkit, which mgrun's plugin opens, then the packed libraries."""
        wheels = sorted(self.wheels.glob("nvidia/*/lib")) if self.wheels else []
        nvcc = find_tool("nvcc")
        toolkit = [pathlib.Path(nvcc).resolve().parent.parent / "lib64"] if nvcc else []
        return [*filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":")),
                *map(str, wheels), *map(str, toolkit), str(self.prefix / "lib/x86_64-linux-gnu")]

    def left(self):
        return self.end - time.monotonic()

    def spent(self, check):
        """The row of what no time is left for; nothing while there is some."""
        return skipped(check, f"the {self.options.budget:.0f} s of --budget are over") if self.left() <= 0 else None

    def execute(self, name, *command, timeout, environment=None):
        """Exit code and output, which stays in out/name.txt too. 124: not done after `timeout` seconds, or when the whole time
        was over; then all that the command had started is killed."""
        path = self.out / f"{name}.txt"
        limit = max(1.0, min(timeout, self.left()))
        with open(path, "w", encoding="utf-8") as file:
            try:
                process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=file,
                                           stderr=subprocess.STDOUT, env=environment or self.environment, start_new_session=True)
            except OSError as error:
                file.write(str(error))
                process = None
        code = wait_for(process, limit) if process else 127
        text = path.read_text(encoding="utf-8", errors="replace")
        return code, text + f"\nnot done after {limit:.0f} s" if code == 124 else text


def wait_for(process, seconds):
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return 124
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                pass  # in the kernel: it is left behind
