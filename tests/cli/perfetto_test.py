"""pinch trace --perfetto: what Perfetto's own trace processor reads out of the file is what --csv says happened."""

import collections
import csv
import json
import os
import pathlib
import random
import shutil
import subprocess
import unittest

from harness import CliTest
from harness.traces import build, seeds

NODE = shutil.which("node") or shutil.which("nodejs")
PROCESSOR = pathlib.Path(os.environ.get("PINCH_BIN", "")).parent.parent / "perfetto"
HERE = pathlib.Path(__file__).parent
# Both say the same time: trace processor rounded to a whole ns, the table to a tenth.
ROUNDED_NS = 0.5 + 0.05
# Which role the example's waits, and those of made-up traces, are for (pipeline.cc, make_seeds.py).
PIPELINE = {"slot": "transform", "made": "make", "slot of sum": "sum", "transformed": "transform"}
MADE_UP = {"slot": "consumer", "P": "producer"}

STATS = "select name, value from stats where severity in ('error', 'data_loss') and value > 0"
TRACKS = """select t.id as track, thread.name as thread, thread.tid as tid, process.pid as pid, process.name as process
    from thread_track t join thread using (utid) left join process using (upid)"""
SLICES = """select s.id, s.track_id as track, s.category, s.name, s.ts, s.dur, s.depth, s.parent_id as parent,
    extract_arg(s.arg_set_id, 'args.step') as step, extract_arg(s.arg_set_id, 'args.complete') as complete from slice s order by s.ts, s.id"""
FLOWS = "select slice_out as out, slice_in as 'in', extract_arg(arg_set_id, 'name') as name from flow"


def ask(trace, *queries):
    run = subprocess.run([NODE, HERE / "trace_processor.mjs", PROCESSOR, trace, *queries], capture_output=True, text=True, timeout=120)
    if run.returncode != 0:
        raise AssertionError(f"trace processor: {run.stderr}")
    return json.loads(run.stdout)


def told(path):
    """By track, its group and unit and the (category, name, begin, end, step) that its stamps mean, in ns."""
    stamps = collections.defaultdict(list)
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            row["value"], row["ticks"], row["ns"] = int(row["value"]), int(row["ticks"]), float(row["ns"])
            stamps[int(row["track"])].append(row)
    return {track: (int(rows[0]["group"]), int(rows[0]["unit"]), spans_of(rows)) for track, rows in stamps.items()}


def spans_of(rows):
    rate = (rows[-1]["ns"] - rows[0]["ns"]) / max(1, rows[-1]["ticks"] - rows[0]["ticks"])
    spans, ends = [], [at for at, row in enumerate(rows) if row["kind"] in ("step", "end")]
    for at, following in zip(ends, [*ends[1:], len(rows) - 1]):
        if rows[at]["kind"] == "end":
            continue
        parts, stop = rows[at + 1:following + 1], rows[following]
        spans.append(("step", rows[at]["name"], rows[at]["ns"], stop["ns"], rows[at]["value"]))
        phases = [row for row in parts if row["kind"] == "phase"]
        for phase, end in zip(phases, [*phases[1:], stop]):
            spans.append(("phase", phase["name"], phase["ns"], end["ns"], None))
        floor = rows[at]["ticks"]
        for wait in (row for row in parts if row["kind"] == "wait"):  # cut where an earlier one ended, split where a phase begins
            begin = max(floor, wait["ticks"] - wait["value"])
            cuts = [begin, *(p["ticks"] for p in phases if begin < p["ticks"] < wait["ticks"]), wait["ticks"]]
            for a, b in zip(cuts, cuts[1:]):
                spans.append(("wait", "wait " + wait["name"], wait["ns"] - (wait["ticks"] - a) * rate, wait["ns"] - (wait["ticks"] - b) * rate, None))
            floor = max(floor, wait["ticks"])
    return spans


