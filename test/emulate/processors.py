#!/usr/bin/python3
"""Trains the golden models on emulated processors, for machines that have none of these: AVX-512, AVX512-BF16, AMX. Kernels,
attention and the library's products take the code that they have for it. The results are compared with the reference as by
test/e2e/golden.py, in f32 and bf16; the unit tests of bf16 run there too.

    test/emulate/setup
    test/emulate/processors.py --bin build/release/bin
    test/emulate/processors.py --bin build/release/bin --processor amx --dtype bf16 --model gpt2

Linux boots in Bochs from a disc with mgrun, its libraries and plans compiled here; results come back over the serial line,
with the names of the code that oneDNN took and how often. A quarter of an hour or so for each processor.
"""
import argparse
import base64
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import typing

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# Test/emulate/setup unpacks here: Bochs, its libraries and a kernel.
DEBIAN = ROOT / "build" / "emulate" / "debian"
sys.path.insert(0, str(ROOT / "test" / "e2e"))
import golden  # noqa: E402
import layouts  # noqa: E402
import prediction  # noqa: E402

LAYOUT = layouts.Layout(tp=2, pp=2)
# Tests of kernels that run here: large products and tests with four threads take too long.
TESTS = "Concurrent.native*:GemmBf16.native*:GemmBf16.sums*:GemmBf16.nan*:AttentionBf16.*"


class Processor(typing.NamedTuple):
    model: str  # Bochs's name of the processor
    product: str  # how oneDNN calls the code of its products of bf16; nothing where panels in f32 are multiplied instead
    boot: str = ""  # more words for the kernel
    run: str = ""  # in front of each command


# Linux uses AMX where the processor can trap its first use (XFD), which Bochs lacks: setcpuid=324 claims it, and what Linux
# writes into the register for it goes nowhere (ignore_bad_msrs). Tiles are then not saved when threads take turns, hence
# chrt: a thread keeps the processor until it waits. Elsewhere threads take turns at any time, and a race between them shows.
PROCESSORS = {
    "avx512": Processor("corei7_skylake_x", ""),
    "avx512-bf16": Processor("sapphire_rapids", "matmul,brg:avx512_core_bf16", "clearcpuid=amx_tile"),
    "amx": Processor("sapphire_rapids", "matmul,brg:avx512_core_amx_bf16", "setcpuid=324", "chrt -f 1"),
}
# Bochs 3.0 panics where it leaves system management mode, which ACPI enters, while control-flow enforcement is on (ibt,
# shstk), and checks protection keys for the kernel's accesses too (pku).
BOOT = "console=ttyS0 quiet mitigations=off tsc=unstable acpi=off ibt=off nousershstk nopku"
MACHINE = """memory: guest=1024, host=1024
romimage: file={share}/bochs/BIOS-bochs-latest, options=fastboot
vgaromimage: file={share}/vgabios/vgabios.bin
cpu: model={model}, count=1, ips=100000000, reset_on_triple_fault=0, ignore_bad_msrs=1
ata0: enabled=1, ioaddr1=0x1f0, ioaddr2=0x3f0, irq=14
ata0-master: type=cdrom, path=boot.iso, status=inserted
boot: cdrom
com1: enabled=1, mode=file, dev=serial.txt
display_library: term
log: bochs.log
panic: action=fatal
error: action=ignore
info: action=ignore
clock: sync=none
"""


def libraries(program):
    words = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout.split()
    return [pathlib.Path(word) for word in words if word.startswith("/")]


def add(root, path):
    """A file or folder, at the same place in the root."""
    target = root / str(path.resolve() if path.is_dir() else path).lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        shutil.copytree(path, target, dirs_exist_ok=True)
    else:
        shutil.copy2(path, target)


# --- Cases: each has a name, a command, files and the failures of its results -------------------------------


class UnitTest:
    name, multiplies_bf16, results, native = "mgc_kernels_test", True, [], []

    def __init__(self, options):
        self.program = options.bin.parent / "unit" / self.name
        self.command = [str(self.program), f"--gtest_filter='{TESTS}'"]

    def files(self):
        return [self.program, *libraries(self.program)]

    def failures(self, said, *_):
        passed = [line for line in said if "PASSED" in line and " 0 tests" not in line]
        return [] if passed else [(f"no test of {TESTS} ran", 1, 0)]


