#!/usr/bin/python3
"""Pages of plans and of runs, in a browser: python3 page_test.py BIN REPOSITORY [MPIRUN..]

A page's numbers are those of the other outputs, its picture has the schedule's boxes, nothing overflows, in either colour scheme,
and nothing in a plan can become markup. Where there is no chromium, what needs none is tested, and the end is 77: skipped.
"""
import glob
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BIN, ROOT = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
sys.path.insert(0, ROOT + "/test/mutation")
sys.path.insert(0, ROOT + "/test/e2e")
import mutate
import samples
from browser import CHROMIUM, Browser

MGC, MGRUN = BIN + "/mgc", BIN + "/mgrun"
MPIRUN = sys.argv[3:]  # with flags; none: no MPI
STEPS = 6
OVERFLOWS = """
  const box = document.documentElement, wide = [];
  for (const node of document.querySelectorAll("section, section > *, figure, .bar, .stage, #tiles li"))
    if (node.scrollWidth > node.clientWidth + 1 && getComputedStyle(node).display !== "inline" && !node.closest(".sr-only"))
      wide.push(`${node.tagName}.${node.className} in ${node.closest("section")?.id}`);
  return {page: [box.scrollWidth, box.clientWidth], wide};"""
CANVAS = 'const canvas = document.querySelector(".timeline canvas"); '


def run(*command, code=0):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == code, (command, done.stdout, done.stderr)
    return done.stdout if code == 0 else done.stderr


def data_of(page):
    with open(page) as file:
        return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', file.read(), re.S)[1])


def lines_of(log):
    with open(log) as file:
        return [json.loads(line) for line in file]


def write_page(name, template, data):
    """A page with the data in the place of those of another page."""
    with open(template) as file:
        text = file.read()
    at, end = text.index('id="data">') + len('id="data">'), text.rindex("</script>\n<script>")
    with open(name, "w") as file:
        file.write(text[:at] + json.dumps(data).replace("<", "\\u003c") + text[end:])


def boxes_of(data):
    """The boxes that take time: others have no width."""
    return [box for stage in data["pipeline"]["stages"] for box in stage["boxes"] if box[3] > box[2]]


def tasks_of(plan):
    """Numbers of tasks by stage in the schedule as text."""
    rows = [line.split() for line in run(MGC, "explain", plan, "--schedule").splitlines() if not line.startswith("#")]
    return [len([word for word in row if re.fullmatch(r"[FBIW]\d+", word)]) for row in rows]


def setUpModule():
    folder = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(folder.cleanup)
    os.chdir(folder.name)
    run(MGC, "compile", ROOT + "/examples/tiny-gpt", "-o", "plan",
        *"--tp 2 --pp 2 --dp 2 --seq 64 --mbs 2 --gbs 16 --target-cpu native".split())
    run(MGC, "explain", "plan", "--html", "plan.html")
    run(MGRUN, "plan", "--mock-data", "--train-iters", str(STEPS), "--log", "log.jsonl", "--trace", "trace.json", "--profile-json",
        "profile.json", "--html", "run.html")


