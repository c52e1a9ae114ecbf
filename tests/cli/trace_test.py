"""pinch trace: the JSON contract, the cost of looking, exports that their readers accept, compare, and refusals."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import xml.etree.ElementTree

from harness import CliTest, ENVIRONMENT, FAILED
from harness.traces import EXAMPLE, LEVELS, ROOT, build, seeds

class ProgramTest(CliTest):
    @classmethod
    def setUpClass(cls):
        import tempfile
        cls.built = pathlib.Path(tempfile.mkdtemp(prefix="pinch_trace_"))
        for level in LEVELS:
            build(cls.built, level)
        cls.command = str(cls.built / "pipeline_${level}")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.built, ignore_errors=True)

    def trace_of(self, *args):
        run = self.succeeds("trace", "--json", "-", *args)
        return run.json()

    def test_answers_the_contract_and_says_what_looking_cost(self):
        trace = self.trace_of("--rounds", "3", "--", self.command)
        self.assertIs(trace["instrumented"], True)
        self.assertEqual((trace["level"], trace["unit"]), ("coarse", "ns"))
        self.assertEqual(set(trace["inflation"]), {"coarse", "detailed"})
        for level in ("coarse", "detailed"):
            low, high = trace["inflation_interval"][level]
            self.assertLessEqual(low, trace["inflation"][level])
            self.assertLessEqual(trace["inflation"][level], high)
        self.assertEqual({level: len(ns) for level, ns in trace["cost"]["ns"].items()}, dict.fromkeys(LEVELS, 3))
        self.assertEqual(trace["cost"]["timed_by"], "runs")
        self.assertEqual([role["name"] for role in trace["roles"]], ["make", "transform", "sum"])
        for role in trace["roles"]:
            self.assertLessEqual({"name", "steps", "period_median", "period_p99", "busy", "waits"}, set(role))
            self.assertEqual(role["steps"], 60)
            self.assertAlmostEqual(role["busy"] + sum(role["waits"].values()) + role["outside"], 1, places=6)
        self.assertIn(trace["critical_role"], ["make", "transform", "sum"])
        self.assertEqual((trace["lost_events"], trace["unfinished_tracks"]), (0, 0))

    def test_of_one_build_the_cost_is_not_known_and_is_said_so(self):
        run = self.run_pinch("trace", "--json", "t.json", "--", self.built / "pipeline_detailed", "--level", "detailed")
        self.assertEqual(run.code, 0, run)
        trace = json.loads((self.folder / "t.json").read_text())
        self.assertEqual(trace["level"], "detailed")
        self.assertEqual(trace["inflation"], {"coarse": None, "detailed": None})
        self.assertIs(trace["absolute"], False)
        self.assertIn("names no ${level}", run.stdout)

    def test_a_level_that_is_not_built_is_left_out(self):
        (self.folder / "pipeline_off").write_bytes((self.built / "pipeline_off").read_bytes())
        (self.folder / "pipeline_coarse").write_bytes((self.built / "pipeline_coarse").read_bytes())
        for binary in ("pipeline_off", "pipeline_coarse"):
            (self.folder / binary).chmod(0o755)
        trace = self.trace_of("--rounds", "1", "--", "./pipeline_${level}")
        self.assertIsNotNone(trace["inflation"]["coarse"])
        self.assertIsNone(trace["inflation"]["detailed"])
        self.assertIn("pipeline_detailed", trace["cost"]["not_measured"]["detailed"])

    def test_a_build_of_another_level_is_refused(self):
        shutil.copy(self.built / "pipeline_detailed", self.folder / "wrong_coarse")
        shutil.copy(self.built / "pipeline_off", self.folder / "wrong_off")
        self.refuses("trace", "--", "./wrong_${level}", says="asked for the coarse build and got a detailed one")

    def test_exports_are_what_their_readers_take(self):
        self.succeeds("trace", "--level", "detailed", "--rounds", "1", "--keep", "t.trace", "--", self.command)
        self.succeeds("trace", "read", "t.trace", "--perfetto", "t.json", "--html", "t.html", "--csv", "t.csv")
        self.check_chrome_json(json.loads((self.folder / "t.json").read_text()), steps=180)
        self.assertIn("<svg", (self.folder / "t.html").read_text())
        lines = (self.folder / "t.csv").read_text().splitlines()
        self.assertEqual(lines[0], "group,unit,track,kind,name,value,ticks,ns")
        events = self.json_of("trace", "read", "t.trace")["events"]
        self.assertEqual(len(lines) - 1, events)
        self.assertEqual(sum(line.split(",")[3] == "step" for line in lines), 180)

    def check_chrome_json(self, document, steps):
        """The fields that the format's description asks of each kind, and slices of a thread that begin and end in turn."""
        events = document["traceEvents"]
        needs = {"B": {"name", "cat", "ts", "pid", "tid"}, "E": {"ts", "pid", "tid"}, "M": {"name", "pid", "args"},
                 "s": {"name", "cat", "id", "ts", "pid", "tid"}, "f": {"name", "cat", "id", "ts", "pid", "tid", "bp"}}
        open_slices, last, slices = {}, {}, []
        for event in events:
            self.assertLessEqual(needs[event["ph"]], set(event))
            thread = (event["pid"], event["tid"])
            stack = open_slices.setdefault(thread, [])
            if event["ph"] in "BEf":
                self.assertGreaterEqual(event["ts"], last.get(thread, 0), event)
                last[thread] = event["ts"]
            if event["ph"] == "B":
                self.assertEqual([outer["cat"] for outer in stack[:1]], ["step"] if event["cat"] != "step" else [], event)
                self.assertEqual(event["cat"] == "wait", event.get("cname") == "terrible", event)
                stack.append(event)
            elif event["ph"] == "E":
                slices.append({**stack.pop(), "end": event["ts"]})
            elif event["ph"] == "f":  # an arrow ends in the slice that is open where it stands
                self.assertEqual((stack[-1]["cat"], stack[-1]["name"]), ("barrier", event["name"]), event)
        self.assertEqual([stack for stack in open_slices.values() if stack], [])
        self.assertEqual(sum(event["cat"] == "step" for event in slices), steps)
        self.assertEqual({event["cat"] for event in slices}, {"step", "phase", "wait", "barrier"})
        starts, ends = ({e["id"]: e for e in events if e["ph"] == kind} for kind in "sf")
        self.assertEqual(set(starts), set(ends))
        self.assertEqual(len(starts), sum(event["cat"] == "barrier" for event in slices))
        for flow, start in starts.items():
            self.assertNotEqual(start["tid"], ends[flow]["tid"])
            self.assertLess(start["ts"], ends[flow]["ts"])
            self.assertTrue(any(e["tid"] == start["tid"] and e["cat"] == "step" and e["ts"] <= start["ts"] < e["end"] for e in slices), start)
        threads = {event["tid"] for event in events if event["ph"] == "M" and event["name"] == "thread_name"}
        self.assertEqual(threads, {event["tid"] for event in slices})

    def test_the_check_of_the_exports_fails_on_a_planted_fault(self):
        def thread(tid, *events):
            return [{"ph": "M", "name": "thread_name", "pid": 0, "tid": tid, "args": {}}, *({"pid": 0, "tid": tid, **event} for event in events)]

        def begin(ts, cat, **more):
            return {"ph": "B", "name": "w", "cat": cat, "ts": ts, **more}

        def end(ts):
            return {"ph": "E", "ts": ts}

        arrow = {"name": "w", "cat": "barrier", "id": 1}
        leaves, arrives = {"ph": "s", "ts": 2, **arrow}, {"ph": "f", "bp": "e", "ts": 3, **arrow}
        wait = [begin(1, "wait", cname="terrible"), end(3)]
        barrier = [begin(3, "barrier"), arrives, end(3)]
        phase = [begin(3, "phase"), end(5)]
        other = thread(1, begin(0, "step"), leaves, end(5))
        self.check_chrome_json({"traceEvents": thread(0, begin(0, "step"), *wait, *barrier, *phase, end(5)) + other}, steps=2)
        plain = begin(1, "wait")
        for fault in (thread(0, begin(0, "step"), *wait, *barrier, *phase) + other,  # a step without its end
                      thread(0, begin(0, "step"), *wait, end(5), *barrier, *phase) + other,  # out of its step
                      thread(0, begin(0, "step"), plain, end(3), *barrier, *phase, end(5)) + other,  # a wait without its colour
                      thread(0, begin(0, "step"), *wait, barrier[0], barrier[2], *phase, end(5)) + other,  # an arrow without its end
                      thread(0, begin(0, "step"), *wait, *barrier, *phase, end(5)) + thread(1, begin(0, "step"), end(5)),  # ... its start
                      thread(0, begin(0, "step"), *wait, *barrier, *phase, end(5)) + thread(1, begin(0, "step"), {**leaves, "ts": 4}, end(5)),
                      thread(0, begin(0, "step"), *wait, *phase, *barrier, end(5)) + other):  # time that runs back
            with self.assertRaises((AssertionError, IndexError)):
                self.check_chrome_json({"traceEvents": fault}, steps=2)

    def test_a_program_that_fails_or_writes_nothing_is_refused(self):
        self.refuses("trace", "--", "false", says="exited with 1", code=FAILED)
        self.refuses("trace", "--", "true", says="PINCH_TRACE_FILE")
        self.refuses("trace", "--", "./no_such_program", says="no_such_program")
        self.refuses("trace", says="A program after --")

    def test_a_sweep_ranks_no_instrumented_program(self):
        for name, what in (("coarse", "instrumented"), ("off", None)):
            shutil.copy(self.built / f"pipeline_{name}", self.folder / "program")
            (self.folder / "subject.toml").write_text("""
name = "traced"
command = ["./program", "${size}"]
[knobs.size]
kind = "arg"
values = [1, 2]
default = 1
[metric]
kind = "wall"
""")
            run = self.run_pinch("sweep", "subject.toml", "--db", f"{name}.sqlite", "--json", "out.json", "--repeats", "1", timeout=120)
            text = (self.folder / "out.json").read_text() if (self.folder / "out.json").exists() else run.stderr + run.stdout
            self.assertEqual("instrumented" in text, what is not None, text)