class Case:
    """One model in one type, its plan and its training."""

    def __init__(self, options, reference, dtype, work):
        self.options = argparse.Namespace(**vars(options) | {"dtype": dtype})
        self.golden = reference
        self.name, self.multiplies_bf16 = f"{reference.model} {dtype}", dtype == "bf16"
        self.native = ["--bf16-products", "native"] if self.multiplies_bf16 else []  # unmeasured: minutes here
        self.folder = work / f"{reference.model}-{dtype}"
        self.folder.mkdir()
        plan, error = golden.compile_plan(self.options, reference, LAYOUT, self.folder)
        if error:
            sys.exit(f"{self.name}: {error}")
        self.command = golden.training_command(self.options, reference, plan, self.folder)
        self.results = [self.folder / "log.jsonl", *(self.folder / name for name in golden.RESULTS)]

    def files(self):
        return [self.folder, self.options.bin / "mgrun", *libraries(self.options.bin / "mgrun"),
                *(pathlib.Path(self.golden.path(f"{name}.safetensors")) for name in ("batch", "model"))]

    def failures(self, said, packed, folder):
        with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as results:
            results.extractall(folder)
        run = folder / str(self.folder).lstrip("/")
        return golden.compare.beyond(golden.compare_all(self.options, self.golden, LAYOUT, run))


def script(processor, cases):
    products = "grep ^onednn_verbose,exec /tmp/out | cut -d, -f4,5 | sort | uniq -c"
    lines = ["#!/bin/busybox sh", "/bin/busybox --install -s /bin", "mount -t proc proc /proc",
             "mount -t devtmpfs dev /dev", "dmesg -n 1", "exec > /dev/ttyS0 2>&1",
             "grep -m1 '^flags' /proc/cpuinfo",
             "echo -1 > /proc/sys/kernel/sched_rt_runtime_us", "export ONEDNN_VERBOSE=1"]
    for case in cases:
        command = " ".join(case.command + (case.native if processor.product else []))
        files = " ".join(map(str, case.results))
        lines += [f"echo; echo 'BEGIN {case.name}'",
                  f"if {processor.run} {command} > /tmp/out 2>&1; then echo DONE",
                  "else echo FAILED; grep -v ^onednn /tmp/out; fi",
                  f"grep -o -m1 'isa:.*' /tmp/out; {products}; grep -E '^.  (PASSED|SKIPPED|FAILED)' /tmp/out",
                  f"echo RESULT; tar cf - {files} 2> /dev/null | gzip | base64; echo '<end>'"]
    return "\n".join(lines + ["echo '<done>'", "sleep 60", "poweroff -f", ""])  # the line is slower than the machine


# --- The machine --------------------------------------------------------------------------------------------


def build_disc(processor, cases, work):
    root, disc = work / "root", work / "disc"
    for folder in ("bin", "proc", "dev", "tmp"):
        (root / folder).mkdir(parents=True)
    (disc / "isolinux").mkdir(parents=True)
    shutil.copy2("/bin/busybox", root / "bin" / "busybox")
    chrt = pathlib.Path("/usr/bin/chrt")
    for path in {chrt, *libraries(chrt), *(file for case in cases for file in case.files())}:
        add(root, path)
    (root / "init").write_text(script(processor, cases), encoding="utf-8")
    (root / "init").chmod(0o755)
    subprocess.run("find . | cpio -o -H newc --quiet | gzip -1 > ../disc/initrd.gz", shell=True, cwd=root, check=True)
    shutil.copy2(next(DEBIAN.glob("usr/lib/modules/*/vmlinuz")), disc / "vmlinuz")
    for part in ("/usr/lib/ISOLINUX/isolinux.bin", "/usr/lib/syslinux/modules/bios/ldlinux.c32"):
        shutil.copy2(part, disc / "isolinux")
    (disc / "isolinux" / "isolinux.cfg").write_text(
        f"DEFAULT linux\nLABEL linux\n KERNEL /vmlinuz\n INITRD /initrd.gz\n APPEND {BOOT} {processor.boot}\n",
        encoding="utf-8")
    subprocess.run(["xorriso", "-as", "mkisofs", "-quiet", "-o", work / "boot.iso", "-b", "isolinux/isolinux.bin", "-c",
                    "isolinux/boot.cat", "-no-emul-boot", "-boot-load-size", "4", "-boot-info-table", disc], check=True,
                   capture_output=True)


