"""What the tests of pinch sweep share: a subject in a file, a database of its own, a program that notes its runs."""

import pathlib
import os
import sqlite3
import time

from harness import CliTest

FAULTS = os.environ.get("PINCH_FAULTS", "")
ROOT = pathlib.Path(__file__).resolve().parents[3]
SIGNALLED = 130

# Notes each start and each end in `log`. While there is a file `gate` with a number in it, a start that comes after so many others
# waits until the file is gone: what a test does meanwhile finds that run in flight, however fast or slow the machine is.
LOGGER = """
name = "logger"
command = ["sh", "-c", "echo s ${tile} ${stages} >> log; while [ -e gate ] && [ $(grep -c s log) -gt $(cat gate) ]; do sleep 0.02; done; echo d ${tile} ${stages} >> log; echo '{\\"ms\\": ${cost}}'"]
metric = {kind = "json", name = "ms"}
[let]
cost = "tile * 10 + stages"
[knobs.tile]
values = {from = 1, to = 20}
default = 1
[knobs.stages]
kind = "arg"
values = [1, 2]
default = 1
"""


def processes():
    return filter(str.isdigit, os.listdir("/proc"))


def read(pid, name):
    try:
        return pathlib.Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def wait_until(condition, timeout=60):
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout} s")
        time.sleep(0.01)


class SweepTest(CliTest):
    def setUp(self):
        super().setUp()
        self.database = self.folder / "s.sqlite"

    def subject(self, text, name="subject.toml"):
        path = self.folder / name
        path.write_text(text)
        return path

    def arguments(self, spec, *more):
        return ("sweep", spec, "--db", self.database, *more)

    def sweep(self, spec, *more, **options):
        return self.json_of(*self.arguments(spec, *more), **options)

    def rows(self):
        with sqlite3.connect(self.database) as connection:
            return connection.execute("SELECT point, role, round, verdict FROM trial").fetchall()


def by_knob(document, knob):
    return {point["knobs"][knob]: point for point in document["points"]}
