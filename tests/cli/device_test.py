"""--device cuda of bench and tune. A process that is shown no device has none, so the refusals hold on every machine."""

import itertools

from harness import CliTest, ENVIRONMENT, OK

PROBLEM = ("--m", 4, "--n", 512, "--k", 512)
ATTENTION = ("--heads", 4, "--kv-heads", 2, "--seq", 300, "--dim", 64)
SUBJECTS = {"gemm": PROBLEM, "attention": ATTENTION}
NO_DEVICE = {"CUDA_VISIBLE_DEVICES": ""}


class WithoutDevice(CliTest):
    def test_exits_3_with_the_reason(self):
        for command in ("bench", "tune"):
            for subject, device in itertools.product(SUBJECTS, ("cuda", "cuda:3")):
                run = self.run_pinch(command, subject, *SUBJECTS[subject], "--device", device, env=NO_DEVICE)
                self.assertEqual(run.code, ENVIRONMENT, run)
                self.assertEqual(run.stdout, "", run)
                # A build without kernels, a machine without a driver, a driver without a device.
                self.assertRegex(run.stderr, "no CUDA kernels|no CUDA driver|CUDA driver refused|lists no device", run)

    def test_refuses_another_device_by_name(self):
        for device in ("gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1x"):
            for subject, problem in SUBJECTS.items():
                self.refuses("bench", subject, *problem, "--device", device, says=[device, "cpu, cuda or cuda:N"])

    def test_refuses_options_of_the_cpu(self):
        for subject, problem in SUBJECTS.items():
            for option in (("--threads", 1), ("--isa", "scalar")):
                self.refuses("tune", subject, *problem, "--device", "cuda", *option, says="--threads and --isa")
            self.refuses("bench", subject, *problem, "--device", "cuda", "--cold-set", 8, says="--cold-set")

    def test_the_cpu_is_the_default_device(self):
        document = self.json_of("bench", "gemm", *PROBLEM, "--device", "cpu", "--threads", 1, "--budget", 0.1,
                                "--cold-set", 1, "--no-peers")
        self.assertEqual(document["problem"]["threads"], 1)
        self.assertEqual(document["problem"]["sm_count"], 0)


class WithDevice(CliTest):
    """What only a machine with a Hopper GPU and a build with kernels can say."""

    def setUp(self):
        super().setUp()
        run = self.run_pinch("bench", "gemm", *PROBLEM, "--device", "cuda", "--budget", 0.1)
        if run.code == ENVIRONMENT:
            self.skipTest(run.stderr.strip())
        self.assertEqual(run.code, OK, run)

    def test_bench_has_the_default_and_the_yardsticks(self):
        document = self.json_of("bench", "gemm", *PROBLEM, "--device", "cuda", "--budget", 0.5)
        kinds = [row["kind"] for row in document["rows"]]
        self.assertEqual(kinds[0], "tactic")
        self.assertEqual(kinds.count("yardstick"), 2)
        self.assertTrue("peer" in kinds or any("cuBLAS" in why for why in document["absent"]), document["absent"])
        for row in document["rows"]:
            self.assertEqual(row["verdict"], "ok", row)
            self.assertGreater(row["cold"]["median_ns"], 1000)
            if row["kind"] != "yardstick":
                self.assertLess(row["rel_l2"], 2**-8)
        empty = document["rows"][-1]["cold"]["median_ns"]
        self.assertLess(empty, document["rows"][0]["cold"]["median_ns"])
        self.assertGreater(document["machine"]["clock_ghz"], 0.2)

    def test_tune_measures_the_default_and_is_cached_afterwards(self):
        arguments = ("tune", "gemm", *PROBLEM, "--device", "cuda", "--db", self.folder / "pinch.sqlite")
        first = self.json_of(*arguments)
        self.assertIs(first["cached"], False)
        self.assertLess(first["elapsed_s"], 5)
        medians = {pick["tactic"]: pick["median_ns"] for pick in first["picks"] if pick["median_ns"]}
        self.assertIn(first["default"], medians)
        self.assertLessEqual(medians[first["best"]], medians[first["default"]] * (1 + first["tie_band"]))
        self.assertGreater(len(medians), 2)
        self.assertIn("driver", first["machine"]["device"])
        cached = self.json_of(*arguments)
        self.assertIs(cached["cached"], True)
        self.assertEqual(cached["findings"], first["findings"])
        self.assertIs(self.json_of(*arguments, "--output", "f32")["cached"], False)

    def test_the_rungs_read_the_kernels_that_run(self):
        # The streaming kernel ends at 32 rows, has no roles, and its products stand behind branches.
        for rows, kernel, role, branches in ((512, "wgmma_kernel", "consumer", False), (1, "stream_kernel", "", True)):
            arguments = ("tune", "gemm", "--m", rows, "--n", 4096, "--k", 4096, "--device", "cuda", "--budget", 0.5, "--skip", "pipeline")
            found = {finding["rung"]: finding for finding in self.json_of(*arguments, "--db", self.folder / "pinch.sqlite")["findings"]}
            evidence = found["schedule"]["evidence"]
            self.assertIn(kernel, evidence["kernel"])
            self.assertEqual((evidence["role"], evidence["branches"]), (role, branches))
            self.assertIn(evidence["warps"], (2, 3, 4, 6, 8))
            self.assertGreater(evidence["pipes"]["tensor"], 0.1 if branches else 0.3)
            for rung in ("schedule", "algebra"):
                self.assertIn(found[rung]["verdict"], ("headroom", "ruled_out"))
            self.assertIn("left out by --skip pipeline", found["pipeline"]["why"])
            self.assertLessEqual(sum(finding["bound_percent"] or 0 for finding in found.values() if finding["verdict"] == "headroom"), 100)


class AttentionWithDevice(CliTest):
    """The same for attention."""

    def setUp(self):
        super().setUp()
        run = self.run_pinch("bench", "attention", *ATTENTION, "--device", "cuda", "--budget", 0.1)
        if run.code == ENVIRONMENT:
            self.skipTest(run.stderr.strip())
        self.assertEqual(run.code, OK, run)

    def test_bench_has_the_default_and_an_empty_call(self):
        document = self.json_of("bench", "attention", *ATTENTION, "--device", "cuda", "--budget", 0.5, "--all")
        self.assertEqual([row["kind"] for row in document["rows"]][-1], "yardstick")
        self.assertTrue(document["rows"][0]["default"])
        self.assertGreater(document["problem"]["sm_count"], 0)
        for row in document["rows"]:
            self.assertEqual(row["verdict"], "ok", row)
            if row["kind"] == "tactic":
                self.assertLess(row["rel_l2"], 2**-7)

    def test_tune_answers_with_the_fields_of_tune_gemm(self):
        arguments = ("tune", "attention", *ATTENTION, "--causal", "--device", "cuda", "--budget", 0.5,
                     "--db", self.folder / "pinch.sqlite")
        document = self.json_of(*arguments)
        self.assertEqual(list(document)[:7], ["problem", "machine", "default", "best", "regret", "picks", "cached"])
        self.assertEqual(document["protocol"], "warm")
        for pick in document["picks"]:
            self.assertIn(pick["verdict"], ("ok", "unstable", "timeout"), pick)
            self.assertLess(pick["rel_l2"], 2**-7)
        schedule = next(finding for finding in document["findings"] if finding["rung"] == "schedule")
        self.assertIn("attention_kernel", schedule["evidence"]["kernel"])
        if document["decided"]:
            self.assertIs(self.json_of(*arguments)["cached"], True)
