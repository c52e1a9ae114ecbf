"""pinch report: one file that needs nothing, the same as Markdown and JSON, and opened in a browser where there is one."""

import html.parser
import json
import os
import pathlib
import re
import shutil
import subprocess
import unittest

from harness import CliTest, FAILED
from harness.npy import write_npy

ROOT = pathlib.Path(__file__).resolve().parents[2]
CUBIN = ROOT / "tests" / "data" / "sass" / "kernels.sm_90a.cubin"
BROWSER = shutil.which("chromium-headless-shell")
HOSTILE = "</script><!--<script><img src=x onerror=alert(1)>"


class Reader(html.parser.HTMLParser):
    """What a page holds and what it refers to."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.references, self.charts, self.tables, self.in_data = [], [], {}, [], None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.tags.append(tag)
        self.references += [value for key, value in attributes.items() if key in ("src", "href", "action", "data", "srcset")]
        if tag == "script" and attributes.get("type") == "application/json":
            self.in_data = attributes["id"]
        if tag == "table":
            self.tables.append(0)
        if tag == "tr":
            self.tables[-1] += 1

    def handle_endtag(self, tag):
        self.in_data = None if tag == "script" else self.in_data

    def handle_data(self, data):
        if self.in_data:
            self.charts[self.in_data] = json.loads(data)


class ReportTest(CliTest):
    documents = trace = None

    def setUp(self):
        super().setUp()
        if ReportTest.documents is None:
            ReportTest.documents = self.make()
        for name, document in ReportTest.documents.items():
            (self.folder / name).write_text(json.dumps(document))
        (self.folder / "kept.trace").write_bytes(ReportTest.trace)
        self.names = [*ReportTest.documents, "kept.trace"]
        self.page = self.folder / "report.html"

    def make(self):
        (self.folder / "subject.toml").write_text(f"""