class Numbers(unittest.TestCase):
    def test_numbers_are_those_of_the_other_outputs(self):
        self.assertEqual(data_of("plan.html")["facts"], json.loads(run(MGC, "explain", "plan", "--json")))
        page = data_of("run.html")
        self.assertEqual(page["facts"], data_of("plan.html")["facts"])
        self.assertEqual(page["run"]["steps"], lines_of("log.jsonl"))
        with open("profile.json") as profile:
            self.assertEqual(page["run"]["profile"], json.load(profile))

    def test_predicted_boxes_are_those_of_the_schedule(self):
        data = data_of("plan.html")
        stages = [[box for box in stage["boxes"] if box[1] >= 0] for stage in data["pipeline"]["stages"]]
        self.assertEqual([len(stage) for stage in stages], tasks_of("plan"))
        self.assertEqual(len(stages), 2)
        last = max(box[3] for box in boxes_of(data))
        self.assertAlmostEqual(last, 1e9 * data["facts"]["prediction"]["seconds"], delta=1)

    def test_memory_is_within_what_is_allocated(self):
        data = data_of("plan.html")
        for curves, stage in zip(data["memory"], data["facts"]["stages"]):
            self.assertEqual({curve["kind"] for curve in curves}, set(stage["memory"]))
            for curve in curves:
                with self.subTest(kind=curve["kind"]):
                    self.assertLessEqual(max(held for _, held in curve["changes"]), stage["memory"][curve["kind"]])
                    self.assertEqual(curve["changes"], sorted(curve["changes"]))
            (activations,) = [curve["changes"] for curve in curves if curve["kind"] == "activations"]
            self.assertGreater(len(activations), 4)
            self.assertEqual(activations[-1][1], 0)

    def test_measured_boxes_are_those_of_the_trace(self):
        trace = data_of("run.html")["run"]["trace"]
        with open("trace.json") as file:
            events = [event for event in json.load(file)["traceEvents"]
                      if event.get("cat") == "chunk" and event["args"]["step"] == trace["step"]]
        self.assertEqual(sum(len(rank["boxes"]) for rank in trace["ranks"]), len(events))
        longest = max(box[3] - box[2] for rank in trace["ranks"] for box in rank["boxes"])
        self.assertAlmostEqual(longest, max(1000 * event["dur"] for event in events), delta=2)
        for rank in trace["ranks"]:
            for box in rank["boxes"]:
                self.assertLessEqual(sum(one[2] for one in box[4]), box[3] - box[2])
                self.assertTrue(all(0 <= one[3] <= one[2] for one in box[4]), box)
        self.assertEqual([rank["rank"] for rank in trace["ranks"]], list(range(8)))

    @unittest.skipUnless(MPIRUN, "no mpirun")
    def test_all_processes_are_on_one_page(self):
        run(*MPIRUN, "-n", "8", MGRUN, "plan", "--mock-data", "--train-iters", str(STEPS), "--trace", "process.json", "--profile-json",
            "process-profile.json", "--html", "process.html")
        self.assertEqual(glob.glob("process*.html"), ["process.html"])
        page = data_of("process.html")["run"]
        trace = page["trace"]
        self.assertEqual([rank["rank"] for rank in trace["ranks"]], list(range(8)))
        self.assertEqual((trace["world"], trace["machines"]), (8, 1))
        # Boxes and their distances from those of other ranks are those of the traces, which have the clock of the machine.
        shifts = []
        for rank in trace["ranks"]:
            with open(f"process.rank{rank['rank']}.json") as file:
                events = [event for event in json.load(file)["traceEvents"]
                          if event.get("cat") == "chunk" and event["args"]["step"] == trace["step"]]
            self.assertEqual(len(rank["boxes"]), len(events))
            for box, event in zip(rank["boxes"], sorted(events, key=lambda event: event["ts"])):
                self.assertAlmostEqual(box[3] - box[2], 1000 * event["dur"], delta=2)
                shifts.append(1000 * event["ts"] - box[2])
        self.assertLess(max(shifts) - min(shifts), 4)
        # The profile is the mean of the processes' own.
        profiles = []
        for rank in range(8):
            with open(f"process-profile.rank{rank}.json") as file:
                profiles.append(json.load(file))
        mean = page["profile"]
        self.assertEqual((mean["ranks"], mean["steps"]), (8, STEPS - 1))
        for part, seconds in mean["parts"].items():
            self.assertAlmostEqual(seconds, sum(profile["parts"][part] for profile in profiles) / 8, delta=1e-12)
        rows = [row for profile in profiles for row in profile["rows"]]
        self.assertEqual({row["kernel"] for row in mean["rows"]}, {row["kernel"] for row in rows})
        for mean_row in mean["rows"]:
            for number in "calls", "seconds", "bytes", "bound_seconds":
                self.assertAlmostEqual(mean_row[number], sum(row[number] for row in rows if row["kernel"] == mean_row["kernel"]) / 8,
                                       delta=1e-12 * max(1, mean_row[number]))
        self.assertEqual([row["seconds"] for row in mean["rows"]], sorted((row["seconds"] for row in mean["rows"]), reverse=True))

    @unittest.skipUnless(MPIRUN, "no mpirun")
    def test_a_process_with_very_many_boxes(self):
        # More than a message holds with the times of their instructions: it has them without.
        run(MGC, "compile", ROOT + "/test/golden/llama", "-o", "many", *"--pp 2 --seq 4 --mbs 1 --gbs 1500 --target-cpu native".split())
        run(*MPIRUN, "-n", "2", MGRUN, "many", "--mock-data", "--train-iters", "2", "--html", "many.html")
        page = data_of("many.html")["run"]
        self.assertEqual([rank["rank"] for rank in page["trace"]["ranks"]], [0, 1])
        for rank in page["trace"]["ranks"]:
            self.assertGreaterEqual(len(rank["boxes"]), 3000)
            self.assertEqual({len(box) for box in rank["boxes"]}, {4})
        self.assertEqual(page["profile"]["ranks"], 2)

    def test_a_run_that_goes_on(self):
        # More steps than a page holds, from an odd step on: what it holds is equally far apart.
        run(MGC, "compile", ROOT + "/test/golden/llama", "-o", "small", *"--seq 4 --mbs 1 --gbs 1 --target-cpu native".split())
        flags = ["--mock-data", "--train-iters", "5000", "--save", "saved"]
        run(MGRUN, "small", *flags, "--exit-interval", "3", "--html", "three.html")
        page = data_of("three.html")["run"]
        self.assertEqual((page["done"], page["end"]), (3, "ended early, as its flags say"))
        run(MGRUN, "small", *flags, "--load", "saved", "--html", "more.html")
        page = data_of("more.html")["run"]
        self.assertEqual((page["done"], page["end"], page["stride"]), (4997, "", 2))
        self.assertEqual([step["step"] for step in page["steps"]], list(range(3, 5000, 2)))

    def test_curves_begin_with_the_log(self):
        run(MGC, "compile", ROOT + "/test/golden/llama", "-o", "valid",
            *"--seq 4 --mbs 1 --gbs 1 --target-cpu native --evaluation".split())
        flags = ["valid", "--mock-data", "--train-iters", "12", "--eval-interval", "3", "--eval-iters", "1", "--log", "valid.jsonl"]
        run(MGRUN, *flags, "--save", "half", "--exit-interval", "6")
        run(MGRUN, *flags, "--load", "half") # its steps are superseded by those of the next run
        run(MGRUN, *flags, "--load", "half", "--html", "valid.html")
        page = data_of("valid.html")["run"]
        log = lines_of("valid.jsonl")
        self.assertEqual(page["steps"], [line for line in log if "loss" in line])
        self.assertEqual([step["step"] for step in page["steps"]], list(range(12)))
        self.assertEqual(page["validation"], [[line["step"], line["validation_loss"]] for line in log if "validation_loss" in line])
        self.assertEqual([step for step, _ in page["validation"]], [2, 5, 8, 11])
        self.assertEqual((page["first"], page["done"], page["lacks"]), (6, 6, ""))

    def test_a_log_of_another_training_loses_nothing(self):
        flags = ["plan", "--mock-data", "--train-iters", "4"]
        run(MGRUN, *flags, "--save", "other", "--exit-interval", "2")
        with open("other.jsonl", "w") as file:
            file.write('{"step":0,"loss":\n') # no line of a log
            file.write('{"step":0,"loss":"much","grad_norm":[],"seconds":{}}\n')
        run(MGRUN, *flags, "--load", "other", "--log", "other.jsonl", "--html", "other.html")
        page = data_of("other.html")["run"]
        self.assertEqual([step["step"] for step in page["steps"]], [2, 3])
        self.assertEqual(page["lacks"], "other.jsonl: ends with step 0, and this run begins with step 2, so the curves begin with this run")
        with open("other.jsonl") as file:
            self.assertEqual([line[:10] for line in file], [f'{{"step":{step},' for step in (0, 0, 2, 3)])
        run(MGRUN, *flags, "--load", "other", "--log", "/dev/null", "--html", "none.html")

    def test_nothing_is_asked_of_a_network(self):
        for page in "plan.html", "run.html":
            with open(page) as file:
                text = file.read()
            self.assertIn("default-src 'none'", text)
            self.assertNotRegex(re.sub(r'<script type="application/json".*?</script>', "", text, flags=re.S).replace(
                "http://www.w3.org/2000/svg", ""), r"https?://|\bfetch\(|@import|<link[^>]*href=\"(?!data:)")

    def test_places_that_cannot_be_written(self):
        os.makedirs("folder", exist_ok=True)
        with open("other.txt", "w") as file:
            file.write("mine")
        shutil.copy(ROOT + "/examples/tiny-gpt/config.json", "config.json")
        search = [MGC, "compile", "config.json", *"--auto --devices 1 --gbs 1 --html".split()]
        self.assertIn("--html config.json: is the model itself", run(*search, "config.json", "--force", code=1))
        self.assertIn("--html: folder: ", run(*search, "folder", code=1))
        for path, message in [("folder", "--html: folder: "), ("absent/p.html", "--html: absent/p.html: cannot create: "),
                              ("plan/plan.json", "--html plan/plan.json: is a file of the plan, expected another"),
                              ("other.txt", "--html other.txt: holds something else than a page of mgc, expected a new name")]:
            with self.subTest(path=path):
                self.assertIn(message, run(MGC, "explain", "plan", "--html", path, code=1))
        with open("other.txt") as file:
            self.assertEqual(file.read(), "mine")
        run(MGC, "explain", "plan", "--html", "other.txt", "--force")
        run(MGC, "explain", "plan", "--html", "other.txt") # now it is a page