def received(serial):
    return serial.read_text(encoding="utf-8", errors="replace").replace("\r", "") if serial.exists() else ""


def emulate(processor, work, seconds):
    """The text that came over the serial line."""
    (work / "machine").write_text(MACHINE.format(share=DEBIAN / "usr/share", model=processor.model), encoding="utf-8")
    (work / "commands").write_text("c\n", encoding="utf-8")  # Debian's Bochs begins in its debugger
    serial, system = work / "serial.txt", DEBIAN / "usr/lib/x86_64-linux-gnu"
    command = (f"exec {system}/ld-linux-x86-64.so.2 --library-path {system} {DEBIAN}/usr/bin/bochs-bin"
               " -q -f machine -rc commands")
    environment = os.environ | {"TERM": "xterm", "LTDL_LIBRARY_PATH": str(system / "bochs/plugins")}
    with subprocess.Popen(["script", "-qc", command, "/dev/null"], cwd=work, env=environment,
                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True) as bochs:
        end = time.monotonic() + seconds
        while time.monotonic() < end and bochs.poll() is None and "<done>" not in received(serial):
            time.sleep(2)
        subprocess.run(["pkill", "-9", "-s", str(bochs.pid)], check=False)
    return received(serial)


# --- Results ------------------------------------------------------------------------------------------------


def judge(processor, case, text, work):
    """The case's words, and (what, found, allowed) of all that is wrong with it."""
    begin = text.find(f"\nBEGIN {case.name}\n")
    said, _, packed = text[begin:].partition("\nRESULT\n")
    if begin < 0 or "<end>" not in packed:
        return [], [(f"no result; the machine's last words:\n{text[-2000:]}", 1, 0)]
    said = said.split("\n")[2:]
    if said[0] != "DONE":
        return said[1:], [("failed", 1, 0)]
    failures = []
    if " avx512vl" not in text:
        failures.append(("the processor has no AVX-512", 1, 0))
    products = {line.split()[-1] for line in said if "matmul," in line}
    of_bf16 = {product for product in products if "bf16" in product}  # panels are products of f32
    if case.multiplies_bf16 and (processor.product not in of_bf16 if processor.product else of_bf16):
        failures.append((f"products of bf16 by {of_bf16 or 'panels'}, not by {processor.product or 'panels'}", 1, 0))
    return said[1:], failures + case.failures(said, base64.b64decode(packed.split("<end>")[0]), work / "results")


def run(options, name, cases):
    """How many cases were not as they should be."""
    processor, bad = PROCESSORS[name], 0
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        build_disc(processor, cases, work)
        text = emulate(processor, work, options.boot_timeout)
        for case in cases:
            said, failures = judge(processor, case, text, work)
            print(f"{name}, {case.name}: {'as expected' if not failures else failures}", flush=True)
            print("\n".join(f"    {line}" for line in said), flush=True)
            bad += bool(failures)
    return bad


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=lambda path: pathlib.Path(path).resolve(), required=True)
    parser.add_argument("--processor", action="append", choices=PROCESSORS, help="default: all")
    parser.add_argument("--model", action="append", choices=golden.DENSE, help="default: all")
    parser.add_argument("--dtype", action="append", choices=("f32", "bf16"), help="default: both")
    parser.add_argument("--only", choices=("models", "unit-tests"), help="default: both")
    parser.add_argument("--boot-timeout", type=float, default=3600, help="seconds for each emulation")
    parser.set_defaults(timeout=3600, config="config.json", target="cpu", grad_dtype="f32", plans=None, no_fusion=False,
                        bf16_products=None)
    options = parser.parse_args()
    if not DEBIAN.exists():
        sys.exit(f"{DEBIAN}: not there; test/emulate/setup makes it")
    return options


def main():
    options = parse_arguments()
    dtypes = options.dtype or ["f32", "bf16"]
    names = [] if options.only == "unit-tests" else options.model or golden.DENSE
    goldens = [golden.Golden(name) for name in names]
    if "bf16" in dtypes:
        for (reference, kind), one in prediction.predict([(reference, None) for reference in goldens], 2).items():
            reference.predictions[kind] = one
    with tempfile.TemporaryDirectory() as folder:
        cases = [Case(options, reference, dtype, pathlib.Path(folder)) for dtype in dtypes for reference in goldens]
        cases += [UnitTest(options)] if options.only != "models" else []
        bad = sum(run(options, name, cases) for name in options.processor or PROCESSORS)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
