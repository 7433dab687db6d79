"""plan.json for tests: its records that are lists as objects with names, and its lists with their repeats run, as plan/Expand.h
has them."""
import copy
import json

# The records that plan/json/Fields.h writes as lists: where they lie, "*" being every element; their fields, in order; the
# values of those that may be missing at the end.
OPERAND = (("segment", "offset", "value", "stride"), (-1, 0))
REPEAT = (("begin", "end", "count"), ())
TERM = (("axes", "scale"), ())
INSTRUCTION = "programs.*.instructions.*"
RECORDS = {
    "parameters.*.dims.*": (("name", "size", "valid", "axes"), ([],)),
    "parameters.*.places.*": (("stage", "bucket", "elementOffset", "first", "count", "stride", "uses"), (0, 1, 0, 1)),
    "programs.*.repeats.*": REPEAT,
    f"{INSTRUCTION}.operands.*": OPERAND,
    f"{INSTRUCTION}.uses.*": (("use", "bytes", "rowBytes", "rowStride", "counted"), (0, 0, False)),
    f"{INSTRUCTION}.scalars.*.terms.*": TERM,
    f"{INSTRUCTION}.seed.terms.*": TERM,
    f"{INSTRUCTION}.instance.terms.*": TERM,
    f"{INSTRUCTION}.headOffset.terms.*": TERM,
    "stages.*.regions.*": (("kind", "offset", "bytes"), ()),
    "stages.*.repeats.*": REPEAT,
    "stages.*.rings.*.turns.*": (("first", "slots", "phase"), ()),
    "stages.*.inputs.*.dims.*": (("name", "size", "axes"), ([],)),
    "stages.*.chunks.*.repeats.*": REPEAT,
    "stages.*.chunks.*.calls.*.segments.*": (("slot", "offset", "stride"), (0,)),
}


def at(owner, path, change):
    """Changes each record at `path` that is there."""
    key, _, rest = path.partition(".")
    for one in (range(len(owner)) if key == "*" else [key] if key in owner else []):
        if rest:
            at(owner[one], rest, change)
        else:
            owner[one] = change(owner[one])


def named(plan):
    """The plan, its lists that are records made objects; other fields that are missing stay so, but for the kinds of steps and scalars."""
    for path, (fields, _) in RECORDS.items():
        at(plan, path, lambda record: dict(zip(fields, record)))
    at(plan, "stages.*.schedule.*", lambda step: {"kind": "run"} | step)
    for scalar in (f"{INSTRUCTION}.scalars.*", *(f"{INSTRUCTION}.{one}" for one in ("seed", "instance", "headOffset"))):
        at(plan, scalar, lambda scalar: {"kind": "linear"} | scalar)
    return plan


def listed(plan):
    """The plan as the file has it: the inverse of `named`."""
    def as_list(fields, missing, record):
        last = max(i for i, field in enumerate(fields) if field in record)
        known = dict(zip(fields[len(fields) - len(missing):], missing)) | record
        return [known[field] for field in fields[:last + 1]]

    for path, (fields, missing) in RECORDS.items():
        at(plan, path, lambda record: as_list(fields, missing, record))
    return plan


def runs(items, repeats):
    """(item, iteration) of each item that runs, in order; outside of repeats the iteration is 0."""
    next_item = 0
    for repeat in repeats:
        yield from ((item, 0) for item in items[next_item : repeat["begin"]])
        for iteration in range(repeat["count"]):
            yield from ((item, iteration) for item in items[repeat["begin"] : repeat["end"]])
        next_item = repeat["end"]
    yield from ((item, 0) for item in items[next_item:])


def schedule(stage):
    """The steps that run, each with its microbatch; messages with the ring's peer, value and bytes."""
    for step, iteration in runs(stage["schedule"], stage.get("repeats", [])):
        one = {key: value for key, value in step.items() if key not in ("stride", "ring")}
        if "microbatch" in step:
            one["microbatch"] += iteration * step.get("stride", 0)
        if step["kind"] != "run":
            one |= {key: stage["rings"][step["ring"]][key] for key in ("peer", "value", "bytes")}
        yield one


def parameters(plan):
    """Parameters of every block instance, one by one: names without "{}", places of one instance each."""
    for parameter in plan["parameters"]:
        instances = {}
        for place in parameter["places"]:
            for i in range(place.get("count", 1)):
                number = place.get("first", 0) + i if "{}" in parameter["name"] else 0
                at = {"stage": place["stage"], "bucket": place["bucket"],
                      "elementOffset": place["elementOffset"] + i * place.get("stride", 0)}
                instances.setdefault(number, []).append(at)
        for number, places in instances.items():
            named = {key: parameter[key].replace("{}", str(number)) for key in ("name", "tensor")}
            yield parameter | named | {"places": places}


def fnv1a(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value


def read(plan):
    """The document of a bundle, its plan `named`."""
    document = json.loads((plan / "plan.json").read_text())
    named(document["plan"])
    return document


def write(document, plan):
    """Makes it that of a bundle, with its checksum."""
    body = json.dumps(listed(copy.deepcopy(document["plan"])))
    text = f'{{\n"version": {document["version"]},\n"checksum": "{fnv1a(body.encode()):016x}",\n"plan": {body}\n}}\n'
    (plan / "plan.json").write_text(text)
