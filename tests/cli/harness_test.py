"""The harness fails where the program does what no program should: each fault is planted in a small script."""

import os
import pathlib
import signal
import subprocess
import sys

from harness import CliTest, FAILED


class HarnessTest(CliTest):
    def plant(self, script):
        """Makes `script` (shell) the program under test."""
        path = self.folder / "planted"
        path.write_text("#!/bin/sh\n" + script + "\n")
        path.chmod(0o755)
        self.program = str(path)

    def test_passes_a_program_that_keeps_its_contract(self):
        self.plant("echo '{\"a\": 1}'")
        self.assertEqual(self.json_of("x"), {"a": 1})

    def test_notices_a_wrong_exit_code(self):
        self.plant("exit 1")
        with self.assertRaisesRegex(AssertionError, "1 != 0"):
            self.succeeds("x")

    def test_notices_prose_beside_json(self):
        self.plant("echo tuning; echo '{}'")
        with self.assertRaisesRegex(AssertionError, "not one JSON document"):
            self.json_of("x")

    def test_notices_a_refusal_that_does_not_say_why(self):
        self.plant("echo no >&2; exit 2")
        with self.assertRaisesRegex(AssertionError, "multiple of 16"):
            self.refuses("x", says="multiple of 16")

    def test_notices_results_of_a_refused_run(self):
        self.plant("echo 42; echo bad k >&2; exit 2")
        with self.assertRaisesRegex(AssertionError, "42"):
            self.refuses("x", says="bad k")

    def test_notices_a_crash(self):
        self.plant(f"kill -{signal.SIGSEGV.value} $$")
        with self.assertRaisesRegex(AssertionError, "SIGSEGV"):
            self.run_pinch("x")

    def test_notices_a_hang(self):
        self.plant("exec sleep 30")
        with self.assertRaisesRegex(AssertionError, "no end after"):
            self.run_pinch("x", timeout=0.2)

    def harness_on(self, source):
        path = self.folder / "planted_test.py"
        path.write_text(source)
        return subprocess.run([sys.executable, "-B", "-m", "harness", str(path)], capture_output=True, text=True,
                              cwd=pathlib.Path(__file__).parent, env={**os.environ}, check=False)

    def test_fails_a_file_without_cases(self):
        run = self.harness_on("x = 1\n")
        self.assertEqual(run.returncode, FAILED, run.stderr)
        self.assertIn("no test cases", run.stderr)

    def test_fails_a_file_with_a_failing_case(self):
        run = self.harness_on("import unittest\nclass T(unittest.TestCase):\n  def test_x(self): self.fail('no')\n")
        self.assertEqual(run.returncode, FAILED, run.stderr)
