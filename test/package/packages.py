#!/usr/bin/python3
"""The Debian packages of a build: names, versions, dependencies, files, and that what is in them runs where it was unpacked.

    packages.py BUILD SOURCE [MPIRUN FLAG..]

Where Debian's tools are missing, the end is 77: skipped.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD, SOURCE, MPIRUN = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve(), sys.argv[3:]
VERSION = re.search(r"^project\(mgc VERSION (\S+)", (SOURCE / "CMakeLists.txt").read_text(), re.M)[1]
# A file of the repository below a folder of the machine that compiled it, whichever clone that was.
COMPILED_AT = re.compile(rb"(?<![\w./-])/[\w./-]*/(?:build|codegen|compiler|dialects|frontend|model|plan|planner|runtime|tools)/[\w./-]+\.(?:cpp|h|inc|td|cu)\b")
SYSTEM = ("/usr/lib/",)


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300, check=False, **options)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


def packages_of(text):
    return {re.match(r"[\w.+-]+", part.strip())[0] for part in text.split(",")}


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        run("cpack", "--config", BUILD / "CPackConfig.cmake", "-B", cls.folder / "debs", "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=gzip")
        cls.debs = {deb.name.split("_")[0]: deb for deb in (cls.folder / "debs").glob("*.deb")}
        cls.root = cls.folder / "root"
        for deb in cls.debs.values():
            run("dpkg-deb", "-x", deb, cls.root)
        cls.files = [path for path in cls.root.rglob("*") if path.is_file() and not path.is_symlink()]
        cls.elf = [path for path in cls.files if path.open("rb").read(4) == b"\x7fELF"]

    def field(self, package, name):
        return run("dpkg-deb", "-f", self.debs[package], name).strip()

    def test_names_and_versions(self):
        architecture = run("dpkg", "--print-architecture").strip()
        self.assertEqual({deb.name for deb in self.debs.values()}, {f"{name}_{VERSION}_{architecture}.deb" for name in ("mgc", "mgc-runtime")})
        for package in self.debs:
            self.assertEqual(self.field(package, "Version"), VERSION)
            self.assertNotIn("CMake", self.field(package, "Description"))

    def test_dependencies(self):
        runtime, compiler = self.field("mgc-runtime", "Depends"), self.field("mgc", "Depends")
        self.assertIn(f"mgc-runtime (= {VERSION})", compiler)
        self.assertLessEqual({"libmlir-22", "libllvm22", "libdnnl2"}, packages_of(compiler))
        self.assertLessEqual({"libc6", "libdnnl2", "libfmt9", "libsentencepiece0"}, packages_of(runtime))
        self.assertNotRegex(runtime, "llvm|mlir|lld|mpi|python")
        self.assertNotRegex(compiler, "-dev|mpi|python")
        plugins = {path.name for path in self.root.glob("usr/lib/mgc/*")}
        self.assertEqual("openmpi-bin" in self.field("mgc-runtime", "Recommends"), "libmgc_mpi_openmpi.so" in plugins)
        self.assertEqual("mpich" in self.field("mgc-runtime", "Suggests"), "libmgc_mpi_mpich.so" in plugins)

    def test_every_library_has_its_package(self):
        """By the names that the programs themselves have, of all packages but those of MPIs."""
        depends = packages_of(self.field("mgc-runtime", "Depends")) | packages_of(self.field("mgc", "Depends"))
        programs = [path for path in self.elf if not path.name.startswith("libmgc_mpi_")]
        needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", *programs)))
        self.assertTrue(needed)
        for library in needed:
            owners = set(re.findall(r"^([^:,]+)", run("dpkg", "-S", f"*/{library}"), re.M))
            self.assertTrue(owners & depends, f"{library} is of {owners}")

    def test_files(self):
        found = {str(path.relative_to(self.root)) for path in self.root.rglob("*")}
        self.assertLessEqual({"usr/bin/mgc", "usr/bin/mg-opt", "usr/bin/mgrun", "usr/bin/mgc-data",
                              "usr/share/mgc/examples/tiny-gpt/corpus.txt", "usr/share/mgc/examples/cluster/mpirun.sh",
                              "usr/share/doc/mgc/README.md", "usr/share/doc/mgc/docs/packages.md"}, found)
        for name in (BUILD / "lib").glob("*.so"):
            self.assertIn(f"usr/lib/mgc/{name.name}", found)
        self.assertTrue((self.root / "usr/share/doc/mgc/examples/tiny-gpt/config.json").is_file())
        self.assertTrue(os.access(self.root / "usr/share/mgc/examples/cluster/mpirun.sh", os.X_OK))
        runtime = run("dpkg-deb", "-c", self.debs["mgc-runtime"])
        self.assertRegex(runtime, r"root/root .* \./usr/bin/mgrun\n")
        self.assertRegex(runtime, r"\./usr/bin/mgc-data\n")
        self.assertNotRegex(runtime, r"\./usr/bin/(mgc|mg-opt)\n|config\.json")

    def test_nothing_of_the_machine_that_built_them(self):
        for path in self.files:
            data = path.read_bytes()
            self.assertNotIn(str(SOURCE).encode(), data, path)
            self.assertIsNone(COMPILED_AT.search(data) if path in self.elf else None, path)
        for path in self.elf:
            for folder in re.findall(r"\(RU?N?PATH\).*\[(.*)\]", run("readelf", "-d", path)):
                self.assertTrue(all(part.startswith(SYSTEM) for part in folder.split(":")), f"{path}: {folder}")

    def test_they_run(self):
        bin, examples = self.root / "usr/bin", self.root / "usr/share/mgc/examples"
        plan = self.folder / "plan"
        run(bin / "mgc", "compile", examples / "tiny-gpt/config.json", "--dp", "2", "--seq", "32", "--mbs", "1", "--gbs", "2", "-o", plan)
        train = [bin / "mgrun", plan, "--data", examples / "tiny-gpt/corpus.txt", "--train-iters", "2"]
        here = run(*train)
        self.assertIn("2 steps: loss", here)
        if MPIRUN:
            processes = run(*MPIRUN, "-n", "2", *train)
            self.assertEqual(*(re.search(r"loss (\S+ -> \S+),", text)[1] for text in (here, processes)))
        version = run(bin / "mgrun", "--version")
        self.assertIn(f"mgrun of mgc {VERSION},", version)


missing = [tool for tool in ("cpack", "dpkg-deb", "dpkg-shlibdeps", "readelf") if not shutil.which(tool)]
if missing:
    print(f"skipped: no {', '.join(missing)}")
    sys.exit(77)
unittest.main(argv=sys.argv[:1])
