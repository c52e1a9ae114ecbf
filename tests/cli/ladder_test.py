"""pinch tune SUBJECT.toml: the ladder on a program that none of us wrote, with faults that are planted in it."""

import shlex

from harness.sweeps import ROOT, SweepTest

CUBIN = ROOT / "tests" / "data" / "sass" / "kernels.sm_90a.cubin"
RUNGS = ["throughput", "pipeline", "schedule", "algebra", "handoff", "tactic", "proof"]
# Its time follows from the knobs, so that nothing depends on the machine: 100 where nothing is planted.
SUBJECT = """
name = "planted"
command = ["sh", "-c", "echo run >> runs; cp $PINCH_INPUTS/x.npy $PINCH_OUTPUTS/y.npy; test ${wrong} = 0 || echo x > $PINCH_OUTPUTS/y.npy; echo '{\\"ms\\": ${cost}}'"]
metric = {kind = "json", name = "ms"}
inputs = {x = {dtype = "f32", shape = [4]}}
outputs = {y = {file = "y.npy"}}
[let]
cost = "100 + BAD_SPLIT * min(1, split % 3) + BAD_TILE * min(1, tile % 3) - 50 * wrong"
ahead = "split + 1"
[knobs.tile]
values = [1, 2, 3]
default = 1
[knobs.split]
values = [1, 2, 3]
default = 1
[knobs.wrong]
values = [0]
default = 0
[[contract]]
require = "ahead < 6"
reason = "the producer overtakes the consumer"
"""


