#!/usr/bin/python3
"""What the layouts that mgc compile --auto chooses have in common: python3 auto_answers.py BIN REPOSITORY [Class.test]

A choice stands when part of it is given, no better machine makes it slower, a smaller budget gives the best of what is left, and what
is known of layouts comes out. docs/planner.md
"""
import itertools
import json
import pathlib
import random
import re
import shlex
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import samples  # noqa: E402
from tool_runs import GOLDEN, ROOT, TINY_GPT, enter_folder, run  # noqa: E402

LLAMA = ROOT / "examples/llama-3-8b"
EXPERTS = ROOT / "examples/deepseek-v2-lite"
OLMOE = ROOT / "examples/olmoe-1b-7b-0924"
EXPERT_FLAGS = "--machine h100 --bf16 --target cuda:sm_90 --seq 4096 --cp 1 --tp 1 --pp 1 --vpp 1 --mbs 1 --zero 1"
CHOSEN = ("--tp", "--cp", "--ep", "--etp", "--pp", "--dp", "--vpp", "--mbs", "--zero", "--schedule")
SAME = 1 + 1e-9
GPU = "--machine h100 --bf16"


def setUpModule():
    enter_folder()


def search(model, flags, code=0):
    """The layouts of the one number of devices, the fastest first; or what is said where there is none."""
    done = run("mgc", "compile", model, "--auto", "--json", *flags.split(), code=code)
    return json.loads(done.stdout)["sizes"][0]["layouts"] if code == 0 else done.stderr


def best(model, flags):
    return search(model, f"{flags} --top 1")[0]


def choice(layout):
    """The flags of a layout that were searched, as {flag: value}."""
    words = shlex.split(layout["command"])
    return {flag: words[words.index(flag) + 1] for flag in CHOSEN if flag in words}


def text(flags):
    return " ".join(f"{flag} {value}" for flag, value in flags.items())


def explained(*assumptions):
    """(seconds, bytes of a rank) of the plan that was compiled last."""
    facts = json.loads(run("mgc", "explain", "plan", "--json", *assumptions).stdout)
    return facts["prediction"]["seconds"], max(stage["bytes"] for stage in facts["stages"])


def predicted(model, flags):
    """The same of a model's plan; nothing where it is refused."""
    refused = run("mgc", "compile", model, *flags.split(), "-o", "plan", "--no-near-layouts", code=None).returncode
    return None if refused else explained()


def machine(name, change):
    """The file of a machine like the h100, changed."""
    facts = json.loads((ROOT / "plan/cost/machines/h100.json").read_text(encoding="utf-8"))
    change(facts)
    pathlib.Path(f"{name}.json").write_text(json.dumps(facts), encoding="utf-8")
    return f"{name}.json"


class Answers(unittest.TestCase):
    def test_any_part_of_an_answer_gives_the_answer(self):
        draw = random.Random(samples.seed())
        for model, flags in ((TINY_GPT, "--devices 4 --cp 1 --gbs 8 --seq 64 --machine cpu"),
                             (GOLDEN / "qwen2_moe/config.json", f"--devices 4 --cp 1 --gbs 8 --seq 64 {GPU} --memory 40MB")):
            answer = best(model, flags)
            for _ in range(2):
                given = {flag: value for flag, value in choice(answer).items() if draw.random() < 0.4 and flag not in flags}
                with self.subTest(model=model, given=given):
                    again = best(model, f"{flags} {text(given)}")
                    self.assertEqual((again["seconds"], again["bytes"]), (answer["seconds"], answer["bytes"]))
                    self.assertEqual(choice(again), choice(answer))

    def test_a_budget_of_one_byte_less_gives_the_best_of_the_rest(self):
        """All layouts of a small space, compiled one by one within the same budget."""
        fixed = "--cp 1 --pp 1 --vpp 1 --mbs 2 --gbs 8 --seq 64 --machine cpu"
        answer = best(TINY_GPT, f"--devices 4 {fixed}")
        budget = answer["bytes"] - 1
        again = best(TINY_GPT, f"--devices 4 {fixed} --memory {budget}")
        self.assertNotEqual(again["command"], answer["command"])
        self.assertLessEqual(again["bytes"], budget)
        self.assertGreaterEqual(again["seconds"], answer["seconds"])
        all_plans = []
        for tp, zero in itertools.product((1, 2, 4), (0, 1, 2, 3)):
            if (zero > 0) == (tp < 4):
                all_plans.append(predicted(TINY_GPT, f"{fixed} --tp {tp} --dp {4 // tp} --zero {zero} --memory {budget}"))
        self.assertEqual(len(all_plans), 7)
        self.assertLessEqual(again["seconds"], SAME * min(seconds for seconds, needed in filter(None, all_plans) if needed <= budget))


