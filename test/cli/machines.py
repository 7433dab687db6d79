"""Machines on this one, for tests: each has its own network and host name, and a switch connects them.

    machines.enter()                        # first of all: skips the test, with the reason, where namespaces are not permitted
    network = machines.Network(["node1", "node2"], Path("net"), delay=0.001, loss=0.01)
    subprocess.run([*network.on("node1"), "ping", "-c1", "node2"])

Processes, networks and mounts are in namespaces that end with this process, so nothing is left and nothing outside changes. The
file system is shared. The switch is a thread here, since not every kernel has netem: it copies the frames of one machine's
tap device to the others' `delay` seconds later, and drops a fraction `loss` of them, always the same ones.
"""
import fcntl
import heapq
import os
import random
import select
import struct
import subprocess
import sys
import threading
import time

INSIDE = "--inside"
SKIPPED = 77
HEAD = "head"  # the machine of this process
TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
FRAME = 2048


def enter():
    """Runs this program again in namespaces of its own; its code is that of the program. A shell is process 1, which reaps."""
    if sys.argv[1:2] == [INSIDE]:
        del sys.argv[1]
        return
    own = ["unshare", "--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "--mount-proc", "--kill-child",
           *([] if os.geteuid() == 0 else ["--user", "--map-root-user"])]
    device = ["ip", "tuntap", "add", "probe", "mode", "tap"]
    try:
        probe = subprocess.run([*own, *device], capture_output=True, text=True)
        failure = probe.stderr.strip() if probe.returncode else ""
    except OSError as error:
        failure = str(error)
    if failure:
        print(f"skipped: {' '.join([*own, *device])}: {failure}; expected the right to make namespaces and tap devices")
        sys.exit(SKIPPED)
    os.execvp(own[0], [*own, "sh", "-c", '"$@"; exit $?', "init", sys.executable, sys.argv[0], INSIDE, *sys.argv[1:]])


def sh(*command):
    subprocess.run(command, check=True)


class Switch(threading.Thread):
    """Frames go where their receiver has been heard, else to all."""

    def __init__(self, delay, loss):
        super().__init__(daemon=True)
        self.delay, self.loss, self.random = delay, loss, random.Random(1)
        self.ports, self.places, self.cut = [], {}, set()
        self.waiting, self.count = [], 0
        self.dropped = 0

    def add(self, device):
        port = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(port, TUNSETIFF, struct.pack("16sH", device.encode(), IFF_TAP | IFF_NO_PI))
        self.ports.append(port)
        return port

    def run(self):
        while True:
            patience = max(0, self.waiting[0][0] - time.monotonic()) if self.waiting else None
            for port in select.select(self.ports, [], [], patience)[0]:
                self.read(port)
            while self.waiting and self.waiting[0][0] <= time.monotonic():
                _, _, port, frame = heapq.heappop(self.waiting)
                self.write(port, frame)

    def read(self, port):
        try:
            frame = os.read(port, FRAME)
        except OSError:  # its interface is down
            return
        self.places[frame[6:12]] = port
        place = self.places.get(frame[:6])
        for other in [place] if place else self.ports:
            if other == port or {other, port} & self.cut:
                continue
            if self.random.random() < self.loss:
                self.dropped += 1
                continue
            self.count += 1
            heapq.heappush(self.waiting, (time.monotonic() + self.delay, self.count, other, frame))

    @staticmethod
    def write(port, frame):
        try:
            os.write(port, frame)
        except OSError:  # down, or its queue is full: the frame is lost, as on any network
            pass


class Network:
    def __init__(self, names, folder, delay=0.0, loss=0.0):
        folder.mkdir()
        self.folder = folder.resolve()
        self.addresses = {name: f"10.77.0.{number}" for number, name in enumerate([HEAD, *names], 1)}
        self.switch = Switch(delay, loss)
        self.holders, self.ports = {}, {}
        hosts = "".join(f"{address} {name}\n" for name, address in self.addresses.items())
        (self.folder / "hosts").write_text("127.0.0.1 localhost\n" + hosts)
        sh("mount", "--bind", str(self.folder / "hosts"), "/etc/hosts")
        sh("hostname", HEAD)
        for name in self.addresses:
            self.add(name)
        self.switch.start()

    def add(self, name):
        if name != HEAD:
            holder = subprocess.Popen(["unshare", "--net", "--uts", "sh", "-c", 'hostname "$0"; echo; exec sleep infinity', name],
                                      stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
            holder.stdout.readline()
            self.holders[name] = holder
        self.ports[name] = self.switch.add("to-" + name)
        if name != HEAD:
            sh("ip", "link", "set", "to-" + name, "netns", str(self.holders[name].pid))
        for command in (f"link set to-{name} name eth0", "link set lo up", f"addr add {self.addresses[name]}/24 dev eth0",
                        "link set eth0 up"):
            sh(*self.on(name), "ip", *command.split())

    def on(self, name):
        """The words in front of a command that make it run there."""
        return [] if name == HEAD else ["nsenter", f"--target={self.holders[name].pid}", "--net", "--uts"]

    def agent(self):
        """A program in the place of ssh, for launchers: agent [-x] MACHINE COMMAND.."""
        path = self.folder / "agent"
        cases = "".join(f"  {name}) exec {' '.join(self.on(name))} sh -c \"$*\" ;;\n" for name in self.holders)
        path.write_text(f'#!/bin/sh\n[ "$1" = -x ] && shift\nmachine=$1\nshift\ncase $machine in\n{cases}esac\n'
                        'echo "no machine $machine" >&2\nexit 1\n')
        path.chmod(0o755)
        return path

    def cut(self, name, cable=True):
        """From now on nothing comes from there or arrives: the cable is cut, or the machine's interface is down."""
        if cable:
            self.switch.cut.add(self.ports[name])
        else:
            sh(*self.on(name), "ip", "link", "set", "eth0", "down")

    def mend(self, name):
        self.switch.cut.discard(self.ports[name])
        sh(*self.on(name), "ip", "link", "set", "eth0", "up")
