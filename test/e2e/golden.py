#!/usr/bin/python3
"""Trains the golden models with mgc and mgrun in many layouts and compares losses, gradient norms, gradients and final
weights with the reference values of Hugging Face and PyTorch in test/golden; of bf16, with what rounding makes of them
(prediction.py).

    golden.py --bin build/release/bin                              every model, every layout
    golden.py --bin build/release/bin --model qwen3 --layouts sample:20
    golden.py --bin build/release/bin --dtype bf16 --layouts pairs --deal
    golden.py --bin build/release/bin --model gpt2 --layouts tp2-pp2-dp2-sp-zero1-mbs1-1f1b --keep run
    golden.py --bin build/cuda/bin --target cuda:sm_90 --plans plans ...   plans/MODEL/LAYOUT, compiled elsewhere: mgrun alone

Every run starts on memory full of NaN. With --repeat, each is made twice and must give the same bits, weights must come
out as they went in, and those drawn from a seed must be the same in every layout. With --loads, models with experts run with
--moe-per-layer-logging too: the same bits, and the loads of the reference. With --policies, each is trained with every policy
of recomputation that its model has: the same bits.
"""
import argparse
import concurrent.futures
import dataclasses
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

import numpy

import compare
import layouts
import samples
import prediction
import tensor_files

PREDICTED = ("gpt2", "llama", "llama_long", "llama_packed", "llama_packed_32", "llama_tied_rope3", "qwen2", "qwen3")
DENSE = PREDICTED + ("bert", "gemma2", "gemma3_text", "gpt_neox", "llama_frozen", "llama_lion", "llama_sgd", "olmo2", "phi3",
                     "starcoder2", "t5")
EXPERTS = ("deepseek_v2", "deepseek_v3", "deepseek_v3_frozen", "deepseek_v3_mtp", "deepseek_v3_mtp2", "glm4_moe", "gpt_oss",
           "mixtral", "mixtral_aux", "mixtral_balance", "qwen2_moe", "qwen3_moe", "qwen3_moe_sparse2")
PREDICTED_TOO = ("bert", "mixtral")  # norms behind sums, and experts
MODELS = DENSE + ("llama_packed_mtp",) + EXPERTS
GROUPS = {"dense": DENSE + ("llama_packed_mtp",), "experts": EXPERTS, "predicted": PREDICTED}
GOLDEN = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "golden")


def read_lines(path):
    """The records of a file with one JSON value per line."""
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


class Golden:
    """The reference of one model, read once: of the folder root/model."""

    def __init__(self, model, root=GOLDEN):
        self.model, self.root, self.changed = model, root, None
        with open(self.path("expect.json"), encoding="utf-8") as file:
            self.expect = json.load(file)
        tensors = tensor_files.load(self.path("expect.safetensors"))
        part = lambda prefix: {n[len(prefix) :]: t for n, t in tensors.items() if n.startswith(prefix)}
        self.gradients, self.weights = part("grad."), part("final.")
        self.routes = {int(layer): chosen for layer, chosen in part("route.").items()}  # at step 0
        self.start = tensor_files.load(self.path("model.safetensors"))
        self.predictions = {}  # bounds of bf16, by everything they depend on: gradients_of
        self.distances = []  # distances in bf16 of all runs that agree
        self.drawn = None  # the weights that the first layout drew from a seed

    @property
    def modules(self):
        """The names of --recompute-modules that a layer of the model has, by the fields of its config.json."""
        with open(self.path("config.json"), encoding="utf-8") as file:
            config = json.load(file)
        has = {"core_attn": True, "layernorm": True, "mlp": self.model not in EXPERTS or "first_k_dense_replace" in config,
               "moe": self.model in EXPERTS, "moe_act": self.model in EXPERTS,
               "shared_experts": "n_shared_experts" in config or "shared_expert_intermediate_size" in config,
               "mla_up_proj": "kv_lora_rank" in config}
        return [module for module, there in has.items() if there]

    def choose_all_experts(self, folder):
        """Rounding then changes no choice. The f32 reference is of another model; what bf16 may be off by is predicted."""
        with open(self.path("config.json"), encoding="utf-8") as file:
            config = json.load(file)
        self.changed = os.path.join(folder, f"{self.model}.json")
        with open(self.changed, "w", encoding="utf-8") as file:
            json.dump(config | {"num_experts_per_tok": config["num_local_experts"]}, file)

    @property
    def load_flags(self):
        return ["--ignore-config"] if self.changed else []

    def path(self, name):
        if self.changed and name.startswith("config."):
            return self.changed
        own = os.path.join(self.root, self.model, name)
        return own if os.path.exists(own) else os.path.join(self.root, self.expect["base"], name)


