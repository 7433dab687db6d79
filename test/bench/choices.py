#!/usr/bin/env python3
# The layouts that mgc compile --auto chooses for models whose published runs are in test/tables: docs/published-layouts.md.
#
#   test/bench/choices.py --bin build/release/bin [--only MODEL] [--timeout SECONDS]
#
# The published layout and the chosen one are compiled to plans of mgc, for the same machine, memory, batch, positions and types, and
# proved; both choose what to recompute within the memory. Prints a line for each model, with the parts of the step that differ most,
# and ends with 1 where a choice is slower than the published layout, has no plan or does not fit.
import argparse
import dataclasses
import json
import pathlib
import subprocess
import sys
import tempfile

import published
from published.row import with_network

# Flags of a published run that are no choice of a layout: both plans have them.
FIXED = ("--gbs", "--seq", "--dtype", "--target", "--grad-dtype", "--moe-token-dispatcher-type", "--moe-rows-factor")
# Flags of its layout. Overlap, sequence parallelism and recomputation are those of mgc.
AXES = ("--tp", "--cp", "--cp-comm-type", "--ep", "--etp", "--pp", "--dp", "--vpp", "--mbs", "--zero", "--schedule",
        "--account-for-embedding-in-pipeline-split", "--account-for-loss-in-pipeline-split")
SHORT = ("--cp=1",)
RUNS = (  # tables, lines and columns of the runs, and what is fixed besides: no context ranks where sequences are short
    ("korthikanti_table3_table5_e2e", 2, "iter_s_SP_plus_selective", SHORT),
    ("vtrain_multi", 29, "", SHORT),
    ("sc21_megatron_table1", 6, "", SHORT),
    ("korthikanti_table3_table5_e2e", 3, "iter_s_SP_plus_selective", SHORT),
    ("korthikanti_table3_table5_e2e", 4, "iter_s_SP_plus_selective", SHORT),
    ("korthikanti_table3_table5_e2e", 6, "iter_s_SP_plus_selective", SHORT),
    ("llm_foundry_mpt", 4, "", SHORT),
    ("fms_fsdp", 2, "", SHORT),
    ("dgxc_step_times", 161, "", SHORT),
    ("dgxc_step_times", 53, "", ()),
    ("dgxc_step_times", 66, "", SHORT),
    ("dgxc_step_times", 13, "", SHORT),
    ("bridge_recompute", 2, "", SHORT),
    ("dgxc_step_times", 6, "", SHORT),
)
NAMES = {"gpt-6144x48": "GPT 22B", "gpt-8192x48": "GPT 39B", "gpt-12288x80": "GPT 146B", "gpt-12288x96": "GPT-3 175B",
         "gpt-20480x105": "GPT 530B", "gpt-25600x128": "GPT 1T", "mpt-30b": "MPT 30B", "llama-2-7b": "Llama 2 7B",
         "nemotron-4-15b": "Nemotron-4 15B", "llama-3.1-8b": "Llama 3.1 8B", "llama-3.1-405b": "Llama 3.1 405B", "grok-1": "Grok-1 314B",
         "moonlight-16b": "Moonlight 16B", "deepseek-v3": "DeepSeek-V3 671B"}
HEAD = ("model", "devices", "batch", "published layout", "step", "chosen layout", "step", "faster", "parts, of the published layout's step",
        "search")


@dataclasses.dataclass
class Plan:
    layout: str
    seconds: float
    needed: int
    memory: int
    parts: dict


@dataclasses.dataclass
class Choice:
    row: published.Row
    published: Plan
    chosen: Plan
    searched: float  # seconds

    @property
    def faster(self):
        return self.published.seconds / self.chosen.seconds - 1

    def differences(self, count=4):
        """The parts that the choice shortens or lengthens most, of the published layout's step."""
        parts = {part: self.chosen.parts[part] - seconds for part, seconds in self.published.parts.items()}
        largest = sorted(parts.items(), key=lambda item: -abs(item[1]))[:count]
        return ", ".join(f"{part.replace('_', ' ')} {100 * seconds / self.published.seconds:+.1f} %"
                         for part, seconds in largest if abs(seconds) >= 0.001 * self.published.seconds) or "none"


def flag_of(word):
    return word.split("=")[0]


