"""pinch probe and pinch bound: the JSON contract, proofs without a GPU, and what is refused."""

import json
import os
import pathlib
import pty
import signal
import subprocess
import sys
import time

from harness import CliTest, ENVIRONMENT, FAILED, OK

DATA = pathlib.Path(__file__).parent.parent / "data" / "sass"
ROOT = pathlib.Path(__file__).parent.parent.parent
MACHINES = ROOT / "data" / "machines"
ARCHS = ["sm_80", "sm_90a", "sm_100a", "sm_103a"]
ENTRY_FIELDS = {"name", "value", "unit", "spread", "method", "proved", "proof", "source", "device", "date", "tools"}


class ProbeTest(CliTest):
    def need_ptxas(self):
        if self.run_pinch("probe", "--prove", "--only", "^lop3$").code == ENVIRONMENT:
            self.skipTest("no ptxas")

    def test_lists_every_probe_without_a_device(self):
        document = self.json_of("probe", "--list")
        cuda = {probe["name"] for probe in document["cuda"]}
        self.assertLessEqual(set("""
            ex2.f32 ex2.f16x2 ex2.bf16x2 lg2.f32 rcp.f32 rsqrt.f32 tanh.f32 sin.f32
            cvt.bf16x2 cvt.f16x2 cvt.e4m3x2 cvt.e5m2x2 cvt.e2m1x2 cvt.e3m2x2 cvt.ue8m0x2 unpack.e4m3x2 unpack.e5m2x2 unpack.e2m1x2
            ffma ffma2 fmul fadd fmax fmax3 hfma2 hfma2.bf16 dfma imad imad.wide iadd3 lop3 prmt shf popc shfl redux vote
            lds.32 lds.64 lds.128 sts.32 sts.64 sts.128 ldmatrix.x2.trans ldmatrix.x4 stmatrix.x1 stmatrix.x4 ldg.l1 ldg.l2 stg
            mma.bf16 mma.e4m3 mma.e5m2 bulk.load.2048 bulk.store.2048 barrier.named barrier.block mbarrier.round_trip
            """.split()), cuda)
        for n in (8, 16, 32, 64, 128, 256):
            for kind in ("bf16", "e4m3"):
                self.assertLessEqual({f"wgmma.{kind}.n{n}", f"wgmma.{kind}.n{n}.registers"}, cuda)
        cpu = {probe["name"]: probe["opcode"] for probe in document["cpu"]}
        self.assertLessEqual(set("""
            vfmadd231ps vmulps vaddps vmaxps vdpbf16ps vpdpbusd vcvtneps2bf16 vcvtne2ps2bf16 vpermb vpermw vpshufb vscalefps
            vgetexpps vrcp14ps vrsqrt14ps vdivps vsqrtps vmovups""".split()), set(cpu.values()))
        self.assertLessEqual({"load.512", "load.256", "store.512", "store.256", "load.64"}, set(cpu))
        text = self.succeeds("probe", "--list", "--only", "^(fma.512|lop3)$").stdout
        self.assertRegex(text, r"cpu +fma\.512 +vfmadd231ps")
        self.assertRegex(text, r"cuda +lop3 +LOP3\.LUT +sm_80 on")

    def test_proves_every_cuda_probe_of_every_arch_with_no_gpu(self):
        self.need_ptxas()
        for arch in ARCHS:
            document = self.json_of("probe", "--prove", "--arch", arch, timeout=240)  # 12 s alone
            self.assertEqual(document["arch"], arch)
            self.assertGreater(len(document["probes"]), 400)
            for probe in document["probes"]:
                self.assertLessEqual({"name", "opcode", "expected", "found", "proved"}, set(probe))
                self.assertEqual(probe["expected"], probe["found"])
                self.assertTrue(probe["proved"], (arch, probe))
            # With the exponential, every conversion that the architecture has.
            kernels = {}
            for probe in document["probes"]:
                kernels.setdefault(probe["kernel"], set()).add(probe["name"])
            names = {probe["name"] for probe in document["probes"]}
            conversions = {name for name in names if name.startswith(("cvt.", "unpack."))}
            self.assertLessEqual({"cvt.bf16x2", "cvt.f16x2"}, conversions)
            for name in conversions:
                self.assertIn({"ex2.f32", name}, kernels.values(), (arch, name))

    def test_leaves_no_file_when_it_is_ended(self):
        folder, tools = self.folder / "tmp", self.folder / "tools"
        folder.mkdir()
        tools.mkdir()
        compiler = tools / "ptxas"  # that never ends while its caller lives
        compiler.write_text("#!/bin/sh\ncase \"$*\" in *--version*) exit ;; esac\n"
                            f"touch '{self.folder}/begun'\nwhile kill -0 $PPID 2>/dev/null; do sleep 0.05; done\n")
        compiler.chmod(0o755)
        for end in (signal.SIGINT, signal.SIGKILL):
            process = self.start("probe", "--prove", "--arch", "90a", "--only", "^lop3$",
                                 env={"TMPDIR": str(folder), "PATH": f"{tools}:{os.environ['PATH']}"})
            deadline = time.monotonic() + 30
            while not (self.folder / "begun").exists() and time.monotonic() < deadline:
                time.sleep(0.01)
            process.send_signal(end)
            self.assertEqual(self.finish(process).code, -end)
            self.assertEqual(list(folder.iterdir()), [])
            (self.folder / "begun").unlink()

    def test_proves_without_a_disassembler_too(self):
        self.need_ptxas()
        document = self.json_of("probe", "--prove", "--arch", "90a", "--only", "^(ex2|rcp|lop3)", "--disassembler", "none")
        self.assertEqual(document["mnemonics_from"], "opcode map")
        self.assertTrue(all(probe["proved"] and probe["base_opcode_only"] for probe in document["probes"]))
        text = self.succeeds("probe", "--prove", "--arch", "90a", "--only", "^lop3$", "--disassembler", "none").stdout
        self.assertIn("loops proved (base opcode only), 0 not", text)

    def test_measures_the_cpu_and_writes_a_model_that_merges(self):
        out = self.folder / "here.json"
        first = self.json_of("probe", "--only", "^add", "--quick", "--no-pairs", "--out", out)
        self.assertLessEqual({"name", "device", "entries"}, set(first))
        for entry in first["entries"]:
            self.assertLessEqual(ENTRY_FIELDS, set(entry))
        merged = self.succeeds("probe", "--only", "^mul.256", "--quick", "--no-pairs", "--out", out, "--name", "here")
        self.assertIn(f"called 'here' from here on, no longer '{first['name']}'", merged.stderr)
        names = {entry["name"] for entry in json.loads(out.read_text())["entries"]}
        self.assertLessEqual({"clock.core", "clock.tsc", "add.256", "add.256.latency", "mul.256"}, names)
        self.assertEqual(json.loads(out.read_text())["name"], "here")

    def test_draws_a_progress_bar_on_a_terminal(self):
        ours, theirs = pty.openpty()
        with subprocess.Popen([self.program, "probe", "--only", "^add.256$", "--quick", "--no-pairs"], stderr=theirs,
                              stdout=subprocess.DEVNULL) as process:
            self.assertEqual(process.wait(60), OK)
        os.close(theirs)
        shown = os.read(ours, 65536).decode()
        os.close(ours)
        self.assertRegex(shown, r"\[\.+\] +0%  clocks")
        self.assertTrue(shown.endswith("\r\x1b[K"), "the bar is taken away at the end")
        run = self.succeeds("probe", "--only", "^add.256$", "--quick", "--no-pairs")
        self.assertNotIn("\r", run.stderr, "no progress bar where stderr is no terminal")

    def test_knows_before_it_measures_that_it_cannot_write(self):
        self.refuses("probe", "--only", "^add.256$", "--out", self.folder, says="is a folder")
        self.refuses("probe", "--only", "^add.256$", "--out", "-", "--json", "-", says="--json -")
        broken = self.folder / "broken.json"
        broken.write_text("[]")
        self.refuses("probe", "--out", broken, says="broken.json")
        # Said of the file, not of the probe that does not exist: the file comes first.
        for unwritable in (self.folder / "none" / "here.json", "/proc/here.json"):
            for option in ("--out", "--json"):
                self.refuses("probe", "--only", "fnord", option, unwritable, says=[str(unwritable), "cannot be written"],
                             code=ENVIRONMENT)
        self.succeeds("probe", "--only", "^add.256$", "--quick", "--no-pairs", "--json", self.folder / "here.json")
        self.assertEqual({path.name for path in self.folder.iterdir()}, {"broken.json", "here.json"})

    def test_says_why_there_is_no_gpu_to_measure(self):
        self.need_ptxas()
        if os.path.exists("/dev/nvidia0"):
            self.skipTest("there is a GPU")
        self.refuses("probe", "--device", "cuda", "--only", "^ffma$", says=["driver", "--prove"], code=ENVIRONMENT)

    def test_refuses_options_that_it_has_no_use_for(self):
        for options in (["--prove", "--out", "x.json"], ["--list", "--out", "x.json"], ["--prove", "--name", "x"], ["--arch", "90a"],
                        ["--list", "--arch", "90a"], ["--disassembler", "none"], ["--quick", "--device", "cuda"], ["--quick", "--list"],
                        ["--quick", "--prove"]):
            self.refuses("probe", "--only", "^add.256$", *options, says="leave it out")

    def test_names_what_exists(self):
        self.refuses("probe", "--only", "fnord", says=["fma.512", "fnord"])
        self.assertEqual([p["name"] for p in self.json_of("probe", "--list", "--only", "^lop3$")["cuda"]], ["lop3"])
        self.refuses("probe", "--prove", "--arch", "SM_90a", says="'SM_90a'")
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

    def test_says_of_a_move_what_it_counts_as(self):
        text = self.succeeds("bound", "--machine", MACHINES / "h200-rates.json", "--counts", "MUFU.EX2=8", "--move", "MUFU.EX2:25:SEL=1").stdout
        self.assertIn("SEL has no measured rate of its own", text)

    def test_takes_a_loop_of_pinch_sass(self):
        cubin, document = DATA / "kernels.sm_90a.cubin", self.folder / "sass.json"
        self.succeeds("sass", cubin, "--disassembler", "none", "--json", document)
        bound = self.json_of("bound", "--sass", document, "--kernel", "softmax_loop")
        self.assertEqual((bound["bound_by"], bound["bound_cycles"]), ("xu", 32))
        self.refuses("bound", "--sass", document, "--kernel", "softmax_loop", "--loop", "7", says="softmax_loop (1 loops)")
        # Four exponentials of eight cycles of xu each: one of them to six multiply-adds.
        moved = self.json_of("bound", "--sass", document, "--kernel", "softmax_loop", "--move", "MUFU.EX2:25:FFMA=6",
                             "--move", "FFMA:50:FADD=1")
        before, after = moved["units"], moved["moves"][0]["units"]
        self.assertEqual((after["xu"], after["issue"], after["fma"]), (24, before["issue"] + 5, before["fma"] + 6))
        self.assertEqual((moved["moves"][0]["bound_by"], moved["moves"][0]["bound_cycles"]), ("issue", 30))
        self.assertEqual(moved["moves"][1]["units"]["xu"], 24)
        self.refuses("bound", "--sass", document, "--kernel", "softmax_loop", "--move", "MUFU.RCP:25:FFMA=6", says="MUFU.EX2")

    def test_takes_every_model_that_is_shipped(self):
        for name in ("h200-rates", "h200-stated", "h100", "b200", "gb300"):
            document = self.json_of("bound", "--machine", MACHINES / f"{name}.json", "--counts", "MUFU.EX2=128")
            self.assertEqual(document["counted_as"], {"MUFU.EX2": "ex2.f32"}, name)

    def test_takes_a_loop_on_a_measured_machine(self):
        cubin, document = DATA / "kernels.sm_90a.cubin", self.folder / "sass.json"
        self.succeeds("sass", cubin, "--disassembler", "none", "--json", document)
        bound = self.json_of("bound", "--sass", document, "--kernel", "softmax_loop", "--machine", MACHINES / "h200-rates.json")
        rate = next(e["value"] for e in json.loads((MACHINES / "h200-rates.json").read_text())["entries"] if e["name"] == "ex2.f32")
        self.assertAlmostEqual(bound["units"]["xu"], 4 * 128 / rate)  # four exponentials
        self.assertIn("BRA", bound["rates_as_stated"])
        self.assertNotIn("without_rate", bound)
        self.refuses("bound", "--sass", document, "--kernel", "softmax_loop", "--counts", "FFMA=1", says="--counts")
        self.refuses("bound", "--sass", document, "--kernel", "softmax_loop", "--machine", MACHINES / "h200-rates.json",
                     "--move", "MUFU.EX2:25:FMA=6", says=["'FMA'", "FFMA"])

    def test_adds_up_what_shares_a_unit_on_a_measured_machine(self):
        rates = MACHINES / "h200-rates.json"
        bound = self.json_of("bound", "--machine", rates, "--counts", "LOP3=64,IADD3=64,F2FP=64,SEL=64")
        self.assertEqual(bound["bound_by"], "alu")
        self.assertAlmostEqual(bound["bound_cycles"], 4 * 128, delta=1)
        self.assertEqual(bound["rates_as_stated"], ["SEL"])  # of no probe, so of sm_90a's table
        self.assertNotIn("sharing_unknown", bound)
        # Slower together than one unit would be, so that the pair decides nothing: as `ffma16_imad16_spread` of data/sass shows.
        bound = self.json_of("bound", "--machine", rates, "--counts", "FFMA=64,IMAD=64")
        self.assertAlmostEqual(bound["bound_cycles"], 128, delta=1)
        bound = self.json_of("bound", "--machine", rates, "--counts", "HFMA2=16,HFMA2.MMA=16")
        self.assertEqual(bound["bound_cycles"], 32)
        text = self.succeeds("bound", "--machine", rates, "--counts", "FADD=64,SEL=1").stdout
        self.assertIn("SEL has no measured rate of its own", text)
        self.assertIn("FADD is of the unit that is stated", text)

    def test_takes_the_rates_of_a_core(self):
        model = MACHINES / "emerald-rapids-rates.json"
        bound = self.json_of("bound", "--machine", model, "--counts", "dot.bf16.512=8,div.512=2")
        rates = {e["name"]: e["value"] for e in json.loads(model.read_text())["entries"]}
        self.assertEqual(bound["bound_by"], "div.512")
        self.assertAlmostEqual(bound["bound_cycles"], 2 / rates["div.512"])
        self.refuses("bound", "--machine", model, "--counts", "fnord=1", says=["fnord", "div.512"])

    def test_refuses_what_it_does_not_know(self):
        self.refuses("bound", "--machine", self.folder, "--counts", "FFMA=1", says="is a folder")
        self.refuses("bound", says="--counts")
        for machine in ("sm_90a", MACHINES / "h200-rates.json"):
            for counts in ("FNORD=1", "FFMA=1,FNORD=1"):
                self.refuses("bound", "--machine", machine, "--counts", counts, says=["FNORD", "FFMA", "MUFU"])
            self.refuses("bound", "--machine", machine, "--counts", "MUFU.EX2=8", "--move", "MUFU.EX2:25:FMA=6",
                         says=["'FMA'", "FFMA"])
        self.refuses("bound", "--machine", "sm_99", "--counts", "FFMA=1", says=["sm_99", "sm_90a"])
        self.refuses("bound", "--machine", MACHINES / "h200.json", "--counts", "FFMA=1", says="h200-rates.json")
        for option in ("--kernel", "k"), ("--loop", "0"):
            self.refuses("bound", "--machine", "sm_90a", "--counts", "FFMA=1", *option, says="--sass")
        self.refuses("bound", "--machine", "sm_90a", "--counts", "FFMA", says="NAME=COUNT")
        self.refuses("bound", "--machine", self.folder / "none.json", "--counts", "FFMA=1", says="cannot be read")
        bad = self.folder / "bad.json"
        bad.write_text("{}")
        self.refuses("bound", "--machine", bad, "--counts", "FFMA=1", says="bad.json")


