"""Runs the commands of a section of README.md as they stand there: tour.py BIN SECTION [FOLDER]

In an empty folder with what a clone has, by one shell. FOLDER has README.md, docs and examples: the repository unless said. A command prints something, and where lines that begin with # stand below
it, those among it, whatever their numbers are. Python is one that has transformers, where scripts/setup test/bench/peers made it.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

BIN, SECTION = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
ROOT = pathlib.Path(sys.argv[3]) if len(sys.argv) > 3 else pathlib.Path(__file__).resolve().parents[2]
NUMBER = r"\d[\d.,]*(?:e[-+]\d+)?"
PEERS = ROOT / "build/peers/bin"


def lines_of(section):
    text = (ROOT / "README.md").read_text()
    found = re.search(rf"^## {re.escape(section)}\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    assert found, f"README.md: no section {section}"
    return [line[4:] for line in found[1].splitlines() if line.startswith("    ")]


def is_whole(command):
    """Quotes and lines that end with a backslash go on in the next one."""
    return not command.endswith("\\") and subprocess.run(["bash", "-n"], input=command, text=True, capture_output=True).returncode == 0


def commands_of(lines):
    """[(command, lines that it prints)]; what stands above a command says what it is for."""
    commands, open_lines = [], []
    for line in lines:
        if not open_lines and line.startswith("#"):
            if commands:
                commands[-1][1].append(line[2:])
            continue
        open_lines.append(line)
        if is_whole("\n".join(open_lines)):
            commands.append(("\n".join(open_lines), []))
            open_lines = []
    assert not open_lines, open_lines
    return commands


def pattern(line):
    """Numbers may be others."""
    return NUMBER.join(re.escape(part) for part in re.split(NUMBER, line))


def run(commands, checks):
    with tempfile.TemporaryDirectory() as folder:
        for name in "docs", "examples":
            os.symlink(ROOT / name, pathlib.Path(folder, name))
        pathlib.Path(folder, "build/release").mkdir(parents=True)
        os.symlink(BIN, pathlib.Path(folder, "build/release/bin"))
        # Open MPI's processes as root, as in a container.
        variables = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        if PEERS.exists():
            variables["PATH"] = f"{PEERS}:{variables['PATH']}"
        before = ""
        for command, printed in commands:
            print(command, flush=True)
            if "transformers" in command and not PEERS.exists():
                print("left out: no transformers; test/bench/setup-peers installs it")
                continue
            if re.fullmatch(r"\w+=\S+", command):
                before += command + "\n"
                continue
            done = subprocess.run(["bash", "-c", before + command], cwd=folder, env=variables, text=True, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            print(done.stdout, flush=True)
            assert done.returncode == 0, done.returncode
            assert done.stdout or not command.startswith("$bin"), "no output"
            for line in printed if checks else []:
                assert re.search(f"^{pattern(line)}$", done.stdout, re.M), f"not printed: {line}"


commands = commands_of(lines_of(SECTION))
assert len(commands) >= 5, f"README.md: {SECTION}: {len(commands)} commands"
run(commands, checks=SECTION != "A tour")
