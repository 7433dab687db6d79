# step-form.test.py MGC FOLDER: edits the dumps of phases in FOLDER/zero, bf16 and one, one fault each, and goes on from them.
# Out: one line per edit, its name and the error.
import pathlib
import re
import subprocess
import sys

mgc, folder = sys.argv[1], pathlib.Path(sys.argv[2])


def edit(name, model, phase, function, *pairs, count=1):
    """Replaces the first match of each pattern in the function, or in mg.stage; count=0: all."""
    (dump,) = (folder / model).glob(f"??-{phase}.mlir")
    text = dump.read_text()
    begin = re.search(f"  (func.func @|mg.){function}\\W", text).start()
    end = re.compile("^  }", re.MULTILINE).search(text, begin).end()
    edited = text[begin:end]
    for pattern, replacement in pairs:
        edited, found = re.subn(pattern, replacement, edited, count=count, flags=re.DOTALL)
        assert found, f"{name}: {pattern} is not in {function} of {dump}"
    path = folder / f"{name}.mlir"
    path.write_text(text[:begin] + edited + text[end:])
    result = subprocess.run([mgc, "compile", path, "-o", folder / "plan"], capture_output=True, text=True)
    assert result.returncode in (0, 1), f"{name}: exit code {result.returncode}"
    print(f"{name}:", (result.stderr or "no error").replace("\n", " "))


# The third bucket has the vectors of layer 0 that are not split, the second the positions.
THIRD = r"((?:.*?mg.bucket){3} [^\n]*?)"
edit("split", "zero", "stage", "stage 0", (THIRD + r"split = \[\]", r'\1split = ["tp"]'))
edit("unsplit", "zero", "stage", "stage 0", (r'split = \["tp"\]', "split = []"))
edit("reduce", "zero", "stage", "stage 0", (THIRD + r'reduce = \["tp"\]', r"\1reduce = []"))
edit("data", "zero", "stage", "stage 0",
     (THIRD + r'data = \["dp"\], reduce = \["tp"\]', r'\1data = [], reduce = ["tp", "dp"]'))
edit("place", "zero", "stage", "stage 0", (r"(mg.place @embed \d+ instances 0 count 1 bucket) 1", r"\1 2"), ("bucket 192", "bucket 2048"))
edit("decay", "zero", "stage", "stage 0", (THIRD + r"reduce", r"\1decay, reduce"))
edit("shard", "zero", "stage", "stage 0", (THIRD + r'shard = \["dp"\], ', r"\1"))
edit("tied", "zero", "stage", "stage 0", (r"array<i64: 0, 1>", "array<i64>"))

# Sums of gradients: an axis is left out, another one is summed over, a tie is left out, or the order of slices is another.
edit("less", "zero", "stage", "gradients.0.1", (r"sum \[tp, dp\]", "sum [dp]"), (r"mg.reshard %arg0 .*?%1 = mg.reshard %0", "%1 = mg.reshard %arg0"),
     ("%0 = %1", "%1"))
edit("other", "zero", "stage", "reduce.0", (r"sum \[dp, stages<0, 1>\]", "sum [stages<0, 1>]"), count=0)
edit("untied", "zero", "stage", "reduce.0", (r"sum \[dp, stages<0, 1>\]", "sum [dp]"), count=0)
edit("parts", "zero", "stage", "reduce.0", (r"part \[pp, tp, dp\]", "part [pp, dp, tp]"), count=0)
edit("whole", "zero", "stage", "gradients.0.2", (r"part \[pp, dp\]", "part [pp]"), ("%1 = mg.reshard %0 ", "%1 = mg.reshard %0 "), count=0)
edit("another", "beside", "stage", "gradients.0.1", ("index = 8", "index = 6"))
edit("twice-reduced", "beside", "stage", "stage 0", ("mg.reduction @gradients.0.1 ", "mg.reduction @gradients.0.0 "))
edit("wrong-stages", "zero", "stage", "reduce.0", (r"stages<0, 1>", "stages<1>"), count=0)
edit("raw", "zero", "stage", "reduce.0", (r'index = 1 : i64, kind = "gradient_slice"', 'index = 1 : i64, kind = "gradient"'))
edit("tie-twice", "zero", "stage", "reduce.0", (r"stages<0, 1>", "stages<0, 1>, stages<0, 1>"), count=0)
edit("half-a-row", "zero", "stage", "stage 0", ("mg.bucket 2048", "mg.bucket 2056"))
edit("other-order", "zero", "stage", "gradients.0.1", (r"(%0 = .*?-> tensor<.*?)sum \[dp\]", r"\1sum [dp, tp]"), (r"(%1 = mg.reshard %0 .*?)sum \[dp\]", r"\1sum [dp, tp]"))

