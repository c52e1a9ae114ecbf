"""pinch tune gemm: the contract of its JSON, the store, and what happens when something is in its way."""

import json
import os
import pathlib
import resource
import shutil
import signal
import sqlite3
import subprocess
import time

from harness import CliTest, ENVIRONMENT, OK, Run
from harness import safetensors

SIGNALLED = 130
# Small enough to be tuned in a second; a cold set of 8 MiB is cold enough to test the program with.
PROBLEM = ("--n", 256, "--k", 256, "--cold-set", 8, "--budget", 1, "--threads", 1)


class TuneTest(CliTest):
    def setUp(self):
        super().setUp()
        self.database = self.folder / "pinch.sqlite"

    def arguments(self, *more):
        return ("tune", "gemm", *more, "--db", self.database)

    def tune(self, *more, **options):
        return self.json_of(*self.arguments(*more), **options)

    def decided(self, *more):
        """A tune that the machine left in peace: an undecided one is no cache hit later."""
        for _ in range(5):
            document = self.tune(*more)
            if document["decided"]:
                return document
        self.skipTest("the machine is too busy to decide anything")

    def rows(self, query):
        with sqlite3.connect(self.database) as connection:
            return connection.execute(query).fetchall()


class Contract(TuneTest):
    def test_answers_with_the_documented_fields(self):
        document = self.tune("--m", 3, *PROBLEM)
        self.assertEqual(list(document)[:7], ["problem", "machine", "default", "best", "regret", "picks", "cached"])
        self.assertEqual({key: document["problem"][key] for key in ("m", "n", "k", "format")},
                         {"m": 3, "n": 256, "k": 256, "format": "nvfp4"})
        self.assertIs(document["cached"], False)
        names = [pick["tactic"] for pick in document["picks"]]
        self.assertEqual(names[0], document["default"])
        self.assertIn(document["best"], names)
        self.assertEqual(len(set(names)), len(names))
        for pick in document["picks"]:
            self.assertEqual(list(pick)[:7],
                             ["tactic", "verdict", "median_ns", "q1_ns", "q3_ns", "samples", "rel_l2"])
            if pick["verdict"] == "ok":
                self.assertLessEqual(pick["q1_ns"], pick["median_ns"])
                self.assertLessEqual(pick["median_ns"], pick["q3_ns"])
                self.assertGreater(pick["samples"], 0)
            self.assertGreater(pick["rel_l2"], 1e-5, "a bf16 output is rounded")
            self.assertLess(pick["rel_l2"], 2**-8)

    def test_regret_is_the_default_over_the_fastest(self):
        document = self.tune("--m", 1, *PROBLEM)
        medians = {pick["tactic"]: pick["median_ns"] for pick in document["picks"] if pick["verdict"] == "ok"}
        if document["decided"] and document["default"] in medians:
            self.assertAlmostEqual(document["regret"], medians[document["default"]] / min(medians.values()), places=9)
            self.assertGreaterEqual(document["regret"], 1)

    RUNGS = ["throughput", "pipeline", "schedule", "algebra", "handoff", "tactic", "proof"]

    def test_every_rung_answers(self):
        document = self.tune("--m", 2, *PROBLEM)
        self.assertEqual([finding["rung"] for finding in document["findings"]], self.RUNGS)
        for finding in document["findings"]:
            self.assertEqual(list(finding)[:5], ["rung", "verdict", "bound_percent", "evidence", "command"])
            self.assertIn(finding["verdict"], ("headroom", "ruled_out", "not_applicable", "not_measured"))
            self.assertEqual(finding["command"] is None, finding["verdict"] == "not_applicable", finding)
            self.assertTrue(finding["why"])
            if finding["verdict"] == "headroom":
                self.assertTrue(0 < finding["bound_percent"] <= 100, finding)
        by_rung = {finding["rung"]: finding for finding in document["findings"]}
        self.assertEqual(by_rung["schedule"]["verdict"], "not_applicable")
        self.assertEqual((by_rung["proof"]["verdict"], by_rung["proof"]["evidence"]["wrong"]), ("ruled_out", []))
        # What marks may hide or make is in the pipeline rung's bound and in what later rungs divide (decision 0111).
        unsure = 200 * by_rung["pipeline"]["evidence"]["inflation_at_most"] if by_rung["pipeline"]["verdict"] == "headroom" else 0
        self.assertLessEqual(sum(f["bound_percent"] for f in document["findings"] if f["verdict"] == "headroom"), 100.1 + unsure)
        best = max((f for f in document["findings"] if f["verdict"] == "headroom"), key=lambda f: f["bound_percent"], default=None)
        self.assertEqual(document["next"], best and {"rung": best["rung"], "bound_percent": best["bound_percent"]})
        # The commands are of this program, with this problem; one of each kind is run.
        for rung, command in {f["rung"]: f["command"] for f in document["findings"] if f["command"]}.items():
            self.assertIn("--m 2 --n 256 --k 256 --format nvfp4 --output bf16", command)
            words = command.split()
            self.assertEqual(words[0], "pinch")
            if rung in ("pipeline", "proof"):
                more = ("--rounds", 1) if words[1] == "trace" else ("--budget", 0.3, "--cold-set", 4, "--db", self.database)
                self.succeeds(*words[1:], *more)

    def test_rungs_may_be_left_out_and_say_so(self):
        document = self.tune("--m", 2, *PROBLEM, "--until", "tactic", "--skip", "pipeline,handoff,tactic,algebra")
        by_rung = {finding["rung"]: finding for finding in document["findings"]}
        self.assertEqual(list(by_rung), self.RUNGS)
        for rung in ("pipeline", "algebra", "handoff", "tactic", "proof"):
            self.assertEqual((by_rung[rung]["verdict"], by_rung[rung]["why"]),
                             ("not_measured", "left out by --until tactic --skip pipeline,handoff,tactic,algebra"))
        self.assertEqual(len(document["picks"]), 1, "no other than the default is needed")
        self.assertIn("left out by --only proof", self.succeeds(*self.arguments("--m", 2, *PROBLEM, "--only", "proof")).stdout)
        self.refuses(*self.arguments("--m", 2, *PROBLEM, "--only", "tactics"), says=["--only", "did you mean tactic?", "handoff"])
        self.refuses(*self.arguments("--m", 2, *PROBLEM, "--only", "proof", "--skip", "proof"), says="no rung is left")

    def test_a_list_of_rows_is_a_list_of_results(self):
        documents = self.tune("--m", "1,2", "--m", 5, *PROBLEM)
        self.assertEqual([document["problem"]["m"] for document in documents], [1, 2, 5])

    def test_takes_mxfp4_and_fp32_outputs(self):
        document = self.tune("--m", 2, *PROBLEM, "--format", "mxfp4", "--output", "f32")
        self.assertEqual(document["problem"]["format"], "mxfp4")
        for pick in document["picks"]:
            self.assertLess(pick["rel_l2"], 1e-5)

    def test_isa_leaves_that_instruction_set_alone(self):
        document = self.tune("--m", 1, *PROBLEM, "--isa", "scalar")
        self.assertTrue(document["picks"])
        for pick in document["picks"]:
            self.assertIn(".scalar.", pick["tactic"])

    def test_writes_json_to_a_file_and_the_table_to_stdout(self):
        run = self.succeeds(*self.arguments("--m", 1, *PROBLEM, "--json", "result.json"))
        document = json.loads((self.folder / "result.json").read_text())
        for words in (document["best"], "default", "measured", "limits", "machine", "weights   generated"):
            self.assertIn(words, run.stdout)

    def test_tunes_a_tensor_of_a_file(self):
        values = bytes(range(256)) * 256  # bf16 codes with every low byte; high bytes set below to sane exponents
        tensor = bytearray(values[:2 * 64 * 128])
        tensor[1::2] = bytes(0x3c + (i % 5) for i in range(64 * 128))
        path = self.folder / "model.safetensors"
        safetensors.write(path, {"layer.weight": ("BF16", [64, 128], bytes(tensor))})
        document = self.tune("--m", 2, "--weights", path, "--tensor", "layer.weight", "--cold-set", 8, "--budget", 1)
        self.assertEqual((document["problem"]["n"], document["problem"]["k"]), (64, 128))
        self.assertIn("layer.weight of", document["provenance"]["weights"])


