#!/usr/bin/env python3
"""Breaks the product one fault at a time (product_faults.py), and shows that the sample of scripts/test catches it.

    test/mutation/product.py [--only NAME]..     the faults of those names; without it all of them
    test/mutation/product.py --list              the table
    test/mutation/product.py --check             each text stands once in its file, and each test exists

A fault is put into the working tree that this script stands in, whose release build is brought up to date. The test
that the table names runs first; if it passes, the whole sample does. The file is restored whatever happens. Exit code
0: each fault compiled, and at most a twentieth was missed.
"""
import argparse
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "test/e2e"))
import samples  # noqa: E402
from product_faults import FAULTS  # noqa: E402

BUILD = ROOT / "build/release"
SECONDS = 420  # limit of an expected test: a fault by which it hangs is caught
# Tests of the text of the sources, which a fault changes, and of the table.
OF_SOURCES = "^(format|layers|mutation/product_faults)$"


class BadRow(Exception):
    """A row of the table that shows nothing."""


def run(command, seconds=None):
    """Exit code (None: it took longer) and output; none of its processes is left."""
    with subprocess.Popen(list(map(str, command)), cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True) as process:
        try:
            output = process.communicate(timeout=seconds)[0]
            return process.returncode, output
        except subprocess.TimeoutExpired:
            return None, ""
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def commands(build=BUILD):
    """The command of each test, by name; without words where its program is not built."""
    found = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], check=True, capture_output=True)
    return {test["name"]: test.get("command", []) for test in json.loads(found.stdout)["tests"]}


def broken(fault):
    """The text of its file with the fault."""
    text = (ROOT / fault.file).read_text()
    if text.count(fault.text) != 1:
        raise BadRow(f"{fault.file} has the text {text.count(fault.text)} times, expected once: {fault.text}")
    return text.replace(fault.text, fault.replacement)


def problems_of(fault, tests):
    try:
        broken(fault)
    except (BadRow, OSError) as error:
        yield str(error)
    if fault.test not in tests:
        yield f"there is no test {fault.test}"


def check(faults, tests):
    found = [f"{fault.name}: {problem}" for fault in faults for problem in problems_of(fault, tests)]
    names = [fault.name for fault in faults]
    found += [f"{name}: stands {names.count(name)} times" for name in sorted(set(names)) if names.count(name) > 1]
    print("\n".join(found) or f"{len(faults)} faults stand in their files")
    return bool(found)


class Builder:
    """Builds the parts of the release that a test needs."""

    def __init__(self):
        rules = dict(re.findall(r"^(\S+): (\S+_LINKER__\S+)$", self.ninja("-t", "targets", "all")[1], re.M))
        self.outputs, self.commands = set(rules), commands()
        is_of_users = lambda name: name.startswith("bin/") or re.match("CXX_(SHARED|MODULE)_", rules[name])
        self.programs = list(filter(is_of_users, rules))

    @staticmethod
    def ninja(*arguments):
        return run(["ninja", "-C", BUILD, *arguments])

    def targets(self, test):
        """Its own program; of a script the programs of users and the plugins."""
        words = [str(BUILD / test), *self.commands[test]]
        own = [part for part in (os.path.relpath(word, BUILD) for word in words) if part in self.outputs]
        return own or self.programs

    def build(self, test=None):
        """Brings up to date what the test needs, or all."""
        code, output = self.ninja(*(self.targets(test) if test else []))
        if code:
            raise BadRow("does not build:\n" + "\n".join(line for line in output.splitlines() if "error" in line))


def first_failure(*arguments, seconds=None):
    """The test that failed, or None."""
    code, output = run(["ctest", "--test-dir", BUILD, "--no-label-summary", *arguments], seconds)
    if code is None:
        return "a hang"
    if code == 0 and "No tests were found" not in output:
        return None
    found = re.search(r"Test\s+#\d+: (\S+) .*\*\*\*(?!Skipped|Not Run)", output)
    if not found:
        raise BadRow(f"no test failed, but ctest {' '.join(arguments)} did:\n{output[-1000:]}")
    return found[1]


def caught_by(fault, builder):
    """The test that fails, or None."""
    builder.build(fault.test)
    if found := first_failure("-R", f"^{re.escape(fault.test)}$", seconds=SECONDS):
        return found
    builder.build()
    return first_failure("-j2", "--stop-on-failure", "-E", OF_SOURCES)


@contextlib.contextmanager
def put_in(fault):
    """The file has the fault; it may not have changes that are not committed."""
    path = ROOT / fault.file
    if run(["git", "status", "--porcelain", "--", fault.file])[1]:
        raise BadRow(f"{fault.file} has changes that are not committed")
    before, text = path.read_bytes(), broken(fault)
    try:
        path.write_text(text)
        yield
    finally:
        path.write_bytes(before)  # newer than what was built of it


def show(fault, builder):
    """Prints the verdict: caught, missed or error."""
    begin = time.monotonic()
    try:
        with put_in(fault):
            test = caught_by(fault, builder)
    except BadRow as error:
        print(f"{fault.name}: ERROR: {error}", flush=True)
        return "error"
    seconds = time.monotonic() - begin
    verdict = f"caught by {test}" if test else f"MISSED ({fault.breaks})"
    expected = f", not by {fault.test}" if test not in (None, fault.test, "a hang") else ""
    print(f"{fault.name}: {verdict}{expected} in {seconds:.0f} s", flush=True)
    return "caught" if test else "missed"


def show_all(faults):
    builder = Builder()
    builder.build()
    if failed := first_failure("-j2", "--stop-on-failure", "-E", OF_SOURCES):
        sys.exit(f"product: {failed} fails without any fault")
    verdicts = [show(fault, builder) for fault in faults]
    builder.build()
    print(f"{verdicts.count('caught')} of {len(faults)} caught")
    return "error" in verdicts or verdicts.count("missed") * 20 > len(faults)


def stop(number, frame):
    raise SystemExit(128 + number)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", help="the name of a fault")
    parser.add_argument("--seed", type=int, default=samples.seed(), help="chooses the samples; default: of the commit")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--build", type=pathlib.Path, default=BUILD, help="of --check: whose tests are looked up")
    options = parser.parse_args()
    faults = [fault for fault in FAULTS if options.only is None or fault.name in options.only]
    if len(faults) < len(options.only or ()):
        sys.exit("product: --only names no fault of the table")
    if options.list:
        print("\n".join(f"{fault.name:30} {fault.test:30} {fault.file}: {fault.breaks}" for fault in faults))
        return
    if options.check:
        sys.exit(check(faults, commands(options.build)))
    os.environ |= {"MGC_TEST_SEED": str(options.seed), "GTEST_FAIL_FAST": "1", "LIT_OPTS": "--max-failures=1"}
    if pathlib.Path("/dev/shm").is_dir():  # each checkpoint is some 20 fsync
        os.environ.setdefault("TMPDIR", "/dev/shm")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    sys.exit(show_all(faults))


if __name__ == "__main__":
    main()