# The norm.
edit("dropped", "zero", "stage", "reduce.0", (r"(mg.sum %2 .*?-> tensor<f32, #mg.layout<sum \[pp), tp, dp\]", r"\1, dp]"),
     (r"(mg.reshard %3 : tensor<f32, #mg.layout<sum \[pp), tp, dp\]", r"\1, dp]"))
edit("twice", "zero", "stage", "reduce.0", (r"mg.accumulate %4, %7", "mg.accumulate %4, %4"))
edit("never", "zero", "stage", "reduce.0", (r"mg.accumulate %4, (.*?i64: )1, (.*?)tensor<f32, #mg.layout<sum \[pp, dp, tp\]>>, ", r"mg.accumulate \1\2"))
edit("both-stages", "zero", "stage", "reduce.1",
     (r"mg.sum_squares %arg2 : \(tensor<\d+x\d+x16xf32, #mg.layout<part [^>]*>>", "mg.sum_squares %0 : (tensor<8x64x16xf32, #mg.layout<part [pp, tp, dp], flat, lane>>"))
edit("early", "one-tp", "stage", "reduce.0", (r"mg.sum_squares %0 : \((tensor<.*?)>>\) -> (tensor<\w+, #mg.layout<part)>>", r"mg.sum_squares %arg0 : (\1, sum [dp]>>) -> \2, sum [dp]>>"),
     (r"mg.sum %2 : \((tensor<\w+, #mg.layout<part)>>\)", r"mg.sum %2 : (\1, sum [dp]>>)"))
edit("subtracted", "zero", "stage", "reduce.0", (r"signs = array<i64: 1, 1", "signs = array<i64: 1, -1"))
edit("no-squares", "zero", "stage", "reduce.0", (r"mg.accumulate %4", "mg.accumulate %1"))
edit("no-sum", "zero", "stage", "reduce.0", (r"(mg.pack %arg\d+, %\d+), %\d+", r"\1, %4"))
edit("norm-before-sum", "zero", "stage", "reduce.0", (r"mg.clip_factor %\d+#2, (.*?) : \(tensor<f32, #mg.layout<>>", r"mg.clip_factor %26, \1 : (tensor<f32, #mg.layout<sum [pp, dp, tp]>>"))
edit("of-a-stage", "zero", "stage", "reduce.0", (r"scalar, sum \[pp, dp, tp\]", "scalar, sum [dp, tp]"), count=0)
edit("other-tokens", "zero", "stage", "reduce.0", (r"(mg.clip_factor %\d+#2, %\d+)#1", r"\1#0"))
edit("doubled-tokens", "zero", "stage", "reduce.0", (r"sum \[pp, dp\]>> {mg.buffer = {index = 1 : i64, kind = \"result\"}}", 'sum [pp, dp, tp]>> {mg.buffer = {index = 1 : i64, kind = "result"}}'),
     (r"%1 = mg.reshard (%arg\d+)[^\n]*\n", ""), (r"mg.pack %arg8, %1,", "mg.pack %arg8, %arg9,"))
edit("other-loss", "zero", "stage", "reduce.0", (r"mg.pack %arg8, %1", "mg.pack %1, %1"))
edit("no-clip", "zero", "stage", "reduce.0", (r"index = 2 : i64, kind = \"step_scalar\"", r'index = 0 : i64, kind = "step_scalar"'))
edit("other-factor", "zero", "stage", "reduce.0",
     (r"%norm, %factor = (mg.clip_factor [^\n]*)", r"\g<0>\n%again, %other = \1"), (r"(return .*?)%factor", r"\1%other"))

# The update: what it takes and gives.
edit("no-gather", "zero", "stage", "update.0", (r"(return (?:%\w+, ){3})%3", r"\1%arg6"))
edit("other-gradient", "zero", "stage", "update.0", (r"(mg.adamw %\d+), %arg15", r"\1, %arg16"))
edit("moments", "bf16", "stage", "update.0", (r"return (%\w+, %\w+, )(%\w+), (%\w+)", r"return \1\3, \2"))
edit("other-decay", "one", "stage", "update.0", ("decay = true", "decay = false"))
edit("other-value", "zero", "stage", "update.0", ("mg.reshard %arg14 ", "mg.reshard %arg26 "))
edit("no-update", "bf16", "stage", "update.0", (r"mg.cast %newValue ", "mg.cast %arg2 "))
edit("bound-twice", "zero", "stage", "update.0", (r'(-> .*?)kind = "exp_avg_sq"', r'\1kind = "exp_avg"'))
edit("more", "one", "stage", "update.0",
     (r"-> \((tensor<.*?>>) {", r'-> (\1 {mg.buffer = {index = 0 : i64, kind = "gradient"}}, \1 {'),
     (r"return (%[^:]*): (tensor<.*?>>),", r"return %arg3, \1: \2, \2,"))