class Cache(TuneTest):
    def test_a_second_run_is_a_hit_and_says_so(self):
        first = self.decided("--m", 1, *PROBLEM)
        second = self.tune("--m", 1, *PROBLEM)
        self.assertIs(second["cached"], True)
        for key in ("problem", "default", "best", "regret", "picks", "rounds", "findings"):
            self.assertEqual(first[key], second[key], key)
        self.assertIn("cached", self.succeeds(*self.arguments("--m", 1, *PROBLEM)).stdout)

    def test_another_problem_policy_or_instruction_set_is_a_miss(self):
        self.decided("--m", 1, *PROBLEM)
        for more in (("--m", 2), ("--m", 1, "--format", "mxfp4"), ("--m", 1, "--rank-by", "warm"),
                     ("--m", 1, "--all"), ("--m", 1, "--isa", "scalar"), ("--m", 1, "--output", "f32"),
                     ("--m", 1, "--force")):
            self.assertIs(self.tune(*more, *PROBLEM)["cached"], False, more)

    def test_a_changed_program_is_a_miss(self):
        self.decided("--m", 1, *PROBLEM)
        changed = self.folder / "pinch"
        shutil.copy(self.program, changed)
        with changed.open("ab") as file:
            file.write(b"\0")
        self.program = str(changed)
        self.assertIs(self.tune("--m", 1, *PROBLEM)["cached"], False)

    def test_the_database_is_where_the_environment_says(self):
        run = ("tune", "gemm", "--m", 1, *PROBLEM)
        self.succeeds(*run, env={"PINCH_DB": str(self.folder / "a.sqlite")})
        self.assertTrue((self.folder / "a.sqlite").exists())
        self.succeeds(*run, env={"PINCH_DB": "", "XDG_CACHE_HOME": str(self.folder / "cache")})
        self.assertTrue((self.folder / "cache" / "pinch" / "pinch.sqlite").exists())
        self.succeeds(*run, env={"PINCH_DB": "", "XDG_CACHE_HOME": "", "HOME": str(self.folder)})
        self.assertTrue((self.folder / ".cache" / "pinch" / "pinch.sqlite").exists())


