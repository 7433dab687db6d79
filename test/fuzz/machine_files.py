#!/usr/bin/env python3
# Machine and stack files that are wrong or extreme: each is refused by the field that is wrong, or prices a step in finite numbers.
#
#   test/fuzz/machine_files.py --bin build/release/bin --count 1000000 --jobs 2      many, of a seed: --seed N
#
# Files of the library are changed in one place (a value, a type, a field more or less, an array of another size) or in several, or as
# text (cut, bytes changed, nested deeply), and read and priced by one process (priced_texts). A few of them also go through the
# commands: mgc explain --machine, mgc explain --stack and mgc compile --auto.
import argparse
import concurrent.futures
import copy
import json
import math
import pathlib
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import samples

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILES = {kind: sorted((ROOT / "plan/cost" / folder).glob("*.json")) for kind, folder in (("machine", "machines"), ("stack", "stacks"))}
MODEL = ROOT / "test/golden/qwen2_moe/config.json"
PLANS = {  # flags by name; together they have products, attention, experts' exchanges, units, messages and all levels of links
    "cpu": "--tp 2 --pp 2 --dp 2 --seq 16 --mbs 1 --gbs 8",
    "gpu": "--tp 2 --pp 2 --dp 4 --ep 2 --seq 32 --mbs 1 --gbs 16 --moe-token-dispatcher-type alltoall --zero 1 --target cuda:sm_90 "
           "--dtype bf16",
    "units": "--dp 16 --seq 32 --mbs 1 --gbs 32 --zero 3 --target cuda:sm_90 --dtype bf16",
}
MAY_BE_ZERO = ("start_depth", "launch", "latency", "base", "forward_passes", "backward_passes", "kernel", "units", "ranks")
SLACK = 1e-6  # parts of a step beside the step
SECONDS = 20  # a command, and a text's answer
LINE = 400  # characters of a message's line


def leaves(value, name=""):
    """(name of the field, number) of all numbers of a document."""
    if isinstance(value, (dict, list)):
        for key, part in value.items() if isinstance(value, dict) else ((name, part) for part in value):
            yield from leaves(part, key)
    elif type(value) in (int, float):
        yield name, value


class Raw(str):
    """Text that stands in a JSON file as it is."""


VALUES = [Raw(text) for text in (
    "0", "-0.0", "-1", "1", "0.5", "1.5", "1e-9", "1e-10", "5e-324", "1e24", "1e25", "1e308", "1e400", "-1e400", "NaN", "Infinity",
    "-Infinity", "nan", "65536", "65537", "2147483648", "4611686018427387904", "9223372036854775807", "9223372036854775808",
    "18446744073709551616", "-9223372036854775809", "1" + "0" * 400, "0." + "0" * 400 + "1", "true", "false", "null", '""', '"x"', '"1"',
    '"NaN"', "[]", "[[]]", "{}", '{"ranks": 8}', '"\\u0000"', '"\\ud800"', '"' + "x" * 5000 + '"', "[" * 50 + "]" * 50)]


