"""A browser without a screen: what a page says, and what it looks like."""
import base64
import json
import os
import pathlib
import shutil
import struct
import subprocess
import tempfile
import zlib

import numpy

CHROMIUM = shutil.which("chromium")

# Scripts run once the page has drawn: it sees its sizes in the first frame behind its load, and draws in the next.
PROBE = """(async () => {
  while (document.readyState !== "complete")
    await new Promise(done => setTimeout(done, 5));
  const frame = () => new Promise(requestAnimationFrame);
  await frame();
  await frame();
  await frame();
  %s
})()"""


class Browser:
    """Speaks the DevTools protocol over pipes: messages in JSON, each ended by a zero byte."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        commands, self.commands = os.pipe()
        self.answers, answers = os.pipe()
        # The browser reads from descriptor 3 and writes to 4.
        launch = 'exec "$0" "$@" 3<&%d 4>&%d' % (commands, answers)
        self.process = subprocess.Popen(
            ["bash", "-c", launch, CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
             f"--user-data-dir={self.folder.name}/profile", "--remote-debugging-pipe"],
            pass_fds=(commands, answers), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(commands)
        os.close(answers)
        self.buffer, self.calls, self.console = b"", 0, []
        target = self.call("Target.createTarget", {"url": "about:blank"}, session=None)["targetId"]
        self.session = None
        self.session = self.call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        for domain in "Page", "Runtime", "Log":
            self.call(f"{domain}.enable")

    def close(self):
        self.call("Browser.close", session=None)
        self.process.wait(60)
        os.close(self.commands)
        os.close(self.answers)
        self.folder.cleanup()

    def receive(self):
        while b"\0" not in self.buffer:
            data = os.read(self.answers, 1 << 20)
            assert data, "the browser has ended"
            self.buffer += data
        message, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(message)
        if message.get("method") in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"):
            self.console.append(message["params"])
        return message

    def call(self, method, parameters={}, session=True):
        self.calls += 1
        call = {"id": self.calls, "method": method, "params": parameters}
        if session and getattr(self, "session", None):
            call["sessionId"] = self.session
        os.write(self.commands, json.dumps(call).encode() + b"\0")
        while (message := self.receive()).get("id") != call["id"]:
            pass
        assert "error" not in message, (method, message)
        return message["result"]

    def open(self, page, size, dark=False):
        self.console = []
        self.call("Emulation.setDeviceMetricsOverride",
                  {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False})
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", {"features": [scheme]})
        self.call("Page.navigate", {"url": pathlib.Path(page).resolve().as_uri()})
        self.evaluate("return null")
        assert not self.console, f"{page}: the console says: {self.console}"

    def evaluate(self, script):
        """The value that the script, which may await, returns in the open page."""
        answer = self.call("Runtime.evaluate", {"expression": PROBE % script, "awaitPromise": True, "returnByValue": True})
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def probe(self, page, script, size=(1280, 900)):
        self.open(page, size)
        return self.evaluate(script)

    def png(self, whole=False, clip=None):
        """A picture of the open page: the window's part, all of it, or its upper left corner of the size `clip`."""
        options = {"format": "png", "captureBeyondViewport": whole or clip is not None}
        if clip:
            options["clip"] = {"x": 0, "y": 0, "width": clip[0], "height": clip[1], "scale": 1}
        picture = self.call("Page.captureScreenshot", options)
        return base64.b64decode(picture["data"])

    def picture(self, page, size=(1280, 900), dark=False):
        """[height, width, 3] bytes."""
        self.open(page, size, dark)
        return pixels(self.png())


def pixels(png):
    """The pixels of a PNG of 8 bits per channel, without an interlace, as a browser writes it."""
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