def execute(command, folder, name, timeout):
    """Runs a command; its error, or nothing. The output stays in folder/name.txt."""
    with open(os.path.join(folder, name + ".txt"), "w+", encoding="utf-8") as output:
        try:
            code = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                  timeout=timeout, check=False).returncode
        except subprocess.TimeoutExpired:
            return f"{name}: not done after {timeout} s"
        if code == 0:
            return None
        output.seek(0)
        return f"{name}: exit code {code}: {output.read()[-1500:].strip()}"


OPTIMIZER_FLAGS = {
    "AdamW": lambda o: {"--adam-beta1": o["betas"][0], "--adam-beta2": o["betas"][1], "--adam-eps": o["eps"]},
    "Lion": lambda o: {"--lion-beta1": o["betas"][0], "--lion-beta2": o["betas"][1]},
    "SGD": lambda o: {"--sgd-momentum": o["momentum"]},
}


def training_command(options, golden, plan, folder):
    """mgrun with the reference's data, weights and optimizer; results in the folder."""
    optimizer = golden.expect["optimizer"]
    rates = os.path.join(folder, "lr.json")
    with open(rates, "w", encoding="utf-8") as file:
        json.dump(golden.expect["lr"], file)
    numbers = [word for flag, value in OPTIMIZER_FLAGS[optimizer["name"]](optimizer).items() for word in (flag, value)]
    command = [os.path.join(options.bin, "mgrun"), plan, "--data", golden.path("batch.safetensors"),
               "--load", golden.path("model.safetensors"), "--train-iters", golden.expect["steps"],
               "--lr-list", rates, *numbers, "--weight-decay", optimizer["weight_decay"],
               "--clip-grad", optimizer["clip"], "--log", os.path.join(folder, "log.jsonl"),
               "--save", os.path.join(folder, "weights"), "--no-save-optim", "--save-dtype", "f32", "--save-gradients",
               os.path.join(folder, "gradients.safetensors"), "--timeout", options.timeout / 2]
    command += golden.load_flags
    if options.bf16_products:
        command += ["--bf16-products", options.bf16_products]
    return [str(word) for word in command]


def one_thread(options):
    """Makes CPU ranks repeat their bits; a device does so anyway."""
    return ["--threads", 1] if options.target == "cpu" else []


def run_training(options, golden, plan, folder, extra):
    command = training_command(options, golden, plan, folder)
    return execute(command + [str(word) for word in extra], folder, "mgrun", options.timeout)


RESULTS = ("gradients.safetensors", "weights/model.safetensors")


def fingerprint(folder):
    """A digest of the bits of losses, norms, gradients and weights."""
    digest = hashlib.sha256()
    for record in read_lines(os.path.join(folder, "log.jsonl")):
        digest.update(f"{record['loss']!r} {record['grad_norm']!r}".encode())
    for name in RESULTS:
        with open(os.path.join(folder, name), "rb") as file:
            digest.update(file.read())
    return digest.hexdigest()


def check_repeat(options, golden, plan, folder):
    """A second run, on clean memory, gives the same bits."""
    again = os.path.join(folder, "again")
    os.makedirs(again)
    error = run_training(options, golden, plan, again, one_thread(options))
    if error:
        return [("second run: " + error, 1, 0)]
    same = fingerprint(folder) == fingerprint(again)
    return [] if same else [("the second run gave other bits", 1, 0)]


