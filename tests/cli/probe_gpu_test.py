"""pinch probe --device cuda on the GPU of this machine; skipped where there is none."""

import os
import shutil
import subprocess

from harness import CliTest


class ProbeGpuTest(CliTest):
    def test_measures_what_it_proved(self):
        if not os.path.exists("/dev/nvidia0") or shutil.which("nvidia-smi") is None:
            self.skipTest("no GPU")
        if shutil.which("ptxas") is None and not os.access("/usr/local/cuda/bin/ptxas", os.X_OK):
            self.skipTest("no ptxas")
        capability = subprocess.run(["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader", "-i", "0"],
                                    capture_output=True, text=True).stdout.strip().replace(".", "")
        arch = {"80": "sm_80", "90": "sm_90a", "100": "sm_100a", "103": "sm_103a"}.get(capability)
        if arch is None:
            self.skipTest(f"no probes for sm_{capability}")
        document = self.json_of("probe", "--device", "cuda", "--arch", arch, "--only", "^(ffma|ex2.f32)$")
        entries = {entry["name"]: entry for entry in document["entries"]}
        self.assertEqual(set(entries), {"ffma", "ffma.latency", "ex2.f32", "ex2.f32.latency"})
        for entry in entries.values():
            self.assertTrue(entry["proved"], entry)
        # An SM issues 4 warp instructions of 32 lanes a cycle, so nothing is faster; a special function is slower.
        self.assertLessEqual(entries["ffma"]["value"], 128 * 1.02)
        self.assertLess(entries["ex2.f32"]["value"], entries["ffma"]["value"])
        self.assertEqual([(pair["first"], pair["second"]) for pair in document["pairs"]], [("ex2.f32", "ffma")])
