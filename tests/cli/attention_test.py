"""pinch tune attention and pinch bench attention."""

from harness import CliTest

PROBLEM = ("--heads", 4, "--kv-heads", 2, "--seq", 70, "--kv-seq", 90, "--dim", 64, "--causal")
SHORT = ("--cold-set", 8, "--budget", 1)
SIZES = {"batch": 1, "heads": 4, "kv_heads": 2, "seq": 70, "kv_seq": 90, "dim": 64, "causal": True}


class TuneAttentionTest(CliTest):
    def tune(self, *more):
        return self.json_of("tune", "attention", *PROBLEM, *SHORT, "--db", self.folder / "pinch.sqlite", *more)

    def test_answers_with_the_fields_of_tune_gemm(self):
        document = self.tune("--pv", "bf16")
        self.assertEqual(list(document)[:7], ["problem", "machine", "default", "best", "regret", "picks", "cached"])
        self.assertEqual({key: document["problem"][key] for key in SIZES}, SIZES)
        self.assertEqual((document["problem"]["pv"], document["problem"]["qk"]), ("bf16", "bf16"))
        self.assertEqual(document["protocol"], "warm")
        names = [pick["tactic"] for pick in document["picks"]]
        self.assertEqual(names[0], document["default"])
        self.assertIn(document["best"], names)
        for pick in document["picks"]:
            self.assertEqual(list(pick)[:7],
                             ["tactic", "verdict", "median_ns", "q1_ns", "q3_ns", "samples", "rel_l2"])
            self.assertIn(pick["verdict"], ("ok", "unstable", "timeout"), pick)  # tests may share the cores
            self.assertGreater(pick["rel_l2"], 1e-4, "P and the output are rounded")
            self.assertLess(pick["rel_l2"], 2**-7)

    def test_every_rung_answers_and_its_commands_run(self):
        findings = {finding["rung"]: finding for finding in self.tune()["findings"]}
        self.assertEqual(len(findings), 7)
        self.assertEqual(findings["schedule"]["verdict"], "not_applicable")
        for rung, more in (("pipeline", ("--rounds", 1)), ("proof", (*SHORT, "--db", self.folder / "pinch.sqlite"))):
            words = findings[rung]["command"].split()
            self.assertEqual(words[0], "pinch")
            self.succeeds(*words[1:], *more)

    def test_rel_l2_is_that_of_the_type(self):
        for pv, low, high in (("fp8", 0.01, 0.06), ("fp4", 0.03, 0.2)):
            document = self.tune("--pv", pv, "--force")
            self.assertEqual(document["problem"]["pv"], pv)
            for pick in document["picks"]:
                self.assertGreater(pick["rel_l2"], low)
                self.assertLess(pick["rel_l2"], high)

    def test_a_second_tune_is_a_hit_and_another_problem_a_miss(self):
        for _ in range(5):
            if self.tune()["decided"]:
                break
        else:
            self.skipTest("the machine is too busy to decide anything")
        self.assertIs(self.tune()["cached"], True)
        self.assertIs(self.tune("--pv", "fp8")["cached"], False)

    def test_prints_a_table_that_says_what_is_emulated(self):
        run = self.succeeds("tune", "attention", *PROBLEM, *SHORT, "--db", self.folder / "pinch.sqlite")
        for words in ("attention  batch 1  heads 4 / 2  seq 70 / 90  dim 64  causal", "best", "limits", "inputs"):
            self.assertIn(words, run.stdout)
        self.assertIn("emulation", self.succeeds("tune", "attention", "--help").stdout)

    def test_bad_input_is_refused_by_name(self):
        for more, says in ((("--dim", 96), "dim"), (("--heads", 4, "--kv-heads", 3), "kv_heads"), (("--pv", "int8"), "int8"),
                           (("--seq", 0), "seq"), (("--batch", 2**40), "2^31")):
            options = {"--heads": 4, "--seq": 32, **dict(zip(more[::2], more[1::2]))}
            self.refuses("tune", "attention", *(word for pair in options.items() for word in pair), says=says)
        self.refuses("tune", "attention", "--seq", 8, says="--heads")
        self.refuses("tune", "attention", *PROBLEM, "--device", "gpu", says=["--device", "cuda:N"])
        self.refuses("tune", "attention", *PROBLEM, "--device", "cuda", "--threads", 1, says="--threads")


class BenchAttentionTest(CliTest):
    def test_times_the_default_and_a_named_tactic(self):
        name = "scalar.32x64.heads.poly5.linear"
        document = self.json_of("bench", "attention", *PROBLEM, *SHORT, "--tactic", name)
        self.assertEqual({key: document["problem"][key] for key in SIZES}, SIZES)
        self.assertTrue(document["rows"][0]["default"])
        self.assertIn(name, [row["name"] for row in document["rows"]])
        for row in document["rows"]:
            self.assertIn(row["verdict"], ("ok", "unstable"), row)
            self.assertLess(row["rel_l2"], 2**-7)

    def test_isa_leaves_that_instruction_set_alone(self):
        document = self.json_of("bench", "attention", *PROBLEM, *SHORT, "--isa", "scalar", "--pv", "fp4")
        self.assertTrue(document["rows"][0]["name"].startswith("scalar."))
        self.assertIn("emulated", document["rows"][0]["numerics"])

    def test_an_unknown_tactic_is_refused_with_near_names(self):
        self.refuses("bench", "attention", *PROBLEM, "--tactic", "scalar.32x64.heads.poly6.linear", says="scalar.32x64")

    def test_a_tactic_illegal_for_the_problem_is_a_row_that_says_why(self):
        document = self.json_of("bench", "attention", *PROBLEM, *SHORT, "--tactic", "scalar.32x64.heads.poly5.log")
        self.assertEqual(document["rows"][1]["verdict"], "illegal")
        self.assertIn("quant", document["rows"][1]["why"])
