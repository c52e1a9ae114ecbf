"""bench/attention_algebra.py: what NVFP4 of P costs in both forms, counted in the machine code of this build."""

import csv
import os
import pathlib
import shutil
import subprocess
import sys

from harness import CliTest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NVCC = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"


class AlgebraTest(CliTest):
    def run_script(self, *args):
        environment = {**os.environ, "PATH": f"{os.environ['PATH']}:{os.path.dirname(NVCC)}"}
        return subprocess.run([sys.executable, "-B", ROOT / "bench" / "attention_algebra.py", *map(str, args)], env=environment,
                              capture_output=True, text=True, timeout=100)

    def test_the_log_form_has_a_multiply_less_a_key_and_the_cpu_less_too(self):
        if not os.path.exists(NVCC):
            self.skipTest("no nvcc on this machine")
        build = pathlib.Path(self.program).parents[1]
        run = self.run_script("--cpu", build, "--csv", self.folder / "algebra.csv")
        self.assertEqual(run.returncode, 0, run.stderr)
        with (self.folder / "algebra.csv").open() as file:
            rows = list(csv.DictReader(file))
        a_key = {(row["where"], row["form"]): float(row["a_key"]) for row in rows}
        for row in rows:  # at most two vector instructions a cycle, and no stall counted
            if row["where"].startswith("cpu"):
                self.assertTrue(float(row["instructions"]) / 5 < float(row["cycles"]) < float(row["instructions"]), row)
                self.assertEqual(row["bound_by"], "vector")
        for arch in ("sm_90a", "sm_100a", "sm_103a"):
            removed = a_key[f"quantiser {arch}", "linear"] - a_key[f"quantiser {arch}", "log"]
            self.assertTrue(0.5 < removed < 1.5, f"{arch}: {removed} instructions a key")
        cpu = [a_key[key] for key in sorted(a_key) if key[0].startswith("cpu")]
        self.assertEqual(len(cpu), 2)
        self.assertTrue(all(1 < count < 6 for count in cpu), f"{cpu} instructions a key")

    def test_a_folder_without_what_is_counted_is_refused(self):
        run = self.run_script("--cpu", self.folder)
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("one was expected, 0 found", run.stderr)
