"""pinch tactics list, default, rank: the JSON contracts and the refusals."""

import json

from harness import CliTest, FAILED, USAGE

PROBLEM = ["--m", "32", "--n", "6656", "--k", "4096"]
SM100 = ["--family", "sm100", "--sms", "148"]
PICK_FIELDS = ["tactic", "index", "ctas", "waves", "cost", "model"]


class ListTest(CliTest):
    def test_lists_the_sm100_table_in_its_order(self):
        rows = self.json_of("tactics", "list", "--family", "sm100")
        self.assertEqual(len(rows), 30)
        for index, row in enumerate(rows):
            self.assertEqual(list(row), ["index", "tactic", "tile_n", "tile_m", "tile_k", "cluster", "raster_along_m"])
            self.assertEqual(row["index"], index)
            self.assertIs(row["raster_along_m"], index % 2 == 0)
        self.assertEqual(rows[0], {"index": 0, "tactic": "128x8x256-c1x1-rm", "tile_n": 128, "tile_m": 8, "tile_k": 256,
                                   "cluster": [1, 1], "raster_along_m": True})
        self.assertEqual(rows[29]["tactic"], "256x192x256-c2x1-rn")

    def test_prints_the_table_for_people(self):
        lines = self.succeeds("tactics", "list", "--family", "sm100").stdout.splitlines()
        self.assertEqual(len(lines), 30)
        self.assertIn("128x8x256-c1x1-rm", lines[0])

    def test_writes_json_to_a_file(self):
        path = self.folder / "tactics.json"
        self.succeeds("tactics", "list", "--family", "sm100", "--json", path)
        self.assertEqual(len(json.loads(path.read_text())), 30)
        self.assertEqual([entry.name for entry in self.folder.iterdir()], ["tactics.json"])

    def test_refuses_an_unknown_family(self):
        self.refuses("tactics", "list", "--family", "sm10", says=["unknown tactic family 'sm10'", "sm100"])

    def test_refuses_a_missing_family(self):
        self.refuses("tactics", "list", says="--family")


class DefaultTest(CliTest):
    def pick(self, m, n, sms=148, *extra):
        return self.json_of("tactics", "default", "--family", "sm100", "--m", m, "--n", n, "--k", 4096, "--sms", sms,
                            *extra)

    def test_answers_the_contract(self):
        pick = self.pick(2048, 4096)
        self.assertEqual(list(pick), PICK_FIELDS)
        self.assertEqual(pick, {"tactic": "128x128x256-c1x1-rn", "index": 23, "ctas": 512, "waves": 4, "cost": 2560,
                                "model": "pr"})

    def test_makes_the_published_picks(self):
        expected = {1: [1, 1, 1], 8: [1, 1, 1], 32: [1, 5, 11], 128: [11, 17, 17], 512: [23, 17, 23],
                    2048: [23, 23, 23]}
        picks = {m: [self.pick(m, n)["index"] for n in (4096, 6656, 19968)] for m in expected}
        self.assertEqual(picks, expected)
        self.assertEqual(self.pick(512, 6656, 132)["tactic"], "128x128x256-c1x1-rn")
        self.assertEqual(self.pick(512, 6656, 160)["tactic"], "256x192x256-c2x1-rn")
        self.assertEqual(self.pick(128, 19968, 160)["tactic"], "128x128x256-c1x1-rn")

    def test_offers_every_model(self):
        waves = self.pick(2048, 4096, 148, "--model", "waves")
        self.assertEqual((waves["ctas"], waves["waves"], waves["cost"], waves["model"]), (352, 3, 3, "waves"))
        self.assertEqual(self.pick(2048, 4096, 148, "--model", "first")["index"], 0)
        self.assertEqual(self.pick(2048, 4096, 148, "--model", "cluster")["index"], 23)

    def test_names_an_illegal_problem_and_exits_1(self):
        document = self.json_of("tactics", "default", *SM100, "--m", 1, "--n", 4100, "--k", 4096, code=FAILED)
        self.assertEqual(document, {"illegal": "n 4100 is not a multiple of 8"})
        document = self.json_of("tactics", "default", *SM100, "--m", 1, "--n", 4096, "--k", 4112, code=FAILED)
        self.assertEqual(document, {"illegal": "k 4112 is not a multiple of 32"})
        self.refuses("tactics", "default", *SM100, "--m", 1, "--n", 4096, "--k", 4112, code=FAILED,
                     says="k 4112 is not a multiple of 32")

    def test_refuses_sizes_below_1(self):
        for size, value in [("m", "0"), ("m", "-8"), ("n", "0"), ("k", "-9223372036854775808")]:
            sizes = {"m": "1", "n": "4096", "k": "4096", size: value}
            arguments = [word for name, text in sizes.items() for word in (f"--{name}", text)]
            self.refuses("tactics", "default", *SM100, *arguments, says=f"{size} is {value}; every size")

    def test_refuses_sizes_that_overflow(self):
        large = str(2**62)
        self.refuses("tactics", "default", *SM100, "--m", large, "--n", large, "--k", "4096", says="m*n")
        self.refuses("tactics", "default", *SM100, "--m", str(2**63), "--n", "8", "--k", "4096",
                     says=["--m", "not a whole number that fits", str(2**63 - 1)])

    def test_refuses_what_is_not_a_number(self):
        for text in ["abc", "1.5", "12x", "1e3"]:
            self.refuses("tactics", "default", *SM100, "--m", text, "--n", "8", "--k", "32", says=[f"'{text}'", "--m"])

    def test_refuses_an_unknown_model_and_offers_the_names(self):
        self.refuses("tactics", "default", *SM100, *PROBLEM, "--model", "wave", says=["'wave'", "did you mean waves"])

    def test_refuses_no_multiprocessors(self):
        self.refuses("tactics", "default", "--family", "sm100", *PROBLEM, says="sm_count is 0")
        self.refuses("tactics", "default", "--family", "sm100", *PROBLEM, "--sms", "-1", says="sm_count is -1")

    def test_refuses_an_unknown_format(self):
        self.refuses("tactics", "default", *SM100, *PROBLEM, "--format", "fp4", says=["--format", "nvfp4", "mxfp4"])

    def test_refuses_a_json_file_that_cannot_be_written(self):
        run = self.run_pinch("tactics", "default", *SM100, *PROBLEM, "--json", self.folder / "no" / "such.json")
        self.assertEqual(run.code, 3)
        self.assertIn("cannot write JSON", run.stderr)


