"""A browser without a screen: what a page says, and what it looks like."""
import html
import json
import pathlib
import re
import shutil
import struct
import subprocess
import tempfile
import zlib

import numpy

CHROMIUM = shutil.which("chromium")

# Runs in the page: the test's script sees what a script of the page sees, and its result comes back in the DOM.
PROBE = """<script>
setTimeout(async () => {
  const answer = document.createElement("pre");
  answer.id = "probe";
  try {
    answer.textContent = JSON.stringify(await (async () => { %s })());
  } catch (error) {
    answer.textContent = JSON.stringify({error: String(error)});
  }
  document.body.append(answer);
}, 1000);
</script></body>"""


class Browser:
    """One page of a folder that goes away with it."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()

    def run(self, page, size, arguments):
        command = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                   "--force-device-scale-factor=1", f"--user-data-dir={self.folder.name}/profile", "--enable-logging=stderr",
                   "--virtual-time-budget=4000", "--window-size=%d,%d" % size, *arguments, pathlib.Path(page).resolve().as_uri()]
        run = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=300)
        console = [line for line in run.stderr.splitlines() if ":CONSOLE" in line]
        assert not console, f"{page}: the console says: {console}"
        assert run.returncode == 0, run.stderr
        return run.stdout

    def probe(self, page, script, size=(1280, 900)):
        """What the script, which may await, returns in a copy of the page."""
        copy = pathlib.Path(self.folder.name) / "probe.html"
        text = pathlib.Path(page).read_text()
        assert text.count("</body>") == 1
        copy.write_text(text.replace("</body>", PROBE % script))
        found = re.search(r'<pre id="probe">(.*?)</pre>', self.run(copy, size, ["--dump-dom"]), re.S)
        assert found, f"{page}: the script did not end"
        answer = json.loads(html.unescape(found[1]))
        assert not (isinstance(answer, dict) and "error" in answer), answer
        return answer

    def picture(self, page, size=(1280, 900), dark=False):
        """[height, width, 3] bytes."""
        file = pathlib.Path(self.folder.name) / "picture.png"
        self.run(page, size, [f"--screenshot={file}", *(["--force-dark-mode"] if dark else [])])
        return pixels(file.read_bytes())


def pixels(png):
    """Of a PNG of 8 bits per channel, without an interlace: what a browser writes."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    at, data = 8, b""
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at:at + 8])
        body = png[at + 8:at + 8 + length]
        if kind == b"IHDR":
            width, height, depth, colour, *_, interlace = struct.unpack(">IIBBBBB", body)
            assert depth == 8 and colour in (2, 6) and interlace == 0, (depth, colour, interlace)
        elif kind == b"IDAT":
            data += body
        at += length + 12
    channels = 3 if colour == 2 else 4
    rows = numpy.frombuffer(zlib.decompress(data), numpy.uint8).reshape(height, 1 + width * channels)
    picture = numpy.zeros((height, width * channels), numpy.uint8)
    for y in range(height):
        above = picture[y - 1] if y else numpy.zeros(width * channels, numpy.uint8)
        picture[y] = unfiltered(rows[y, 0], rows[y, 1:], above, channels)
    return picture.reshape(height, width, channels)[:, :, :3]


def unfiltered(kind, row, above, channels):
    if kind == 0:
        return row
    if kind == 2:
        return row + above
    row, above = row.reshape(-1, channels).astype(int), above.reshape(-1, channels).astype(int)
    if kind == 1:
        return numpy.cumsum(row, axis=0).astype(numpy.uint8).reshape(-1)
    out, left, corner = numpy.zeros_like(row), numpy.zeros(channels, int), numpy.zeros(channels, int)
    for x in range(len(row)):
        if kind == 3:
            guess = (left + above[x]) // 2
        else:
            distance = numpy.abs([above[x] - corner, left - corner, left + above[x] - 2 * corner])
            first = (distance[0] <= distance[1]) & (distance[0] <= distance[2])
            guess = numpy.where(first, left, numpy.where(distance[1] <= distance[2], above[x], corner))
        left, corner = (row[x] + guess) % 256, above[x]
        out[x] = left
    return out.astype(numpy.uint8).reshape(-1)
