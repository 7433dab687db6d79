#!/usr/bin/env python3
# The rows that test/bench/published makes of test/tables:
#
#   test/bench/published_rows.py --bin build/release/bin
#
# Every line of every table is accounted for, configurations have the sizes and parameters that the tables say, and the layouts of
# three rows compile and are predicted.
import argparse
import collections
import concurrent.futures
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import published
from published import choosing, configurations, score
from published.row import BOUNDS, REASONS, STACKS, TABLES, Row, lines, rounding

ROWS = published.rows()
RUNS = [row for row in ROWS if not row.reason]
TOLERANCE = 0.03  # parameters: some names count positions, some leave out the vocabulary
PREDICTED = (("dgxc_step_times", 84), ("vtrain_multi", 28), ("llm_foundry_mpt", 5))
# model_architectures, by our names; its vocabularies are not those of all configurations
ARCHITECTURES = {"GPT3-175B": "gpt-12288x96", "Llama3.1-8B": "llama-3.1-8b", "Llama3.1-405B": "llama-3.1-405b",
                 "Nemotron4-15B": "nemotron-4-15b", "DeepSeek-V3": "deepseek-v3", "Grok1-314B": "grok-1"}
KEYS = {"layers": ("num_hidden_layers", "n_layer"), "hidden": ("hidden_size", "n_embd"), "heads": ("num_attention_heads", "n_head"),
        "kv_groups": ("num_key_value_heads", "n_head"), "vocab": ("vocab_size",),
        "ffn": ("moe_intermediate_size", "intermediate_size")}


class Mgc:
    def __init__(self, folder):
        self.folder, self.mgc = folder, OPTIONS.bin / "mgc"

    def explain(self, name, config, flags):
        """Facts of the plan, in JSON."""
        file, plan = self.folder / f"{name}.json", self.folder / f"{name}.plan"
        file.write_text(json.dumps(config))
        self.run("compile", file, *flags, "-o", plan, "--no-near-layouts")
        return json.loads(self.run("explain", plan, "--json"))

    def run(self, *arguments):
        done = subprocess.run([self.mgc, *arguments], capture_output=True, text=True)
        if done.returncode:
            raise AssertionError(f"mgc {' '.join(map(str, arguments))}\n{done.stderr}")
        return done.stdout


def said():
    """(name, configuration, parameters in billions) by tables and names of models."""
    for name, (_, billions) in configurations.MODELS.items():
        if billions:
            yield name, configurations.configuration(name), billions
    models = {row.model: row.config for row in RUNS}
    for _, cells in lines("sc21_megatron_table1"):
        name = configurations.gpt_name(int(cells["hidden"]), int(cells["layers"]))
        yield name, models[name], float(cells["params_b"])
    for _, cells in lines("megatron_core_h100_weak_scaling"):
        name = configurations.gpt_name(int(cells["hidden"]), int(cells["layers"]))
        yield name, models[name], float(cells["model"].removesuffix("B"))
    for _, cells in lines("zero_bubble_table3_table4"):
        name = configurations.gpt_name(int(cells["hidden"]), int(cells["layers"]))
        yield name, models[name], float(cells["model"].removesuffix("B"))
    for _, cells in lines("llm_foundry_mpt"):
        if cells["precision"] == "bf16":
            name, positions = cells["model"].lower(), int(cells["seq"]) * int(cells["hidden"])
            yield name, models[name], (int(cells["params"]) - positions) / 1e9


class Tables(unittest.TestCase):
    def test_every_line_of_every_table_is_accounted_for(self):
        steps = {row.table for row in ROWS}
        self.assertEqual(steps & set(published.OTHERS), set())
        self.assertEqual(sorted(file.stem for file in TABLES.glob("*.csv")), sorted(steps | set(published.OTHERS)))
        for table in steps:
            self.assertEqual({row.line for row in ROWS if row.table == table}, {line for line, _ in lines(table)}, table)
        self.assertEqual(max(collections.Counter((row.table, row.line, row.column) for row in ROWS).values()), 1)

    def test_reasons_and_bounds_are_of_closed_sets(self):
        self.assertEqual({row.reason for row in ROWS if row.reason}, set(REASONS))
        self.assertEqual({bound for row in RUNS for bound in row.bound}, set(BOUNDS))
        self.assertEqual({row.stack for row in RUNS}, set(STACKS))

    def test_runs_have_all_that_a_prediction_needs(self):
        for row in RUNS:
            self.assertTrue(row.config and row.layers and row.devices and row.batch and row.sequence, row.place)
            self.assertTrue(row.seconds > 0 and 0 < row.rounding < 0.05, row.place)

    def test_layouts_have_the_devices_of_their_line(self):
        cells = {table: dict(lines(table)) for table in {row.table for row in RUNS}}
        for row in RUNS:
            if number := cells[row.table][row.line].get("gpus"):
                self.assertEqual(row.devices, int(number), row.place)

    def test_steps_of_tokens_agree_with_the_printed_seconds(self):
        for line, cells in lines("llm_foundry_mpt"):
            seconds = int(cells["gbs"]) * int(cells["seq"]) / int(cells["tokens_per_s"])
            self.assertAlmostEqual(seconds / float(cells["step_time_s"]), 1, 2, f"line {line}")

    def test_rounding_is_half_of_the_last_digit(self):
        self.assertAlmostEqual(rounding("12.5"), 0.05 / 12.5)
        self.assertAlmostEqual(rounding("430"), 0.5 / 430)

    def test_each_machine_and_stack_has_seen_and_held_models(self):
        models = collections.defaultdict(set)
        for row in RUNS:
            if not row.bound:
                models[row.machine, row.stack].add(row.model)
        for place, found in models.items():
            self.assertEqual({configurations.is_seen(model) for model in found}, {True, False}, (place, found))
        self.assertLessEqual(configurations.SEEN, {row.model for row in RUNS})