class RankTest(CliTest):
    def test_ranks_every_legal_tactic_cheapest_first(self):
        rows = self.json_of("tactics", "rank", *SM100, *PROBLEM)
        self.assertEqual(sorted(row["index"] for row in rows), list(range(30)))
        self.assertEqual([row["cost"] for row in rows], sorted(row["cost"] for row in rows))
        self.assertTrue(all(list(row) == PICK_FIELDS for row in rows))

    def test_starts_with_the_default(self):
        for model in ["pr", "waves", "first", "cluster"]:
            rows = self.json_of("tactics", "rank", *SM100, *PROBLEM, "--model", model)
            self.assertEqual(rows[0], self.json_of("tactics", "default", *SM100, *PROBLEM, "--model", model))

    def test_names_an_illegal_problem_and_exits_1(self):
        document = self.json_of("tactics", "rank", *SM100, "--m", 1, "--n", 4100, "--k", 4096, code=FAILED)
        self.assertEqual(document, {"illegal": "n 4100 is not a multiple of 8"})


class CpuTest(CliTest):
    def test_lists_and_ranks_the_cpu_family_by_the_same_commands(self):
        names = {row["tactic"] for row in self.json_of("tactics", "list", "--family", "cpu")}
        rows = self.json_of("tactics", "rank", "--family", "cpu", *PROBLEM, "--threads", 2, "--model", "work")
        self.assertTrue({row["tactic"] for row in rows} <= names)
        self.assertTrue(all(list(row) == PICK_FIELDS for row in rows))
        self.assertEqual(rows[0], self.json_of("tactics", "default", "--family", "cpu", *PROBLEM, "--threads", 2,
                                               "--model", "work"))

    def test_says_what_predicted_times_rest_on(self):
        pick = self.json_of("tactics", "default", "--family", "cpu", *PROBLEM, "--model", "time")
        self.assertEqual(list(pick), PICK_FIELDS + ["calibration"])
        self.assertIn(pick["calibration"], ["measured", "uncalibrated"])
        self.assertGreater(pick["cost"], 0)

    def test_refuses_no_threads(self):
        self.refuses("tactics", "default", "--family", "cpu", *PROBLEM, "--threads", 0, says="threads is 0")

    def test_names_a_depth_that_is_no_multiple_of_the_group(self):
        document = self.json_of("tactics", "default", "--family", "cpu", "--m", 1, "--n", 64, "--k", 40, code=FAILED)
        self.assertIn("40 is not a multiple of the group of 16", document["illegal"])