@unittest.skipUnless(CHROMIUM, "no chromium; scripts/setup test/page/packages installs it")
class Shown(unittest.TestCase):
    def setUp(self):
        self.browser = Browser()
        self.addCleanup(self.browser.close)

    def test_every_box_is_drawn(self):
        canvas, told = self.browser.probe("plan.html", CANVAS + 'return [{...canvas.dataset}, document.querySelector(".range").textContent]')
        self.assertRegex(told, "^all ") # boxes that can be told apart
        boxes = len(boxes_of(data_of("plan.html")))
        self.assertEqual((int(canvas["boxes"]), int(canvas["drawn"])), (boxes, boxes))

    def test_boxes_can_be_counted_in_the_picture(self):
        place = self.browser.probe("plan.html", CANVAS + """
          const box = canvas.getBoundingClientRect(), scheme = getComputedStyle(document.documentElement);
          return {x: box.x, y: box.y + scrollY, width: box.width, forward: scheme.getPropertyValue("--forward").trim()};""")
        picture = self.browser.picture("plan.html")
        forward = [int(place["forward"][i:i + 2], 16) for i in (1, 3, 5)]
        left = int(place["x"]) + 97
        microbatches = data_of("plan.html")["facts"]["microbatches"]
        rows = set()
        for y in range(int(place["y"]) + 24, int(place["y"]) + 110):
            mask = (picture[y, left:int(place["x"] + place["width"]) - 2] == forward).all(axis=1)
            rows.add(int((mask[1:] & ~mask[:-1]).sum() + mask[0]))
        self.assertIn(microbatches, rows)
        self.assertGreater(max(rows), 0)

    def test_nothing_overflows(self):
        for page in "plan.html", "run.html":
            for width in 1440, 500:
                with self.subTest(page=page, width=width):
                    found = self.browser.probe(page, OVERFLOWS, (width, 900))
                    self.assertLessEqual(*found["page"])
                    self.assertEqual(found["wide"], [])

    def test_a_run_that_goes_on_says_so(self):
        flags = ["plan", "--mock-data", "--train-iters", "4", "--lr", "1e-3", "--min-lr", "0.99e-3", "--save", "rest"]
        run(MGRUN, *flags, "--exit-interval", "2", "--html", "rest.html")
        run(MGRUN, *flags, "--load", "rest", "--html", "rest.html")
        note, ticks = self.browser.probe("rest.html", """
          const ticks = [...document.querySelectorAll("#training svg")].map(svg =>
            [...svg.querySelectorAll("g text")].map(text => text.textContent));
          return [document.querySelector("#training .note").textContent, ticks];""")
        self.assertRegex(note, "; steps 2 to 3$")
        for texts in ticks: # texts of an axis
            self.assertEqual(len(set(texts)), len(texts))

    def test_validation_is_in_the_chart_of_the_loss(self):
        run(MGC, "compile", ROOT + "/examples/tiny-gpt", "-o", "judged", *"--seq 16 --mbs 1 --gbs 2 --target-cpu native --evaluation".split())
        flags = ["judged", "--mock-data", "--train-iters", "8", "--eval-interval", "2", "--eval-iters", "1", "--save", "judged.out",
                 "--log", "judged.jsonl"]
        run(MGRUN, *flags, "--exit-interval", "4")
        run(MGRUN, *flags, "--load", "judged.out", "--html", "judged.html")
        note, name, caption, label, points, told = self.browser.probe("judged.html", """
          const figure = document.querySelector("#training figure"), svg = figure.querySelector("svg");
          const box = svg.getBoundingClientRect(), caption = figure.querySelector("figcaption").textContent;
          svg.dispatchEvent(new PointerEvent("pointermove", {clientX: box.right - 1, clientY: box.y + 20}));
          return [document.querySelector("#training .note").textContent, figure.querySelector("figcaption").firstChild.textContent,
                  caption, svg.getAttribute("aria-label"),
                  [...svg.querySelectorAll(".curve")].map(path => path.getAttribute("d").match(/[ML]/g).length),
                  figure.querySelector("output").value];""")
        self.assertRegex(note, "; steps 4 to 7, after steps 0 to 3 of the log$")
        self.assertEqual((name, points), ("loss", [8, 4]))
        self.assertRegex(caption, r"^lossvalidationlast [\d.]+, validation [\d.]+$")
        self.assertRegex(label, r"^loss: [\d.]+ at step 0, .*; validation: [\d.]+ at step 1, [\d.]+ at step 7; ")
        self.assertRegex(told, r"^step 7: [\d.]+, validation [\d.]+ at step 7$")

    def test_a_log_may_hold_anything(self):
        page = data_of("run.html")
        page["run"]["steps"][1].update(loss="<b>", seconds=[], grad_norm={})
        del page["run"]["steps"][2]["lr"]
        page["run"]["validation"] = [[0, None], [3, 1e300]]
        write_page("odd.html", "run.html", page)
        self.assertEqual(self.browser.probe("odd.html", 'return document.querySelectorAll("#training .curve").length'), 5)

    def test_runs_beside_each_other(self):
        name = "<b>&.jsonl"
        for log, steps in (name, range(30)), ("short.jsonl", range(5, 10)):
            with open(log, "w") as file:
                for step in steps:
                    file.write(json.dumps({"step": step, "loss": None if step == 7 else 1 / (step + 1), "grad_norm": 2, "tokens": 10,
                                           "seconds": 0.1}) + "\n")
        run(MGC, "compare", name, "short.jsonl", "--html", "runs.html")
        legend, titles, curves, told, last = self.browser.probe("runs.html", """
          const figures = () => [...document.querySelectorAll("figure")];
          const hover = () => {
            const svg = figures()[0].querySelector("svg"), box = svg.getBoundingClientRect();
            svg.dispatchEvent(new PointerEvent("pointermove", {clientX: box.right - 10, clientY: box.y + 20}));
            return figures()[0].querySelector("output").value;
          };
          const told = [hover()];
          document.querySelector("[data-axis=tokens]").click();
          for (let i = 0; i < 3; ++i)
            await frame();
          told.push(hover());
          return [[...document.querySelectorAll(".legend li")].map(item => item.textContent),
                  figures().map(figure => figure.querySelector("figcaption").firstChild.textContent),
                  figures().map(figure => figure.querySelectorAll(".curve").length), told,
                  document.querySelector("[aria-pressed=true]").textContent];""")
        self.assertEqual(legend, [name, "short.jsonl"])
        self.assertEqual(titles, ["loss", "gradient norm", "tokens per second"])
        self.assertEqual(curves, [2, 2, 2])
        self.assertEqual(told, [f"step 29: {name} 0.03333, short.jsonl 0.1", f"tokens 300: {name} 0.03333, short.jsonl 0.1"])
        self.assertEqual(last, "By tokens")
        for width in 1440, 500:
            found = self.browser.probe("runs.html", OVERFLOWS, (width, 900))
            self.assertLessEqual(*found["page"])
            self.assertEqual(found["wide"], [])

    def test_answers_of_a_search(self):
        shutil.copytree(ROOT + "/examples/tiny-gpt", "<b>&")
        flags = [*"--gbs 8 --seq 64 --cp 1 --vpp 1 --mbs 1 --schedule 1f1b --machine cpu --auto --json".split()]
        said = json.loads(run(MGC, "compile", "<b>&", *flags, *"--devices 4 --top 3 --html auto.html --pareto --sensitivity --why".split(),
                              "--explain", "tp=2"))
        self.assertEqual(data_of("auto.html"), said)
        (size,) = said["sizes"]
        title, points, rows, sections, shown = self.browser.probe("auto.html", """
          const texts = selector => [...document.querySelectorAll(selector)].map(node => node.textContent);
          return [document.querySelector("h1").textContent, document.querySelector(".curve").getAttribute("d").match(/[ML]/g).length,
                  [...document.querySelectorAll("section table")].map(table => table.querySelectorAll("tbody tr").length), texts("nav a"),
                  texts("#layouts tbody td")];""")
        self.assertEqual(title, "<b>& on 4 devices of cpu")
        self.assertEqual(points, len(size["pareto"]))
        self.assertEqual(rows, [3, len(size["pareto"]), 1, len(size["why_not"]), len(size["sensitivity"]), 1])
        self.assertEqual(sections, ["Layouts", "Memory and time", "Explained", "Why not", "Sensitivity", "Search"])
        for layout in size["layouts"]:
            self.assertIn(layout["command"], shown)
        for width in 1440, 500:
            found = self.browser.probe("auto.html", OVERFLOWS, (width, 900))
            self.assertLessEqual(*found["page"])
            self.assertEqual(found["wide"], [])

    def test_a_search_without_an_answer(self):
        flags = [*"--gbs 8 --seq 64 --cp 1 --vpp 1 --mbs 1 --machine cpu --auto --html none.html".split()]
        run(MGC, "compile", ROOT + "/examples/tiny-gpt", *flags, "--devices", "7,4", code=1)
        notes, rows = self.browser.probe("none.html", """
          return [document.querySelector("#layouts .note").textContent, document.querySelectorAll("#layouts tbody tr").length];""")
        self.assertRegex(notes, "^7 devices: each of 3 layouts is refused; the last: .*--gbs 8 is not")
        self.assertEqual(rows, 1)
        run(MGC, "compile", ROOT + "/examples/tiny-gpt", *flags, "--devices", "4", "--memory", "1KB", code=1)
        notes, rows = self.browser.probe("none.html", """
          return [document.querySelector("#layouts .note").textContent, document.querySelectorAll("#layouts tbody tr").length];""")
        self.assertRegex(notes, r"^4 devices: none of \d+ layouts fits into 1000 B of a rank; .* needs least")
        self.assertEqual(rows, 0)

    def test_a_search_of_a_model_with_experts(self):
        flags = [*"--gbs 4 --seq 64 --dp 2 --ep auto --machine h100 --html experts.html".split()]
        for load, said in ((), "experts loaded evenly"), (("--load-imbalance", "2.5"), "the fullest rank with 2.5 times the mean of experts' rows"):
            run(MGC, "compile", ROOT + "/test/golden/qwen2_moe/config.json", *flags, *load)
            note = self.browser.probe("experts.html", """return document.querySelector("header .note").textContent;""")
            self.assertRegex(note, f", f32, {said}$")

    def test_both_colour_schemes(self):
        light, dark = self.browser.picture("run.html"), self.browser.picture("run.html", dark=True)
        self.assertGreater(light[2, 2].min(), 230)
        self.assertLess(dark[2, 2].max(), 60)
        # Whatever is written can be read: the darkest and the lightest of the title are far apart.
        for picture in light, dark:
            title = picture[20:60, 20:700].mean(axis=2)
            self.assertGreater(title.max() - title.min(), 150)

    def test_pointer_and_keys(self):
        found = self.browser.probe("run.html", CANVAS + """
          const tip = document.querySelector(".tip"), said = document.querySelector("[aria-live]"), told = [];
          const press = key => canvas.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
          const box = canvas.getBoundingClientRect();
          for (let y = box.y + 30; y < box.bottom; y += 4) // in the first quarter, where some microbatch runs
            if (tip.hidden)
              canvas.dispatchEvent(new PointerEvent("pointermove", {clientX: box.x + box.width / 4, clientY: y}));
          told.push(tip.hidden, tip.innerText);
          press("Escape");
          told.push(tip.hidden);
          press("ArrowRight"); told.push(said.textContent);
          press("ArrowRight"); told.push(said.textContent);
          press("ArrowDown"); told.push(said.textContent);
          return told;""")
        hidden, tip, escaped, first, second, below = found
        self.assertFalse(hidden)
        self.assertRegex(tip, r"(?s)microbatch \d.*predicted")
        self.assertTrue(escaped)
        self.assertRegex(first, "stage 0; ")
        self.assertNotEqual(first, second)
        self.assertRegex(below, "stage 1; ")

    def test_tables_have_words_for_those_who_do_not_see(self):
        found = self.browser.probe("run.html", """
          const unnamed = [...document.querySelectorAll("canvas, svg")].filter(node => !node.getAttribute("aria-label"));
          const tables = [...document.querySelectorAll("section table")];
          return {unnamed: unnamed.length, tables: tables.length,
                  wrong: tables.filter(table => !table.caption?.textContent || !table.querySelector("th[scope=col]") ||
                                                !table.querySelector("th[scope=row]")).length,
                  unreachable: document.querySelectorAll(".scroll:not([tabindex])").length,
                  sections: [...document.querySelectorAll("nav a")].map(link => link.textContent)};""")
        self.assertEqual((found["unnamed"], found["wrong"], found["unreachable"]), (0, 0, 0))
        self.assertGreater(found["tables"], 5)
        self.assertEqual(found["sections"], ["Training", "Pipeline", "Time of a step", "Memory over the step", "Traffic", "Layout",
                                             "Kernels"])

    def test_times_of_the_measured_step_say_median_or_mean(self):
        profile = data_of("run.html")["run"]["profile"]
        self.assertEqual(profile["steps"], STEPS - 1)
        tile, bars, captions, headings, median, mean, rows = self.browser.probe("run.html", """
          const texts = (selector, root = document) => [...root.querySelectorAll(selector)].map(node => node.textContent);
          const {step_seconds: median, mean_step_seconds: mean, parts} =
            JSON.parse(document.getElementById("data").textContent).run.profile;
          const [, measured] = document.querySelectorAll("#time table");
          return [texts("#tiles li").filter(text => text.startsWith("measured")), texts("#time .bars > *"),
                  texts("#time caption"), pipelineGroups(JSON.parse(document.getElementById("data").textContent)).map(one => one.title),
                  timeText(1e9 * median), timeText(1e9 * mean), measured.querySelectorAll("tbody tr").length];""")
        self.assertEqual(tile, [f"measured step, of {STEPS - 1} stepsmedian {median}, mean {mean}"])
        self.assertEqual(bars[2:4], ["measured, mean", mean])
        self.assertEqual(captions[1], f"Parts of the measured step, mean of {STEPS - 1} steps of 8 ranks")
        self.assertIn("median", headings[1])
        self.assertEqual(rows, len([seconds for seconds in profile["parts"].values() if seconds > 0]))

    def test_curves_have_a_point_for_each_step(self):
        curves = self.browser.probe("run.html", """
          return [...document.querySelectorAll("#training figure")].map(figure =>
            [figure.querySelector("figcaption").firstChild.textContent,
             figure.querySelector(".curve").getAttribute("d").match(/[ML]/g).length]);""")
        self.assertEqual(curves, [[name, STEPS] for name in ("loss", "gradient norm", "learning rate", "tokens per second")])

    def test_64_stages_with_256_microbatches(self):
        with open(ROOT + "/examples/tiny-gpt/config.json") as file:
            config = json.load(file)
        config["n_layer"] = 64
        with open("config.json", "w") as file:
            json.dump(config, file)
        run(MGC, "compile", "config.json", "-o", "large", *"--pp 64 --seq 16 --mbs 1 --gbs 256 --target-cpu native".split())
        run(MGC, "explain", "large", "--html", "large.html")
        data = data_of("large.html")
        self.assertEqual(tasks_of("large"), [512] * 64)
        self.assertLess(os.path.getsize("large.html"), 16 << 20)
        drawn = self.browser.probe("large.html", CANVAS + """
          const opened = {...canvas.dataset}, range = document.querySelector(".range"), told = [range.textContent];
          document.querySelector('[data-key="0"]').click();
          await frame();
          await frame();
          told.push(range.textContent);
          const whole = {...canvas.dataset};
          for (let i = 0; i < 8; ++i)
            canvas.dispatchEvent(new KeyboardEvent("keydown", {key: "+", bubbles: true}));
          await frame(); // behind the picture, which asked for this frame before
          return {opened, told, whole, near: {...canvas.dataset}, height: canvas.clientHeight,
                  figures: document.querySelectorAll("#memory figure").length,
                  page: [document.documentElement.scrollWidth, document.documentElement.clientWidth]};""")
        self.assertEqual(int(drawn["whole"]["boxes"]), len(boxes_of(data)))
        # It opens where boxes are wide enough for their numbers: those of the first microbatches.
        self.assertLess(int(drawn["opened"]["drawn"]), 64 * 40)
        self.assertGreater(int(drawn["opened"]["drawn"]), 64)
        self.assertRegex(drawn["told"][0], r"^0 ns to [\d.]+ m?s of [\d.]+ m?s$")
        self.assertRegex(drawn["told"][1], r"^all [\d.]+ m?s$")
        self.assertGreaterEqual(len(boxes_of(data)), 64 * 512)
        self.assertGreater(int(drawn["whole"]["drawn"]), 64 * 100)
        # Boxes out of view are not drawn.
        self.assertLess(int(drawn["near"]["drawn"]), int(drawn["whole"]["drawn"]) / 8)
        self.assertGreater(int(drawn["near"]["drawn"]), 0)
        self.assertLessEqual(drawn["height"], 720)
        self.assertEqual(drawn["figures"], 64)
        self.assertLessEqual(*drawn["page"])

    def test_memory_of_the_device_is_a_line(self):
        shown = """
          const limit = colour("limit"), canvas = document.querySelector("#memory canvas");
          const lit = new OffscreenCanvas(1, 1).getContext("2d");
          lit.fillStyle = limit;
          lit.fillRect(0, 0, 1, 1);
          const wanted = lit.getImageData(0, 0, 1, 1).data, rows = [];
          const {width, height} = canvas, {data} = canvas.getContext("2d").getImageData(0, 0, width, height);
          for (let y = 0; y < height; ++y) // the line covers the left edge too, its text does not
            if ([0, 1, 2].every(channel => Math.abs(data[4 * (y * width + 3) + channel] - wanted[channel]) < 3))
              rows.push(y);
          const tiles = [...document.querySelectorAll("#tiles li")].map(node => node.textContent);
          return {rows, height, tiles: tiles.filter(text => text.startsWith("device")), label: canvas.getAttribute("aria-label"),
                  note: document.querySelector("#memory .note").textContent};"""
        data = data_of("plan.html")
        data["facts"].pop("fits", None)
        most = max(stage["bytes"] for stage in data["facts"]["stages"])
        write_page("none.html", "plan.html", data)
        found = self.browser.probe("none.html", shown)
        self.assertEqual((found["rows"], found["tiles"]), ([], []))
        self.assertNotIn("device", found["note"] + found["label"])
        for device, words in [(2 * most, "fits, {} to spare"), (most - (1 << 20), "does not fit, by 1.00 MiB"),
                              (100 * most, "fits, {} to spare")]:
            data["facts"]["fits"] = {"device_bytes": device, "spare_bytes": device - most, "fits": device >= most}
            write_page("fits.html", "plan.html", data)
            spare, size = self.browser.probe("fits.html", f"return [bytesText({device - most}), bytesText({device})]")
            with self.subTest(words=words):
                found = self.browser.evaluate(shown)
                self.assertEqual(found["tiles"], [f"device of {size}{words.format(spare)}"])
                self.assertIn(f"The solid line is the device's memory, {size}", found["note"])
                self.assertEqual("above the scale" in found["note"], device > 8 * most)
                self.assertIn(words.format(spare), found["note"])
                self.assertIn(f" on a device of {size}: ", found["label"])
                at = 0 if device > 8 * most else found["height"] - device / max(device, most) * (found["height"] - 4)
                self.assertTrue(found["rows"] and abs(found["rows"][0] - at) <= 2, (found["rows"], at))

    def test_a_budget_has_its_curve(self):
        run(MGC, "compile", ROOT + "/examples/tiny-gpt", "-o", "small", *"--mbs 8 --memory 40MiB --target-cpu native".split())
        run(MGC, "explain", "small", "--html", "small.html")
        budget = data_of("small.html")["facts"]["budget"]
        self.assertEqual(budget["bytes"], 40 << 20)
        self.assertGreater(len(budget["curve"]), 2)
        shown = """const section = document.getElementById("budget");
          return [section.hidden, section.querySelectorAll("path.curve").length,
                  [...section.querySelectorAll("tbody")].map(body => body.rows.length)];"""
        self.assertEqual(self.browser.probe("small.html", shown), [False, 1, [len(budget["policies"]), len(budget["curve"])]])
        self.assertIsNone(data_of("plan.html")["facts"]["budget"])
        self.assertEqual(self.browser.probe("plan.html", shown), [True, 0, []])

    def test_what_is_in_a_plan_is_no_markup(self):
        hostile = '</script><script>document.title = "taken"</script><!-- <b>'
        run("cp", "-r", "plan", "hostile")
        document = mutate.read(pathlib.Path("hostile"))
        document["plan"]["modelType"] = hostile
        mutate.write(document, pathlib.Path("hostile"))
        run(MGC, "explain", "hostile", "--html", "hostile.html")
        self.assertEqual(data_of("hostile.html")["facts"]["model"], hostile)
        title, heading = self.browser.probe("hostile.html", 'return [document.title, document.querySelector("h1").textContent]')
        self.assertTrue(heading.startswith(hostile), heading)
        self.assertNotEqual(title, "taken")


if __name__ == "__main__":
    program = samples.main(sys.argv[:1], exit=False)
    sys.exit(1 if not program.result.wasSuccessful() else 0 if CHROMIUM else 77)