def text_of(value):
    if isinstance(value, Raw):
        return value
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key if isinstance(key, Raw) else json.dumps(key)}: {text_of(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(text_of, value)) + "]"
    return json.dumps(value)


def places(value, path=()):
    """Paths of all values in a document, its own first."""
    yield path
    for key, part in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(part, (*path, key))


def at(document, path):
    for key in path:
        document = document[key]
    return document


class Change:
    """A changed document, and the names one of which a refusal has to say."""

    def __init__(self, draw, document):
        self.draw, self.document, self.names = draw, copy.deepcopy(document), []

    def one(self):
        path = self.draw.choice(list(places(self.document))[1:])
        parent, key = at(self.document, path[:-1]), path[-1]
        self.draw.choice((self.value, self.value, *[self.scale] * 8, self.remove, self.add, self.twice, self.resize, self.other))(
            parent, key, path)

    def named(self, path):
        self.names.append(next((key for key in reversed(path) if isinstance(key, str)), ""))

    def value(self, parent, key, path):
        self.named(path)
        parent[key] = self.draw.choice(VALUES)

    def scale(self, *_):
        """A number of another size, often one that a file may have."""
        found = [place for place in places(self.document) if type(at(self.document, place)) in (int, float)]
        if not found:
            return
        path = self.draw.choice(found)
        self.named(path)
        parent, key = at(self.document, path[:-1]), path[-1]
        scaled = parent[key] * 10.0 ** self.draw.choice((-12, -6, -3, -1, 1, 3, 6, 12))
        parent[key] = Raw(str(int(scaled)) if isinstance(parent[key], int) and self.draw.random() < 0.9 else repr(scaled))

    def remove(self, parent, key, path):
        self.named(path)
        del parent[key]

    def add(self, parent, key, path):
        name = self.draw.choice(("", "x", "ranks", "peak", "na\nme", "\x1b[31m", "y" * 3000))
        while not isinstance(parent, dict):
            path = path[:-1]
            parent = at(self.document, path[:-1])
        if name not in parent:
            parent[name] = self.draw.choice(VALUES)
            self.names.append(name if name in ("x", "ranks", "peak") else "")

    def twice(self, parent, key, path):
        """A key that is there two times."""
        if not isinstance(parent, dict):
            return self.value(parent, key, path)
        self.named(path)
        parent[Raw(json.dumps(key) + " ")] = self.draw.choice((parent[key], self.draw.choice(VALUES)))

    def resize(self, parent, key, path):
        lists = [place for place in places(self.document) if isinstance(at(self.document, place), list)]
        if not lists:
            return self.value(parent, key, path)
        path = self.draw.choice(lists)
        self.named(path)
        elements = at(self.document, path)
        elements[:] = elements * self.draw.choice((0, 2, 3, 40)) if elements else [Raw("1")]

    def other(self, parent, key, path):
        """The value of another place."""
        self.named(path)
        parent[key] = copy.deepcopy(at(self.document, self.draw.choice(list(places(self.document))[1:])))


def changed_text(draw, text):
    """A text that need not be JSON."""
    data = bytearray(text.encode())
    kind = draw.randrange(7)
    begin = draw.randrange(len(data))
    if kind == 0:
        return bytes(data[:begin])
    if kind == 1:
        data[begin] = draw.randrange(256)
    elif kind == 2:
        del data[begin:begin + draw.choice((1, 2, 10, 100))]
    elif kind == 3:
        data[begin:begin] = draw.choice((b"\0", b"\xff\xfe", b'"', b"}", b",", b"//", b"\xef\xbb\xbf", b"e", b"9" * 30))
    elif kind == 4:
        return draw.choice((b"", b" ", b"[]", b"{}", b"null", b"1", b'""', b"\0" * 9, b"{" * 1000, b"[" * 100_000, b'{"a":' * 50_000))
    elif kind == 5:
        data[begin:begin] = b"[" * 20_000
    else:
        data = data * 2
    return bytes(data)


def inputs(seed, count):
    """(kind, bytes, names one of which a refusal has to say) of so many files."""
    draw = random.Random(seed)
    documents = {kind: [json.loads(file.read_text(encoding="utf-8")) for file in files] for kind, files in FILES.items()}
    for _ in range(count):
        kind = draw.choice(("machine", "machine", "stack"))
        document = draw.choice(documents[kind])
        if draw.random() < 0.2:
            yield kind, changed_text(draw, text_of(document)), []
            continue
        change = Change(draw, document)
        for _ in range(1 if draw.random() < 0.7 else draw.randrange(2, 6)):
            change.one()
        yield kind, text_of(change.document).encode("utf-8", "surrogatepass"), change.names


def numbers(value):
    if isinstance(value, dict):
        value = list(value.values())
    return [number for part in value for number in numbers(part)] if isinstance(value, list) else [value]


def wrong_with_step(step):
    found = numbers(step)
    if not all(isinstance(number, (int, float)) and math.isfinite(number) for number in found):
        return "a number that is not finite"
    slack = SLACK * step["seconds"]
    if not step["seconds"] > 0 or min(found) < -slack:
        return "a number below zero"
    if abs(sum(step["parts"]) - step["seconds"]) > slack:
        return f"parts that add up to {sum(step['parts'])}, not {step['seconds']}"
    return ""


def wrong_with_refusal(message, kind, names):
    lines = message.splitlines()
    if not lines or not all(line.strip() for line in lines) or max(map(len, lines)) > LINE or any(ord(c) < 32 for c in "".join(lines)):
        return "a message that no terminal shows in a line or few"
    if kind not in message and "JSON" not in message:
        return "a message that does not say where"
    if names and "JSON" not in message and not any(name in message for name in names):
        return f"a message without any of {names}"
    return ""


def wrong_with_answer(answer, kind, text, names):
    if "refused" in answer:
        return wrong_with_refusal(answer["refused"], kind, names)
    for name, number in leaves(json.loads(text)):
        if not (math.isfinite(number) and (number > 0 or number == 0 and name in MAY_BE_ZERO)):
            return f"{name} = {number} is taken"
    return next(filter(None, map(wrong_with_step, answer["steps"])), "")


class Texts:
    """Many files priced by one process."""

    def __init__(self, options, plans):
        self.process = subprocess.Popen([options.bin / "priced_texts", *plans], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, kind, text):
        self.process.stdin.write(f"{kind} {len(text)}\n".encode() + text)
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"machine_files.py: priced_texts ended ({self.process.wait()}) at this {kind}:\n{text[:3000]!r}")
        return json.loads(line)

    def end(self):
        self.process.stdin.close()
        return self.process.wait()