class StoreTrouble(TuneTest):
    """The store may fail; the result is printed all the same."""

    def expect_result_and_warning(self, run):
        self.assertEqual(run.code, OK, run)
        self.assertIn("warning", run.stderr, run)
        self.assertIn("not stored", run.stderr, run)
        self.assertIn("default", run.stdout, run)
        self.assertEqual(run.stderr.count("warning"), 1, run)

    def test_a_database_that_cannot_be_made(self):
        self.database = pathlib.Path("/proc/pinch/pinch.sqlite")
        self.expect_result_and_warning(self.run_pinch(*self.arguments("--m", 1, *PROBLEM)))

    def test_a_file_that_is_no_database(self):
        self.database.write_text("notes\n" * 1000)
        self.expect_result_and_warning(self.run_pinch(*self.arguments("--m", 1, *PROBLEM)))
        self.assertEqual(self.database.read_text(), "notes\n" * 1000)

    def run_limited(self, **limits):
        process = subprocess.run([self.program, *map(str, self.arguments("--m", 1, *PROBLEM))], capture_output=True,
                                 text=True, timeout=60, check=False, cwd=self.folder, **limits)
        return Run(process.args[1:], process.returncode, process.stdout, process.stderr)

    def test_a_full_disk(self):
        # A file size limit refuses writes as a full disk does, at the byte that is over.
        for limit in (0, 4096, 40000):
            self.database.unlink(missing_ok=True)
            self.expect_result_and_warning(
                self.run_limited(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))))

    def test_a_database_that_may_not_be_written(self):
        self.tune("--m", 2, *PROBLEM)
        self.folder.chmod(0o555)
        self.database.chmod(0o444)
        self.addCleanup(self.folder.chmod, 0o755)
        other = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
        try:  # the build may stand where nobody else may go, as in /root
            probe = subprocess.run([self.program, "version"], capture_output=True, check=False, **other)
        except PermissionError:
            probe = None
        if other and (probe is None or probe.returncode != OK):
            self.skipTest("another user cannot run the program")
        self.expect_result_and_warning(self.run_limited(**other))