class Chooser:
    def __init__(self, options, folder):
        self.mgc, self.folder, self.timeout = options.bin.resolve() / "mgc", folder, options.timeout

    def run(self, *words):
        done = subprocess.run([self.mgc, *words], capture_output=True, text=True, timeout=self.timeout)
        if done.returncode:
            raise ValueError(f"mgc {' '.join(map(str, words))}\n{done.stderr.strip()}")
        return done.stdout

    def machine(self, row):
        if not row.network:
            return row.machine
        file = self.folder / f"{row.machine}-{row.network}.json"
        file.write_text(with_network(self.run("explain", "--machine", row.machine, "--print"), row.network))
        return str(file)

    def explained(self, layout, plan):
        facts = json.loads(self.run("explain", plan, "--json"))
        return Plan(layout, facts["prediction"]["seconds"], facts["fits"]["needed_bytes"], facts["fits"]["device_bytes"],
                    facts["prediction"]["parts"])

    def choose(self, row, narrow):
        config, machine = self.folder / "config.json", self.machine(row)
        config.write_text(json.dumps(row.config))
        fixed = [word for word in row.flags if flag_of(word) in FIXED]
        axes = [word for word in row.flags if flag_of(word) in AXES]
        memory = str(int(json.loads(self.run("explain", "--machine", machine, "--print"))["memory"]["bytes"]))
        same = [config, *fixed, f"--machine={machine}", f"--memory={memory}"]
        self.run("compile", *same, *axes, "-o", self.folder / "published", "--no-near-layouts")
        before = self.explained(short(axes), self.folder / "published")
        text = self.run("compile", *same, *narrow, "--auto", f"--devices={row.devices}", "--top=1", "--json", "-o",
                        self.folder / "chosen")
        [size] = json.loads(text)["sizes"]
        [best] = size["layouts"]
        after = self.explained(best["layout"], self.folder / "chosen")
        return Choice(row, before, after, size["counts"]["seconds"])


def cell(plan):
    return f"{plan.seconds:.4g} s, {plan.needed / 2**30:.1f} GiB"


def short(words):
    """Flags as mgc compile --auto prints a layout: tp 2, dp 4, interleaved."""
    names = {"account-for-embedding-in-pipeline-split": "embedding counts as a layer", "cp-comm-type": "keys by",
             "account-for-loss-in-pipeline-split": "head counts as a layer"}
    pairs = [word.removeprefix("--").split("=") for word in words]
    return ", ".join(pair[-1] if pair[0] == "schedule" else " ".join([names.get(pair[0], pair[0]), *pair[1:]]) for pair in pairs)


def report(choice):
    row, before, after = choice.row, choice.published, choice.chosen
    cells = (NAMES[row.model], f"{row.devices} {row.device_kind}", f"{row.batch} x {row.sequence}", before.layout, cell(before),
             after.layout, cell(after), f"{100 * choice.faster:.1f} %", choice.differences(), f"{choice.searched:.0f} s")
    print(f"| {' | '.join(cells)} |", flush=True)


def failure(choice):
    """Why a choice is none; empty: it is no slower, and fits."""
    if choice.chosen.seconds > choice.published.seconds * (1 + 1e-9):
        return f"the choice takes {choice.chosen.seconds} s, the published layout {choice.published.seconds} s"
    return f"{choice.chosen.needed} bytes, of {choice.chosen.memory}" if choice.chosen.needed > choice.chosen.memory else ""


def row_of(table, line, column):
    [row] = [row for row in published.rows() if (row.table, row.line, row.column) == (table, line, column)]
    return row


def choice_of(row, narrow, options):
    """A choice, or why there is none."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            return Chooser(options, pathlib.Path(folder)).choose(row, narrow)
        except (ValueError, subprocess.TimeoutExpired) as error:
            return str(error)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, default="build/release/bin")
    parser.add_argument("--only", choices=sorted(NAMES))
    parser.add_argument("--timeout", type=float, default=600, help="seconds of one command")
    options = parser.parse_args()
    print(f"| {' | '.join(HEAD)} |\n{'|---' * len(HEAD)}|")
    failures = []
    for *place, narrow in RUNS:
        row = row_of(*place)
        if options.only in (None, row.model):
            choice = choice_of(row, narrow, options)
            reason = choice if isinstance(choice, str) else failure(choice)
            if reason:
                failures.append(f"{row.place} {row.model}: {reason}")
            if not isinstance(choice, str):
                report(choice)
    if failures:
        sys.exit("\n".join(failures))


if __name__ == "__main__":
    main()
