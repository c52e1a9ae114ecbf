"""pinch check: record, compare, flake and bisect on real programs."""

import array
import json
import os
import shutil

from harness import CliTest, ENVIRONMENT, FAILED
from harness.npy import write_npy

FAULTS = os.environ.get("PINCH_FAULTS", "")


class CheckTest(CliTest):
    def json_of(self, *args, code=0, **options):
        """As the harness's, with `--json -` before the program's own arguments."""
        at = args.index("--") if "--" in args else len(args)
        run = self.run_pinch(*args[:at], "--json", "-", *args[at:], **options)
        self.assertEqual(run.code, code, run)
        return run.json()


class Compare(CheckTest):
    def setUp(self):
        super().setUp()
        self.values = [1 + (i * 37 % 101) / 128 for i in range(64 * 64)]
        self.a, self.b, self.r = (self.folder / name for name in ("a.npy", "b.npy", "r.npy"))
        write_npy(self.a, self.values, "(64, 64)")

    def compare(self, change, candidate, code, *more):
        return self.json_of("check", "compare", "--change", change, "--baseline", self.a, "--candidate", candidate, *more, code=code)

    def test_equal_files_pass_both_gates(self):
        for change in ("reorder", "algebra"):
            document = self.compare(change, self.a, 0)
            self.assertEqual((document["verdict"], document["gate"], document["bitwise"], document["rel_l2"]),
                             ("pass", change, True, 0.0))

    def test_a_wrong_tile_fails_and_is_named(self):
        wrong = list(self.values)
        for row in range(16, 32):
            for column in range(32, 48):
                wrong[row * 64 + column] += 0.25
        wrong[20 * 64 + 40] += 1
        write_npy(self.b, wrong, "(64, 64)")
        document = self.compare("reorder", self.b, FAILED)
        self.assertEqual(document["verdict"], "fail")
        self.assertEqual(document["pattern"], "one tile: rows 16 to 31, columns 32 to 47")
        self.assertEqual(document["worst"]["index"], [20, 40])
        self.assertEqual((document["worst"]["row"], document["worst"]["column"]), (20, 40))
        self.assertAlmostEqual(document["max_abs"], 1.25, places=6)
        self.assertEqual(sum(document["candidate"]["ulps"].values()), 64 * 64)

    def test_algebra_is_held_to_the_baselines_error(self):
        write_npy(self.r, [v * (1 + 1e-7 * ((i * 7) % 5 - 2)) for i, v in enumerate(self.values)], "(64, 64)", "<f8")
        write_npy(self.b, [v * (1 + 1e-7 * ((i * 3) % 5 - 2)) for i, v in enumerate(self.values)], "(64, 64)")
        self.compare("reorder", self.b, FAILED)
        write_npy(self.b, [v * (1 + 1e-3 * ((i * 3) % 5 - 2)) for i, v in enumerate(self.values)], "(64, 64)")
        document = self.compare("algebra", self.b, FAILED, "--reference", self.r)
        self.assertIn("relative", document["reason"])
        self.assertGreater(document["ratio_95"][0], 1)

    def test_a_command_may_make_the_reference(self):
        write_npy(self.r, [v * (1 + 1e-7 * ((i * 7) % 5 - 2)) for i, v in enumerate(self.values)], "(64, 64)", "<f8")
        (self.folder / "in").mkdir()
        self.r.rename(self.folder / "in" / "fp64.npy")
        command = ("--inputs", "in", "--", "sh", "-c", "cp $PINCH_INPUTS/fp64.npy $PINCH_OUTPUTS/a.npy")
        write_npy(self.b, [v * (1 + 1e-3 * ((i * 3) % 5 - 2)) for i, v in enumerate(self.values)], "(64, 64)")
        self.assertIn("relative", self.compare("algebra", self.b, FAILED, *command)["reason"])
        self.assertGreater(self.compare("algebra", self.a, 0, *command)["rel_l2"], 0)
        files = ("check", "compare", "--change", "algebra", "--baseline", self.a, "--candidate", self.a)
        self.refuses(*files, "--", FAULTS, "segfault", says="the reference killed by SIGSEGV", code=FAILED)
        self.refuses(*files, "--reference", self.a, "--", "true", says="not both")
        self.refuses(*files, "--", "true", says="outputs/a.npy")

    def test_two_that_are_equally_wrong_fail(self):
        write_npy(self.r, [2 * v for v in self.values], "(64, 64)", "<f8")
        document = self.compare("algebra", self.a, FAILED, "--reference", self.r)
        self.assertIn("absolute", document["reason"])
        self.assertIn("the baseline is too", document["reason"])

    def test_reads_raw_files(self):
        raw = self.folder / "a.bin"
        raw.write_bytes(array.array("H", [0x3F80] * 12).tobytes())
        document = self.json_of("check", "compare", "--baseline", raw, "--candidate", raw, "--dtype", "bf16", "--shape", "3x4")
        self.assertEqual(document["candidate"]["elements"], 12)
        self.refuses("check", "compare", "--change", "algebra", "--baseline", raw, "--candidate", raw, says="must be given")
        self.refuses("check", "compare", "--baseline", raw, "--candidate", raw, "--dtype", "bf17", says="'bf17' is none of")

    def test_refuses_a_truncated_file(self):
        self.b.write_bytes(self.a.read_bytes()[:-100])
        self.refuses("check", "compare", "--baseline", self.a, "--candidate", self.b, says=["b.npy", "size_mismatch"])