class Interrupts(TuneTest):
    LONG = ("--m", 64, "--n", 1024, "--k", 1024, "--cold-set", 16, "--budget", 50, "--all")

    def wait_for_samples(self, process, at_least=50):
        deadline = time.monotonic() + 50
        while time.monotonic() < deadline and process.poll() is None:
            try:
                if self.rows("SELECT count(*) FROM sample")[0][0] >= at_least:
                    return
            except sqlite3.OperationalError:
                pass  # the file or its tables are not there yet
            time.sleep(0.02)
        process.kill()
        self.fail(f"no samples were stored: {process.communicate()}")

    def test_ctrl_c_prints_what_there_is_and_keeps_it(self):
        process = self.start(*self.arguments(*self.LONG))
        self.wait_for_samples(process)
        process.send_signal(signal.SIGINT)
        run = self.finish(process)
        if run.code == OK:
            self.skipTest("the tune ended before the signal came")
        self.assertEqual(run.code, SIGNALLED, run)
        self.assertIn("stopped by interrupted", run.stdout)
        self.assertIn("interrupted", run.stderr)
        self.assertGreaterEqual(self.rows("SELECT count(*) FROM sample")[0][0], 50)
        self.assertEqual(self.rows("SELECT count(*) FROM run WHERE finished_at IS NOT NULL"), [(0,)])

    def test_a_killed_tune_leaves_what_it_had_stored(self):
        process = self.start(*self.arguments(*self.LONG))
        self.wait_for_samples(process)
        process.kill()
        process.communicate()
        self.assertGreaterEqual(self.rows("SELECT count(*) FROM sample")[0][0], 50)
        self.assertEqual(self.rows("PRAGMA integrity_check"), [("ok",)])

    def test_two_at_once_lose_no_row(self):
        started = [self.start(*self.arguments("--m", m, *PROBLEM, "--json", "-")) for m in (1, 2, 3)]
        documents = []
        for process in started:
            run = self.finish(process)
            self.assertEqual(run.code, OK, run)
            self.assertNotIn("warning", run.stderr)
            documents.append(run.json())
        for document in documents:
            problem = f"gemm m{document['problem']['m']} n256 k256 nvfp4 bf16"
            (points,), = self.rows(f"SELECT count(*) FROM point, run WHERE point.run = run.id AND problem = '{problem}'")
            (samples,), = self.rows("SELECT count(*) FROM sample, run WHERE sample.run = run.id AND twin = 0 AND "
                                    f"problem = '{problem}'")
            self.assertEqual(points, len(document["picks"]))
            self.assertEqual(samples, sum(pick[protocol]["taken"] for pick in document["picks"]
                                          for protocol in ("cold", "warm")))