def check_loads(options, golden, layout, folder):
    """A plan that counts loads gives the same bits, and those of the reference's choices."""
    counted = os.path.join(folder, "counted")
    os.makedirs(counted)
    flag = "--moe-per-layer-logging"
    plan, error = compile_plan(options, golden, layout, counted, flag)
    error = error or run_training(options, golden, plan, counted, [*one_thread(options), "--poison", flag])
    if error:
        return [("with loads: " + error, 1, 0)]
    first = read_lines(os.path.join(counted, "log.jsonl"))[0]
    failures = compare.beyond(compare.compare_loads(golden.start, golden.routes, first.get("tokens_per_expert", {})))
    same = fingerprint(folder) == fingerprint(counted)
    return failures + ([] if same else [("the run with loads gave other bits", 1, 0)])


def check_policies(options, golden, layout, folder):
    """A training has the same bits with every policy: what a backward computes anew has the bits that the forward computed. The
    orders of the schedule auto follow the times of policies, and so do sums of tied gradients: it is left out."""
    if layout.schedule == "auto":
        return
    expected = fingerprint(folder)
    for policy in layout.policies(golden.modules):
        name = " ".join(map(str, policy)) or "the standard policy"
        with tempfile.TemporaryDirectory(dir=folder) as other:
            plan, error = compile_plan(options, golden, layout, other, policy=policy)
            error = error or run_training(options, golden, plan, other, [*one_thread(options), "--poison"])
            if error or fingerprint(other) != expected:
                yield f"{name}: {error or 'other bits'}", 1, 0


def untrained(options, plan, folder, name, *start):
    """The weights that a run without steps saves."""
    out = os.path.join(folder, name)
    error = execute([os.path.join(options.bin, "mgrun"), plan, "--mock-data", "--train-iters", "0", "--save", out,
                     "--no-save-optim", "--save-dtype", "f32", *start],
                    folder, name, options.timeout)
    if error:
        raise ValueError(error)
    return tensor_files.load(os.path.join(out, "model.safetensors"))


def check_weights_in_and_out(options, golden, plan, folder):
    """A checkpoint goes through any layout unchanged; weights from a seed are the same in every layout."""
    saved = untrained(options, plan, folder, "copied", "--load", golden.path("model.safetensors"), *golden.load_flags)
    comparisons = compare.compare_bits("weight loaded and saved", golden.start, saved)
    drawn = untrained(options, plan, folder, "drawn", "--seed", "7")
    golden.drawn = golden.drawn or drawn
    return compare.beyond(comparisons + compare.compare_bits("weight drawn", golden.drawn, drawn))


def results(folder):
    """The results of the run in the folder, by the names of a prediction."""
    found = {f"{key} of step {step}": numpy.array([record[key]]) for key in ("loss", "grad_norm")
             for step, record in enumerate(read_lines(os.path.join(folder, "log.jsonl")))}
    for kind, name in zip(("gradient", "weight"), RESULTS):
        found |= {f"{kind} {n}": tensor for n, tensor in tensor_files.load(os.path.join(folder, name)).items()}
    return found


def compare_all(options, golden, layout, folder):
    """Losses, norms, gradients and weights of the run in the folder with the reference: compare.py's comparisons."""
    log = read_lines(os.path.join(folder, "log.jsonl"))
    if options.dtype == "bf16":
        prediction_of, kept = golden.predictions[gradients_of(options, layout)], golden.expect["untrained"]
        found = {name: tensor for name, tensor in results(folder).items() if name.split(" ")[-1] not in kept}
        comparisons = prediction_of.comparisons(found) + compare.compare_tokens(golden.expect, log)
        golden.distances += [] if compare.beyond(comparisons) else prediction_of.distances(found)
        return comparisons
    gradients, weights = (tensor_files.load(os.path.join(folder, name)) for name in RESULTS)
    comparisons = compare.compare_steps(golden.expect, log)
    comparisons += compare.compare_untrained(golden.expect, golden.start, golden.routes, gradients, weights)
    comparisons += compare.compare_frozen(golden.expect, golden.start, gradients, weights)
    kept = golden.expect["untrained"] + golden.expect.get("frozen", [])
    trained = lambda tensors: {n: t for n, t in tensors.items() if n not in kept}
    comparisons += compare.compare_gradients(golden.expect, golden.gradients, trained(gradients))
    return comparisons + compare.compare_weights(golden.expect, trained(golden.weights), golden.gradients, trained(weights))