class KernelTest(CliTest):
    def test_traces_the_product_and_attention_on_the_cpu(self):
        gemm = self.json_of("trace", "gemm", "--m", "8", "--n", "256", "--k", "256", "--rounds", "1", "--threads", "1")
        self.assertEqual({role["name"] for role in gemm["roles"]}, {"pack", "decode", "multiply", "store", "stream", "join"})
        again = self.json_of("trace", "gemm", "--m", "8", "--n", "256", "--k", "256", "--rounds", "1", "--threads", "1", "--tactic", gemm["tactic"])
        self.assertEqual(again["tactic"], gemm["tactic"])
        for pv in ("bf16", "fp8", "fp4"):
            attention = self.json_of("trace", "attention", "--heads", "2", "--seq", "64", "--dim", "64", "--causal", "--pv", pv, "--rounds", "1",
                                     "--threads", "1", "--level", "detailed")
            self.assertEqual(attention["matrix"]["role"], "scores + product")
            self.assertEqual(attention["level"], "detailed")
            self.assertIn(".linear", attention["tactic"])
            self.assertIsNotNone(attention["inflation"]["detailed"])
        self.refuses("trace", "attention", "--heads", "2", "--seq", "64", "--dim", "80", says="dim")
        run = self.run_pinch("trace", "gemm", "--m", "64", "--n", "256", "--k", "256", "--device", "cuda", env={"CUDA_VISIBLE_DEVICES": ""})
        self.assertEqual(run.code, ENVIRONMENT, run)
        self.assertRegex(run.stderr, "no CUDA kernels|no CUDA driver|CUDA driver refused|lists no device", run)


