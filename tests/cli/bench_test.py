"""pinch bench gemm."""

from harness import CliTest

PROBLEM = ("bench", "gemm", "--n", 256, "--k", 256, "--cold-set", 8, "--budget", 1)


class BenchTest(CliTest):
    def test_times_the_default_beside_every_peer_that_is_there(self):
        document = self.json_of(*PROBLEM, "--m", 4)
        rows = document["rows"]
        self.assertEqual([row["default"] for row in rows], [True] + [False] * (len(rows) - 1))
        self.assertEqual(rows[0]["kind"], "tactic")
        peers = [row["name"] for row in rows if row["kind"] == "peer"]
        absent = " ".join(document["absent"])
        for peer in ("OpenBLAS sgemm", "oneDNN bf16 prepacked", "oneDNN bf16 plain"):
            self.assertTrue(peer in peers or peer.split()[0] in absent or "every peer" in absent, document["absent"])
        for row in rows:
            self.assertIn(row["verdict"], ("ok", "unstable"), row)  # tests may share the cores
            self.assertLess(row["rel_l2"], 2**-8)
            for protocol in ("cold", "warm"):
                self.assertGreaterEqual(row[protocol]["taken"], 1)
        for limit in ("gflops", "cold_gbps", "warm_gbps"):
            self.assertGreater(document["machine"][limit], 0)

    def test_times_a_named_tactic_too(self):
        document = self.json_of(*PROBLEM, "--m", 1, "--no-peers", "--tactic", "stream.scalar.1x16.along_m.all")
        self.assertIn("stream.scalar.1x16.along_m.all", [row["name"] for row in document["rows"]])
        self.assertEqual([row for row in document["rows"] if row["kind"] == "peer"], [])

    def test_all_times_every_legal_tactic(self):
        ranked = self.json_of("tactics", "rank", "--family", "cpu", "--m", 1, "--n", 256, "--k", 256, "--threads", 1)
        document = self.json_of(*PROBLEM, "--m", 1, "--no-peers", "--all", "--threads", 1)
        self.assertEqual({row["name"] for row in document["rows"]}, {row["tactic"] for row in ranked})

    def test_prints_a_table(self):
        run = self.succeeds(*PROBLEM, "--m", "1,2", "--no-peers")
        self.assertEqual(run.stdout.count("(default)"), 2)
        for words in ("GFLOP/s", "rel_l2", "limits:"):
            self.assertIn(words, run.stdout)

    def test_an_unknown_tactic_is_refused_with_near_names(self):
        self.refuses(*PROBLEM, "--m", 1, "--tactic", "stream.scalar.1x16.along_n.al", says=["stream.scalar"])

    def test_bad_input_is_refused(self):
        self.refuses(*PROBLEM, "--m", 0, says="--m")
        self.refuses("bench", "gemm", "--m", 1, "--n", 64, "--k", 24, says="16")
        self.refuses("bench", says="gemm")