def shown(kind, text, answer, reason):
    return f"{reason}\n  {kind}: {text[:600]!r}\n  answer: {json.dumps(answer)[:1000]}"


def price(seed, count, options, plans):
    """(failures, refused, priced) of files of one seed."""
    texts, failures, refused = Texts(options, plans), [], 0
    for kind, text, names in inputs(seed, count):
        answer = texts.ask(kind, text)
        refused += "refused" in answer
        if reason := wrong_with_answer(answer, kind, text, names):
            failures.append(shown(kind, text, answer, reason))
    if code := texts.end():
        failures.append(f"priced_texts ended with {code}")
    return failures, refused, count - refused


def command_failure(options, folder, number, kind, text, names):
    """The fault of a command that reads this file; empty: none."""
    file = folder / f"{number}.json"
    file.write_bytes(text)
    command = ["mgc", "explain", folder / "cpu", f"--{kind}", file, "--json"]
    if kind == "machine" and number % 3 == 0:
        search = "--auto --devices 2 --gbs 2 --seq 16 --cp 1 --vpp 1 --top 1 --json"
        command = ["mgc", "compile", ROOT / "examples/tiny-gpt", *search.split(), "--machine", file]
    try:
        done = subprocess.run([options.bin / command[0], *command[1:]], capture_output=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return shown(kind, text, {}, f"no end within {SECONDS} s: {command}")
    said = done.stderr.decode(errors="replace").strip()
    reason = ""
    if done.returncode not in (0, 1):
        reason = f"exit code {done.returncode}"
    elif done.returncode == 0:
        facts = json.loads(done.stdout, parse_constant=lambda word: float(word))
        seconds = facts["prediction"]["seconds"] if "prediction" in facts else facts["sizes"][0]["layouts"][0]["seconds"]
        if not (isinstance(seconds, (int, float)) and math.isfinite(seconds) and seconds > 0):
            reason = f"{seconds} seconds of a step"
    elif "target" not in said and "fits into" not in said:  # a machine of other plans, or one with too little memory
        reason = "no file's name" if file.name not in said else wrong_with_refusal(said, kind, names)
    return reason and shown(kind, text, {"said": said}, f"{' '.join(map(str, command))}: {reason}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, default="build/release/bin")
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--commands", type=int, default=20)
    parser.add_argument("--seed", type=int, default=samples.seed())
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    options.bin = options.bin.resolve()
    with tempfile.TemporaryDirectory() as name, concurrent.futures.ProcessPoolExecutor(options.jobs) as pool:
        folder = pathlib.Path(name)
        for plan, flags in PLANS.items():
            subprocess.run([options.bin / "mgc", "compile", MODEL, *flags.split(), "-o", folder / plan, "--no-near-layouts"], check=True,
                           capture_output=True)
        plans = [folder / plan for plan in PLANS]
        share = -(-options.count // options.jobs)
        found = list(pool.map(price, *zip(*[(f"{options.seed} {job}", share, options, plans) for job in range(options.jobs)])))
        failures = [failure for of_job, *_ in found for failure in of_job]
        failures += filter(None, (command_failure(options, folder, number, *one)
                                  for number, one in enumerate(inputs(f"{options.seed} commands", options.commands))))
    print(f"seed {options.seed}: {sum(refused for _, refused, _ in found)} files refused, {sum(priced for *_, priced in found)} priced; "
          f"{options.commands} commands")
    for failure in failures[:10]:
        print(f"\n{failure}")
    if failures:
        sys.exit(f"machine_files.py: {len(failures)} failures")


if __name__ == "__main__":
    main()