def gradients_of(options, layout):
    """Data ranks and microbatches: how often gradients are rounded, if they are."""
    return (layout.dp * layout.cp, layouts.GLOBAL_BATCH // (layout.mbs * layout.dp)) if options.grad_dtype == "bf16" else None


def compile_plan(options, golden, layout, folder, *flags, policy=None):
    """The plan's folder, and an error or nothing; with another policy of recomputation than the layout's, if one is given."""
    if options.plans:
        return os.path.join(options.plans, golden.model, str(layout)), None
    plan = os.path.join(folder, "plan")
    decoded = golden.expect.get("t")  # with an encoder: s is of its sequences
    shape = ["--seq", decoded or golden.expect["s"], "--gbs", golden.expect["gbs"]]
    shape += ["--encoder-seq-length", golden.expect["s"]] if decoded else []
    if golden.expect["kind"] == "packed":
        shape += ["--reset-position-ids", "--reset-attention-mask"]
    shape += golden.expect.get("flags", [])
    command = [os.path.join(options.bin, "mgc"), "compile", golden.path(options.config), *layout.flags(policy), *shape, *flags,
               "--dtype", options.dtype, "--grad-dtype", options.grad_dtype,
               *(["--fp32-residual-connection"] if options.fp32_residual_connection else []),
               "--target", options.target, *(["--no-fusion"] if options.no_fusion else []), "-o", plan]
    return plan, execute([str(word) for word in command], folder, "mgc", options.timeout)


def check_layout(options, golden, layout, folder):
    plan, error = compile_plan(options, golden, layout, folder)
    error = error or run_training(options, golden, plan, folder, [*one_thread(options), "--poison"])
    if error:
        return [(error, 1, 0)]
    failures = compare.beyond(compare_all(options, golden, layout, folder))
    if options.repeat:
        failures += check_repeat(options, golden, plan, folder)
        failures += check_weights_in_and_out(options, golden, plan, folder)
    if options.loads and golden.model in EXPERTS:
        failures += check_loads(options, golden, layout, folder)
    if options.policies:
        failures += check_policies(options, golden, layout, folder)
    return failures


def check_one(options, golden, layout):
    keep = options.keep and os.path.join(options.keep, golden.model, str(layout))
    if keep:
        shutil.rmtree(keep, ignore_errors=True)
        os.makedirs(keep)
    folder = keep or tempfile.mkdtemp(prefix="mgc-golden-")
    try:
        return check_layout(options, golden, layout, folder)
    except (OSError, ValueError, KeyError) as error:  # a file that is missing or not understood
        return [(f"{type(error).__name__}: {error}", 1, 0)]
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def report(model, layout, failures):
    what, found, allowed = max(failures, key=compare.excess)
    text = what if allowed == 0 else f"{what}: off by {found:.3g}, allowed {allowed:.3g}"
    more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
    print(f"FAILED {model} {layout}: {text}{more}", flush=True)


def options_of_runs():
    """The arguments that say how plans are made and run."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--bin", required=True, help="folder of mgc and mgrun")
    parser.add_argument("--config", default="config.json", help="or config.v4.json: the older spelling")
    parser.add_argument("--plans", help="folder with plans that are run, not compiled")
    parser.add_argument("--dtype", default="f32", choices=("f32", "bf16"), help="of mgc compile")
    parser.add_argument("--grad-dtype", default="f32", choices=("f32", "bf16"), help="of mgc compile; not with --plans")
    parser.add_argument("--fp32-residual-connection", action="store_true", help="of mgc compile; not with --plans")
    parser.add_argument("--target", default="cpu", help="of mgc compile, or of --plans")
    parser.add_argument("--bf16-products", choices=("auto", "native", "panels"), help="of mgrun")
    parser.add_argument("--no-fusion", action="store_true", help="every row op is a kernel of its own")
    parser.add_argument("--jobs", type=int, default=2, help="runs at one time")
    parser.add_argument("--keep", help="folder for what the runs write; default: a temporary one each")
    parser.add_argument("--timeout", type=float, default=120, help="seconds for each command")
    return parser


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     parents=[options_of_runs()])
    parser.add_argument("--model", action="append", choices=MODELS + tuple(GROUPS), help="default: all; may be repeated")
    parser.add_argument("--sample", type=int, default=1, help="one of so many of the models (samples.py); default: all")
    parser.add_argument("--layouts", default="all", help=layouts.select.__doc__)
    parser.add_argument("--deal", type=int, nargs="?", const=1, metavar="N",
                        help="one of so many layouts, default all, is trained, by one of the models, which take turns")
    parser.add_argument("--repeat", action="store_true", help="run twice, and compare what must be equal to the bit")
    parser.add_argument("--loads", action="store_true", help="run with loads in the log too; not with --plans")
    parser.add_argument("--policies", action="store_true", help="train with every policy of recomputation too; not with --plans")
    options = parser.parse_args()
    possible = MODELS if options.dtype == "f32" else PREDICTED + PREDICTED_TOO
    named = [model for word in options.model or possible for model in GROUPS.get(word, (word,))]
    options.model = samples.sample(list(dict.fromkeys(named)), options.sample)
    if not set(options.model) <= set(possible):
        parser.error("what rounding to bf16 does to choices of experts and to later tokens is not predicted; expected --model "
                     f"{', '.join(possible)}")
    if options.fp32_residual_connection and options.dtype == "f32":
        parser.error("--fp32-residual-connection is for --dtype bf16")
    options.bin = os.path.abspath(options.bin)
    return options


def predict_all(options, goldens, chosen):
    kinds = {gradients_of(options, layout) for layout in chosen}
    found = prediction.predict([(golden, kind) for golden in goldens for kind in kinds], options.jobs,
                               fp32_residual=options.fp32_residual_connection)
    for (golden, kind), one in found.items():
        golden.predictions[kind] = one


def layouts_of(golden, text):
    """The layouts of layouts.select that the batch is large enough for. A loss that pools all tokens of a step has
    one microbatch and one stage: the others become such."""
    batch, chosen = golden.expect["gbs"], layouts.select(text, golden.model in EXPERTS, bool(golden.expect.get("t")))
    if golden.expect.get("aux_in_loss"):
        return list(dict.fromkeys(dataclasses.replace(layout, pp=1, vpp=1, schedule="1f1b", mbs=batch // layout.dp)
                                  for layout in chosen))
    return [layout for layout in chosen if layout.mbs * layout.dp <= batch]


def cases_of(options, goldens):
    """Models and layouts. Dealt, each model has one layout at least, and the commit says which model begins."""
    if not options.deal:
        return [(golden, layout) for golden in goldens for layout in layouts_of(golden, options.layouts)]
    kinds = [[golden for golden in goldens if (golden.model in EXPERTS) == has_experts] for has_experts in (False, True)]
    return [(golden, layout) for kind in kinds for number, golden in enumerate(kind)
            for possible in [layouts_of(golden, options.layouts)]
            for layout in samples.sample(possible, len(kind) * options.deal, number) or [possible[number % len(possible)]]]


def main():
    options = parse_arguments()
    begin = time.monotonic()
    goldens = list(map(Golden, options.model))
    changed = tempfile.TemporaryDirectory(prefix="mgc-golden-")
    for golden in goldens:
        if options.dtype == "bf16" and golden.model in EXPERTS:
            golden.choose_all_experts(changed.name)
    cases = cases_of(options, goldens)
    if options.dtype == "bf16":
        predict_all(options, goldens, [layout for _, layout in cases])
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        runs = {pool.submit(check_one, options, *case): case for case in cases}
        for done, run in enumerate(concurrent.futures.as_completed(runs), 1):
            if done % 200 == 0:
                print(f"{done} of {len(cases)} runs done, {failed} failed", flush=True)
            if run.result():
                failed += 1
                report(runs[run][0].model, runs[run][1], run.result())
    for line in prediction.describe(sum((golden.distances for golden in goldens), [])):
        print(line)
    print(f"{len(cases) - failed} of {len(cases)} runs agree with the reference ({time.monotonic() - begin:.0f} s)")
    return 1 if failed or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