class BadInput(TuneTest):
    def refuses_tune(self, *arguments, says, **options):
        self.refuses(*self.arguments(*arguments), says=says, **options)
        self.assertFalse(self.database.exists() and self.rows("SELECT * FROM run"))

    def test_rows(self):
        for m in (0, -1):
            self.refuses_tune("--m", m, *PROBLEM, says=["--m", str(m), "at least 1"])
        for m in ("x", "1,,2", "1.5", "99999999999999999999"):
            self.refuses_tune("--m", m, *PROBLEM, says="--m")

    def test_sizes_that_overflow(self):
        self.refuses_tune("--m", 2**62, *PROBLEM, says="2^60")
        self.refuses_tune("--m", 1, "--n", 2**62, "--k", 2**40, says="2147483647")

    def test_sizes_larger_than_the_memory(self):
        self.refuses_tune("--m", 1, "--n", 2**28, "--k", 2**17, says=["GiB", "smaller sizes"], code=ENVIRONMENT)
        self.refuses_tune("--m", 2**40, *PROBLEM, says=["GiB", "smaller sizes"], code=ENVIRONMENT)

    def test_columns_that_do_not_fill_groups(self):
        self.refuses_tune("--m", 1, "--n", 64, "--k", 100, says="16")
        self.refuses_tune("--m", 1, "--n", 64, "--k", 48, "--format", "mxfp4", says="32")

    def test_no_problem_and_two_problems(self):
        self.refuses_tune("--m", 1, says=["--n", "--weights"])
        self.refuses_tune("--m", 1, "--n", 64, says=["--k"])
        self.refuses_tune("--m", 1, "--weights", "f.safetensors", says="--tensor")
        self.refuses_tune("--m", 1, *PROBLEM, "--tensor", "t", says="--weights")
        self.refuses_tune("--m", 1, *PROBLEM, "--weights", "f", "--tensor", "t", says="leave them out")
        self.refuses_tune("--n", 64, "--k", 64, says="--m")

    def test_a_missing_file_a_missing_tensor_and_a_truncated_file(self):
        path = self.folder / "model.safetensors"
        self.refuses_tune("--m", 1, "--weights", path, "--tensor", "t", says="model.safetensors")
        safetensors.write(path, {"layer.weight": ("F32", [32, 32], bytes(4096))})
        self.refuses_tune("--m", 1, "--weights", path, "--tensor", "layer.weigth", says=["layer.weight"])
        path.write_bytes(path.read_bytes()[:-5])
        self.refuses_tune("--m", 1, "--weights", path, "--tensor", "layer.weight", says="offsets_out_of_range")

    def test_a_tensor_of_a_wrong_type_and_scales_that_are_nan(self):
        path = self.folder / "model.safetensors"
        safetensors.write(path, {"ids": ("I64", [32, 32], bytes(8192))})
        self.refuses_tune("--m", 1, "--weights", path, "--tensor", "ids", says="I64")
        safetensors.write(path, {"w": ("U8", [32, 32], bytes(1024)),
                                 "w_scale": ("F8_E4M3", [32, 4], b"\x7f" * 128),
                                 "w_scale_2": ("F32", [], b"\x00\x00\x80\x3f")})
        self.refuses_tune("--m", 1, "--weights", path, "--tensor", "w", says="scale")

    def test_options_with_impossible_values(self):
        self.refuses_tune("--m", 1, *PROBLEM, "--isa", "avx3", says=["avx3", "avx2"])
        self.refuses_tune("--m", 1, "--n", 64, "--k", 64, "--threads", 4096, says=["4096", "cores"])
        self.refuses_tune("--m", 1, "--n", 64, "--k", 64, "--threads", -1, says=["-1"])
        self.refuses_tune("--m", 1, "--n", 64, "--k", 64, "--budget", 0, says="--budget")
        self.refuses_tune("--m", 1, "--n", 64, "--k", 64, "--budget", "nan", says="--budget")
        self.refuses_tune("--m", 1, "--n", 64, "--k", 64, "--cold-set", 0, says="--cold-set")
        self.refuses_tune("--m", 1, *PROBLEM, "--format", "int4", says=["int4", "nvfp4"])

    def test_no_subject(self):
        self.refuses("tune", says="gemm")
        self.refuses("tune", "gem", says=["gem"])

    def test_json_that_cannot_be_written(self):
        run = self.run_pinch(*self.arguments("--m", 1, *PROBLEM, "--json", "/proc/pinch.json"))
        self.assertEqual(run.code, ENVIRONMENT, run)
        self.assertIn("cannot write JSON", run.stderr)
        self.assertIn("default", run.stdout)