class Scores(unittest.TestCase):
    def result(self, layout, predicted, seconds):
        result = collections.namedtuple("Result", "row seconds ratio")
        return result(Row(table="t", line=1, model="m", flags=(layout,), seconds=seconds), predicted, predicted / seconds)

    def test_the_regret_is_that_of_the_layout_predicted_fastest(self):
        results = [self.result("a", 1.0, 12.0), self.result("b", 2.0, 10.0), self.result("c", 3.0, 20.0)]
        [choice] = score.choices(results)
        self.assertEqual((len(choice.layouts), round(choice.regret, 6), round(choice.tau, 6)), (3, 0.2, round(1 / 3, 6)))
        self.assertEqual((choice.chosen.row.flags, choice.fastest.row.flags), (("a",), ("b",)))

    def test_layouts_within_the_tie_have_no_order(self):
        [choice] = score.choices([self.result("a", 1.0, 10.2), self.result("b", 2.0, 10.0)])
        self.assertIsNone(choice.tau)

    def test_of_layouts_predicted_alike_the_slowest_is_chosen(self):
        [choice] = score.choices([self.result("a", 1.0, 10.0), self.result("b", 1.0, 12.0)])
        self.assertEqual(round(choice.regret, 6), 0.2)

    def test_groups_have_several_layouts(self):
        rows = [Row(table="t", line=line, model=model, flags=(layout,), bound=bound)
                for line, (model, layout, bound) in enumerate((("m", "a", ()), ("m", "b", ()), ("n", "a", ()), ("n", "a", ()),
                                                               ("o", "a", ()), ("o", "b", ("vpp",))))]
        self.assertEqual(score.groups(rows), rows[:2])

    def test_goals_that_are_missed_are_said(self):
        [within] = score.choices([self.result("a", 1.0, 10.0), self.result("b", 2.0, 12.0)])
        [beyond] = score.choices([self.result("a", 1.0, 11.0), self.result("b", 2.0, 10.0)])
        self.assertEqual(choosing.misses(within), [])
        self.assertEqual(choosing.misses(beyond), ["regret 10.0 %", "tau -1.00"])
        self.assertEqual(list(choosing.summary([within, within])),
                         ["regret 0.0 % mean, at most 0.0 %: within 1 % and 5 %",
                          "tau 1.00 mean, at least 1.00: below 0.8 in 0 of 2 groups"])
        self.assertEqual(list(choosing.summary([within, beyond])),
                         ["regret 5.0 % mean, at most 10.0 %: not within 1 % and 5 %",
                          "tau 0.00 mean, at least -1.00: below 0.8 in 1 of 2 groups"])

    def test_releases_of_one_layout_count_as_their_mean(self):
        results = [self.result("a", 2.0, 9.0), self.result("a", 2.0, 11.0), self.result("b", 1.0, 10.5)]
        [choice] = score.choices(results)
        self.assertEqual((len(choice.layouts), round(choice.regret, 6)), (2, 0.05))


class Plans(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.mgc = Mgc(pathlib.Path(self.folder.name))

    def test_configurations_have_the_sizes_of_the_table(self):
        models = {row.model: row.config for row in RUNS if row.layers in (row.config.get(key) for key in KEYS["layers"])}
        for _, cells in lines("model_architectures"):
            if name := ARCHITECTURES.get(cells["model"]):
                config = configurations.MODELS[name][0]() if name in configurations.MODELS else models[name]
                for column, keys in KEYS.items():
                    found = next((config[key] for key in keys if config.get(key)), None)
                    if found:  # gpt2 has no field for 4 h
                        self.assertEqual(found, int(cells[column]), (name, column))

    def test_parameters_are_those_that_tables_and_names_say(self):
        claims = {name: (config, billions) for name, config, billions in said()}
        flags = ("--seq=32", "--mbs=1", "--gbs=1", "--target=cuda:sm_90", "--dtype=bf16")
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            facts = pool.map(lambda claim: self.mgc.explain(claim[0], claim[1][0], flags), claims.items())
        for (name, (_, billions)), found in zip(claims.items(), facts):
            off = abs(found["parameters"] / 1e9 / billions - 1)
            self.assertLess(off, TOLERANCE + rounding(str(billions)), f"{name}: {found['parameters']}, {billions} B")

    def test_rows_compile_and_are_predicted(self):
        for place in PREDICTED:
            [row] = [row for row in RUNS if (row.table, row.line) == place]
            facts = self.mgc.explain(row.table, row.config, row.flags)
            self.assertEqual((facts["ranks"], facts["global_batch_size"]), (row.devices, row.batch))
            self.assertGreater(facts["prediction"]["seconds"], 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, default="build/release/bin")
    OPTIONS, rest = parser.parse_known_args()
    OPTIONS.bin = OPTIONS.bin.resolve()
    unittest.main(argv=[sys.argv[0], *rest])
