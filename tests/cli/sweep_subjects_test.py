"""pinch sweep: builds, what a subject file may say, and the examples."""

import json
import os
import re
import shutil

from harness.sweeps import by_knob, LOGGER, ROOT, SweepTest


class Builds(SweepTest):
    SPEC = """
name = "build"
command = ["${binary}"]
metric = {kind = "json", name = "ms"}
[build]
command = ["sh", "-c", "echo built >> builds; case '${defines}' in *TILE=3*) echo no tile of 3 >&2; exit 1;; *) printf '#!/bin/sh\\necho {\\\\\\"ms\\\\\\": 1}\\n' > ${binary}; chmod +x ${binary};; esac"]
sources = ["source.c"]
[knobs.tile]
kind = "define"
values = [1, 2, 3]
default = 1
"""

    def test_builds_are_cached_by_content_and_failures_are_rows(self):
        (self.folder / "source.c").write_text("int x;")
        spec = self.subject(self.SPEC)
        document = self.sweep(spec, "--repeats", 2)
        points = by_knob(document, "tile")
        self.assertEqual([points[tile]["verdict"] for tile in (1, 2, 3)], ["ok", "ok", "compile_failed"])
        self.assertIn("no tile of 3", points[3]["stderr"])
        self.assertEqual((self.folder / "builds").read_text().count("built"), 3)
        # Both values give the same file: the knob does nothing.
        self.assertEqual(document["findings"], [], "one value did not build, so nothing is claimed")
        self.sweep(spec, "--repeats", 3)
        self.assertEqual((self.folder / "builds").read_text().count("built"), 4, "only the failed build is tried again")
        (self.folder / "source.c").write_text("int y;")
        self.sweep(spec, "--repeats", 1)
        self.assertEqual((self.folder / "builds").read_text().count("built"), 7)

    def test_builds_run_side_by_side(self):
        (self.folder / "source.c").write_text("int x;")
        # Each waits for the other: one at a time they would end at their deadline.
        spec = self.subject(self.SPEC.replace("[1, 2, 3]", "[1, 2]").replace(
            "echo built >> builds;", "echo built >> builds; while [ $(grep -c built builds) -lt 2 ]; do sleep 0.02; done;"))
        document = self.sweep(spec, "--repeats", 1, "--build-jobs", 2)
        self.assertEqual([point["verdict"] for point in document["points"]], ["ok", "ok"])

    def test_a_define_that_changes_no_byte_has_no_effect(self):
        (self.folder / "source.c").write_text("int x;")
        document = self.sweep(self.subject(self.SPEC.replace("[1, 2, 3]", "[1, 2]")), "--repeats", 2)
        self.assertEqual([(finding["knob"], finding["detail"]) for finding in document["findings"]],
                         [("tile", "the build is the same file at all its values")])


class Usage(SweepTest):
    def test_names_file_line_and_what_is_allowed(self):
        spec = self.subject('name = "x"\ncommand = ["true"]\n[metrik]\nkind = "wall"\n')
        self.refuses(*self.arguments(spec), says=["subject.toml:", "a subject has no key \"metrik\"; did you mean metric"])
        spec = self.subject('name = "x"\ncommand = ["true"]\n')
        self.refuses(*self.arguments(spec), says=["subject.toml:", "the key 'metric' is missing"])
        self.refuses("sweep", "/no/such/file.toml", says=["/no/such/file.toml: cannot be opened: No such file", "docs/subject.md"])
        self.refuses("sweep", says="SPEC or --replay")

    def test_refuses_a_default_that_is_illegal(self):
        spec = self.subject(LOGGER + "[[constraint]]\nrequire = \"tile > 3\"\nreason = \"too small\"\n")
        self.refuses(*self.arguments(spec), says=["subject.toml:", "the default tile=1,stages=1 breaks the rule tile > 3: too small"])


