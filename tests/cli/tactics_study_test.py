"""pinch tactics study: regret against a truth file, its gates and its refusals."""

import json
import pathlib

from harness import CliTest, ENVIRONMENT, FAILED

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

    def test_refuses_a_folder(self):
        self.refuses("tactics", "study", "--truth", self.folder, says=str(self.folder), code=ENVIRONMENT)
