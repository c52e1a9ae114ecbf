"""pinch gate: a baseline that holds, and each thing that may become worse, planted."""

import copy
import json
import struct

from harness import CliTest, FAILED
from harness.sweeps import ROOT

CUBIN = ROOT / "tests" / "data" / "sass" / "kernels.sm_90a.cubin"


class Gate(CliTest):
    measured = None

    def setUp(self):
        super().setUp()
        if Gate.measured is None:
            Gate.measured = self.json_of("tune", "gemm", "--m", 2, "--n", 256, "--k", 256, "--cold-set", 8, "--budget", 0.5, "--threads", 1,
                                         "--db", "t.sqlite")
        self.tuned = copy.deepcopy(Gate.measured)
        # What the machine happened to measure is not this test's matter.
        self.tuned.update(best=self.tuned["default"], regret=1.03, tie_band=0.02)
        self.tuned["findings"][0]["bound_percent"] = 12.0
        for pick in self.tuned["picks"]:
            pick.update(verdict="ok", rel_l2=1.0e-3)
        self.write("tune.json", self.tuned)
        self.succeeds("gate", "write", "base.json", "--result", "tune.json", "--code", CUBIN)

    def write(self, name, document):
        (self.folder / name).write_text(json.dumps(document))

    def hold(self, *more, tuned=None, code=CUBIN, fails=True):
        self.write("now.json", tuned or self.tuned)
        document = self.json_of("gate", "hold", "base.json", "--result", "now.json", "--code", code, *more, code=FAILED if fails else 0)
        self.assertEqual(bool(document["failures"]), fails)
        return [failure["change"] for failure in document["failures"]]

    def changed(self, **figures):
        tuned = copy.deepcopy(self.tuned)
        tuned.update(figures)
        return tuned

    def test_holds_what_it_was_written_from(self):
        self.assertEqual(self.hold(fails=False), [])
        run = self.succeeds("gate", "hold", "base.json", "--result", "tune.json", "--code", CUBIN)
        self.assertRegex(run.stdout, r"[1-9]\d+ figures held, 0 failures")

    def test_another_opt_level_is_noticed(self):
        built = CUBIN.read_bytes()
        self.assertIn(b"-O 3", built)
        (self.folder / "o1.cubin").write_bytes(built.replace(b"-O 3", b"-O 1"))
        failures = self.hold(code="o1.cubin")
        self.assertEqual(len(failures), 15, "one a kernel")
        self.assertIn("-O 1 -arch sm_90a\", baseline \"release 13.0, V13.0.88: -lineinfo -O 3", failures[0])
        text = self.run_pinch("gate", "hold", "base.json", "--result", "tune.json", "--code", "o1.cubin").stdout
        self.assertEqual(text.count("FAILED"), 1, "said once")
        self.assertIn("and 14 more: built with", text)
        self.hold("--allow-tools", code="o1.cubin", fails=False)

    def test_code_that_is_worse_is_named(self):
        baseline = json.loads((self.folder / "base.json").read_text())
        kernel = next(kernel for kernel in baseline["code"] if kernel["name"] == "softmax_loop")
        kernel["registers"] -= 1
        kernel["loops"][0]["simulated_cycles"] *= 0.9
        self.write("base.json", baseline)
        failures = self.hold()
        self.assertEqual(len(failures), 2, failures)
        self.assertIn("registers, baseline", failures[0])
        self.assertIn("+11.1% (allowed +2%)", failures[1])

    def test_a_word_that_changed_is_noticed_where_no_word_may(self):
        self.hold("--same-code", fails=False)
        built = CUBIN.read_bytes()
        baseline = json.loads((self.folder / "base.json").read_text())
        listing = self.json_of("sass", CUBIN, "--kernel", "^softmax_loop$", "--disassembler", "none")["kernels"][0]
        # One register of one instruction: figures are the same, and so are the counts of opcodes.
        at = built.index(self.section_of(built, b".text.softmax_loop")) + 4 * 16 + 2
        planted = built[:at] + bytes([built[at] ^ 1]) + built[at + 1:]
        (self.folder / "planted.cubin").write_bytes(planted)
        self.hold(code="planted.cubin", fails=False)
        self.assertEqual(self.hold("--same-code", code="planted.cubin"),
                         [f"the same {listing['instructions']} opcodes in another order, or with other operands or control codes"])
        kernel = next(kernel for kernel in baseline["code"] if kernel["name"] == "softmax_loop")
        kernel["words"].update(digest="0", opcodes=kernel["words"]["opcodes"].replace("MUFU.EX2 ", "MUFU.EX2 1"))
        self.write("base.json", baseline)
        failures = self.hold("--same-code")
        self.assertEqual(len(failures), 1)
        self.assertRegex(failures[0], r"^other instructions: MUFU.EX2 1(\d+) -> \1$")
        del kernel["words"]
        self.write("base.json", baseline)
        self.assertEqual(self.hold("--same-code"), ["the baseline has no digest of its words; write it again"])

    @staticmethod
    def section_of(elf, name):
        """The bytes of a section of a 64-bit ELF file."""
        table, count, names = struct.unpack_from("<Q", elf, 40)[0], *struct.unpack_from("<HH", elf, 60)
        header = lambda i: struct.unpack_from("<IIQQQQ", elf, table + 64 * i)
        strings = header(names)[4]
        for i in range(count):
            text = elf[strings + header(i)[0]:]
            if text[:text.index(0)] == name:
                return elf[header(i)[4]:header(i)[4] + header(i)[5]]
        raise AssertionError(f"no section {name}")

    def test_one_kernel_twice_is_one(self):
        self.assertIn("15 kernels", self.succeeds("gate", "write", "b.json", "--code", CUBIN, "--code", CUBIN).stdout)
        (self.folder / "o1.cubin").write_bytes(CUBIN.read_bytes().replace(b"-O 3", b"-O 1"))
        self.refuses("gate", "write", "b.json", "--code", CUBIN, "--code", "o1.cubin", says="two of the files hold it")

    def test_only_the_kernels_that_are_asked_for_are_held(self):
        self.assertIn("1 kernels", self.succeeds("gate", "write", "one.json", "--code", CUBIN, "--kernel", "^softmax_loop$").stdout)
        self.succeeds("gate", "write", "two.json", "--code", CUBIN, "--kernel", "^(softmax|wgmma)_loop$")
        self.succeeds("gate", "hold", "two.json", "--code", CUBIN, "--kernel", "_loop$")
        run = self.run_pinch("gate", "hold", "two.json", "--code", CUBIN, "--kernel", "^softmax_loop$")
        self.assertEqual(run.code, FAILED, run)
        self.assertRegex(run.stdout, "FAILED +code +wgmma_loop .*: not there now")
        self.refuses("gate", "write", "b.json", "--code", CUBIN, "--kernel", "(", says="--kernel")

    def test_each_figure_of_a_tune_is_held(self):
        self.assertEqual(self.hold(tuned=self.changed(regret=1.10)), ["regret of the default 1.100, baseline 1.030 (allowed 1.071)"])
        self.hold(tuned=self.changed(regret=1.06), fails=False)
        self.hold("--max-regret", 8, tuned=self.changed(regret=1.10), fails=False)
        other = self.changed(best=self.tuned["picks"][1]["tactic"])
        self.assertEqual(self.hold(tuned=other), [f"picks {other['best']}, baseline {self.tuned['best']}"])
        slower = copy.deepcopy(self.tuned)
        slower["findings"][0]["bound_percent"] = 30.0
        self.assertEqual(self.hold(tuned=slower), ["time above the unit that binds, in percent, 30.0, baseline 12.0 (allowed 22.0)"])
        worse = copy.deepcopy(self.tuned)
        worse["picks"][0]["rel_l2"] = 1.02e-3
        self.assertEqual(self.hold(tuned=worse), ["relative L2 error of the pick 0.00102, baseline 0.001 (allowed 0.00101)"])
        wrong = copy.deepcopy(self.tuned)
        wrong["picks"][1]["verdict"] = "wrong"
        self.assertEqual(self.hold(tuned=wrong), [wrong["picks"][1]["tactic"] + " gives a wrong result"])
        tools = copy.deepcopy(self.tuned)
        tools["provenance"]["compiler"] = "gcc 99"
        self.assertIn("compiler \"gcc 99\"", self.hold(tuned=tools)[0])

    def test_another_pick_inside_the_noise_is_none(self):
        self.tuned["regret"] = 1.01
        self.write("tune.json", self.tuned)
        self.succeeds("gate", "write", "base.json", "--result", "tune.json", "--code", CUBIN)
        self.hold(tuned=self.changed(best=self.tuned["picks"][1]["tactic"]), fails=False)

    def test_another_device_is_not_judged(self):
        elsewhere = copy.deepcopy(self.tuned)
        elsewhere["machine"]["device"] = "another"
        elsewhere["regret"] = 3
        self.write("now.json", elsewhere)
        document = self.json_of("gate", "hold", "base.json", "--result", "now.json", "--code", CUBIN)
        self.assertIn("another device", document["unjudged"][0]["change"])

    def test_what_is_not_there_is_a_failure(self):
        self.refuses("gate", "hold", "base.json", says="no figures")
        run = self.run_pinch("gate", "hold", "base.json", "--code", CUBIN)
        self.assertEqual(run.code, FAILED, run)
        self.assertIn("not there now", run.stdout)
        self.succeeds("gate", "hold", "base.json", "--code", CUBIN, "--allow-missing")

    def test_holds_the_tune_of_a_subject(self):
        spec = self.folder / "subject.toml"
        spec.write_text("""
name = "computed"
command = ["sh", "-c", "echo '{\\"ms\\": ${ms}}'"]
metric = {kind = "json", name = "ms"}
problem = {m = [1, 2]}
let = {ms = "100 * m + 5 * tile"}
knobs = {tile = {values = [1, 2], default = 1}}
""")
        documents = self.json_of("tune", spec, "--db", "s.sqlite", "--repeats", 3)
        self.write("subject.json", documents)
        self.assertIn("2 tuned problems", self.succeeds("gate", "write", "s.json", "--result", "subject.json").stdout)
        self.succeeds("gate", "hold", "s.json", "--result", "subject.json")
        documents[1]["problems"][0]["regret_of_default"] = 1.2
        documents[0]["points"][0]["verdict"] = "wrong"
        self.write("subject.json", documents)
        failures = self.json_of("gate", "hold", "s.json", "--result", "subject.json", code=FAILED)["failures"]
        self.assertEqual([(each["what"], each["change"].split(",")[0]) for each in failures],
                         [("computed m=1", "tile=1 gives a wrong result"), ("computed m=2", "regret of the default 1.200")])

    def test_holds_a_comparison(self):
        (self.folder / "a.bin").write_bytes(bytes(16))
        compared = self.json_of("check", "compare", "--baseline", "a.bin", "--candidate", "a.bin", "--dtype", "u8", "--shape", "16")
        self.write("compare.json", compared)
        self.succeeds("gate", "write", "c.json", "--result", "compare.json")
        self.succeeds("gate", "hold", "c.json", "--result", "compare.json")
        compared["verdict"] = "fail"
        self.write("compare.json", compared)
        self.assertIn("verdict fail, baseline", self.run_pinch("gate", "hold", "c.json", "--result", "compare.json").stdout)

    def test_refuses_what_it_cannot_read(self):
        self.refuses("gate", "hold", "none.json", "--code", CUBIN, says=["none.json", "pinch gate write"])
        self.refuses("gate", "write", "b.json", "--code", "none.cubin", says=["none.cubin: cannot open", "give a cubin"])
        self.refuses("gate", "write", "b.json", "--result", "none.json", says=["none.json", "with --json"])
        self.refuses("report", "none.json", "--out", "r.html", says=["none.json", "with --json, or a trace"])
        self.write("x.json", {"a": 1})
        self.refuses("gate", "write", "b.json", "--result", "x.json", says=["x.json", "pinch tune --json"])
        self.refuses("gate", "hold", "x.json", "--code", CUBIN, says="is no baseline")
        (self.folder / "x.json").write_text("{")
        self.refuses("gate", "write", "b.json", "--result", "x.json", says="is no JSON")
        self.refuses("gate", "write", "b.json", "--result", "tune.json", "--result", "tune.json", says="two of the files hold it")
        self.assertFalse((self.folder / "b.json").exists())