class Record(CheckTest):
    def test_records_and_compares_folders(self):
        for name, kind in (("good", "right"), ("bad", "wrong_tile")):
            manifest = self.json_of("check", "record", "--out", name, "--", FAULTS, kind)
            self.assertEqual(list(manifest["outputs"]), ["c.npy"])
            self.assertEqual(len(manifest["program"]["sha256"]), 64)
            for key in ("pinch", "host", "system", "cpu", "cores", "cpu_mhz", "gpus"):
                self.assertIn(key, manifest["environment"])
            self.assertEqual(json.loads((self.folder / name / "manifest.json").read_text()), manifest)
        self.succeeds("check", "compare", "--baseline", "good", "--candidate", "good")
        document = self.json_of("check", "compare", "--baseline", "good", "--candidate", "bad", code=FAILED)
        self.assertEqual(document["output"], "c.npy")
        self.assertIn("one tile", document["pattern"])

    def test_refuses_a_baseline_that_fails(self):
        self.refuses("check", "record", "--out", "x", "--", FAULTS, "segfault", says="SIGSEGV", code=FAILED)
        self.refuses("check", "record", "--out", "x", "--", "/no/such/program", says="/no/such/program")

    def record(self, out, script, **options):
        return self.json_of("check", "record", "--out", out, "--", "sh", "-c", script, **options)

    def test_leaves_alone_what_is_no_recording(self):
        for name, inside in (("outputs", "mine"), ("outputs/deep", "mine"), ("notes", "mine"), (".", "manifest.json")):
            folder = self.folder / "p" / name
            folder.mkdir(parents=True)
            (folder / inside).write_text("{}")
            self.refuses("check", "record", "--out", "p", "--", "true", says="a recording goes into a new or empty folder")
            self.refuses("check", "record", "--out", ".", "--", "true", says="a recording goes into a new or empty folder",
                         cwd=self.folder / "p")
            self.assertEqual((folder / inside).read_text(), "{}")
            self.assertEqual([each.name for each in self.folder.iterdir()], ["p"])
            shutil.rmtree(self.folder / "p")
        (self.folder / "file").write_text("x")
        self.refuses("check", "record", "--out", "file", "--", "true", says="is no folder")

    def test_an_earlier_recording_stays_until_the_next_is_done(self):
        self.record("b1", "echo a >$PINCH_OUTPUTS/x.bin")
        before = (self.folder / "b1" / "manifest.json").read_text()
        self.refuses("check", "record", "--out", "b1", "--", "false", says="exited with 1", code=FAILED)
        self.assertEqual((self.folder / "b1" / "manifest.json").read_text(), before)
        self.assertEqual((self.folder / "b1" / "outputs" / "x.bin").read_text(), "a\n")
        (self.folder / "b1" / "notes").write_text("mine")
        self.refuses("check", "record", "--out", "b1", "--", "true", says='holds "notes"')
        (self.folder / "b1" / "notes").unlink()
        (self.folder / "link").symlink_to("b1")
        self.record("link/", "echo b >$PINCH_OUTPUTS/y.bin")
        self.assertEqual([each.name for each in (self.folder / "b1" / "outputs").iterdir()], ["y.bin"])
        self.assertEqual(sorted(each.name for each in self.folder.iterdir()), ["b1", "link"])

    def test_links_that_a_program_leaves_are_not_followed(self):
        victim = self.folder / "victim"
        victim.mkdir()
        (victim / "mine").write_text("x")
        script = f"rm -rf $PINCH_OUTPUTS; ln -s {victim} $PINCH_OUTPUTS"
        self.refuses("check", "record", "--out", "x", "--", "sh", "-c", script, says="PINCH_OUTPUTS is no folder any more", code=FAILED)
        document = self.json_of("check", "flake", "--runs", 2, "--", "sh", "-c", script, code=FAILED)
        self.assertIn("no folder any more", document["clusters"][0]["ending"])
        self.assertEqual((victim / "mine").read_text(), "x")
        self.assertEqual(self.record("y", "ln -s l $PINCH_OUTPUTS/l; echo a >$PINCH_OUTPUTS/a")["outputs"].keys(), {"a"})
        self.json_of("check", "flake", "--runs", 2, "--", "sh", "-c", "ln -s l $PINCH_OUTPUTS/l")

    def test_stdout_and_files_without_a_type_compare_by_their_bytes(self):
        compare = ("check", "compare", "--baseline", "a", "--candidate")
        for script in ("echo %s", "echo %s >$PINCH_OUTPUTS/x.bin"):
            self.assertEqual(len(self.record("a", script % "abc")["outputs"]), 1)
            self.record("same", script % "abc")
            self.record("other", script % "abd")
            self.record("longer", script % "abcd")
            self.assertTrue(self.json_of(*compare, "same")["bitwise"])
            self.assertEqual(self.json_of(*compare, "other", code=FAILED)["pattern"], "one element: row 0, column 2")
            self.assertEqual(self.json_of(*compare, "longer", code=FAILED)["reason"], "5 bytes where the baseline has 4")
        self.record("a", "head -c 3000000 /dev/" + "zero; echo a")
        self.record("b", "echo b; head -c 3000001 /dev/" + "zero")
        self.json_of(*compare, "b", code=FAILED)
        self.record("a", "true")
        self.record("b", "true")
        self.assertTrue(self.json_of(*compare, "b")["bitwise"])

    def test_refuses_recordings_that_say_nothing_of_each_other(self):
        (self.folder / "in").mkdir()
        script = ("sh", "-c", "echo a >$PINCH_OUTPUTS/a")
        for name in ("a", "b", "c"):
            (self.folder / "in" / "x").write_text("one" if name == "a" else "two")
            self.succeeds("check", "record", "--inputs", "in", "--out", name, "--", *script)
        self.succeeds("check", "compare", "--baseline", "b", "--candidate", "c")
        self.refuses("check", "compare", "--baseline", "a", "--candidate", "b", says="record both with the same --inputs")
        self.refuses("check", "compare", "--baseline", "a", "--candidate", "a", "--inputs", "in", "--", *script, says="same --inputs")
        (self.folder / "c" / "outputs" / "a").write_text("b")
        self.refuses("check", "compare", "--baseline", "b", "--candidate", "c", says="output a has changed since it was recorded")
        (self.folder / "c" / "outputs" / "a").unlink()
        self.refuses("check", "compare", "--baseline", "b", "--candidate", "c", says="output a is not there any more")

    def test_refuses_recordings_of_other_outputs(self):
        self.record("one", "echo a >$PINCH_OUTPUTS/a")
        self.record("two", "echo a >$PINCH_OUTPUTS/a; echo b >$PINCH_OUTPUTS/b")
        for baseline, candidate in (("one", "two"), ("two", "one")):
            self.refuses("check", "compare", "--baseline", baseline, "--candidate", candidate, says="has no output b")

    def test_names_and_words_of_any_bytes_are_recorded(self):
        manifest = self.record("x", "echo a >$PINCH_OUTPUTS/$(printf 'b\\377'); : '\udcff'", env={"OMP_X": "\udcfe"})
        self.assertEqual(list(manifest["outputs"]), ["b\ufffd"])
        self.assertEqual(manifest["variables"]["OMP_X"], "\ufffd")
        self.json_of("check", "flake", "--runs", 2, "--", "sh", "-c", "echo a >$PINCH_OUTPUTS/$(printf 'b\\377')")

    def test_refuses_inputs_that_are_not_there(self):
        nowhere = self.folder / "nowhere"
        self.refuses("check", "record", "--out", "x", "--inputs", nowhere, "--", "true", says="nowhere")
        self.refuses("check", "flake", "--runs", 3, "--inputs", nowhere, "--", "true", says="nowhere")
        self.refuses("check", "bisect", "--inputs", nowhere, "--pass", "a=1", "--fail", "a=2", "--", "true", says="nowhere")

    def test_refuses_a_temporary_folder_that_cannot_be(self):
        nowhere = {"TMPDIR": str(self.folder / "nowhere")}
        self.refuses("check", "flake", "--runs", 3, "--", "true", says="set TMPDIR to a writable folder", code=ENVIRONMENT, env=nowhere)
        self.refuses("check", "bisect", "--pass", "a=1", "--fail", "a=2", "--", "true", says="set TMPDIR", code=ENVIRONMENT, env=nowhere)

    def test_hashes_the_inputs(self):
        (self.folder / "in").mkdir()
        (self.folder / "in" / "a.bin").write_bytes(b"abc")
        manifest = self.json_of("check", "record", "--out", "x", "--inputs", "in", "--", "sh", "-c", "cat $PINCH_INPUTS/a.bin > $PINCH_OUTPUTS/b.bin")
        abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        self.assertEqual((manifest["inputs"], manifest["outputs"]), ({"a.bin": abc}, {"b.bin": abc}))


