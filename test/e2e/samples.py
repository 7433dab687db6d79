"""Samples of what a test covers. A number chooses them: MGC_TEST_SEED, which scripts/test sets and prints, or else the commit of the
tree, so that a clone that is tested twice is tested alike.

    samples.py N PROGRAM [ARGUMENT..]     a GoogleTest program, one of N of its tests
"""
import functools
import os
import pathlib
import subprocess
import sys
import unittest


@functools.cache
def seed():
    """The number that chooses the samples of this run; 0 without a commit."""
    if "MGC_TEST_SEED" in os.environ:
        return int(os.environ["MGC_TEST_SEED"])
    try:
        commit = subprocess.run(["git", "-C", pathlib.Path(__file__).parent, "rev-parse", "--short=7", "HEAD"], capture_output=True,
                                text=True, check=False).stdout.strip()
    except OSError:  # there is no git
        return 0
    return int(commit, 16) if commit else 0


def sample(items, step, offset=0):
    """Every `step`-th of a sequence: those of this seed and, with other offsets, others."""
    return items[(seed() + offset) % step::step]


class Loader(unittest.TestLoader):
    """unittest.main's testLoader, for every `step`-th test of each class."""

    def __init__(self, step, offset=0):
        super().__init__()
        self.step, self.offset = step, offset

    def getTestCaseNames(self, testCaseClass):
        return sample(super().getTestCaseNames(testCaseClass), self.step, self.offset)


def main(argv, offset=0, **options):
    """unittest.main of one of so many tests as mgc_test's SAMPLE says; of all where the script is run by hand."""
    loader = Loader(int(os.environ.get("MGC_TEST_SAMPLE", "1")), offset)
    return unittest.main(module="__main__", argv=argv, verbosity=1, testLoader=loader, **options)


if __name__ == "__main__":
    os.environ |= {"GTEST_TOTAL_SHARDS": sys.argv[1], "GTEST_SHARD_INDEX": str(seed() % int(sys.argv[1]))}
    os.execv(sys.argv[2], sys.argv[2:])
