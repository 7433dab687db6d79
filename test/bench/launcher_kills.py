#!/usr/bin/python3
"""How an MPI's launcher and libraries behave when a process of theirs is killed: by chance, unlike all that is tested.

    test/bench/launcher_kills.py BUILD KILLS KIND MPIRUN [FLAG..]
    test/bench/launcher_kills.py build/release 30 mpich mpirun.mpich -disable-auto-cleanup

Kills one of 4 ranks in a step, so many times, and counts what the others say: the rank that is gone; nothing, as the launcher
killed them too; or a crash of UCX.
"""
import collections
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
build, kills, *launcher = sys.argv[1:]
sys.argv[1:] = [f"{build}/bin", str(ROOT), *launcher]
sys.path.insert(0, str(ROOT / "test/cli"))

import mgrun_mpi  # noqa: E402
import unittest  # noqa: E402


def outcome(rank, errors, said):
    if any("ended without a word" in text and f"rank {rank}" in text for text in errors):
        return "the rank is named"
    if any("ucs_fatal_error" in text for text in errors):
        return "UCX crashes"
    return "the launcher kills all" if "signal 9" in said else "something else"


class Kills(unittest.TestCase):
    def test(self):
        outcomes = collections.Counter()
        for number in range(int(kills)):
            rank = number % 4
            outcomes[outcome(rank, *mgrun_mpi.Mpi().errors_of_a_kill(rank))] += 1
        print(f"{kills} kills: " + ", ".join(f"{count} times {what}" for what, count in outcomes.most_common()))


setUpModule = mgrun_mpi.setUpModule
unittest.main(argv=sys.argv[:1])