class Examples(SweepTest):
    def copied(self, name):
        shutil.copytree(ROOT / "examples" / name, self.folder / name)
        return self.folder / name / "subject.toml"

    def test_the_cpp_program_builds_agrees_and_is_picked(self):
        spec = self.copied("cpp")
        spec.write_text(spec.read_text().replace("[8, 16, 32, 64]", "[16, 64]"))  # five builds instead of eleven
        document = self.sweep(spec, "--repeats", 1, timeout=110)
        ran = [point for point in document["points"] if point["verdict"] != "illegal"]
        self.assertEqual([point["verdict"] for point in ran], ["ok"] * 5, ran)
        self.assertEqual(len({point["outputs"]["c"] for point in ran}), 1, "every tile sums in one order")
        self.assertEqual(len(document["points"]), 6)

    def test_the_python_program_runs_and_its_contract_is_real(self):
        rule = "segment covers the base primes"
        document = self.sweep(self.copied("python"), "--repeats", 1, "--demonstrate", rule)
        self.assertEqual({point["verdict"] for point in document["points"]}, {"ok", "illegal"})
        shown = [finding for finding in document["findings"] if finding["kind"] == "contract_broken"]
        self.assertEqual([(each["rule"], each["verdict"]) for each in shown], [(rule, "wrong")])

    def test_every_legal_handoff_gives_the_same_bits_and_a_broken_one_reads_poison(self):
        document = self.sweep(ROOT / "examples" / "handoff" / "subject.toml", "--repeats", 1, "--demonstrate", "handoff")
        ran = [point for point in document["points"] if point["verdict"] != "illegal"]
        self.assertEqual({point["verdict"] for point in ran}, {"ok"}, ran)
        self.assertIn({"chunks": 8, "numerator": 1, "denominator": 8}, [point["knobs"] for point in ran])
        self.assertEqual(len({point["outputs"]["o"] for point in ran}), 1)
        shown = [finding for finding in document["findings"] if finding["kind"] == "contract_broken"]
        self.assertEqual([(each["rule"], each["verdict"]) for each in shown], [("handoff", "wrong")])
        self.assertIn("NaN", shown[0]["detail"])

    def test_the_cuda_program_builds_and_runs_where_a_gpu_is(self):
        spec = self.copied("cuda")
        self.assertEqual(self.succeeds(*self.arguments(spec, "--list")).stdout.count("block="), 20)
        nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
        if not os.path.exists(nvcc):
            self.skipTest("no nvcc on this machine")
        text = spec.read_text().replace('"-O3"', '"-O3", "-Werror", "all-warnings"').replace("16777216", "65536")
        spec.write_text(text.replace("[64, 128, 256, 512, 1024]", "[256]").replace("[1, 2, 4, 8]", "[4]"))
        environment = {"PATH": f"{os.environ['PATH']}:{os.path.dirname(nvcc)}"}
        document = self.sweep(spec, "--repeats", 1, env=environment, timeout=110)
        point = document["points"][0]
        self.assertEqual(len(list((self.folder / "sweeps" / "builds").glob("*/subject"))), 1, document)
        if any("H100" in gpu["name"] or "H200" in gpu["name"] for gpu in document["environment"]["gpus"]):
            self.assertEqual(point["verdict"], "ok", point)
        else:  # it is the program that says so, not the build
            self.assertEqual(point["verdict"], "launch_failed", point)
            self.assertIn("cudaError", point["stderr"])


class Schema(SweepTest):
    """The schema lists the keys that the reader allows: both are asked."""

    TABLES = {"a subject": ("", []), "build": ("[build]", ["build"]), "limits": ("[limits]", ["limits"]), "check": ("[check]", ["check"]),
              "knob k": ("[knobs.k]", ["knobs", "*"]), "output c": ("[outputs.c]", ["outputs", "*"]),
              "constraint": ("[[constraint]]", ["constraint", "[]"]), "input a": ("[inputs.a]", ["inputs", "*"])}

    def test_agrees_with_the_reader(self):
        schema = json.loads((ROOT / "docs" / "subject.schema.json").read_text())
        for what, (header, path) in self.TABLES.items():
            node = schema
            for step in path:
                node = node["additionalProperties"] if step == "*" else node["items"] if step == "[]" else node["properties"][step]
                if "$ref" in node:
                    node = schema["$defs"][node["$ref"].split("/")[-1]]
            keys = set().union(*(each["properties"] for each in node["oneOf"])) if "oneOf" in node else set(node["properties"])
            head = 'name = "x"\ncommand = ["true"]\nmetric = {kind = "wall"}\n'
            run = self.run_pinch(*self.arguments(self.subject(head + header + "\nplanted = 1\n")))
            self.assertIn(f'{what} has no key "planted"', run.stderr)
            self.assertEqual(set(re.search(r"It has: (.*)", run.stderr)[1].split(", ")), keys, what)