class CompareRatesTest(CliTest):
    """bench/compare_rates.py: says whether what was measured is what is stated, and of which device."""

    STATED = {f"p{i}": 10.0 + i for i in range(10)}

    def write(self, name, values, device, **more):
        entries = [{"name": n, "value": v, "unit": "cycles", "spread": 0} for n, v in values.items()]
        path = self.folder / name
        path.write_text(json.dumps({"schema": "pinch-probe/1", "name": name, "device": device, "entries": entries, **more}))
        return path

    def compare(self, measured, stated):
        return subprocess.run([sys.executable, ROOT / "bench" / "compare_rates.py", measured, stated],
                              capture_output=True, text=True)

    def test_agrees_within_three_percent_on_nine_of_ten(self):
        stated = self.write("stated", self.STATED, "a chip", applies_to="^chip 7 ")
        one_off = {**self.STATED, "p0": 10 * 1.029, "p1": 11 * 1.2}
        run = self.compare(self.write("one", one_off, "chip 7 rev b"), stated)
        self.assertEqual(run.returncode, OK, run)
        self.assertIn("9 of 10 within 3%", run.stdout)
        self.assertNotIn("decides nothing", run.stdout)
        run = self.compare(self.write("two", {**one_off, "p2": 12 * 0.96}, "chip 7 rev b"), stated)
        self.assertEqual(run.returncode, FAILED, run)
        self.assertIn("8 of 10 within 3%", run.stdout)
        self.assertEqual(run.stdout.count("<- outside"), 2)
        run = self.compare(self.write("lost", {**one_off, "p2": None}, "chip 7 rev b"), stated)
        self.assertEqual(run.returncode, FAILED, run)
        self.assertIn("not measured", run.stdout)

    def test_holds_the_runs_that_are_kept(self):
        rates = MACHINES / "h200-rates.json"
        run = self.compare(rates, MACHINES / "h200-stated.json")
        self.assertEqual(run.returncode, OK, run)
        self.assertIn("NVIDIA H200: 13 of 13 within 3%\n", run.stdout)
        run = self.compare(rates, ROOT / "data" / "h200" / "probe" / "again.json")
        self.assertEqual(run.returncode, OK, run)
        self.assertIn("NVIDIA H200: 162 of 162 within 3%\n", run.stdout)

    def test_says_so_on_another_device(self):
        stated = self.write("stated", self.STATED, "a chip", applies_to="^chip 7 ")
        run = self.compare(self.write("other", {**self.STATED, "p0": 99, "p1": 99}, "chip 8"), stated)
        self.assertEqual(run.returncode, OK, run)
        self.assertIn("stated is not of this device, so this decides nothing", run.stdout)

    def test_holds_a_second_run_against_the_first(self):
        first = self.write("first", self.STATED, "chip 9")
        self.assertEqual(self.compare(self.write("same", self.STATED, "chip 9"), first).returncode, OK)
        self.assertEqual(self.compare(self.write("off", {n: 2 * v for n, v in self.STATED.items()}, "chip 9"), first).returncode, FAILED)

    def test_knows_a_zen_4_by_its_family_and_model(self):
        cited = json.loads((MACHINES / "zen4.json").read_text())
        for device, is_zen4 in (("AMD EPYC 9R14 (family 25 model 17 stepping 1)", True),
                                ("AMD Ryzen 7 (family 25 model 97 stepping 2)", True),
                                ("AMD EPYC 7763 (family 25 model 1 stepping 1)", False),
                                ("Intel(R) Xeon(R) Processor (family 6 model 207 stepping 2)", False)):
            run = self.compare(self.write("here", {e["name"]: e["value"] for e in cited["entries"]}, device), MACHINES / "zen4.json")
            self.assertEqual("decides nothing" not in run.stdout, is_zen4, run.stdout)

    def test_refuses_what_states_nothing(self):
        measured = self.write("measured", self.STATED, "chip")
        empty = self.write("empty", {}, "chip")
        marked = self.write("marked", self.STATED, "chip")
        document = json.loads(marked.read_text())
        for entry in document["entries"]:
            entry["mark"] = "shared"
        marked.write_text(json.dumps(document))
        none = self.write("none", {"p0": None}, "chip")
        for stated in (empty, marked, none):
            run = self.compare(measured, stated)
            self.assertEqual(run.returncode, FAILED, run)
            self.assertIn("states nothing that decides", run.stderr)
        for text in ("[]", "{}", '{"schema": "pinch-probe/1"}', '{"schema": "pinch-probe/1", "name": "n", "device": "d", "entries": [{"name": "a"}]}',
                     '{"schema": "pinch-probe/1", "name": "n", "device": "d", "entries": [{"name": "a", "value": "x", "spread": 0, "unit": "cycles"}]}'):
            empty.write_text(text)
            run = self.compare(measured, empty)
            self.assertEqual(run.returncode, FAILED, run)
            self.assertRegex(run.stderr, "^compare_rates: .*empty")

    def test_counts_neither_a_marked_measurement_nor_another_unit(self):
        stated = self.write("stated", self.STATED, "chip")
        for key, value in (("mark", "spread 9%"), ("unit", "GHz"), ("value", None)):
            measured = self.write("measured", self.STATED, "chip")
            document = json.loads(measured.read_text())
            for entry in document["entries"][:2]:
                entry[key] = value
            measured.write_text(json.dumps(document))
            run = self.compare(measured, stated)
            self.assertEqual(run.returncode, FAILED, (key, run))
            self.assertIn("8 of 10 within 3%", run.stdout)

    def test_compares_pairs_and_ranges(self):
        pair = {"first": "a", "second": "b", "overlap": 1.5, "most": 1.5, "spread": 0}
        stated = self.folder / "stated"
        stated.write_text(json.dumps({"schema": "pinch-probe/1", "name": "s", "device": "d", "applies_to": "d", "entries": [
            {"name": "a", "value": 120, "unit": "cycles", "spread": 0.05}], "pairs": [pair]}))
        run = self.compare(self.write("good", {"a": 126}, "d", pairs=[{**pair, "overlap": 1.98, "most": 2}]), stated)
        self.assertEqual(run.returncode, OK, run)
        run = self.compare(self.write("bad", {"a": 127}, "d", pairs=[{**pair, "overlap": 1, "most": 2}]), stated)
        self.assertEqual(run.returncode, FAILED, run)

    def test_what_the_stated_model_marks_decides_nothing(self):
        stated = self.folder / "stated"
        stated.write_text(json.dumps({"schema": "pinch-probe/1", "name": "s", "device": "d", "entries": [
            {"name": "a", "value": 31.5, "unit": "cycles", "spread": 0, "mark": "of another loop"},
            {"name": "b", "value": 10, "unit": "cycles", "spread": 0}]}))
        run = self.compare(self.write("good", {"a": 64, "b": 10}, "d"), stated)
        self.assertEqual(run.returncode, OK, run)
        self.assertIn("1 of 1 within", run.stdout)
        self.assertIn("of another loop", run.stdout)
        self.assertEqual(self.compare(self.write("bad", {"a": 31.5, "b": 11}, "d"), stated).returncode, FAILED)

    def test_refuses_another_kind_of_file(self):
        bad = self.folder / "bad.json"
        bad.write_text("{}")
        run = self.compare(bad, bad)
        self.assertIn("bad.json", run.stderr)
        self.assertNotEqual(run.returncode, OK)