edit("begin", "zero", "stage", "begin.0", (r'index = 7 : i64, kind = "gradient"', r'index = 4 : i64, kind = "gradient"'))
# Extra writes: a moment, one result in place of all, a total that nothing is added to.
MOMENT = r'{mg.buffer = {index = 0 : i64, kind = "exp_avg"}}'
ZERO = r"-> \((tensor<.*?>>) {"
edit("forgets", "one", "stage", "begin.0", (ZERO, rf"-> (\1 {MOMENT}, \1 {{"), (r"return (%0.*?): (tensor<.*?>>),", r"return %0, \1: \2, \2,"))
edit("keeps", "one", "stage", "begin.0", (r"tensor<7xf32(, #mg.layout<scalar>> {mg.buffer)", r"tensor<1xf32\1"),
     (r"(mg.zero : )tensor<7xf32", r"\1tensor<1xf32"), (r"tensor<7xf32(, #mg.layout<scalar>>\n)", r"tensor<1xf32\1"))
SUM = r"(%norm, %factor[^\n]*\n    return)"
edit("writes", "one", "stage", "reduce.0",
     (r"-> \(tensor<f32, #mg.layout<>> {", r'-> (tensor<f32, #mg.layout<>> {mg.buffer = {index = 0 : i64, kind = "result"}}, tensor<f32, #mg.layout<>> {'),
     (SUM + r" (.*?: )", r"\1 %4, \2tensor<f32, #mg.layout<>>, "))

# Local: its types are still those of the buffers.
edit("local-type", "zero", "fuse", "update.0", (r"mg.type = tensor<8x64x16xf32, #mg.layout<part \[pp, tp\]", "mg.type = tensor<4x64x16xf32, #mg.layout<part [pp]"))
edit("local-buffer", "bf16", "fuse", "update.0", (r'(-> .*?)kind = "exp_avg_sq"', r'\1kind = "exp_avg"'))

# Biases that load moves: by another mean, by what is no load, of a bucket that says otherwise.
edit("mean", "load", "stage", "update.0", (r"(mg.balance_bias .*?)mean = 4.8", r"\1mean = 4.9"))
edit("no-load", "load", "stage", "update.0", (r"(mg.balance_bias (%\w+)), %\w+", r"\1, \2"))
edit("still", "load", "stage", "stage 0", (r"meanLoad = 4.8", "meanLoad = 4.9"))
edit("no-mean", "load", "stage", "stage 0", (r"meanLoad = 4.800000e\+01 : f64, ", ""))

# Counters: in a bucket of biases, whose values would get the load's update; parameters of a bucket of counters, which would stay;
# what stands in the place of no gradient.
edit("no-counter", "counts", "stage", "stage 0", (r'use = "loadCounter"', 'use = "routerBias"'))
edit("no-parameter", "counts", "stage", "stage 0", (r"(mg.bucket \d+ {[^}\n]*)}", r'\1, use = "loadCounter"}'))
edit("counts-nothing", "counts", "import", "layer", (r"counts, (file_shape[^}]*?), mean_load = [^,]*", r"counts, \1"))

# Pieces: all of the stage's buckets have one of all their parts, on the host.
PIECES = r"(mg.pieces bucket 1 first 0 parts \d+ count) \d+"
edit("more-parts", "host", "stage", "stage 0", (PIECES, r"\1 2"))
edit("on-device", "host", "stage", "stage 0", (PIECES + r"( update @[.\w]+) {onHost}", r"\1 1\2"))
edit("no-bucket", "host", "stage", "stage 0", (r"mg.pieces bucket 1", "mg.pieces bucket 9"))
edit("no-pieces", "host", "stage", "stage 0", (r"mg.pieces bucket 1 [^\n]*", ""))
edit("no-function", "host", "stage", "stage 0", (PIECES + r" update @[.\w]+", r"\1 1 update @update.1"))
edit("other-piece", "host", "stage", "update.0.1.0", (r'index = 1 : i64, kind = "gradient_slice"', 'index = 0 : i64, kind = "gradient_slice"'))
edit("piece-moments", "host", "stage", "update.0.1.0", (r"(mg.adamw %\w+, %\w+), (%\w+), (%\w+)", r"\1, \3, \2"))
