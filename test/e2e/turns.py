"""Samples of what a test goes over move from day to day, so that nothing is left out for long; MGC_TEST_TURN=N goes back to one."""
import os
import time
import unittest


def turn():
    """A number of this day, or the one that is asked for."""
    return int(os.environ.get("MGC_TEST_TURN", time.time() // 86400))


def sample(items, step, offset=0):
    """Every `step`-th of a sequence: those of this turn and, with other offsets, others."""
    return items[(turn() + offset) % step::step]


class Loader(unittest.TestLoader):
    """Of every `step`-th test of each class, as `sample`: unittest.main's testLoader."""

    def __init__(self, step, offset=0):
        super().__init__()
        self.step, self.offset = step, offset

    def getTestCaseNames(self, testCaseClass):
        return sample(super().getTestCaseNames(testCaseClass), self.step, self.offset)