class Machines(unittest.TestCase):
    FLAGS = "--devices 16 --gbs 16 --seq 4096 --bf16 --cp 1 --mbs 1 --memory 100%"

    def step(self, name, change):
        return best(LLAMA, f"{self.FLAGS} --machine {machine(name, change)}")["seconds"]

    def test_a_better_machine_is_no_slower(self):
        own = self.step("own", lambda facts: facts["memory"].update(bytes=2.4e10))

        def better(change):
            def both(facts):
                facts["memory"]["bytes"] = 2.4e10
                change(facts)
            return both

        def scale(*path, by):
            def change(facts):
                for key in path[:-1]:
                    facts = facts[key]
                facts[path[-1]] *= by
            return better(change)

        for name, change in {"products": scale("flops", "bf16", by=1.5), "memory": scale("memory", "bandwidth", by=1.5),
                             "room": scale("memory", "bytes", by=1.5), "inside": scale("links", 0, "bandwidth", by=1.5),
                             "network": scale("links", 1, "bandwidth", by=1.5), "latency": scale("links", 1, "latency", by=0.5),
                             "launch": scale("launch", by=0.5)}.items():
            with self.subTest(change=name):
                self.assertLessEqual(self.step(name, change), own * SAME)

    def test_twice_the_devices_with_twice_the_batch_cost_at_most_the_collectives(self):
        flags = "--seq 64 --machine cpu"
        answer = best(TINY_GPT, f"--devices 4 --gbs 8 {flags} --cp 1")
        twice = best(TINY_GPT, f"--devices 8 --gbs 16 {flags} --cp 1")
        same = choice(answer) | {"--dp": 2 * int(choice(answer)["--dp"])}
        stretched, _ = predicted(TINY_GPT, f"{flags} --gbs 16 {text(same)}")
        self.assertLessEqual(twice["seconds"], stretched * SAME)


class KnownFacts(unittest.TestCase):
    def seconds(self, flags, model=LLAMA):
        return best(model, f"{GPU} --cp 1 {flags}")["seconds"]

    def test_tensor_parallelism_stays_inside_a_node(self):
        flags = "--devices 64 --gbs 64 --seq 4096 --mbs 1 --pp 1 --vpp 1"
        inside, beyond = (self.seconds(f"{flags} --tp {tp}") for tp in (8, 16))
        self.assertLess(1.5 * inside, beyond)

    def test_interleaving_pays_where_microbatches_are_few(self):
        gains = []
        for batch in (8, 64):
            flags = f"--devices 32 --tp 4 --pp 8 --mbs 1 --zero 0 --seq 2048 --gbs {batch}"
            gains.append(self.seconds(f"{flags} --vpp 1 --schedule 1f1b") / self.seconds(f"{flags} --schedule interleaved"))
        self.assertGreater(gains[0], 1.1)
        self.assertGreater(gains[0], gains[1])

    def test_levels_2_and_3_lose_with_pipelines(self):
        flags = "--devices 32 --tp 2 --pp 4 --dp 4 --vpp 1 --mbs 1 --gbs 128 --seq 2048 --schedule 1f1b"
        one, two, three = (self.seconds(f"{flags} --zero {level}") for level in (1, 2, 3))
        self.assertLess(one, two)
        self.assertLess(two, three)

    def test_a_split_backward_pays_where_the_weights_part_is_free_to_move(self):
        flags = "--devices 8 --tp 1 --pp 8 --mbs 1 --gbs 8 --zero 0 --seq 2048"
        whole, split = (self.seconds(f"{flags} --vpp 1 --schedule {name}") for name in ("1f1b", "zb-h1"))
        self.assertLess(split, whole)

    def test_experts_leave_a_node_only_where_memory_asks_for_it(self):
        for memory, expected in (("75GiB", 8), ("30GB", 16)):
            layout = best(EXPERTS, f"--devices 32 --gbs 64 {EXPERT_FLAGS} --memory {memory}")
            self.assertEqual(int(choice(layout)["--ep"]), expected, memory)

    def test_uneven_load_moves_the_choice_of_expert_ranks(self):
        """Fewer ranks share the experts out the more the fullest has, for all wait for it; and none do where that is enough."""
        for model, devices, ranks in ((OLMOE, 64, {1: 8, 1.5: 1}), (EXPERTS, 32, {1: 8, 2: 4, 3: 2})):
            for load, expected in ranks.items():
                with self.subTest(model=model.name, load=load):
                    flags = f"--devices {devices} --gbs 64 {EXPERT_FLAGS}"
                    layout = best(model, f"{flags} --load-imbalance {load}")
                    self.assertEqual(int(choice(layout)["--ep"]), expected)
                    self.assertNotIn("imbalance", layout["command"])
                    predicted(model, " ".join(shlex.split(layout["command"])[3:-2]))
                    self.assertEqual(explained("--load-imbalance", load)[0], layout["seconds"])
                    self.assertEqual(explained()[0] == layout["seconds"], load == 1 or expected == 1)

    def test_long_sequences_are_cut(self):
        for sequence, batch, is_cut in ((131072, 1, True), (2048, 64, False)):
            layout = best(LLAMA, f"--devices 16 {GPU} --gbs {batch} --seq {sequence} --tp 1")
            self.assertEqual(int(choice(layout)["--cp"]) > 1, is_cut, layout["layout"])


