"""The lists of a plan.json with their repeats run, as plan/Expand.h has them: what a rank does one after another."""


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
        one = {key: value for key, value in step.items() if key not in ("microbatchStride", "ring")}
        if "microbatch" in step:
            one["microbatch"] += iteration * step.get("microbatchStride", 0)
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
