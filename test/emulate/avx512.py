#!/usr/bin/python3
"""Trains the golden models on an emulated processor with AVX-512, for machines that have none: kernels, attention and
the library's products take their AVX-512 code, and losses, gradient norms and gradients must be the reference's.

    test/emulate/setup
    test/emulate/avx512.py --bin build/release/bin

Linux boots in Bochs from a disc with mgrun, its libraries and plans compiled here; results come back over the serial
line. Ten minutes or so.
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

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "test" / "e2e"))
import compare  # noqa: E402
import golden  # noqa: E402
import safetensors  # noqa: E402

LAYOUT = ("--tp", "2", "--pp", "2")
# Bochs reports the size of the compacted XSAVE area wrongly; without XSAVES and XSAVEC (clearcpuid) Linux does not ask.
BOOT = "console=ttyS0 quiet mitigations=off tsc=unstable clearcpuid=323,321"
MACHINE = """memory: guest=1024, host=1024
romimage: file=/usr/share/bochs/BIOS-bochs-latest, options=fastboot
vgaromimage: file=/usr/share/vgabios/vgabios.bin
cpu: model=corei7_skylake_x, count=1, ips=100000000, reset_on_triple_fault=0, ignore_bad_msrs=1
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


class Case:
    """One model, its plan and its training."""

    def __init__(self, options, model, work):
        self.golden = golden.Golden(model)
        self.folder = work / model
        self.folder.mkdir()
        self.plan = self.folder / "plan"
        expect = self.golden.expect
        command = [options.bin / "mgc", "compile", self.golden.path("config.json"), *LAYOUT, "--seq", expect["s"],
                   "--gbs", expect["gbs"], "-o", self.plan]
        subprocess.run([str(word) for word in command], check=True, capture_output=True)
        self.command = golden.training_command(options, self.golden, self.plan, self.folder)

    def files(self):
        return [self.folder, pathlib.Path(self.golden.path("batch.safetensors")),
                pathlib.Path(self.golden.path("model.safetensors"))]

    def failures(self, results):
        name = str(self.folder).lstrip("/")
        results.extractall(self.folder / "results")
        found = self.folder / "results" / name
        failures = compare.compare_steps(self.golden.expect, golden.read_lines(found / "log.jsonl"))
        gradients = safetensors.load(found / "gradients.safetensors")
        return failures + compare.compare_gradients(self.golden.expect, self.golden.gradients, gradients)


def script(cases):
    lines = ["#!/bin/busybox sh", "/bin/busybox --install -s /bin", "mount -t proc proc /proc",
             "mount -t devtmpfs dev /dev", "dmesg -n 1", "exec > /dev/ttyS0 2>&1", "echo; echo BEGIN", "grep -m1 '^flags' /proc/cpuinfo"]
    for case in cases:
        lines += [f"if {' '.join(case.command)} > /tmp/out 2>&1; then echo RESULT {case.golden.model}",
                  f"tar cf - {case.folder}/log.jsonl {case.folder}/gradients.safetensors 2> /dev/null | gzip | base64; echo '<end>'",
                  f"else echo FAILED {case.golden.model}; cat /tmp/out; fi"]
    return "\n".join(lines + ["echo '<done>'", "sleep 60", "poweroff -f", ""])  # the line is slower than the machine


def build_disc(options, cases, work):
    root, disc = work / "root", work / "disc"
    for folder in ("bin", "proc", "dev", "tmp"):
        (root / folder).mkdir(parents=True)
    (disc / "isolinux").mkdir(parents=True)
    shutil.copy2("/bin/busybox", root / "bin" / "busybox")
    mgrun = options.bin / "mgrun"
    for path in [mgrun, *libraries(mgrun), *(file for case in cases for file in case.files())]:
        add(root, path)
    (root / "init").write_text(script(cases), encoding="utf-8")
    (root / "init").chmod(0o755)
    subprocess.run("find . | cpio -o -H newc --quiet | gzip -1 > ../disc/initrd.gz", shell=True, cwd=root, check=True)
    shutil.copy2(options.kernel, disc / "vmlinuz")
    for part in ("/usr/lib/ISOLINUX/isolinux.bin", "/usr/lib/syslinux/modules/bios/ldlinux.c32"):
        shutil.copy2(part, disc / "isolinux")
    (disc / "isolinux" / "isolinux.cfg").write_text(
        f"DEFAULT linux\nLABEL linux\n KERNEL /vmlinuz\n INITRD /initrd.gz\n APPEND {BOOT}\n", encoding="utf-8")
    subprocess.run(["xorriso", "-as", "mkisofs", "-quiet", "-o", work / "boot.iso", "-b", "isolinux/isolinux.bin", "-c",
                    "isolinux/boot.cat", "-no-emul-boot", "-boot-load-size", "4", "-boot-info-table", disc], check=True,
                   capture_output=True)


def received(serial):
    return serial.read_text(encoding="utf-8", errors="replace").replace("\r", "") if serial.exists() else ""


def emulate(work, seconds):
    """What came over the serial line."""
    (work / "machine").write_text(MACHINE, encoding="utf-8")
    (work / "commands").write_text("c\n", encoding="utf-8")  # Debian's Bochs begins in its debugger
    serial = work / "serial.txt"
    command = "exec bochs -q -f machine -rc commands"
    with subprocess.Popen(["script", "-qc", command, "/dev/null"], cwd=work, env=os.environ | {"TERM": "xterm"},
                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True) as bochs:
        end = time.monotonic() + seconds
        while time.monotonic() < end and bochs.poll() is None and "<done>" not in received(serial):
            time.sleep(2)
        subprocess.run(["pkill", "-9", "-s", str(bochs.pid)], check=False)
    return received(serial)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=lambda path: pathlib.Path(path).resolve(), required=True)
    parser.add_argument("--kernel", type=pathlib.Path, default=ROOT / "build" / "emulate" / "vmlinuz")
    parser.add_argument("--model", action="append", choices=golden.MODELS, help="default: all")
    parser.add_argument("--timeout", type=float, default=1800, help="seconds for the emulation")
    options = parser.parse_args()
    if not options.kernel.exists():
        sys.exit(f"{options.kernel}: not there; test/emulate/setup fetches it")
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        cases = [Case(options, model, work) for model in options.model or golden.MODELS]
        build_disc(options, cases, work)
        text = emulate(work, options.timeout)
        if " avx512vl" not in text:
            sys.exit(f"the emulated machine did not come up with AVX-512; its last words:\n{text[-2000:]}")
        bad = 0
        for case in cases:
            begin = text.find(f"\nRESULT {case.golden.model}\n")
            if begin < 0:
                failures = [f"no result; the machine's last words:\n{text[-2000:]}"]
            else:
                packed = text[begin:].split("\n", 2)[2].split("<end>")[0]
                with tarfile.open(fileobj=io.BytesIO(base64.b64decode(packed)), mode="r:gz") as results:
                    failures = case.failures(results)
            print(f"{case.golden.model}: {'agrees with the reference' if not failures else failures}", flush=True)
            bad += bool(failures)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
