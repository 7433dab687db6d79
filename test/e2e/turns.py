"""Samples of what a test goes over move from day to day, so that nothing is left out for long; MGC_TEST_TURN=N goes back to one.

    turns.py N PROGRAM [ARGUMENT..]     a GoogleTest program, one of N of its tests
"""
import os
import sys
import time
import unittest


def turn():
    """A number of this day, or the one that is asked for."""
    return int(os.environ.get("MGC_TEST_TURN", time.time() // 86400))


def sample(items, step, offset=0):
    """Every `step`-th of a sequence: those of this turn and, with other offsets, others."""
    return items[(turn() + offset) % step::step]


class Loader(unittest.TestLoader):
    """unittest.main's testLoader, for every `step`-th test of each class."""

    def __init__(self, step, offset=0):
        super().__init__()
        self.step, self.offset = step, offset

    def getTestCaseNames(self, testCaseClass):
        return sample(super().getTestCaseNames(testCaseClass), self.step, self.offset)


if __name__ == "__main__":
    os.environ |= {"GTEST_TOTAL_SHARDS": sys.argv[1], "GTEST_SHARD_INDEX": str(turn() % int(sys.argv[1]))}
    os.execv(sys.argv[2], sys.argv[2:])