class CompareTest(CliTest):
    def trace(self, name, period, wait):
        """A producer that never waits, and a consumer that waits `wait` of each period for it."""
        steps = [(100 + period * i, i, 0, 1) for i in range(60)] + [(100 + period * 60, 0, 0, 4)]
        other = [e for i in range(60) for e in ((100 + period * i, i, 1, 1), (100 + period * i + wait, wait, 1, 2))] + [(100 + period * 60, 0, 0, 4)]
        (self.folder / name).write_bytes(seeds().trace_file([(0, len(steps), [(0, steps)]), (0, len(other), [(0, other)])]))

    def test_names_the_role_and_the_wait_that_moved(self):
        self.trace("a.trace", 1000, 200)
        self.trace("b.trace", 1500, 900)
        result = self.json_of("trace", "compare", "a.trace", "b.trace")
        self.assertAlmostEqual(result["period_moved"]["change"], 0.5, places=3)
        self.assertEqual((result["wait_moved"]["role"], result["wait_moved"]["wait"]), ("consumer", "P"))
        self.assertAlmostEqual(result["wait_moved"]["change"], 0.4, places=3)
        self.assertEqual(result["critical_role"], ["producer", "producer"])

    def test_says_what_else_differs(self):
        self.trace("a.trace", 1000, 200)
        self.assertEqual(self.json_of("trace", "compare", "a.trace", "a.trace")["only_in"], [[], []])
        lone = seeds().trace_file([(0, 2, [(0, [(100, 0, 0, 1), (900, 0, 0, 4)])])], roles=("producer", "reducer"), level=2)
        (self.folder / "b.trace").write_bytes(lone)
        run = self.succeeds("trace", "compare", "a.trace", "b.trace")
        self.assertIn("only in A consumer\n", run.stdout)
        self.assertNotIn("only in B", run.stdout)  # its reducer took no step
        self.assertIn("A is a coarse trace and B a detailed one", run.stdout)
        self.assertRegex(run.stdout, r"producer +1000\.0 +0\.0 +- ")  # one step has no period
        self.assertIsNone(self.json_of("trace", "compare", "a.trace", "b.trace")["roles"][0]["period_change"])
        self.assertIn("producer, the only role", self.succeeds("trace", "read", "b.trace").stdout)

    def test_takes_the_documents_of_json_too(self):
        self.trace("a.trace", 1000, 200)
        self.succeeds("trace", "read", "a.trace", "--json", "a.json")
        result = self.json_of("trace", "compare", "a.json", "a.trace")
        self.assertIsNone(result["period_moved"])
        self.assertIsNone(result["wait_moved"])

    def test_the_page_shows_twelve_periods_and_needs_nothing_else(self):
        self.trace("a.trace", 1000, 200)
        self.succeeds("trace", "read", "a.trace", "--html", "a.html")
        page = (self.folder / "a.html").read_text()
        self.assertTrue(page.startswith("<!DOCTYPE html>"))
        self.assertIsNone(re.search(r"https?://|<script|<link|src=|url\(", page))
        xml.etree.ElementTree.fromstring(page[page.index("<svg"):page.index("</svg>") + 6])
        self.assertIn(page.count("producer step"), (12, 13))
        self.assertIn(page.count("waits for P"), (12, 13))

    def test_refuses_what_is_no_trace(self):
        self.trace("a.trace", 1000, 200)
        self.succeeds("trace", "read", "a.trace", "--json", "a.json")
        whole = json.loads((self.folder / "a.json").read_text())
        for field, value in (("roles", [{}]), ("roles", "x"), ("unit", 5), ("critical_role", None), ("instrumented", False)):
            (self.folder / "other.json").write_text(json.dumps({**whole, field: value}))
            self.refuses("trace", "compare", "a.trace", "other.json", says=["other.json: not a document of pinch trace --json: `" + field])
        for role in ({"steps": None}, {"waits": {"P": "much"}}):
            (self.folder / "other.json").write_text(json.dumps({**whole, "roles": [{**whole["roles"][0], **role}]}))
            self.refuses("trace", "compare", "other.json", "a.trace", says=f"`roles: {next(iter(role))}`")
        (self.folder / "cut.trace").write_bytes((self.folder / "a.trace").read_bytes()[:600])
        self.refuses("trace", "read", "cut.trace", says=["cut.trace: byte ", "need"])
        self.refuses("trace", "read", "missing.trace", says=["missing.trace: cannot open", "No such file", "pinch trace --keep FILE", "docs/trace.md"])


