"""What README.md and docs/kernels state is what the recorded data hold and what the commands beside it print."""

import csv
import json
import math
import pathlib
import re
import statistics
import subprocess
import sys

from harness import CliTest

ROOT = pathlib.Path(__file__).parent.parent.parent
README = (ROOT / "README.md").read_text()


def section(title, text=README):
    return text.split(f"## {title}\n")[1].split("\n## ")[0]


def table(text):
    """The rows of the first table in `text` as lists of cells, the head first."""
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows if not set("".join(row)) <= set("-: ")]


def rung_tables(text):
    """{heading: {rung: (verdict, bound, why)}} of a page of docs/kernels."""
    found = {}
    for part in re.split(r"(?m)^## ", text)[1:]:
        rows = [row for row in table(part) if len(row) == 4 and row[0] != "rung"]
        if rows:
            found[part.splitlines()[0]] = {row[0]: tuple(row[1:]) for row in rows}
    return found


class ReadmeTest(CliTest):
    def h200_rows(self):
        printed = subprocess.run([sys.executable, "-B", ROOT / "bench" / "h200_table.py"], capture_output=True, text=True, check=True)
        head, *rows = table(printed.stdout)
        return {(row[0], int(row[1])): dict(zip(head, row)) for row in rows}

    def test_the_measured_table_is_what_its_command_prints(self):
        printed = self.h200_rows()
        head, *rows = table(section("Measured"))
        checked = 0
        for row in rows:
            for column, cell in zip(head[1:], row[1:]):
                ours, cublas = re.fullmatch(r"([\d.]+)(?: µs)? \((?:cuBLAS )?([\d.]+)\)", cell).groups()
                line = printed[row[0], int(column.removeprefix("m = "))]
                self.assertEqual((ours, cublas), (line["µs"], line["cuBLAS bf16 µs"]), (row[0], column))
                checked += 1
        self.assertEqual(checked, 18)

    def test_the_row_of_pinch_beside_its_peers_is_the_same(self):
        head, *rows = table(section("Beside its peers"))
        pinch = next(row for row in rows if row[0] == "Pinch")
        for column, cell in zip(head[1:4], pinch[1:4]):
            printed = self.h200_rows()["19968×4096", int(column.removeprefix("m = "))]["µs"]
            self.assertLessEqual(abs(float(cell) - float(printed)), 0.5 if "." not in cell else 0, column)

    def test_the_peers_and_the_kernels_page_give_the_same(self):
        printed = self.h200_rows()
        for name, columns in {"peers.md": {2: "µs"}, "kernels/gemm.md": {2: "µs", 4: "read µs", 5: "cuBLAS bf16 µs"}}.items():
            shape, checked = "", 0
            for row in table((ROOT / "docs" / name).read_text()):
                shape = row[0] or shape
                if not row[1].isdigit():
                    continue
                for column, title in columns.items():
                    self.assertEqual(row[column], printed[shape, int(row[1])][title], (name, shape, row[1]))
                checked += 1
            self.assertEqual(checked, 18, name)

    def test_the_default_loses_in_the_tables_run_what_is_said(self):
        folder = ROOT / "data" / "h200" / "gemm_bf16_fp4"
        times = {}
        with open(folder / "sm90_time.csv", newline="") as file:
            for row in csv.DictReader(file):
                if row["round"] == "all" and row["family"] in ("wgmma", "stream"):
                    times.setdefault(tuple(row[c] for c in "mnk") + (row["format"],), {})[row["tactic"]] = float(row["median_us"])
        lost = []
        for (m, n, k, fmt), tactics in times.items():
            pick = self.json_of("tactics", "default", "--family", "sm90", "--m", m, "--n", n, "--k", k, "--format", fmt)["tactic"]
            lost.append(tactics[pick] / min(tactics.values()))
        geomean = math.exp(sum(map(math.log, lost)) / len(lost))
        with open(folder / "fit.csv") as file:
            fitted = {tuple(line.split(",")[:4]) for line in file if line[0].isdigit()}
        text = " ".join(README.split())
        stated = re.search(r"In the table's own run it loses ([\d.]+)%, worst ([\d.]+)% \((\d+) problems, (\d+) of which the fit saw\)", text)
        self.assertEqual((f"{100 * geomean - 100:.1f}", f"{100 * max(lost) - 100:.1f}", str(len(lost)), str(len(fitted & set(times)))),
                         stated.groups())

    def test_attentions_rates_are_rows_of_the_recorded_times(self):
        with open(ROOT / "data" / "h200" / "attention" / "times.csv", newline="") as file:
            rows = [row for row in csv.DictReader(file) if [row[c] for c in ("batch", "heads", "seq", "dim")] == ["4", "16", "4096", "128"]]
        text = " ".join(section("Measured").split())
        stated = re.search(r"bf16 with the default tactic (\d+) / (\d+), fp8 P·V (\d+) / (\d+) and all fp8 (\d+) / (\d+) for the kernel "
                           r"alone, (\d+) / (\d+) and (\d+) / (\d+) with", text)
        self.assertIsNotNone(stated, "the sentence has another form: mend this test with it")
        kinds = [("bf16", "bf16", "attend"), ("bf16", "fp8", "attend"), ("fp8", "fp8", "attend"), ("bf16", "fp8", "both"), ("fp8", "fp8", "both")]
        for n, (qk, pv, part) in enumerate(kinds):
            for causal in (0, 1):
                recorded = [float(row["tflops"]) for row in rows
                            if (row["qk"], row["pv"], row["part"], row["causal"]) == (qk, pv, part, str(causal))]
                off = min(abs(rate - float(stated.group(2 * n + causal + 1))) for rate in recorded)
                self.assertLessEqual(off, 0.5, (qk, pv, part, causal))

    def test_the_models_regrets_are_what_the_study_prints(self):
        text = " ".join(README.split())
        cpu = re.search(r"([\d.]+)% slower on the CPU \(geomean of 18 problems, worst ([\d.]+)%\)", text)
        h200 = re.search(r"([\d.]+)% on the H200 \((\d+) problems that the model had not seen, worst ([\d.]+)%\)", text)
        study = self.json_of("tactics", "study", "--truth", ROOT / "data" / "cpu" / "emerald-rapids.csv")
        self.check_study(study["studies"][0], "time", *cpu.groups())
        self.assertEqual(len(study["studies"][0]["problems"]), 18)
        held_out = self.json_of("tactics", "study", "--family", "sm90")["held_out"]
        self.assertEqual(str(held_out["problems"]), h200.group(2))
        self.check_study(held_out["models"][0], "pinch", h200.group(1), h200.group(3))

    def check_study(self, model, name, geomean, worst):
        """The first model of a study is the one that picks."""
        self.assertEqual(model["model"], name)
        self.assertEqual((f"{100 * model['geomean'] - 100:.1f}", f"{100 * model['worst'] - 100:.1f}"), (geomean, worst))


