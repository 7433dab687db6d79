#!/usr/bin/python3
"""Event files of runs that go on from one another, read as TensorBoard reads them: python3 mgrun_events.py BIN REPOSITORY

The reader here is written from TensorBoard's event.proto and summary.proto: it drops what a record of a session's start says is
repeated.
"""
import os
import shutil
import struct
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "e2e"))
from tool_runs import TINY_GPT, compile_plan, enter_folder, run, write  # noqa: E402

VARINT, DOUBLE, BYTES, FLOAT = 0, 1, 2, 5  # wire types


def setUpModule():
    enter_folder()
    compile_plan("plan", TINY_GPT, "--evaluation --seq 64 --mbs 2 --gbs 4 --target-cpu native")


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def fields(message):
    """(number, value) of a message of protocol buffers."""
    at = 0
    while at < len(message):
        key, at = varint(message, at)
        wire = key & 7
        if wire == VARINT:
            value, at = varint(message, at)
        elif wire == BYTES:
            size, at = varint(message, at)
            value, at = message[at:at + size], at + size
        else:
            size, form = {DOUBLE: (8, "<d"), FLOAT: (4, "<f")}[wire]
            value, at = struct.unpack(form, message[at:at + size])[0], at + size
        yield key >> 3, value


def events(path):
    with open(path, "rb") as file:
        data = file.read()
    at = 0
    while at < len(data):
        size, = struct.unpack_from("<Q", data, at)
        yield dict(fields(data[at + 12:at + 12 + size]))
        at += size + 16


def read(folder):
    """{tag: [(step, value)]} as TensorBoard shows it, and the steps at which sessions began."""
    shown, starts = {}, []
    for name in sorted(os.listdir(folder)):
        for event in events(os.path.join(folder, name)):
            step = event.get(2, 0)
            if 7 in event and dict(fields(event[7])).get(1) == 1:
                starts.append(step)
                shown = {tag: [one for one in values if one[0] < step] for tag, values in shown.items()}
            for _, value in fields(event.get(5, b"")):
                value = dict(fields(value))
                shown.setdefault(value[1].decode(), []).append((step, value[2]))
    return shown, starts


class Events(unittest.TestCase):
    def train(self, folder, *arguments):
        run("mgrun", "plan", "--mock-data", "--train-iters", "9", "--tensorboard-dir", folder, *arguments)

    def test_a_run_alone_begins_no_session(self):
        self.train("alone")
        shown, starts = read("alone")
        self.assertEqual(starts, [])
        self.assertEqual([step for step, _ in shown["lm loss"]], list(range(9)))

    def test_a_restart_repeats_steps(self):
        """The first run ends after 7 steps, of which the checkpoint of a killed run has 4."""
        self.train("whole")
        arguments = ["--save", "out", "--save-interval", "4", "--save-retain", "0", "--restart-from-latest",
                     "--eval-interval", "2", "--eval-iters", "1"]
        self.train("again", *arguments, "--exit-interval", "7")
        _, starts = read("again")
        self.assertEqual(starts, [0])
        be_killed_before("out", 7, 4)
        self.train("again", *arguments)
        shown, starts = read("again")
        self.assertEqual(starts, [0, 4])
        self.assertEqual(shown["lm loss"], read("whole")[0]["lm loss"])
        self.assertEqual([step for step, _ in shown["lm loss validation"]], [1, 3, 5, 7, 8])
        self.assertEqual(len(os.listdir("again")), 2)

    def test_a_load_repeats_steps(self):
        self.train("first", "--save", "loaded", "--exit-interval", "5")
        self.train("first", "--load", "loaded")
        shown, starts = read("first")
        self.assertEqual(starts, [5])
        self.assertEqual([step for step, _ in shown["lm loss"]], list(range(9)))


def be_killed_before(folder, step, latest):
    """As if the run had been killed before the checkpoint of this step was complete."""
    shutil.rmtree(f"{folder}/iter_{step:07}")
    write(f"{folder}/latest_checkpointed_iteration.txt", f"{latest}\n")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