class GpuProbeScriptTest(CliTest):
    """scripts/gpu_probe.sh on a planted machine: a GPU that nvidia-smi shows, and a program that writes known figures."""

    def plant(self, name, text):
        path = self.folder / name
        path.write_text(text)
        path.chmod(0o755)
        return path

    def run_script(self, rate, capability="9.0"):
        stated = json.loads((MACHINES / "h200-stated.json").read_text())
        stated["entries"][0]["value"] *= rate
        (self.folder / "model.json").write_text(json.dumps(stated))
        self.plant("nvidia-smi", f"#!/bin/sh\necho 'NVIDIA H200, 580.1, {capability}'\n")
        self.plant("ptxas", "#!/bin/sh\n")
        program = self.plant("program", "#!/bin/sh\nfor last; do :; done\ncase \"$*\" in *--out*|*--prove*) "
                             f"cp '{self.folder}/model.json' \"$last\" ;; esac\necho \"$*\"\n")
        return subprocess.run([ROOT / "scripts" / "gpu_probe.sh", self.folder / "out"], capture_output=True, text=True,
                              env={**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}", "PINCH": str(program)})

    def test_proves_measures_twice_and_compares(self):
        run = self.run_script(1)
        self.assertEqual(run.returncode, OK, run)
        for said in ("NVIDIA H200, 580.1, sm_90a", "probe --prove --arch sm_90a", "--device cuda --arch sm_90a --name h200-rates",
                     "13 of 13 within 3%"):
            self.assertIn(said, run.stdout)
        self.assertTrue((self.folder / "out" / "rates.json").exists())

    def test_names_what_is_off(self):
        run = self.run_script(1.05)
        self.assertIn("+5.0%", run.stdout)
        self.assertIn("12 of 13 within 3%", run.stdout)

    def test_refuses_a_gpu_without_probes(self):
        run = self.run_script(1, capability="7.0")
        self.assertEqual(run.returncode, ENVIRONMENT, run)
        self.assertIn("7.0", run.stderr)