class OutputTest(CliTest):
    def setUp(self):
        super().setUp()
        steps = [(100 + 100 * i, i, 0, 1) for i in range(60)] + [(6100, 0, 0, 4)]
        self.trace = seeds().trace_file([(0, len(steps), [(0, steps)])])
        (self.folder / "t.trace").write_bytes(self.trace)
        (self.folder / "link").symlink_to("t.trace")

    def test_no_output_replaces_what_is_read_or_another(self):
        for option in ("--csv", "--html", "--perfetto", "--json"):
            for name in ("t.trace", "./t.trace", "link"):
                self.refuses("trace", "read", "t.trace", option, name, says="is the trace itself")
        self.refuses("trace", "compare", "t.trace", "link", "--json", "t.trace", says="is what is compared")
        self.refuses("trace", "read", "t.trace", "--csv", "same", "--html", "./same", says="is the file of --html")
        self.refuses("trace", "--keep", "same", "--csv", str(self.folder / "same"), "--", "true", says="is the file of --keep")
        self.assertEqual((self.folder / "t.trace").read_bytes(), self.trace)
        self.assertFalse((self.folder / "same").exists())
        self.succeeds("trace", "read", "t.trace", "--csv", "/dev/null", "--html", "/dev/null")

    def test_an_output_that_cannot_be_is_refused_before_the_program_runs(self):
        for option in ("--keep", "--csv", "--html", "--perfetto", "--json"):
            self.refuses("trace", option, "no/such/file", "--", "touch", "ran", says="no/such/file: cannot be written", code=ENVIRONMENT)
            self.refuses("trace", option, ".", "--", "touch", "ran", says="is a folder")
            if option != "--json":
                self.refuses("trace", option, "-", "--", "touch", "ran", says="names no file")
        self.refuses("trace", "gemm", "--m", "8", "--n", "256", "--k", "256", "--html", "no/such/file", says="cannot be written", code=ENVIRONMENT)
        self.assertFalse((self.folder / "ran").exists())

    def test_options_are_the_subcommands_own(self):
        self.refuses("trace", "--level", "detailed", "read", "t.trace", says="--level: goes after read")
        self.refuses("trace", "read", "t.trace", "--", "./program", says="trace read runs no program")

    def test_times_beyond_any_clock_stay_numbers(self):
        (self.folder / "t.trace").write_bytes(seeds().trace_file([(0, 2, [(0, [(100, 0, 0, 1), (2**62, 0, 0, 4)])])], hz=1))
        self.succeeds("trace", "read", "t.trace", "--perfetto", "t.json", "--csv", "t.csv", "--html", "t.html")
        ends = [event["ts"] for event in json.loads((self.folder / "t.json").read_text())["traceEvents"] if event["ph"] == "E"]
        self.assertEqual(ends, [9e15])

    def test_the_page_names_its_lanes_within_their_room(self):
        roles = [f"röle {i}" for i in range(6)]
        steps = [event for i in range(60) for event in ((100 + 100 * i, i, i % 6, 1), (130 + 100 * i, 0, 0, 3))] + [(6100, 0, 0, 4)]
        (self.folder / "t.trace").write_bytes(seeds().trace_file([(0, len(steps), [(0, steps)])], roles=roles, level=2))
        self.succeeds("trace", "read", "t.trace", "--html", "t.html")
        page = (self.folder / "t.html").read_text()
        svg = xml.etree.ElementTree.fromstring(page[page.index("<svg"):page.index("</svg>") + 6])
        lane = next(text for text in svg.iter("text") if text.get("x") == "0")
        self.assertEqual(lane.text, "0 röle 0 röle 1 röl…")
        self.assertEqual(lane.find("title").text, "0 " + " ".join(roles))
        self.assertIn("a phase begins", page)