class RecordedTablesTest(CliTest):
    """Tables of docs/ that no command prints, computed again from the files that they name."""

    TRACED = {"wgmma, m = 2048, .*": "gemm", "streaming, m = 16, .*": "gemm_stream", "attention, .*, bf16": "attention_bf16",
              "the same, fp8": "attention_fp8", "the same, fp8, qk fp8": "attention_fp8qk", "the same, fp4": "attention_fp4"}

    def slowed(self, name, level):
        """By how many percent marks slow a kernel: the median of seven rounds' ratios and its interval, which is their range."""
        recorded = json.loads((ROOT / "data" / "h200" / "trace" / f"{name}_none.json").read_text())
        ns = recorded.get("result", recorded)["cost"]["ns"]
        ratios = sorted(100 * (traced / off - 1) for traced, off in zip(ns[level], ns["off"], strict=True))
        self.assertEqual(len(ratios), 7, name)
        return f"{statistics.median(ratios):.1f}", f"{ratios[0]:.1f}", f"{ratios[-1]:.1f}"

    def test_what_marks_cost_is_what_the_traces_say(self):
        text = (ROOT / "docs" / "trace.md").read_text()
        rows = table(text[text.index("| kernel, H200, cold L2"):])[1:]
        self.assertEqual(len(rows), len(self.TRACED))
        coarse = {}
        for kernel, *cells in rows:
            name = next(name for pattern, name in self.TRACED.items() if re.fullmatch(pattern, kernel))
            median, low, high = self.slowed(name, "coarse")
            self.assertEqual(cells, [f"{median}% ({low} to {high})", f"{self.slowed(name, 'detailed')[0]}%"], kernel)
            coarse[name] = cells[0].split("%")[0]
        stated = re.search(r"the GEMM at m = 2048 by ([\d.]+)%, but bf16, fp8, all-fp8 and fp4 attention by ([\d.]+), ([\d.]+), ([\d.]+) "
                           r"and ([\d.]+)% and the streaming GEMM by ([\d.]+)%", " ".join(README.split()))
        names = ("gemm", "attention_bf16", "attention_fp8", "attention_fp8qk", "attention_fp4", "gemm_stream")
        self.assertEqual(stated.groups(), tuple(coarse[name] for name in names))

    def test_planted_wastes_were_claimed_as_the_table_says(self):
        folder = ROOT / "data" / "h200" / "ladder" / "planted"
        recorded = {result["case"]: result for result in json.loads((folder / "planted.json").read_text())["results"]}
        times = json.loads((folder / "planted.json").read_text())["times_ms"]
        rows = table((folder / "README.md").read_text())[1:]
        cases = ("clean", "spill", "split", "stall", "divide", "tile")
        self.assertEqual(len(rows), len(cases))
        for case, (_, wasted, own, bound, others, _) in zip(cases, rows):
            ratio = statistics.median(t / clean for t, clean in zip(times[case], times["clean"], strict=True))
            self.assertEqual(wasted, f"{100 * (1 - 1 / ratio):.1f}", case)
            if case not in recorded:
                self.assertEqual((case, bound), ("tile", "not measured"))
                continue
            result = recorded[case]
            if case == "clean":
                self.assertEqual(others, "(" + ", ".join(f"{rung} {claim:.1f}" for rung, claim in result["claims"].items()) + ")")
                continue
            self.assertEqual((own, bound), (result["own_rung"], f"{result['claims'][own]:.1f}"), case)
            self.assertEqual(others, ", ".join(f"{rung} {claim:.1f}" for rung, claim in result["claimed_by_others"].items()) or "none", case)

    REGIMES = {"bf16": ("bf16", "bf16", "attend", "linear", 0), "bf16, threshold 8, which no list offers": ("bf16", "bf16", "attend", "linear", 8),
               "pv = fp8, kernel": ("bf16", "fp8", "attend", "linear", 0), "pv = fp8, V prepared in the call": ("bf16", "fp8", "both", "linear", 0),
               "all fp8, kernel": ("fp8", "fp8", "attend", "linear", 0), "all fp8, Q, K, V prepared in the call": ("fp8", "fp8", "both", "linear", 0),
               "fp4 linear": ("bf16", "fp4", "attend", "linear", 0), "fp4 log": ("bf16", "fp4", "attend", "log", 0)}

    def test_attentions_regimes_are_rows_of_their_file(self):
        with open(ROOT / "data" / "h200" / "attention" / "regimes.csv", newline="") as file:
            recorded = {}
            for row in csv.DictReader(file):
                quant, threshold = re.search(r"/(linear|log)/.*/threshold(\d+)/", row["tactic"]).groups()
                key = (row["qk"], row["pv"], row["part"], quant, int(threshold)), (row["seq"], row["causal"])
                self.assertNotIn(key, recorded)
                # Four floating-point operations for each of 128 numbers of a visible pair of a query and a key.
                seq = int(row["seq"])
                flops = 4 * 128 * 4 * 16 * (seq * (seq + 1) // 2 if row["causal"] == "1" else seq * seq)
                recorded[key] = [float(row[f"{regime}_tflops"]) for regime in ("burst", "sustained")]
                for regime, rate in zip(("burst", "sustained"), recorded[key]):
                    self.assertAlmostEqual(rate, flops / float(row[f"{regime}_us"]) / 1e6 if row["part"] != "prepare" else 0, delta=0.1)
        text = next((ROOT / "docs" / "decisions").glob("0087-*.md")).read_text()
        rows = {row[0]: row[1:] for row in table(text[text.index("| burst / sustained"):text.index("Every kernel in turn")])[1:]}
        self.assertEqual([name for name in rows if not name.startswith("cuDNN")], list(self.REGIMES))
        checked = 0
        for name, kind in self.REGIMES.items():
            for place, cell in zip((("4096", "0"), ("4096", "1"), ("8192", "0"), ("8192", "1")), rows[name], strict=True):
                self.assertEqual(cell == "", (kind, place) not in recorded, (name, place))
                for stated, rate in zip(cell.split(" / ") if cell else (), recorded.get((kind, place), ())):
                    self.assertLessEqual(abs(int(stated) - rate), 0.5, (name, place))
                    checked += 1
        self.assertEqual(checked, 2 * 30)


class KernelPagesTest(CliTest):
    PAGES = {"gemm.md": {"m = 1": "gemm_m1", "m = 128": "gemm_m128", "m = 2048": "gemm_m2048"},
             "attention.md": {"bf16": "attention_bf16", "P·V in fp8": "attention_fp8", "Q·K and P·V in fp8": "attention_fp8qk",
                              "P·V in NVFP4": "attention_fp4"}}

    def test_their_tables_are_the_recorded_findings(self):
        for page, parts in self.PAGES.items():
            tables = rung_tables((ROOT / "docs" / "kernels" / page).read_text())
            self.assertEqual(len(tables), len(parts), page)
            for heading, rungs in tables.items():
                name = next(file for start, file in parts.items() if re.match(re.escape(start) + r"\b", heading))
                findings = json.loads((ROOT / "data" / "h200" / "ladder" / f"{name}.json").read_text())["findings"]
                recorded = {f["rung"]: (f["verdict"], "-" if f["bound_percent"] is None else f"{f['bound_percent']:.1f}", f["why"])
                            for f in findings}
                self.assertEqual(rungs, recorded, f"{page}, {heading}")
