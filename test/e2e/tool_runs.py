"""The programs of a build, as tests run them: called TEST.py BIN REPOSITORY ..

    run("mgc", "options")                            # ends with code 0; a program of BIN, or any other
    expect(2, "found '-1'", "mgrun", "plan", "--lr", -1)
    compile_plan("plan", TINY_GPT, "--tp 2 --seq 64", "--gbs", 8)
    with start("mgrun", "plan", *MOCK, *ENDLESS) as process:
        wait_for(process, "step 2:")
"""
import json
import os
import pathlib
import select
import socket
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(*sys.argv[1:2]).resolve()
GOLDEN, TINY_GPT = ROOT / "test/golden", ROOT / "examples/tiny-gpt"
CORPUS = TINY_GPT / "corpus.txt"
PROGRAMS = ("mgc", "mgrun", "mgc-data", "mg-opt")
ENDLESS = ["--mock-data", "--train-iters", "1000000", "--log-interval", "1"]
# Variables by which launchers tell a process its rank; a test that a launcher started must not pass them on.
LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_", "SLURM_", "OMPI_", "PMI", "MPI_", "TORCHELASTIC_")
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}


def words(command):
    program, *arguments = map(str, command)
    return [str(BIN / program) if program in PROGRAMS else program, *arguments]


def run(*command, code=0, timeout=300, **options):
    """A command that ends with this exit code; None: any."""
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    done = subprocess.run(words(command), **streams | {"env": CLEAN, "text": True, "errors": "replace"} | options, timeout=timeout,
                          check=False)
    if code not in (None, done.returncode):
        raise AssertionError(f"{' '.join(words(command))}: expected code {code}, found {done.returncode}: {done.stdout}{done.stderr}")
    return done


def expect(code, parts, *command, **options):
    """A command that ends with this code and says all these parts; its standard error."""
    done = run(*command, code=code, **options)
    for part in [parts] if isinstance(parts, str) else parts:
        assert part in done.stderr, f"{' '.join(words(command))}: expected {part!r}, found {done.stderr}"
    return done.stderr


def compile_plan(name, model, *flags):
    """`flags`: words, or several of them in a string. What mgc says."""
    return run("mgc", "compile", model, "-o", name, *(word for flag in flags for word in str(flag).split())).stderr


class Process(subprocess.Popen):
    def __exit__(self, *failure):
        if failure[0]:
            self.kill()
        return super().__exit__(*failure)


def start(*command, **options):
    """A process whose output is read while it runs; `with` waits for its end, or kills it where the test has failed."""
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return Process(words(command), **streams | {"env": CLEAN, "text": True} | options)


def wait_for(process, text):
    """Reads the process's standard error up to the line that has this text; all that was read."""
    said = ""
    for line in process.stderr:
        said += line
        if text in line:
            return said
    raise AssertionError(f"expected {text!r}, found {said}")


def end(process, number, code=130, timeout=60):
    """Sends the signal, and waits for the end with this code: (output, errors)."""
    process.send_signal(number)
    output, errors = process.communicate(timeout=timeout)
    assert process.returncode == code, f"expected code {code}, found {process.returncode}: {output}{errors}"
    return output, errors


def wait_until(condition, process=None, seconds=60):
    """Until `condition` holds, of what no file descriptor tells; the process must not end before."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert process is None or process.poll() is None, f"it has ended with code {process.returncode}"
        assert time.monotonic() < deadline, f"not so after {seconds} s"
        time.sleep(0.005)


def wait_for_end(pid, seconds):
    """The process is one that another one started, or it has ended already."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([descriptor], [], [], max(0, seconds))[0], f"process {pid} has not ended after {seconds} s"
    finally:
        os.close(descriptor)


def has_unnamed_file(pid, folder, least=0):
    """Whether the process has a file open, of so many bytes at least, whose name in the folder is gone or never was."""
    try:
        return any(os.readlink(path).startswith(folder) and os.readlink(path).endswith("(deleted)") and path.stat().st_size >= least
                   for path in pathlib.Path(f"/proc/{pid}/fd").iterdir())
    except OSError:  # a file was closed meanwhile
        return False


def enter_folder():
    """For setUpModule: an empty folder, until the tests of the module are done."""
    folder = tempfile.TemporaryDirectory(prefix="mgc-")
    unittest.addModuleCleanup(folder.cleanup)
    unittest.addModuleCleanup(os.chdir, "/")
    os.chdir(folder.name)


def run_in_small_folder(command, *words):
    """A command of a shell in which the folder small is a file system of its own: `command` begins with its size, and `none small`."""
    os.makedirs("small", exist_ok=True)
    done = run("unshare", "-m", "sh", "-c", f"mount -t tmpfs -o size={command}", *words, code=None)
    if "unshare" in done.stderr or "mount" in done.stderr:
        raise unittest.SkipTest(done.stderr)
    return done


def read(path):
    return pathlib.Path(path).read_bytes()


def write(path, content):
    """Text or bytes, in a folder that is made where there is none."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def records(path):
    """The values of a file with one JSON value per line."""
    return [json.loads(line) for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines()]


def timeless(path):
    """Records of a log without what depends on time."""
    return [{key: value for key, value in record.items() if "seconds" not in key} for record in records(path)]


def write_word_level(path, vocabulary, unknown):
    """A tokenizer.json whose tokens are words between blanks."""
    model = {"type": "WordLevel", "vocab": {word: number for number, word in enumerate(vocabulary)}, "unk_token": unknown}
    write(path, json.dumps({"pre_tokenizer": {"type": "WhitespaceSplit"}, "model": model}))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
