# forms.test.py MGC PHASES FOLDER: edits the dumps of a model's phases, one fault each, and goes on from them.
# Out: one line per edit, its name and the error.
import pathlib
import re
import subprocess
import sys

mgc, phases, folder = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
folder.mkdir()


def with_parameters(text):
    """The dictionaries of parameters where they are used, so that one use can be edited."""
    while found := re.search(r"^#(\w+) = (\{.*\})\n", text, flags=re.MULTILINE):
        text = re.sub(rf"#{found[1]}\b", lambda _: found[2], text[:found.start()] + text[found.end():])
    return text


def edit(name, phase, pattern, replacement, most=1):
    """Replaces the first matches of the pattern, all for most = 0."""
    (dump,) = phases.glob(f"??-{phase}.mlir")
    text, count = re.subn(pattern, replacement, with_parameters(dump.read_text()), count=most, flags=re.DOTALL)
    assert count >= 1, f"{name}: {pattern} is not in {dump}"
    path = folder / f"{name}.mlir"
    path.write_text(text)
    result = subprocess.run([mgc, "compile", path, "-o", folder / "plan"], capture_output=True, text=True)
    assert result.returncode in (0, 1), f"{name}: exit code {result.returncode}"
    print(f"{name}:", (result.stderr or "no error").replace("\n", " "))


edit("unfused", "fuse", r"(func.func @layer[^\n]* \{\n)", r"\1%99 = mg.silu %arg0 : (tensor<8x1x32xf32, #mg.layout<s, b, h>>) -> tensor<8x1x32xf32, #mg.layout<s, b, h>>\n")

# The gradient of the table is a kernel's; here its result goes through a demote.
edit("accumulates", "fuse", r"(func.func @embed.backward.*?)return (%\w+), (%\w+) : (tensor<64x32xf32, #mg.layout<v, h>>), ",
     r"\1%99 = mg.demote \2 over [] : \4 -> \4\n    return %99, \3 : \4, ")

edit("twice", "stage", r"(mg.chunk 0 \{\n *mg.instance @embed\n *mg.instance @layer count 2\n)", r"\1mg.instance @layer first 1\n")
edit("nameless", "stage", r'(func.func @begin.0.*?)index = 0 : i64, kind = "result"', r'\1kind = "result"')
edit("stages", "stage", r"mg.mesh = #mg.mesh<pp = 2 : stage", "mg.mesh = #mg.mesh<pp = 3 : stage")
edit("other-buffer", "stage", r'(func.func @reduce.0.*?)index = 0 : i64, kind = "gradient"', r'\1index = 2 : i64, kind = "gradient"')

edit("tied", "local", r'(func.func @head.forward.*?mg.param = [^}]*)init = "normal"', r'\1init = "zeros"')
edit("local", "local", r"mg.type = tensor<16x1x32xf32, #mg.layout<s \[tp\], b, h>>", "mg.type = tensor<16x1x32xf32, #mg.layout<s, b, h>>", most=0)
RESHARD = r"(func.func @layer[^\n]* \{\n)"
edit("sharded", "local", RESHARD, r"\1%99 = mg.reshard %arg0 : tensor<8x1x32xf32, #mg.layout<s, b, h>> -> tensor<8x1x32xf32, #mg.layout<s [tp], b, h>>\n")

edit("axis", "shard", RESHARD, r"\1%99 = mg.reshard %arg0 : tensor<16x1x32xf32, #mg.layout<s [tp], b, h>> -> tensor<16x1x32xf32, #mg.layout<s [ep], b, h>>\n")

edit("unused", "grad", r"(func.func @layer.backward.*?mg.index = )5 ", r"\g<1>1 ")
edit("gradient", "grad", r'mg.param = (\{[^}]*"transformer.wpe.weight"[^}]*\}), mg.result = "grad"', r'mg.param = \1, mg.result = "split"')
edit("type", "grad", r'tensor<16x1x128xf32, #mg.layout<s, b, f>> (\{mg.arg = "saved", mg.index = )0 ', r"tensor<16x1x128xf32, #mg.layout<s, b, f>> \g<1>1 ")

# Joined parameters: the weights of queries, keys and values.
edit("joined-size", "merge", r"(parts = \[\{aliases = [^]]*\], )count = 1 : i64, ", r"\1")
edit("joined-name", "merge", r'own = "r"', 'own = "d"')
edit("joined-twice", "merge", r'(parts = \[.*?)part = "k"', r'\1part = "v"')
edit("joined-decay", "merge", r"(parts = \[.*?file_shape.*?file_shape = array<i64: )32, 96>", r"\g<1>96>")
edit("joined-alone", "merge", r'along = "j", parts = ', "parts = ")

# A part that is read as if its rows lay together; two parts of a joined value that one op makes.
edit("dense-use", "fuse", r"(%\w+):3 = mg.parts [^\n]*",
     r"\g<0>\n%99 = mg.demote \1#1 over [] : tensor<16x1x2x8xf32, #mg.layout<s, b, g, d>> -> tensor<16x1x2x8xf32, #mg.layout<s, b, g, d>>")
edit("joined-value", "fuse", r"mg.join (%\w+), (%\w+), %\w+", r"mg.join \1, \2, \2")

edit("data", "import", 'mg.data = "labels"', 'mg.data = "segment_ids"')
edit("parameter", "import", r"(func.func @embed.*?)%1 = mg.embed %arg1, %arg3[^\n]*\n(.*?)mg.add %0, %1", r"\1\2mg.add %0, %0")
edit("split", "import", RESHARD, r"\1%99 = mg.reshard %arg0 : tensor<16x1x32xf32, #mg.layout<s, b, h>> -> tensor<16x1x32xf32, #mg.layout<s [tp], b, h>>\n")