@unittest.skipUnless(NODE, "no node: scripts/setup.sh perfetto.apt installs it")
@unittest.skipUnless((PROCESSOR / "engine_bundle.js").exists(), "no trace processor: scripts/fetch_perfetto.sh fetches it")
class PerfettoTest(CliTest):
    def check(self, trace, table, roles=None):
        """`roles`: which role ends a wait, by its name. Returns how many slices of each category there are, and arrows."""
        stats, tracks, slices, flows = ask(trace, STATS, TRACKS, SLICES, FLOWS)
        self.assertEqual(stats, [])
        expected = told(table)
        tracks = {row["track"]: row for row in tracks}
        self.assertEqual({row["tid"] for row in tracks.values()}, set(expected))
        for row in slices:
            row["tid"] = tracks[row["track"]]["tid"]
        for row in tracks.values():
            group, unit, spans = expected[row["tid"]]
            self.assertEqual((row["pid"], row["process"]), (group, f"group {group} on unit {unit}"))
            self.assertEqual(set((row["thread"] or "").partition(" ")[2].split(", ")), {name for kind, name, *_ in spans if kind == "step"})
        for tid, (_, _, spans) in expected.items():
            for category in ("step", "phase", "wait"):
                self.check_spans([row for row in slices if (row["tid"], row["category"]) == (tid, category)],
                                 [span for span in spans if span[0] == category])
        by_id = {row["id"]: row for row in slices}
        for row in slices:
            outer = self.step_of(row, by_id)
            self.assertEqual(outer["category"], "step", row)
            self.assertTrue(row["ts"] >= outer["ts"] and row["ts"] + row["dur"] <= outer["ts"] + outer["dur"], (row, outer))
        self.check_arrows(flows, by_id, roles)
        return collections.Counter(row["category"] for row in slices), len(flows)

    def step_of(self, row, by_id):
        while row["parent"] is not None:
            row = by_id[row["parent"]]
        return row

    def check_spans(self, rows, spans):
        self.assertEqual(collections.Counter(row["name"] for row in rows), collections.Counter(span[1] for span in spans))
        for row, (_, name, begin, end, step) in zip(rows, spans):
            self.assertEqual((row["name"], row["step"]), (name, step), row)
            self.assertAlmostEqual(row["ts"], begin, delta=ROUNDED_NS + 0.1, msg=row)  # a wait's is its length earlier, by a rate known to a tenth
            self.assertAlmostEqual(row["ts"] + row["dur"], end, delta=ROUNDED_NS + 0.1, msg=row)

    def check_arrows(self, flows, by_id, roles):
        barriers = {row["id"] for row in by_id.values() if row["category"] == "barrier"}
        self.assertEqual(collections.Counter(flow["in"] for flow in flows), collections.Counter(barriers))
        waits = {(row["tid"], row["name"], row["ts"] + row["dur"]) for row in by_id.values() if row["category"] == "wait"}
        for flow in flows:
            out, into = by_id[flow["out"]], by_id[flow["in"]]
            self.assertIn((into["tid"], "wait " + flow["name"], into["ts"]), waits)
            self.assertLess(out["ts"], into["ts"], (out, into))
            self.assertNotEqual(out["tid"], into["tid"])
            if roles:
                self.assertEqual(self.step_of(out, by_id)["name"], roles[flow["name"]], (out, into))

    def trace_pipeline(self, level, blocks=60):
        binary = build(self.folder, level, blocks)
        self.run_pinch("trace", "--level", level, "--perfetto", "t.json", "--csv", "t.csv", "--", binary)
        return self.folder / "t.json", self.folder / "t.csv"

    def made_up(self):
        """Two groups of two warps whose ticks are no whole ns, with waits of no length, overlapping ones and phases that begin in a wait."""
        chance, tracks = random.Random(8), []
        for group, role in ((0, 0), (0, 1), (5, 0), (5, 1)):
            ticks, events = 100, []
            for step in range(200):
                events.append((ticks, step, role, 1))
                begin = ticks
                for _ in range(chance.randrange(6)):
                    ticks += chance.choice((0, 1, 2, 7, 50))
                    phase = chance.random() < 0.4
                    events.append((ticks, 0, 0, 3) if phase else (ticks, chance.randrange(ticks - begin + 1), chance.randrange(2), 2))
                ticks += chance.choice((0, 1, 3, 40))
            tracks.append((group, len(events) + 1, [(0, [*events, (ticks, 0, 0, 4)])]))
        (self.folder / "t.trace").write_bytes(seeds().trace_file(tracks, bits=32, hz=1_755_000_000, level=2))
        self.succeeds("trace", "read", "t.trace", "--perfetto", "t.json", "--csv", "t.csv")
        return self.folder / "t.json", self.folder / "t.csv"

    def test_reads_a_program_as_it_was_traced(self):
        counts, arrows = self.check(*self.trace_pipeline("coarse"), PIPELINE)
        self.assertEqual((counts["step"], counts["wait"], counts["phase"], counts["barrier"]), (180, 240, 0, arrows))
        self.assertGreaterEqual(arrows, 200)  # not those of slots that were empty from the start, and a few whose step nobody can tell
        counts, _ = self.check(*self.trace_pipeline("detailed"), PIPELINE)
        self.assertEqual((counts["step"], counts["wait"], counts["phase"]), (180, 240, 120))

    def test_reads_warps_with_another_clock(self):
        counts, arrows = self.check(*self.made_up(), MADE_UP)
        self.assertEqual(counts["step"], 800)
        self.assertGreater(min(counts["wait"], counts["phase"], arrows), 100)

    def test_reads_the_kernels_of_the_cpu(self):
        self.succeeds("trace", "gemm", "--m", "8", "--n", "256", "--k", "256", "--rounds", "1", "--threads", "2", "--perfetto", "t.json", "--csv", "t.csv")
        counts, _ = self.check(self.folder / "t.json", self.folder / "t.csv")
        self.assertGreater(counts["step"], 0)
        self.succeeds("trace", "attention", "--heads", "2", "--seq", "64", "--dim", "64", "--pv", "fp4", "--rounds", "1", "--threads", "2", "--level", "detailed",
                      "--perfetto", "t.json", "--csv", "t.csv")
        counts, _ = self.check(self.folder / "t.json", self.folder / "t.csv")
        self.assertGreater(counts["phase"], 0)

    def test_fails_on_planted_faults(self):
        trace, table = self.trace_pipeline("detailed", 20)
        lines = trace.read_text().splitlines()
        self.check(trace, table, PIPELINE)

        def first(what):
            return next(at for at, line in enumerate(lines) if what in line)

        def without(at):
            return [*lines[:at], *lines[at + 1:]]

        def changed(at, old, new):
            self.assertIn(old, lines[at])
            return [*lines[:at], lines[at].replace(old, new), *lines[at + 1:]]

        wait, step = first('"cat":"wait"'), first('"cat":"step"')
        begin = lines[step][lines[step].index('"ts":'):].split(",")[0]
        for fault, says in ((lines[:len(lines) // 2], "incomplete"),
                            (without(wait + 1), "!="),  # its end
                            (without(first('"ph":"f"')), "Counter"),
                            (without(first('"ph":"s"')), "Counter"),
                            (changed(step, begin, begin[:-1] + str((int(begin[-1]) + 5) % 10)), "delta"),
                            (changed(wait, '"wait"', '"phase"'), "Counter"),
                            (changed(first('"thread_name"'), '{"name":"', '{"name":"other '), "Items in the"),
                            ([*lines[:step], '{"ph":"X","name":"wait slot","cat":"wait",' + begin + ',"dur":1e9,"pid":0,"tid":0},', *lines[step:]], "!=")):
            trace.write_text("\n".join(fault))
            with self.subTest(says), self.assertRaisesRegex(AssertionError, says):
                self.check(trace, table, PIPELINE)
