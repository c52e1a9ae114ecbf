"""Runs the real program and states what it must answer.

A test file tests/cli/<subcommand>_test.py holds unittest cases derived from CliTest; register it in
tests/cli/CMakeLists.txt with pinch_cli_test(<subcommand>). PINCH_BIN names the program under test.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import unittest

# Exit codes of the program (docs/design/architecture.md).
OK, FAILED, USAGE, ENVIRONMENT = 0, 1, 2, 3
# A program that hangs is a failed case, not a hung test run.
DEFAULT_TIMEOUT_S = 60


class Run:
    """What one run of the program left behind."""

    def __init__(self, args, code, stdout, stderr):
        self.args, self.code, self.stdout, self.stderr = args, code, stdout, stderr

    def json(self):
        """The document on stdout. Anything beside it on stdout is an error: prose belongs on stderr."""
        try:
            return json.loads(self.stdout)
        except json.JSONDecodeError as error:
            raise AssertionError(f"stdout is not one JSON document ({error})\n{self}") from None

    def __str__(self):
        return f"$ pinch {' '.join(self.args)}\nexit {self.code}\nstdout: {self.stdout}\nstderr: {self.stderr}"


class CliTest(unittest.TestCase):
    """A case with the program at hand and an empty folder of its own (self.folder)."""

    program = os.environ.get("PINCH_BIN", "")

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="pinch_cli_"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def start(self, *args, env=None, cwd=None):
        """The running program as a Popen, for tests that interrupt it or run two at once."""
        return subprocess.Popen([self.program, *map(str, args)], env={**os.environ, **(env or {})}, cwd=cwd or self.folder,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, errors="surrogateescape")

    def finish(self, process, timeout=DEFAULT_TIMEOUT_S):
        """Waits for a started program and returns its Run."""
        args = process.args[1:]
        try:
            stdout, stderr = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            stdout, stderr = process.communicate()
            self.fail(f"no end after {timeout} s\n{Run(args, None, stdout, stderr)}")
        return Run(args, process.returncode, stdout, stderr)

    def run_pinch(self, *args, env=None, cwd=None, timeout=DEFAULT_TIMEOUT_S):
        """Runs the program to its end, whatever its exit code; a death by signal fails the case."""
        run = self.finish(self.start(*args, env=env, cwd=cwd), timeout)
        if run.code < 0:
            self.fail(f"ended by {signal.Signals(-run.code).name}\n{run}")
        return run

    def succeeds(self, *args, **options):
        """Runs the program, which must exit 0."""
        run = self.run_pinch(*args, **options)
        self.assertEqual(run.code, OK, run)
        return run

    def json_of(self, *args, code=OK, **options):
        """Runs the program with `--json -` and returns the document; the exit code must be `code`."""
        run = self.run_pinch(*args, "--json", "-", **options)
        self.assertEqual(run.code, code, run)
        return run.json()

    def refuses(self, *args, says, code=USAGE, **options):
        """Runs the program, which must exit with `code`, name each of `says` on stderr and leave stdout empty."""
        run = self.run_pinch(*args, **options)
        self.assertEqual(run.code, code, run)
        for words in [says] if isinstance(says, str) else says:
            self.assertIn(words, run.stderr, run)
        self.assertEqual(run.stdout, "", run)
        return run
