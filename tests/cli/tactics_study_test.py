"""pinch tactics study: regret against a truth file, its gates and its refusals."""

import json
import os
import pathlib

from harness import CliTest, FAILED

HEAD = """# pinch-truth: 1
# family: sm100
# sms: 148
# machine: a test
# source: made by hand
# method: none
m,n,k,format,output,tactic,verdict,median_ns
"""
ROWS = """2048,4096,4096,nvfp4,bf16,128x128x256-c1x1-rn,ok,100
2048,4096,4096,nvfp4,bf16,256x192x256-c2x1-rn,ok,150
2048,4096,4096,nvfp4,bf16,128x8x256-c1x1-rm,ok,1000
"""


RECORDS = pathlib.Path(__file__).resolve().parents[2] / "data" / "cpu"
# Geomean and worst regret allowed on each record. The second has no target of its own: its bars hold what was reached.
BARS = {"emerald-rapids.csv": (1.05, 1.20), "emerald-rapids-small.csv": (1.10, 1.40)}


class RecordsTest(CliTest):
    def test_the_default_of_the_cpu_family_is_close_to_the_best_of_every_record(self):
        self.assertEqual(sorted(BARS), sorted(record.name for record in RECORDS.glob("*.csv")))
        for name, (geomean, worst) in BARS.items():
            self.succeeds("tactics", "study", "--truth", RECORDS / name, "--model", "time", "--max-geomean", geomean,
                          "--max-worst", worst)

    def test_the_count_of_work_that_it_replaced_would_fail_there(self):
        run = self.run_pinch("tactics", "study", "--truth", RECORDS / "emerald-rapids.csv", "--model", "work",
                             "--max-geomean", 1.05, "--max-worst", 1.20)
        self.assertEqual(run.code, FAILED, run)


class HalvesTest(CliTest):
    """The sm90 family's own ground truth: fitted on one half of the problems, judged on the other."""

    GOLDEN = pathlib.Path(__file__).resolve().parent / "golden" / "sm90_study.json"

    def test_answers_the_contract(self):
        document = self.json_of("tactics", "study", "--family", "sm90")
        self.assertEqual(list(document), ["family", "provenance", "fit", "held_out"])
        for half in ["fit", "held_out"]:
            self.assertEqual([model["model"] for model in document[half]["models"]],
                             ["pinch", "pr", "waves", "first", "roller"])
            for model in document[half]["models"]:
                self.assertEqual(len(model["per_problem"]), document[half]["problems"])
        problems = [[[row[key] for key in ["m", "n", "k", "format"]] for row in document[half]["models"][0]["per_problem"]]
                    for half in ["fit", "held_out"]]
        self.assertGreaterEqual(len(problems[0]) + len(problems[1]), 60)
        self.assertFalse([problem for problem in problems[0] if problem in problems[1]])

    def test_picks_and_regrets_are_those_recorded(self):
        # After a change that is meant to change them: PINCH_WRITE_GOLDEN=1 ctest -R cli.tactics_study
        document = self.json_of("tactics", "study", "--family", "sm90")
        models = document["held_out"]["models"]
        seen = {"models": {model["model"]: [round(model["geomean"], 4), round(model["worst"], 4)] for model in models},
                "median_abs_error": round(models[0]["median_abs_error"], 4),
                "picks": [[row["m"], row["n"], row["k"], row["format"], row["pick"], row["regret"] and round(row["regret"], 4)]
                          for row in models[0]["per_problem"]]}
        if os.environ.get("PINCH_WRITE_GOLDEN"):
            picks = ",\n    ".join(json.dumps(row) for row in seen.pop("picks"))
            self.GOLDEN.parent.mkdir(exist_ok=True)
            self.GOLDEN.write_text(json.dumps(seen, indent=2)[:-2] + ',\n  "picks": [\n    ' + picks + "\n  ]\n}\n")
            return
        self.assertEqual(seen, json.loads(self.GOLDEN.read_text()))

    def test_the_default_is_close_to_the_best_on_problems_that_the_fit_did_not_see(self):
        self.succeeds("tactics", "study", "--family", "sm90", "--model", "pinch", "--max-geomean", 1.03, "--max-worst",
                      1.15)

    def test_the_rules_that_it_replaced_would_fail_there(self):
        for model in ["pr", "waves", "first", "roller"]:
            run = self.run_pinch("tactics", "study", "--family", "sm90", "--model", model, "--max-geomean", 1.03)
            self.assertEqual(run.code, FAILED, run)

    def test_refuses_another_family_and_a_missing_half(self):
        self.refuses("tactics", "study", "--family", "sm90", "--truth", RECORDS / "emerald-rapids.csv",
                     says="records the cpu family")
        self.refuses("tactics", "study", "--family", "cpu", says="no --truth FILE")
        (self.folder / "fit.csv").write_text(HEAD + ROWS)
        self.refuses("tactics", "study", "--truth", self.folder, says="held_out.csv")