class Sm90Test(CliTest):
    def test_lists_and_ranks_both_kernels_for_an_h200(self):
        names = [row["tactic"] for row in self.json_of("tactics", "list", "--family", "sm90")]
        self.assertEqual({row["kernel"] for row in self.json_of("tactics", "list", "--family", "sm90")},
                         {"stream", "wgmma"})
        for form in ["nvfp4", "mxfp4"]:
            rows = self.json_of("tactics", "rank", "--family", "sm90", *PROBLEM, "--format", form)
            self.assertTrue({row["tactic"] for row in rows} <= set(names))
            self.assertEqual(rows, self.json_of("tactics", "rank", "--family", "sm90", *PROBLEM, "--format", form,
                                                "--sms", 132))
            self.assertEqual(rows[0], self.json_of("tactics", "default", "--family", "sm90", *PROBLEM, "--format",
                                                   form))

    def test_names_an_illegal_problem_and_exits_1(self):
        document = self.json_of("tactics", "default", "--family", "sm90", "--m", 1, "--n", 4100, "--k", 4096,
                                code=FAILED)
        self.assertEqual(document, {"illegal": "n 4100 is not a multiple of 8"})


class AttentionTest(CliTest):
    PROBLEM = ["--batch", 4, "--heads", 16, "--seq", 4096]

    def test_lists_and_ranks_both_families_by_the_same_commands(self):
        for family in ["cpu_attention", "sm90_attention"]:
            names = {row["tactic"] for row in self.json_of("tactics", "list", "--family", family)}
            for more in [[], ["--causal", "--kv-heads", 4, "--kv-seq", 8192, "--dim", 64]]:
                rows = self.json_of("tactics", "rank", "--family", family, *self.PROBLEM, *more)
                self.assertTrue({row["tactic"] for row in rows} <= names)
                self.assertEqual(list(rows[0])[:6], PICK_FIELDS)
                self.assertEqual([row["cost"] for row in rows], sorted(row["cost"] for row in rows))
                self.assertEqual(rows[0], self.json_of("tactics", "default", "--family", family, *self.PROBLEM, *more))

    def test_the_device_is_an_h200_where_none_is_named(self):
        pick = self.json_of("tactics", "default", "--family", "sm90_attention", *self.PROBLEM)
        self.assertEqual((pick["ctas"], pick["waves"]), (2048, 16))
        self.assertEqual(pick, self.json_of("tactics", "default", "--family", "sm90_attention", *self.PROBLEM, "--sms", 132))
        self.assertEqual(self.json_of("tactics", "default", "--family", "sm90_attention", *self.PROBLEM, "--sms", 64)["waves"], 32)
        self.refuses("tactics", "default", "--family", "sm90_attention", *self.PROBLEM, "--sms", 0, says="sm_count is 0")

    def test_names_an_illegal_problem_and_exits_1(self):
        document = self.json_of("tactics", "rank", "--family", "sm90_attention", *self.PROBLEM, "--qk", "fp8", code=FAILED)
        self.assertIn("qk: fp8 goes with pv fp8 alone", document["illegal"])
        self.refuses("tactics", "rank", "--family", "sm90_attention", *self.PROBLEM, "--dim", 96, says="dim")

    def test_refuses_the_options_of_the_other_kind_of_problem(self):
        self.refuses("tactics", "rank", "--family", "sm90_attention", *PROBLEM, says=["--m", "--heads and --seq"])
        self.refuses("tactics", "rank", "--family", "sm90", *self.PROBLEM, says=["--batch", "--m, --n, --k"])
        self.refuses("tactics", "default", "--family", "sm90_attention", "--heads", 4, says="--seq")
        self.refuses("tactics", "default", "--family", "sm100", "--m", 4, "--n", 8, says="--k")


class UsageTest(CliTest):
    def test_names_an_unknown_action_and_the_nearest(self):
        self.refuses("tactics", "lst", says=["pinch tactics", "'lst'", "did you mean list"], code=USAGE)

    def test_asks_for_an_action(self):
        self.refuses("tactics", says="subcommand of tactics")
