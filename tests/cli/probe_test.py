"""pinch probe and pinch bound: the JSON contract, proofs without a GPU, and what is refused."""

import json
import os
import pathlib
import shutil

from harness import CliTest, ENVIRONMENT, OK

DATA = pathlib.Path(__file__).parent.parent / "data" / "sass"
ARCHS = ["sm_80", "sm_90a", "sm_100a", "sm_103a"]
ENTRY_FIELDS = {"name", "value", "unit", "spread", "method", "proved", "source"}


class ProbeTest(CliTest):
    def need_ptxas(self):
        if shutil.which("ptxas") is None and not os.access("/usr/local/cuda/bin/ptxas", os.X_OK):
            self.skipTest("no ptxas")

    def test_lists_every_probe_without_a_device(self):
        text = self.succeeds("probe", "--list").stdout
        for name in ("fma.512", "dot.bf16.512", "ex2.f32", "cvt.e2m1x2", "mma.bf16"):
            self.assertIn(name, text)

    def test_proves_every_cuda_probe_of_every_arch_with_no_gpu(self):
        self.need_ptxas()
        for arch in ARCHS:
            document = self.json_of("probe", "--prove", "--arch", arch)
            self.assertEqual(document["arch"], arch)
            self.assertGreater(len(document["probes"]), 300)
            for probe in document["probes"]:
                self.assertLessEqual({"name", "opcode", "expected", "found", "proved"}, set(probe))
                self.assertEqual(probe["proved"], probe["expected"] == probe["found"])
                self.assertTrue(probe["proved"], (arch, probe))

    def test_proves_without_a_disassembler_too(self):
        self.need_ptxas()
        document = self.json_of("probe", "--prove", "--arch", "90a", "--only", "^(ex2|rcp|lop3)", "--disassembler", "none")
        self.assertEqual(document["mnemonics_from"], "opcode map")
        self.assertTrue(all(probe["proved"] for probe in document["probes"]))

    def test_measures_the_cpu_and_writes_a_model_that_merges(self):
        out = self.folder / "here.json"
        first = self.json_of("probe", "--only", "^add", "--quick", "--no-pairs", "--out", out)
        self.assertLessEqual({"name", "device", "entries"}, set(first))
        for entry in first["entries"]:
            self.assertLessEqual(ENTRY_FIELDS, set(entry))
        self.succeeds("probe", "--only", "^mul.256", "--quick", "--no-pairs", "--out", out, "--name", "here")
        names = {entry["name"] for entry in json.loads(out.read_text())["entries"]}
        self.assertLessEqual({"clock.core", "clock.tsc", "add.256", "add.256.latency", "mul.256"}, names)

    def test_says_why_there_is_no_gpu_to_measure(self):
        self.need_ptxas()
        if os.path.exists("/dev/nvidia0"):
            self.skipTest("there is a GPU")
        self.refuses("probe", "--device", "cuda", "--only", "^ffma$", says=["driver", "--prove"], code=ENVIRONMENT)

    def test_names_what_exists(self):
        self.refuses("probe", "--only", "fnord", says=["fma.512", "fnord"])
        self.refuses("probe", "--only", "(", says="regular expression")
        self.refuses("probe", "--prove", "--arch", "sm_70", says=["sm_70", "sm_90a"])


class BoundTest(CliTest):
    def test_answers_the_contract(self):
        document = self.json_of("bound", "--machine", "sm_103a", "--counts", "MUFU.EX2=128,F2FP=64", "--move", "MUFU.EX2:25:FFMA=6")
        self.assertEqual((document["bound_by"], document["bound_cycles"]), ("xu", 512))
        self.assertEqual(document["units"]["xu"], 512)
        self.assertEqual(document["next"][0]["relieved"], "xu")
        self.assertEqual(document["moves"][0]["bound_cycles"], 384)

    def test_prints_what_is_left(self):
        text = self.succeeds("bound", "--machine", "sm_103a", "--counts", "MUFU.EX2=128,F2FP=64", "--move", "MUFU.EX2:25:FFMA=6").stdout
        self.assertIn("moving MUFU.EX2:25:FFMA=6: 512.0 -> 384.0 cycles, then bound by xu", text)

    def test_takes_a_loop_of_pinch_sass(self):
        cubin, document = DATA / "kernels.sm_90a.cubin", self.folder / "sass.json"
        self.succeeds("sass", cubin, "--disassembler", "none", "--json", document)
        bound = self.json_of("bound", "--sass", document, "--kernel", "softmax_loop")
        self.assertEqual((bound["bound_by"], bound["bound_cycles"]), ("xu", 32))
        self.refuses("bound", "--sass", document, "--kernel", "softmax_loop", "--loop", "7", says="softmax_loop (1 loops)")

    def test_refuses_what_it_does_not_know(self):
        self.refuses("bound", says="--counts")
        self.refuses("bound", "--machine", "sm_90a", "--counts", "FNORD=1", says="FNORD")
        self.refuses("bound", "--machine", "sm_90a", "--counts", "FFMA", says="NAME=COUNT")
        self.refuses("bound", "--machine", self.folder / "none.json", "--counts", "FFMA=1", says="cannot be read")
        bad = self.folder / "bad.json"
        bad.write_text("{}")
        self.refuses("bound", "--machine", bad, "--counts", "FFMA=1", says="bad.json")