class Refusals(unittest.TestCase):
    def refused(self, model, flags, *parts):
        said = search(model, flags, code=1)
        for part in parts:
            self.assertIn(part, said)
        return said

    def test_a_budget_that_nothing_fits_names_one_that_does(self):
        flags = "--devices 8 --cp 1 --tp 4 --gbs 16 --seq 256 --machine cpu"
        said = self.refused(TINY_GPT, f"{flags} --memory 3MB", "none of", "fits into 2.86 MiB of a rank", "needs least")
        needed = re.search(r"possible: --memory (\d+)", said)[1]
        self.assertLessEqual(best(TINY_GPT, f"{flags} --memory {needed}")["bytes"], int(needed))

    def test_experts_that_do_not_divide_name_what_does(self):
        flags = "--devices 14 --gbs 14 --seq 64 --machine h100 --cp 1 --pp 1 --vpp 1"
        said = self.refused(ROOT / "examples/qwen1.5-moe-a2.7b", f"{flags} --ep 7", "60 experts of a layer do not divide over ep = 7",
                            "possible --ep with the other sizes: 1")
        works = dict(zip(*[iter(said.split("a layout that works: ")[1].replace("--sp", "--sp on").split())] * 2))
        self.assertEqual(choice(best(ROOT / "examples/qwen1.5-moe-a2.7b", f"{flags} --ep {works['--ep']}"))["--ep"], "1")

    def test_tensor_ranks_may_be_more_than_groups_of_keys(self):
        config = json.loads((GOLDEN / "qwen3/config.json").read_text(encoding="utf-8"))
        self.assertLess(config["num_key_value_heads"], 4)
        self.assertEqual(choice(best(GOLDEN / "qwen3/config.json", "--devices 4 --gbs 4 --seq 16 --machine cpu --tp 4"))["--tp"], "4")

    def test_flags_that_contradict_each_other_are_named(self):
        for flags, part in (("--vpp 2 --pp 1", "--vpp 2 needs --pp > 1"),
                            ("--mbs 5", "--gbs 16 is not mbs * dp * microbatches with mbs = 5"),
                            ("--ep 2", "the model has no experts"), ("--schedule zb-v --pp 1", "--schedule zb-v does not take --vpp 1"),
                            ("--tp 2 --dp 8", "--devices 8 with --tp 2 --cp 1 --dp 8: they cannot be shared out so"),
                            ("--tp 8", "n_head = 4 does not divide over tp = 8")):
            with self.subTest(flags=flags):
                said = self.refused(TINY_GPT, f"--devices 8 --cp 1 --gbs 16 --seq 64 --machine cpu {flags}", part)
                self.assertTrue("possible" in said or "expected" in said, said)


if __name__ == "__main__":
    samples.main([sys.argv[0], *sys.argv[3:]])