name = "{HOSTILE}"
command = ["sh", "-c", "echo '{{\\"ms\\": ${{ms}}}}'"]
metric = {{kind = "json", name = "ms", unit = "ms"}}
let = {{ms = "100 + 25 * (tile - 1) + 5 * (stages % 3)"}}
knobs = {{tile = {{values = [1, 2, 3], default = 2}}, stages = {{values = [1, 2, 3], default = 1}}, note = {{kind = "env", values = ["{HOSTILE}"], default = "{HOSTILE}"}}}}
""")
        for name, values in (("a.npy", (1, 2)), ("b.npy", (1, 2.5))):
            write_npy(self.folder / name, values, "(2,)")
        traced = self.json_of("trace", "gemm", "--m", 64, "--n", 256, "--k", 256, "--threads", 1, "--rounds", 1, "--keep", "kept.trace")
        ReportTest.trace = (self.folder / "kept.trace").read_bytes()
        return {"tune.json": self.json_of("tune", "gemm", "--m", 2, "--n", 256, "--k", 256, "--cold-set", 8, "--budget", 0.5, "--threads", 1, "--db", "t.sqlite"),
                "subject.json": self.json_of("tune", "subject.toml", "--db", "s.sqlite", "--repeats", 3, "--code", CUBIN, "--kernel", "^wgmma_loop$", "--warps", 8),
                "sweep.json": self.json_of("sweep", "subject.toml", "--db", "s.sqlite", "--repeats", 3),
                "flake.json": self.succeeds("check", "flake", "--runs", 20, "--json", "-", "--", "true").json(),
                "compare.json": self.json_of("check", "compare", "--change", "reorder", "--baseline", "a.npy", "--candidate", "b.npy", code=FAILED),
                "bisect.json": self.succeeds("check", "bisect", "--pass", "tile=16,stages=1", "--fail", "tile=64,stages=3", "--json", "-", "--", "sh", "-c", "test ${tile} = 16").json(),
                "sass.json": self.json_of("sass", CUBIN, "--kernel", "wgmma_loop|forced_spill"),
                "trace.json": traced}

    def report(self, *more):
        return self.succeeds("report", *self.names, "--out", self.page, *more)


class File(ReportTest):
    def test_needs_nothing_beside_itself(self):
        self.report()
        text = self.page.read_text()
        reader = Reader(text)
        self.assertEqual(reader.references, [])
        self.assertIn("default-src 'none'", text)
        outside = text[:text.index("<script>/*!")] + text[text.index("</script>", text.index("<script>/*!")):]
        self.assertEqual(re.findall(r"https?:|url\(|@import|fetch\(|XMLHttp", outside), [], "beside the library's own comments")
        self.assertNotIn("img", reader.tags, "names are text, whatever they hold")
        self.assertIn("&lt;/script&gt;&lt;!--&lt;script&gt;&lt;img", text)
        self.assertNotIn("<!--", text)

    def test_every_chart_has_its_data_as_a_table(self):
        self.report("--json", "page.json")
        reader = Reader(self.page.read_text())
        self.assertEqual(reader.tags.count("canvas"), len(reader.charts))
        figures = [figure for section in json.loads((self.folder / "page.json").read_text())["sections"] for figure in section["figures"]]
        self.assertEqual([len(figure["table"]["rows"]) + 1 for figure in figures], reader.tables)
        drawn = [figure.get("bars") or figure.get("lanes") for figure in figures]
        self.assertEqual([chart for chart in drawn if chart], list(reader.charts.values()))
        for figure in figures:
            self.assertTrue(figure["table"]["rows"], figure["title"])

    def test_says_what_the_documents_say(self):
        self.report("--json", "page.json", "--markdown", "page.md")
        sections = {section["title"]: section for section in json.loads((self.folder / "page.json").read_text())["sections"]}
        self.assertEqual(len(sections), 8, "a trace and what was read of it have one title")
        tune = next(section for title, section in sections.items() if title.startswith("Tune: m 2, n 256"))
        by_title = {figure["title"]: figure for figure in tune["figures"]}
        self.assertEqual([row[0] for row in by_title["Ladder"]["table"]["rows"]],
                         ["throughput", "pipeline", "schedule", "algebra", "handoff", "tactic", "proof"])
        self.assertEqual(len(by_title["Tactics"]["table"]["rows"]), len(self.documents["tune.json"]["picks"]))
        kinds = [bar["kind"] for bar in by_title["Tactics"]["bars"]["bars"]]
        tuned = self.documents["tune.json"]  # of which a busy machine may have timed little
        self.assertEqual(kinds.count("best"), sum(pick["tactic"] == tuned["best"] and pick["median_ns"] is not None for pick in tuned["picks"]))
        sweep = sections[f"Sweep: {HOSTILE}"]
        heat = sweep["figures"][1]["table"]
        self.assertEqual((heat["columns"], heat["rows"][:2]), (["tile \\ stages", "1", "2", "3"], [["1", "105", "110", "100 (best)"], ["2", "130 (default)", "135", "125"]]))
        self.assertIn("a fault of 0.05 is missed 36% of the time", sections["Flakes: flake.json"]["paragraphs"][0])
        tactics = next(figure["table"] for title, figure in by_title.items() if title.startswith("tile_m by"))
        marked = [cell for cell in sum(tactics["rows"], []) if "(best)" in cell or "(default)" in cell]
        self.assertIn(len(marked), (1, 2))
        for cell in marked:  # us, and in brackets the regret
            self.assertRegex(cell, r"^(\d+\.\d\d \(\d+\.\d{3}\)|-) \((default|best)\)")
        subject = {figure["title"]: figure for figure in sections[f"Tune: {HOSTILE}"]["figures"]}
        self.assertEqual([row for row in subject["Units of the hot loop"]["table"]["rows"] if row[0] == "tensor"], [["tensor", "100.0"]])
        strip = subject["Interleaving of the hot loop"]
        self.assertEqual([label for label in strip["lanes"]["labels"] if label == "tensor"], ["tensor"])
        self.assertEqual(strip["lanes"]["end"], int(strip["table"]["rows"][-1][1]), "every instruction is in a run")
        self.assertEqual(sections["Check: compare.json"]["figures"][0]["table"]["rows"][0][1:6], ["fail", "0.2236", "0.5", "1", "2"])
        self.assertEqual(sections["Bisect: bisect.json"]["figures"][0]["table"]["rows"], [["tile", "16", "64"]])
        self.assertIn("spill-in-loop", str(sections["Machine code: sass.json"]["figures"][1]["table"]["rows"]))
        timeline = sections["Trace: gemm 64x256x256"]["figures"][1]
        self.assertEqual(timeline["title"], "Timeline")
        begin, end = timeline["lanes"]["begin"], timeline["lanes"]["end"]
        for _, start, stop, _ in timeline["lanes"]["spans"]:
            self.assertTrue(begin <= start <= stop <= end)
        markdown = (self.folder / "page.md").read_text()
        for title in sections:
            self.assertIn(f"## {title}\n", markdown)
        self.assertEqual(self.succeeds("report", *self.names).stdout, markdown, "Markdown is what is printed")

    def test_the_recorded_ladders_are_what_the_documents_say(self):
        recorded = ROOT / "data" / "h200" / "ladder"
        for page, problems in (("gemm", ("m1", "m128", "m2048")), ("attention", ("bf16", "fp8", "fp8qk", "fp4"))):
            rows = re.findall(r"^\| (\w+) \| (\w+) \| ([\d.-]+) \|", (ROOT / "docs" / "kernels" / f"{page}.md").read_text(), re.M)
            findings = [finding for problem in problems for finding in json.loads((recorded / f"{page}_{problem}.json").read_text())["findings"]]
            said = [(each["rung"], each["verdict"], "-" if each["bound_percent"] is None else f"{each['bound_percent']:.1f}") for each in findings]
            self.assertEqual(rows, said)
        names = [str(path) for path in sorted(recorded.glob("*.json"))]
        self.succeeds("report", *names, "--out", self.page)
        self.assertGreater(len(Reader(self.page.read_text()).charts), 3 * len(names))

    def test_refuses_what_it_cannot_show(self):
        (self.folder / "other.json").write_text('{"a": 1}')
        self.refuses("report", "other.json", "--out", "o.html", says=["other.json", "no document of pinch tune"])
        (self.folder / "other.json").write_text('{"picks": []}')
        self.refuses("report", "other.json", "--out", "o.html", says=["other.json", "not as pinch writes it"])
        self.refuses("report", "none.json", says="none.json")
        self.refuses("report", says="documents")
        self.assertFalse((self.folder / "o.html").exists())


@unittest.skipUnless(BROWSER, "no chromium-headless-shell: scripts/setup.sh browser.apt installs it")
class Browser(ReportTest):
    FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update")

    @classmethod
    def setUpClass(cls):
        # A browser that cannot open an empty page here says nothing about ours.
        try:
            subprocess.run([BROWSER, *cls.FLAGS, "--dump-dom", "about:blank"], capture_output=True, timeout=60, check=True)
        except (subprocess.SubprocessError, OSError) as error:
            raise unittest.SkipTest(f"the browser does not run here: {error}") from None

    def browse(self, page, *more):
        """What the page became, and what the browser said and asked for meanwhile."""
        log = self.folder / "net.json"
        run = subprocess.run([BROWSER, *self.FLAGS, f"--user-data-dir={self.folder}/profile",
                              "--enable-logging=stderr", f"--log-net-log={log}", *more, page.as_uri()],
                             capture_output=True, text=True, timeout=100, check=False)
        self.assertEqual(run.returncode, 0, run.stderr)
        console = [line for line in run.stderr.splitlines() if "CONSOLE" in line]
        requests = set(re.findall(r'"url":"((?:https?|wss?)://[^"]*)', log.read_text()))
        return run.stdout, console, requests

    def test_charts_are_drawn_in_silence(self):
        self.report()
        dom, console, requests = self.browse(self.page, "--dump-dom")
        self.assertEqual((console, requests), ([], set()))
        charts = Reader(self.page.read_text()).charts
        drawn = re.findall(r'data-from="(\w+)"[^>]*data-drawn="(\d+)"', dom)
        self.assertEqual(dict(drawn), {name: str(len(chart.get("bars", chart.get("spans")))) for name, chart in charts.items()})

    def test_a_planted_error_and_a_planted_request_are_seen(self):
        page = self.folder / "planted.html"
        page.write_text('<img src="http://planted.invalid/x.png"><script>planted_function();</script>')
        _, console, requests = self.browse(page, "--dump-dom")
        self.assertIn("planted_function is not defined", "".join(console))
        self.assertEqual(requests, {"http://planted.invalid/x.png"})

    def test_is_kept_as_pictures(self):
        self.report()
        folder = pathlib.Path(os.environ.get("PINCH_ARTIFACTS") or self.folder)
        folder.mkdir(parents=True, exist_ok=True)
        for width in (1000, 380):
            picture = folder / f"report-{width}.png"
            picture.unlink(missing_ok=True)
            self.browse(self.page, f"--window-size={width},4000", f"--screenshot={picture}")
            self.assertEqual(picture.read_bytes()[:8], b"\x89PNG\r\n\x1a\n")
            self.assertEqual(int.from_bytes(picture.read_bytes()[16:20], "big"), width)