class CudaTest(CliTest):
    def test_the_kernels_compile_with_their_marks(self):
        nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
        if not os.access(nvcc, os.X_OK):
            self.skipTest("no nvcc")
        gemm, types = "kernels/gemm_bf16_fp4/sm90/traced/program.cuh", {"PINCH_FORMAT": "kMxfp4", "PINCH_OUTPUT": "kF32"}
        for name, header, defines in (
                ("wgmma", gemm, {"PINCH_TILE": "128, 16, 64, 3, 2, 1, 1, 2", **types}),
                ("stream", gemm, {"PINCH_STREAM": "1, 2, 4, 8, 16", **types}),
                ("attention", "kernels/attention/sm90/traced/program.cuh",
                 {"PINCH_KIND": "64, pinch::QkType(0), pinch::PvType(2)", "PINCH_TILE": "128, 128, 2", "PINCH_LAUNCH": "0, Schedule(1), 0",
                  "PINCH_OUTPUT": "kF32"})):
            (self.folder / f"{name}.cu").write_text("".join(f"#define {key} {value}\n" for key, value in defines.items()) + f'#include "{header}"\n')
            subprocess.run([nvcc, "-std=c++20", "-Werror", "all-warnings", "-gencode=arch=compute_90a,code=sm_90a", "-DPINCH_TRACE_LEVEL=2", f"-I{ROOT}",
                            f"-I{ROOT}/include", "-c", "-o", self.folder / f"{name}.o", self.folder / f"{name}.cu"], check=True)

    def test_marks_of_the_kernels_that_are_off_leave_their_sass_as_it_was(self):
        nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
        if not os.access(nvcc, os.X_OK):
            self.skipTest("no nvcc")
        shutil.copytree(ROOT / "kernels", self.folder / "kernels")
        count = 0
        for path in (self.folder / "kernels").rglob("*/sm90/**/*.cuh"):
            text, here = re.subn(r"PINCH_TRACE_(?:[A-Z_]*\([^;]*\)(?=;)|PARAMETER|PASSED|MEMBER)", "", path.read_text())
            path.write_text(text)
            count += here
        self.assertGreaterEqual(count, 60)
        (self.folder / "kernels.cu").write_text("""
#include "kernels/attention/sm90/launch.cuh"
#include "kernels/gemm_bf16_fp4/sm90/launch.cuh"
#include "kernels/gemm_bf16_fp4/sm90/stream/launch.cuh"
namespace pinch {
namespace a = attention::sm90;
namespace g = gemm_bf16_fp4::sm90;
auto* attend = &a::launch_attention<a::Kind{64, QkType::kBf16, PvType::kFp4}, a::Tile{}>;
auto* multiply = &g::launch<g::WgmmaTraits<g::WgmmaTile{128, 16, 64, 3, 2, 1, 1, 2}, g::Format::kNvfp4, float>>;
auto* stream = &g::launch<g::Format::kNvfp4, g::StreamInstance{1, 1, 4, 8, 16}>;
}
""")
        for name, root in (("plain", self.folder), ("off", ROOT)):
            subprocess.run([nvcc, "-O3", "-std=c++20", "-arch=sm_90a", "-cubin", f"-I{root}", f"-I{ROOT}/include", "-o", self.folder / name,
                            self.folder / "kernels.cu"], check=True)
        diff = self.json_of("sass", "diff", "plain", "off", "--disassembler", "none")
        self.assertEqual([kernel["verdict"] for kernel in diff["kernels"]], ["same"] * 3)

    def test_marks_that_are_off_leave_the_sass_as_it_was(self):
        nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
        if not os.access(nvcc, os.X_OK):
            self.skipTest("no nvcc")
        text = (EXAMPLE / "kernel.cu").read_text()
        plain, count = re.subn(r"PINCH_TRACE_(SCOPE|STEP|WAIT|PHASE|ATTACH)\([^;]*\);", "", text)
        self.assertGreaterEqual(count, 9)
        (self.folder / "plain.cu").write_text(plain)
        archs = [f"-gencode=arch=compute_{arch},code=sm_{arch}" for arch in ("90a", "100a")]
        common = [nvcc, "-O3", "-std=c++20", "-Werror", "all-warnings", f"-I{ROOT}/include"]
        subprocess.run([*common, *archs, "-fatbin", "-o", self.folder / "plain", self.folder / "plain.cu"], check=True)
        subprocess.run([*common, *archs, "-fatbin", "-DPINCH_TRACE_LEVEL=0", "-o", self.folder / "off", EXAMPLE / "kernel.cu"], check=True)
        # For the host's compiler too, which reads device code in its own way.
        subprocess.run([*common, archs[0], "-c", "-DPINCH_TRACE_LEVEL=2", "-o", self.folder / "on", EXAMPLE / "kernel.cu"], check=True)
        for name, verdicts in (("off", {"sm_90a": "same", "sm_100a": "same"}), ("on", {"sm_90a": "code"})):
            diff = self.json_of("sass", "diff", "plain", name, "--disassembler", "none")
            self.assertEqual({kernel["arch"]: kernel["verdict"] for kernel in diff["kernels"]}, verdicts, name)