class Flake(CheckTest):
    def flake(self, *arguments, code=0):
        return self.json_of("check", "flake", *arguments, code=code)

    def test_states_what_clean_runs_cannot_tell(self):
        run = self.succeeds("check", "flake", "--runs", 20, "--", FAULTS, "right")
        self.assertIn("a fault of 0.05 is missed by 20 runs 36% of the time", run.stdout)

    def test_answers_with_the_documented_fields(self):
        # Two words before the command, as a script would write it.
        run = self.run_pinch("check", "flake", "--runs", 20, "--json", "-", "--", FAULTS, "right")
        document = run.json()
        self.assertEqual(list(document)[:6], ["runs", "clusters", "differing", "rate_upper_95", "missed_probability", "verdict"])
        self.assertEqual((document["runs"], document["differing"], document["verdict"]), (20, 0, "stable"))
        self.assertAlmostEqual(document["missed_probability"]["p"], 0.3585, places=3)
        self.assertEqual(len(document["clusters"]), 1)

    def test_takes_the_runs_that_rate_and_confidence_need(self):
        self.assertEqual(self.flake("--rate", 0.05, "--confidence", 0.95, "--", "true")["runs"], 59)

    def test_finds_the_program_that_differs_one_run_in_twenty(self):
        count = self.folder / "count"
        document = self.flake("--", FAULTS, "flaky", count, code=FAILED)
        self.assertEqual((document["runs"], document["differing"], document["verdict"]), (59, 2, "flaky"))
        self.assertEqual(sorted(cluster["runs"] for cluster in document["clusters"]), [2, 57])

    def test_tells_new_from_pre_existing(self):
        count, baseline = self.folder / "count", self.folder / "baseline.json"
        self.run_pinch("check", "flake", "--runs", 40, "--json", baseline, "--", FAULTS, "flaky", count)
        self.assertEqual(self.flake("--runs", 40, "--baseline", baseline, "--", FAULTS, "flaky", count, code=FAILED)["verdict"], "pre_existing")
        self.run_pinch("check", "flake", "--runs", 40, "--json", baseline, "--", FAULTS, "right")
        script = f"echo >>{count}; echo $(($(wc -l <{count}) % 2))"
        document = self.flake("--runs", 40, "--baseline", baseline, "--", "sh", "-c", script, code=FAILED)
        self.assertEqual(document["verdict"], "new")

    def test_refuses_a_baseline_whose_numbers_cannot_be(self):
        baseline = self.folder / "baseline.json"
        for runs, differing in ((0, 0), (10, -1), (10, 10), (5, 6), (-3, 0), (1 << 40, 0)):
            baseline.write_text(json.dumps({"runs": runs, "differing": differing}))
            self.refuses("check", "flake", "--runs", 2, "--baseline", baseline, "--", "true", says=f"{differing} of {runs} runs cannot")

    def test_all_of_stdout_counts(self):
        count = self.folder / "count"
        script = f"echo >>{count}; wc -l <{count}; head -c 3000000 {'/dev/zero'}"
        self.assertEqual(self.flake("--runs", 3, "--", "sh", "-c", script, code=FAILED)["differing"], 2)

    def test_a_crash_is_a_cluster(self):
        document = self.flake("--runs", 3, "--", FAULTS, "segfault", code=FAILED)
        self.assertEqual(document["clusters"][0]["ending"], "killed by SIGSEGV")
        self.assertIs(document["ended_well"], False)


