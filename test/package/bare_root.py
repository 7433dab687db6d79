#!/usr/bin/python3
"""Installs packages of scripts/package in a bare Debian 12, where nothing was built, and runs the README's commands there.

    bare_root.py PACKAGES [--root DIR]    with a system that debootstrap made in DIR, which stays; else with a new one, which goes

Needs root, debootstrap and Debian's mirrors; without the first two it ends with 77: skipped. `mgc-runtime` goes first, alone, with
what it recommends: it must need no LLVM. Mounts and processes are in namespaces, so that nothing stays of them.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SECURITY = "deb http://deb.debian.org/debian-security bookworm-security main\n"
INSTALL = """
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq /packages/mgc-runtime_*.deb
mgrun --version
if dpkg-query -W -f='${Package}\\n' | grep -E '^lib(llvm|mlir|lld|clang)'; then echo "bare_root: mgc-runtime needs LLVM" >&2; exit 1; fi
apt-get install -y -qq /packages/mgc_*.deb
apt-get install -y -qq --no-install-recommends python3
"""
TOURS = ("A tour", "From text to a trained model")


def inside(root, script):
    enter = """
      mkdir -p "$1/dev/pts" "$1/dev/shm"
      mount -t proc proc "$1/proc"
      mount -t sysfs -o ro sysfs "$1/sys"
      mount -t devpts -o newinstance,ptmxmode=0666 devpts "$1/dev/pts"
      mount -t tmpfs tmpfs "$1/dev/shm"
      exec chroot "$1" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin bash -ec "$2"
    """
    subprocess.run(["unshare", "--mount", "--pid", "--fork", "bash", "-ec", enter, "inside", root, script], check=True,
                   stdin=subprocess.DEVNULL)


def check(packages, root):
    (root / "etc/apt/sources.list.d/security.list").write_text(SECURITY)
    shutil.rmtree(root / "packages", ignore_errors=True)
    shutil.copytree(packages, root / "packages", ignore=lambda _, names: [name for name in names if not name.endswith(".deb")])
    shutil.copy(HERE.parent / "tools/tour.py", root / "packages")
    inside(root, INSTALL)
    for section in TOURS:
        inside(root, f"python3 /packages/tour.py /usr/bin '{section}' /usr/share/doc/mgc")
    print("bare_root: the packages install and run")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", type=pathlib.Path)
    parser.add_argument("--root", type=pathlib.Path)
    options = parser.parse_args()
    if os.geteuid() != 0 or not shutil.which("debootstrap"):
        print("bare_root: skipped: needs root and debootstrap")
        sys.exit(77)
    if options.root:
        check(options.packages, options.root.resolve())
        return
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        root = pathlib.Path(folder, "root")
        subprocess.run(["debootstrap", "--variant=minbase", "bookworm", root], check=True, stdin=subprocess.DEVNULL)
        check(options.packages, root)


main()