class CliffTest(CliTest):
    def test_no_cell_moves_alone_between_the_recorded_levels(self):
        document = self.json_of("tactics", "cliff")
        self.assertEqual(list(document), ["cells", "median", "noise", "moved"])
        self.assertGreater(document["cells"], 1100)
        self.assertEqual(document["moved"], [])
        self.assertLess(abs(document["median"] - 1), 0.01)

    LEVEL = RECORDS.parent / "h200" / "gemm_bf16_fp4" / "opt_level"

    def plant(self, part, factor):
        """A copy of a record whose first cell took `factor` times as long as in -O2's first round."""
        first = {row.rsplit(",", 1)[0]: row.rsplit(",", 1)[1] for row in (self.LEVEL / "o2_1.csv").read_text().splitlines() if ",ok," in row}
        lines = (self.LEVEL / f"{part}.csv").read_text().splitlines()
        cell = next(i for i, line in enumerate(lines) if line.startswith("1,4096,4096") and ",ok," in line)
        head = lines[cell].rsplit(",", 1)[0]
        lines[cell] = f"{head},{float(first[head]) * factor}"
        planted = self.folder / f"{part}.csv"
        planted.write_text("\n".join(lines))
        return planted

    def test_names_a_cell_that_moves_alone_and_exits_1(self):
        for factor in [1.5, 1.06, 0.94]:
            planted = [self.plant(part, factor) for part in ["o3_1", "o3_2"]]
            document = self.json_of("tactics", "cliff", "--second", *planted, code=FAILED)
            self.assertEqual([(cell["m"], cell["n"]) for cell in document["moved"]], [(1, 4096)], factor)
            self.assertAlmostEqual(document["moved"][0]["ratio"], factor, delta=0.05)

    def test_a_cell_that_moves_in_one_round_of_two_is_noise(self):
        document = self.json_of("tactics", "cliff", "--second", self.plant("o3_1", 1.5), self.LEVEL / "o3_2.csv")
        self.assertEqual(document["moved"], [])

    def test_refuses_records_that_share_no_cell(self):
        record = RECORDS / "emerald-rapids.csv"
        self.refuses("tactics", "cliff", "--first", record, record, says="timed in all four records")


class StudyTest(CliTest):
    def truth(self, text):
        path = self.folder / "truth.csv"
        path.write_text(text)
        return path

    def test_studies_every_model_of_the_family(self):
        document = self.json_of("tactics", "study", "--truth", self.truth(HEAD + ROWS))
        self.assertEqual(document["family"], "sm100")
        self.assertEqual(document["provenance"]["source"], "made by hand")
        regrets = {study["model"]: study["problems"][0]["regret"] for study in document["studies"]}
        self.assertEqual(regrets, {"pr": 1.0, "waves": 1.5, "first": 10.0, "cluster": 1.0})
        waves = document["studies"][1]
        self.assertEqual(list(waves), ["model", "geomean", "worst", "worst_problem", "median_abs_error",
                                       "unmeasured_picks", "unknown_tactics", "problems"])
        self.assertEqual(waves["worst_problem"]["n"], 4096)
        self.assertIsNone(waves["median_abs_error"])
        self.assertEqual(waves["problems"][0]["best"], "128x128x256-c1x1-rn")

    def test_fails_a_gate_that_is_exceeded(self):
        truth = self.truth(HEAD + ROWS)
        self.succeeds("tactics", "study", "--truth", truth, "--model", "waves", "--max-worst", 1.5)
        run = self.run_pinch("tactics", "study", "--truth", truth, "--model", "waves", "--max-worst", 1.49)
        self.assertEqual(run.code, FAILED, run)
        self.assertIn("exceed the gate", run.stderr)
        run = self.run_pinch("tactics", "study", "--truth", truth, "--model", "waves", "--max-geomean", 1.49)
        self.assertEqual(run.code, FAILED, run)

    def test_fails_a_gate_on_a_pick_that_was_not_measured(self):
        truth = self.truth(HEAD + ROWS.replace("256x192x256-c2x1-rn,ok,150", "256x192x256-c2x1-rn,hopeless,"))
        run = self.run_pinch("tactics", "study", "--truth", truth, "--model", "waves", "--max-worst", 100)
        self.assertEqual(run.code, FAILED, run)
        self.assertIn("picked but not measured: 256x192x256-c2x1-rn", run.stdout)

    def test_writes_the_same_document_to_a_file(self):
        truth = self.truth(HEAD + ROWS)
        path = self.folder / "study.json"
        self.succeeds("tactics", "study", "--truth", truth, "--json", path)
        self.assertEqual(json.loads(path.read_text()), self.json_of("tactics", "study", "--truth", truth))

    def test_refuses_a_missing_file(self):
        self.refuses("tactics", "study", "--truth", "nowhere.csv", says="nowhere.csv")

    def test_refuses_a_broken_file_by_line(self):
        self.refuses("tactics", "study", "--truth", self.truth(HEAD + ROWS + "1,2,3\n"), says="truth.csv:11: 3 cells")

    def test_refuses_an_unknown_model(self):
        self.refuses("tactics", "study", "--truth", self.truth(HEAD + ROWS), "--model", "best",
                     says=["unknown model 'best'", "waves"])

    def test_refuses_a_folder_without_halves(self):
        self.refuses("tactics", "study", "--truth", self.folder, says="fit.csv")
