#!/usr/bin/python3
"""Ranks on several machines, which are network namespaces with addresses of their own on a bridge: they give the losses and
weights of threads, however the machines call each other.

    mgrun_machines.py BIN SOURCE
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

SOURCE = pathlib.Path(sys.argv.pop(2)).resolve()
BIN = pathlib.Path(sys.argv.pop(1)).resolve()
NAME = f"mgc{os.getpid()}"
MACHINES = 3
PORT = 29511
SECONDS = 60
CLEAN = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
RANKS = ["--mock-data", "--train-iters", "3", "--threads", "1", "--timeout", "20"]


def ip(*words):
    return subprocess.run(["ip", *map(str, words)], capture_output=True, text=True, check=False)


def address(machine):
    return f"10.77.0.{10 + machine}"


def machine(number):
    return f"{NAME}-{number}"


def inside_of(number):
    """Not by `ip netns exec`, which mounts /sys anew and fails now and then where several do so at once."""
    return ["nsenter", f"--net=/run/netns/{machine(number)}"]


def make_machines():
    """False where this user or system cannot."""
    made = [ip("netns", "add", NAME), ip("-n", NAME, "link", "add", "bridge", "type", "bridge"),
            ip("-n", NAME, "link", "set", "bridge", "up")]
    for number in range(MACHINES):
        made += [ip("netns", "add", machine(number)),
                 ip("-n", NAME, "link", "add", f"port{number}", "type", "veth", "peer", "name", "eth0", "netns", machine(number)),
                 ip("-n", NAME, "link", "set", f"port{number}", "master", "bridge", "up"),
                 ip("-n", machine(number), "address", "add", f"{address(number)}/24", "dev", "eth0"),
                 ip("-n", machine(number), "link", "set", "eth0", "up"),
                 ip("-n", machine(number), "link", "set", "lo", "up")]
    return next((run.stderr for run in made if run.returncode), "")


def remove_machines():
    for name in [NAME, *map(machine, range(MACHINES))]:
        ip("netns", "delete", name)


def hosts_of(number):
    return pathlib.Path.cwd() / f"hosts{number}"


def write_hosts():
    """/etc/hosts as Debian installs it: a machine's own name is a loopback address, the others' are real."""
    for number in range(MACHINES):
        lines = ["127.0.0.1 localhost"] + [f"{'127.0.1.1' if other == number else address(other)} node{other}"
                                           for other in range(MACHINES)]
        hosts_of(number).write_text("\n".join(lines) + "\n")


def setUpModule():
    folder = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(folder.cleanup)
    os.chdir(folder.name)
    write_hosts()
    unittest.addModuleCleanup(remove_machines)
    subprocess.run([BIN / "mgc", "compile", SOURCE / "examples/tiny-gpt", "-o", "plan", "--target-cpu", "native", *"--tp 2 --pp 2 --dp 2 "
                    "--seq 64 --mbs 2 --gbs 8".split()], check=True, capture_output=True)
    subprocess.run([BIN / "mgrun", "plan", *RANKS, "--log", "threads.jsonl", "--save", "threads"], check=True,
                   capture_output=True, env=CLEAN)


def results(log, weights):
    records = [json.loads(line) for line in pathlib.Path(log).read_text().splitlines()]
    return [(r["loss"], r["grad_norm"]) for r in records], (pathlib.Path(weights) / "model.safetensors").read_bytes()


class Machines(unittest.TestCase):
    def start(self, number, arguments, variables):
        """mgrun on a machine that has its own /etc/hosts."""
        inside = 'mount --bind "$0" /etc/hosts && exec "$@"'
        command = [*inside_of(number), "unshare", "-m", "sh", "-c", inside,
                   hosts_of(number), BIN / "mgrun", "plan", *RANKS, *arguments]
        process = subprocess.Popen(list(map(str, command)), env=CLEAN | variables, stdin=subprocess.DEVNULL, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def tables_of_sockets(self, number):
        """Files of the machine's network, as a process in it sees them: quick to read, for ranks listen for moments only."""
        watcher = subprocess.Popen([*inside_of(number), "sleep", str(SECONDS)])
        self.addCleanup(watcher.wait)
        self.addCleanup(watcher.kill)
        while pathlib.Path(f"/proc/{watcher.pid}/comm").read_text().strip() != "sleep":
            time.sleep(0.01)
        return [pathlib.Path(f"/proc/{watcher.pid}/net/{name}") for name in ("tcp", "tcp6")]

    def expect_bits_of_threads(self, name, ranks_of):
        """`ranks_of`: (machine, arguments, variables) of each rank."""
        output = ["--log", f"{name}.jsonl", "--save", name]
        processes = [self.start(number, [*arguments, *output], variables) for number, arguments, variables in ranks_of]
        errors = [process.communicate(timeout=SECONDS)[1] for process in processes]
        failed = [f"rank {rank} of code {process.returncode}: {errors[rank]}"
                  for rank, process in enumerate(processes) if process.returncode]
        self.assertFalse(failed, "\n".join(failed))
        self.assertEqual(results(f"{name}.jsonl", name), results("threads.jsonl", "threads"))

    def torchrun(self, machines, master):
        """What torchrun tells its processes, eight on so many machines."""
        each = 8 // machines
        for rank in range(8):
            yield min(rank // each, machines - 1), [], {
                "RANK": str(rank), "WORLD_SIZE": "8", "LOCAL_RANK": str(rank % each), "LOCAL_WORLD_SIZE": str(each),
                "MASTER_ADDR": master, "MASTER_PORT": str(PORT)}

    def test_flags_with_real_addresses(self):
        self.expect_bits_of_threads("flags", [
            (rank % 3, ["--rank", rank, "--world-size", 8, "--master-addr", address(0), "--master-port", PORT], {})
            for rank in range(8)])

    def test_torchrun_with_an_address(self):
        self.expect_bits_of_threads("address", self.torchrun(2, address(0)))

    def test_torchrun_with_a_name_that_is_loopback_at_home(self):
        self.expect_bits_of_threads("name", self.torchrun(2, "node0"))

    def test_torchrun_on_one_machine_by_its_name(self):
        self.expect_bits_of_threads("one", self.torchrun(1, "node0"))

    def sockets_of_a_run(self, tables):
        """(address, port) of all that listens while 8 ranks run on one machine."""
        running = [self.start(0, ["--rank", rank, "--world-size", 8, "--master-addr", "127.0.0.1", "--master-port", PORT], {})
                   for rank in range(8)]
        seen = set()
        while any(process.poll() is None for process in running):
            for sockets in tables:
                lines = map(str.split, sockets.read_text().splitlines())
                seen |= {tuple(words[1].split(":")) for words in lines if words[3] == "0A"}
        for process in running:
            _, errors = process.communicate(timeout=SECONDS)
            self.assertEqual(process.returncode, 0, errors)
        return seen

    def test_one_machine_by_loopback_listens_there_alone(self):
        tables = self.tables_of_sockets(0)
        for _ in range(20):  # a rank listens for a moment only: until one was seen
            seen = self.sockets_of_a_run(tables)
            self.assertEqual({address for address, _ in seen}, {"0100007F"})  # 127.0.0.1
            if len(seen) > 1:
                return
        self.fail("only the store's socket was seen, none of a rank")


if __name__ == "__main__":
    REASON = make_machines()
    if REASON:
        remove_machines()
        print(f"skipped: network namespaces cannot be made here: {REASON.strip()}")
        sys.exit(77)
    unittest.main()