class Bisect(CheckTest):
    def test_finds_the_knobs_that_fail_together(self):
        script = "test ${tile} = 64 -a ${stages} = 3 && exit 1; exit 0"
        document = self.json_of("check", "bisect", "--pass", "tile=16,stages=1,swizzle=0,unroll=1",
                                "--fail", "tile=64,stages=3,swizzle=1,unroll=4", "--", "sh", "-c", script)
        self.assertEqual([each["knob"] for each in document["needed"]], ["tile", "stages"])
        self.assertEqual(document["repeats"], 1)

    def test_repeats_a_flaky_predicate(self):
        # Fails in every second of its runs, counted in a file: the same at every call of this test.
        script = "test $unroll = 4 || exit 0; echo >>%s; test $(($(wc -l <%s) %% 2)) = 0" % (2 * (self.folder / "count",))
        document = self.json_of("check", "bisect", "--pass", "tile=16,unroll=1", "--fail", "tile=64,unroll=4", "--", "sh", "-c", script)
        self.assertEqual([each["knob"] for each in document["needed"]], ["unroll"])
        self.assertEqual(document["failure_rate"], 0.5)
        self.assertGreater(document["repeats"], 1)
        self.assertLessEqual(document["error_rate"], 0.05)

    def test_refuses_settings_that_do_not_differ(self):
        self.refuses("check", "bisect", "--pass", "a=1", "--fail", "a=1", "--", "true", says="values that differ")
        self.refuses("check", "bisect", "--pass", "a", "--fail", "a=1", "--", "true", says="write KNOB=VALUE")
        self.refuses("check", "bisect", "--pass", "a=1", "--fail", "a=2", "--", "true", says="did not fail in 20 runs")