class Ladder(SweepTest):
    def climb(self, split=0, tile=0, change=lambda text: text, *more):
        text = change(SUBJECT.replace("BAD_SPLIT", str(split)).replace("BAD_TILE", str(tile)))
        document = self.json_of("tune", self.subject(text), "--db", self.database, "--repeats", 3, *more)
        self.assertEqual([finding["rung"] for finding in document["findings"]], RUNGS)
        return {finding["rung"]: finding for finding in document["findings"]}

    def claims(self, findings):
        return {rung: round(finding["bound_percent"], 6) for rung, finding in findings.items() if finding["verdict"] == "headroom"}

    def test_nothing_is_claimed_of_a_program_that_is_right(self):
        findings = self.climb()
        self.assertEqual(self.claims(findings), {})
        for rung in ("handoff", "tactic", "proof"):
            self.assertEqual(findings[rung]["verdict"], "ruled_out", findings[rung])
        for rung in ("throughput", "pipeline", "schedule", "algebra"):
            self.assertEqual(findings[rung]["verdict"], "not_measured", findings[rung])
        self.assertEqual(findings["proof"]["evidence"]["checked"], 9)

    def test_a_bad_split_is_handoffs_and_a_bad_tile_tactics(self):
        self.assertEqual(self.claims(self.climb(split=25)), {"handoff": 20})
        self.assertEqual(self.claims(self.climb(tile=25)), {"tactic": 20})
        both = self.climb(split=25, tile=25)  # of 150 each is 25
        self.assertEqual(self.claims(both), {"handoff": round(100 / 6, 6), "tactic": round(100 / 6, 6)})
        self.assertEqual(both["handoff"]["evidence"]["best"], "tile=1,split=3,wrong=0")
        self.assertEqual(both["tactic"]["evidence"]["best"], "tile=3,split=3,wrong=0")

    def test_a_setting_that_is_fast_and_wrong_is_proofs(self):
        breaks = lambda text: text.replace("values = [0]", "values = [0, 1]")
        findings = self.climb(0, 0, breaks)
        self.assertEqual(self.claims(findings), {})
        self.assertEqual(len(findings["proof"]["evidence"]["wrong"]), 9)
        self.assertIn("9 of 18 settings are wrong and out", findings["proof"]["why"])

    def test_code_and_a_trace_add_their_rungs(self):
        self.succeeds("trace", "gemm", "--m", 4, "--n", 256, "--k", 256, "--threads", 1, "--rounds", 1, "--keep", "t.trace")
        findings = self.climb(0, 0, lambda text: text, "--code", CUBIN, "--kernel", "^forced_spill$", "--warps", 16, "--trace", "t.trace")
        self.assertIn(findings["pipeline"]["verdict"], ("headroom", "not_measured"))
        self.assertIn("what its marks cost is not known", findings["pipeline"]["why"])
        self.assertEqual(findings["pipeline"]["evidence"]["file"], "t.trace")
        self.assertEqual((findings["schedule"]["verdict"], findings["algebra"]["verdict"]), ("headroom", "ruled_out"))
        self.assertIn("spill-in-loop", findings["schedule"]["why"])
        self.assertEqual(findings["throughput"]["why"], "lsu bounds the loop; units that are not it are ruled out")

    def test_what_the_marks_cost_may_rule_waits_out_and_in(self):
        self.succeeds("trace", "gemm", "--m", 4, "--n", 256, "--k", 256, "--threads", 1, "--rounds", 1, "--keep", "t.trace")
        verdicts = {}
        for slows in (0, 50):
            pipeline = self.climb(0, 0, lambda text: text, "--trace", "t.trace", "--trace-slows", slows)["pipeline"]
            share = pipeline["evidence"]["waiting_share"]
            self.assertEqual(pipeline["evidence"]["inflation_at_most"], slows / 100)
            self.assertAlmostEqual(pipeline["bound_percent"], share * (100 + slows) + slows)
            verdicts[slows] = pipeline["verdict"]
        self.assertIn(verdicts[0], ("headroom", "ruled_out"))
        self.assertEqual(verdicts[50], "headroom" if share > 0.02 else "not_measured")
        spec = self.subject(SUBJECT.replace("BAD_SPLIT", "0").replace("BAD_TILE", "0"))
        self.refuses("tune", spec, "--trace-slows", 3, says="--trace")

    def test_what_needs_no_run_runs_nothing(self):
        spec = self.subject(SUBJECT.replace("BAD_SPLIT", "0").replace("BAD_TILE", "0"))
        document = self.json_of("tune", spec, "--db", self.database, "--code", CUBIN, "--kernel", "^wgmma_loop$", "--warps", 8, "--only", "throughput,schedule")
        self.assertFalse((self.folder / "runs").exists())
        verdicts = {finding["rung"]: finding["verdict"] for finding in document["findings"]}
        self.assertEqual((verdicts["throughput"], verdicts["schedule"], verdicts["tactic"]), ("ruled_out", "ruled_out", "not_measured"))

    def test_its_commands_repeat_it(self):
        findings = self.climb(25)
        for rung, finding in findings.items():
            words = shlex.split(finding["command"])
            self.assertEqual(words[:2], ["pinch", "tune"])
            if rung in ("handoff", "tactic", "proof"):
                again = self.json_of(*words[1:], "--db", self.database)
                self.assertEqual({f["rung"]: f["verdict"] for f in again["findings"]}[rung], finding["verdict"])

    def test_the_readmes_commands_work_as_they_stand(self):
        text = (ROOT / "README.md").read_text().split("## Your own program")[1]
        commands = [line.split() for line in text.splitlines() if line.startswith("    build/bin/pinch ")][:2]
        self.assertEqual([words[1] for words in commands], ["tune", "report"])
        tune = [str(ROOT / word) if word.startswith("examples/") else word for word in commands[0][1:]]
        shown = self.succeeds(*tune, "--db", self.database, "--repeats", 1).stdout  # one round: the answers are not this test's matter
        for rung in RUNGS:
            self.assertRegex(shown, rf"(?m)^{rung} +(headroom|ruled_out|not_measured) ")
        self.assertRegex(shown, r"(?m)^proof +ruled_out +-  every one of 8 outputs compared is right$")
        self.succeeds(*commands[1][1:])
        self.assertIn("Tune: prime_sieve", (self.folder / "report.html").read_text())

    def test_refuses_what_is_not_there(self):
        self.refuses("tune", "gem", says=["gem", "gemm and attention"])
        spec = self.subject(SUBJECT.replace("BAD_SPLIT", "0").replace("BAD_TILE", "0"))
        self.refuses("tune", spec, "--code", CUBIN, "--kernel", "^nothing$", says="no kernel matches --kernel '^nothing$'")
        self.refuses("tune", spec, "--trace", spec, says="subject.toml")
        self.refuses("tune", spec, "--only", "split", says="'split' is no rung")
        self.assertFalse((self.folder / "runs").exists())
