#!/usr/bin/python3
"""The picture of a run's page in README.md: python3 picture.py BIN REPOSITORY

Trains examples/tiny-gpt on 4 CPU ranks and writes three sections of `mgrun --html`, without their tables, to docs/page.png. Needs
what page_test.py needs. Times are those of this machine, so the picture is no test.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

from browser import Browser

BIN, ROOT = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
LAYOUT = "--tp 2 --pp 2 --seq 128 --mbs 4 --gbs 32 --schedule zb-v".split()
KEEP_THREE_SECTIONS = """
  for (const section of document.querySelectorAll("section"))
    section.hidden = !["pipeline", "memory", "traffic"].includes(section.id);
  for (const node of document.querySelectorAll("nav, .note, .tables"))
    node.style.display = "none";
  return document.querySelector("main").getBoundingClientRect().bottom;"""


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        subprocess.run([BIN / "mgc", "compile", ROOT / "examples/tiny-gpt", *LAYOUT, "-o", "plan"], check=True)
        subprocess.run([BIN / "mgrun", "plan", "--mock-data", "--train-iters", "12", "--html", "run.html"], check=True)
        browser = Browser()
        height = round(browser.probe("run.html", KEEP_THREE_SECTIONS, (1400, 900)))
        (ROOT / "docs/page.png").write_bytes(browser.png(clip=(1400, height)))
        browser.close()


main()
