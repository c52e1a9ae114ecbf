"""pinch sweep: subjects that go wrong in every way, the JSON contract, strategies."""

import hashlib
import importlib.util
import itertools
import json
import os
import re
import signal
import sqlite3
import subprocess

from harness import FAILED, OK
from harness.npy import write_npy
from harness.sweeps import by_knob, FAULTS, LOGGER, processes, read, ROOT, SIGNALLED, SweepTest, wait_until


class Verdicts(SweepTest):
    def faults(self, kinds, extra="", outputs=True, limits="memory_mib = 256"):
        values = ", ".join(f'"{kind}"' for kind in kinds)
        spec = self.subject(f"""
name = "faults"
command = ["{FAULTS}", "${{kind}}", "${{argument}}"]
[let]
argument = "4099"
[metric]
kind = "json"
name = "ms"
[limits]
{limits}
[knobs.kind]
values = [{values}]
default = "{kinds[0]}"
{'[outputs.c]' + chr(10) + 'file = "c.npy"' if outputs else ''}
{extra}""")
        return self.sweep(spec, "--repeats", 2)

    def test_each_planted_fault_ends_in_its_verdict_and_the_sweep_goes_on(self):
        document = self.faults(["ok", "exit", "segfault", "abort", "allocate", "allocate_unchecked", "grandchildren", "no_metric",
                                "unknown_kind"], outputs=False)
        verdicts = {kind: point["verdict"] for kind, point in by_knob(document, "kind").items()}
        self.assertEqual(verdicts, {"ok": "ok", "exit": "launch_failed", "segfault": "crashed", "abort": "crashed",
                                    "allocate": "out_of_memory", "allocate_unchecked": "out_of_memory", "grandchildren": "ok",
                                    "no_metric": "wrong", "unknown_kind": "launch_failed"})
        points = by_knob(document, "kind")
        self.assertIn("SIGSEGV", points["segfault"]["detail"])
        self.assertIn("about to write to address 0", points["segfault"]["stderr"])
        self.assertIn("killed", points["grandchildren"]["detail"])
        self.assertIn("no line of stdout is a JSON object with \"ms\"", points["no_metric"]["detail"])
        self.assertEqual(document["failed"], 7)

    def test_hangs_and_bombs_end_at_the_deadline_and_leave_nothing(self):
        # Nothing here can end before a deadline, however short: a loaded machine changes no verdict.
        document = self.faults(["hang", "bomb", "endless_flood"], outputs=False, limits="timeout_s = 0.3")
        self.assertEqual({kind: point["verdict"] for kind, point in by_knob(document, "kind").items()},
                         {"hang": "timeout", "bomb": "timeout", "endless_flood": "timeout"})
        marked = [pid for pid in processes() if str(self.folder).encode() in read(pid, "environ")]
        self.assertEqual(marked, [])

    def test_wrong_outputs_are_told_apart_from_right_ones(self):
        document = self.faults(["right", "nan", "truncated", "wrong_tile", "ok"])
        points = by_knob(document, "kind")
        self.assertEqual({kind: point["verdict"] for kind, point in points.items()},
                         {"right": "ok", "nan": "wrong", "truncated": "wrong", "wrong_tile": "wrong", "ok": "wrong"})
        self.assertIn("one tile: rows 16 to 31, columns 32 to 47", points["wrong_tile"]["detail"])
        self.assertIn("size_mismatch", points["truncated"]["detail"])
        self.assertIn("NaN at element 77", points["nan"]["detail"])
        self.assertEqual(document["best"]["knobs"], {"kind": "right"})

    def test_a_default_that_writes_nan_is_wrong(self):
        document = self.faults(["nan", "right"])
        points = by_knob(document, "kind")
        self.assertEqual((points["nan"]["verdict"], points["right"]["verdict"]), ("wrong", "ok"))
        self.assertIn("the default itself ended in wrong: output c: NaN at element 77", document["findings"][0]["detail"])
        allowed = self.faults(["nan"], extra="[check]\nnan = true")
        self.assertEqual(allowed["points"][0]["verdict"], "ok")

    def test_two_gib_of_stdout_are_read_and_not_kept(self):
        spec = self.subject(f"""
name = "flood"
command = ["{FAULTS}", "flood", "2048"]
metric = {{kind = "json", name = "ms"}}
limits = {{timeout_s = 200}}
""")
        self.assertEqual(self.sweep(spec, "--repeats", 1, timeout=250)["points"][0]["verdict"], "ok")

    def test_stderr_may_hold_any_bytes(self):
        spec = self.subject("""
name = "bytes"
command = ["sh", "-c", "printf 'a\\\\377\\\\000b' >&2; exit 3"]
metric = {kind = "wall"}
""")
        for _ in range(2):  # once run, once stored
            self.assertEqual(self.sweep(spec)["points"][0]["stderr"], "a\ufffd\0b")

    def test_one_run_in_twenty_that_differs_is_unstable(self):
        spec = self.subject(f"""
name = "flaky"
command = ["{FAULTS}", "flaky", "{self.folder}/count"]
metric = {{kind = "json", name = "ms"}}
outputs = {{c = {{file = "c.npy"}}}}
""")
        point = self.sweep(spec, "--repeats", 20)["points"][0]
        self.assertEqual(point["verdict"], "unstable")
        self.assertIn("one element: row 0, column 5", point["detail"])

    def test_strict_fails_where_a_point_failed(self):
        spec = self.subject(f"""
name = "faults"
command = ["{FAULTS}", "${{kind}}"]
metric = {{kind = "json", name = "ms"}}
knobs = {{kind = {{values = ["ok", "abort"], default = "ok"}}}}
""")
        run = self.run_pinch(*self.arguments(spec, "--strict"))
        self.assertEqual(run.code, FAILED, run)
        self.assertIn("1 points did not end ok", run.stdout)
        self.assertEqual(self.run_pinch(*self.arguments(spec)).code, OK)


class Contract(SweepTest):
    def test_answers_with_the_documented_fields(self):
        spec = self.subject(LOGGER.replace("20}", "2}").replace("* 10 + stages", "* 10"))
        document = self.sweep(spec, "--repeats", 3)
        for key in ("points", "best", "findings"):
            self.assertIn(key, document)
        self.assertEqual(document["best"], {"knobs": {"tile": 1, "stages": 1}, "metric": 10.0})
        for point in document["points"]:
            self.assertEqual(list(point)[:6], ["problem", "knobs", "verdict", "metric", "samples", "detail"])
            # Two points tie and are run three times more.
            self.assertEqual(len(point["samples"]), 6 if point["knobs"]["tile"] == 1 else 3)
        # stages changes nothing that is measured.
        self.assertEqual([(finding["kind"], finding["knob"]) for finding in document["findings"]], [("no_effect", "stages")])
        for key in ("pinch", "host", "cpu", "cpu_mhz", "gpus"):
            self.assertIn(key, document["environment"])

    def test_refused_points_are_rows_that_name_the_rule_and_never_run(self):
        spec = self.subject(LOGGER.replace("20}", "4}") + """
[[constraint]]
require = "tile * stages <= 6"
reason = "shared memory"
[[contract]]
id = "handoff"
require = "stages == 1 or tile != 2"
reason = "the producer overtakes the consumer"
""")
        document = self.sweep(spec, "--repeats", 1)
        refused = {(p["knobs"]["tile"], p["knobs"]["stages"]): p for p in document["points"] if p["verdict"] == "illegal"}
        self.assertEqual(set(refused), {(4, 2), (2, 2)})
        self.assertIn("constraint 'tile * stages <= 6': shared memory", refused[4, 2]["detail"])
        self.assertIn("contract 'handoff': the producer overtakes", refused[2, 2]["detail"])
        ran = (self.folder / "log").read_text()
        self.assertNotIn("s 4 2", ran)
        self.assertNotIn("s 2 2", ran)

    def test_a_contract_is_broken_on_request_only(self):
        spec = self.subject(f"""
name = "contract"
command = ["sh", "-c", "test ${{stages}} -gt 2 -a -n \\"$PINCH_POISON\\" && exec {FAULTS} wrong_tile; exec {FAULTS} right"]
metric = {{kind = "json", name = "ms"}}
outputs = {{c = {{file = "c.npy"}}}}
[knobs.stages]
values = [1, 2, 3]
default = 1
[[contract]]
id = "handoff"
require = "stages < 3"
reason = "the producer overtakes the consumer"
""")
        document = self.sweep(spec, "--repeats", 1, "--demonstrate", "handoff")
        shown = [finding for finding in document["findings"] if finding["kind"] == "contract_broken"]
        self.assertEqual(len(shown), 1)
        self.assertEqual((shown[0]["knobs"], shown[0]["verdict"]), ({"stages": 3}, "wrong"))
        self.refuses(*self.arguments(spec, "--demonstrate", "other"), says="'other' is no contract; there are: 'handoff'")

    def test_the_nearest_break_of_a_contract_is_found_in_a_billion_points(self):
        knobs = "".join(f"[knobs.k{i}]\nkind = \"env\"\nvalues = {{from = 0, to = 9}}\ndefault = 0\n" for i in range(9))
        head = 'name = "x"\ncommand = ["true"]\nmetric = {kind = "wall"}\n' + knobs
        total = " + ".join(f"k{i}" for i in range(9))
        spec = self.subject(head + f'[[contract]]\nid = "few"\nrequire = "{total} <= 2"\nreason = "because"\n')
        document = self.sweep(spec, "--repeats", 1, "--points", 2, "--demonstrate", "few")
        shown = [finding for finding in document["findings"] if finding["kind"] == "contract_broken"]
        self.assertEqual([value for value in shown[0]["knobs"].values()], [0] * 8 + [3])
        # What breaks this one, the constraint forbids; no search finds that out in time.
        spec = self.subject(head + f'[[contract]]\nid = "few"\nrequire = "{total} <= 2"\nreason = "because"\n'
                            + f'[[constraint]]\nrequire = "{total} <= 2 or 194 * ({total}) % 194 == 1"\nreason = "because"\n')
        run = self.refuses(*self.arguments(spec, "--repeats", 1, "--points", 2, "--demonstrate", "few"), says="steps, up to")
        self.assertIn("there may be one farther away", run.stderr)

    def test_a_search_for_points_ends_when_asked(self):
        knobs = "".join(f"[knobs.k{i}]\nkind = \"env\"\nvalues = {{from = 0, to = 9}}\ndefault = 0\n" for i in range(10))
        total = " + ".join(f"k{i}" for i in range(10))
        spec = self.subject('name = "x"\ncommand = ["true"]\nmetric = {kind = "wall"}\n' + knobs +
                            f'[[constraint]]\nrequire = "{total} == 0 or 194 * ({total}) % 194 == 1"\nreason = "because"\n')
        process = self.start(*self.arguments(spec))
        wait_until(self.database.exists)  # the search begins after that
        process.send_signal(signal.SIGINT)
        self.assertEqual(self.finish(process, timeout=60).code, SIGNALLED)

    def test_what_programs_do_to_their_folder_harms_nothing(self):
        victim = self.folder / "victim"
        victim.mkdir()
        (victim / "mine").write_text("x")
        spec = self.subject(f"""
name = "links"
command = ["sh", "-c", "case ${{kind}} in moved) rm -rf $PINCH_OUTPUTS; ln -s {victim} $PINCH_OUTPUTS;; circle) ln -s pinch_instrumented $PINCH_OUTPUTS/pinch_instrumented;; esac"]
metric = {{kind = "wall"}}
[knobs.kind]
values = ["plain", "moved", "circle"]
default = "plain"
""")
        points = by_knob(self.sweep(spec, "--repeats", 2, "--devices", "0,1"), "kind")
        self.assertEqual({kind: point["verdict"] for kind, point in points.items()}, {"plain": "ok", "moved": "wrong", "circle": "ok"})
        self.assertIn("PINCH_OUTPUTS is no folder any more", points["moved"]["detail"])
        self.assertEqual((victim / "mine").read_text(), "x")

    def test_paths_of_any_bytes_are_reported(self):
        spec = self.folder / "b\udcffd.toml"
        spec.write_text('name = "x"\ncommand = ["true"]\nmetric = {kind = "wall"}\n[knobs.k]\nkind = "env"\nvalues = [1]\ndefault = 1\n')
        self.database = self.folder / "d\udcff.sqlite"
        self.assertIn("b\ufffdd.toml", self.sweep(spec, "--repeats", 1)["file"])

    def test_options_that_mean_nothing_are_refused(self):
        spec = self.subject(LOGGER)
        self.assertNotIn("00000000000", self.refuses(*self.arguments(spec, "--points", "0"), says="--points").stderr)

    def test_a_contract_that_is_none_is_refused_before_anything_runs(self):
        spec = self.subject(LOGGER)
        self.refuses(*self.arguments(spec, "--demonstrate", "nothing"), says=["there is no 'nothing'", "has no [[contract]]"])
        self.assertFalse((self.folder / "log").exists())

    def test_lists_and_counts_without_running(self):
        spec = self.subject(LOGGER)
        run = self.succeeds(*self.arguments(spec, "--list"))
        self.assertEqual(run.stdout.count("tile="), 40)
        points = self.sweep(spec, "--list")["points"]
        self.assertEqual((len(points), {point["verdict"] for point in points}), (40, {None}))
        self.assertIn("would run 205 processes", self.succeeds(*self.arguments(spec, "--dry-run")).stdout)
        self.assertFalse((self.folder / "log").exists())
        self.assertFalse(self.database.exists())

    def test_writes_csv_and_t4(self):
        spec = self.subject(LOGGER.replace("20}", "2}") + "[[constraint]]\nrequire = \"tile < 2 or stages < 2\"\nreason = \"x\"\n")
        self.succeeds(*self.arguments(spec, "--repeats", 1, "--csv", "out.csv", "--t4", "out.json"))
        lines = (self.folder / "out.csv").read_text().splitlines()
        self.assertEqual(lines[0], "tile,stages,verdict,metric,samples,device,detail")
        self.assertEqual(len(lines), 5)
        document = json.loads((self.folder / "out.json").read_text())
        # The results schema of T4 1.0.0: what it requires, and the types and names of the rest.
        self.assertRegex(document["schema_version"], r"^[0-9]+\.[0-9]+\.[0-9]+$")
        types = {"timestamp": str, "configuration": dict, "objectives": list, "times": dict, "invalidity": str, "correctness": (int, float),
                 "measurements": list}
        for result in document["results"]:
            self.assertLessEqual({"configuration", "times", "invalidity", "correctness"}, set(result))
            for key, value in result.items():
                self.assertIsInstance(value, types[key], key)
            self.assertEqual([type(each) for each in result["times"]["runtimes"]], [float] * (result["invalidity"] == "correct"))
            self.assertIn(result["invalidity"], ("timeout", "compile", "runtime", "correctness", "constraints", "correct"))
            for each in result["measurements"]:
                self.assertEqual([type(each[key]) for key in ("name", "value", "unit")], [str, float, str])
        self.assertEqual(sorted(result["invalidity"] for result in document["results"]), ["constraints", "correct", "correct", "correct"])

    def test_gives_each_device_one_point_at_a_time(self):
        spec = self.subject("""
name = "devices"
command = ["sh", "-c", "mkdir lock$PINCH_DEVICE || exit 7; sleep 0.01; rmdir lock$PINCH_DEVICE; echo \\"{\\\\\\"ms\\\\\\": 1}\\"; test $CUDA_VISIBLE_DEVICES = $PINCH_DEVICE"]
metric = {kind = "json", name = "ms"}
knobs = {tile = {kind = "env", values = {from = 1, to = 12}, default = 1}}
""")
        document = self.sweep(spec, "--repeats", 2, "--devices", "0,1")
        self.assertEqual({point["verdict"] for point in document["points"]}, {"ok"})
        self.assertEqual([point["device"] for point in document["points"]].count("1"), 6)
        with sqlite3.connect(self.database) as connection:
            mixed = connection.execute("SELECT count(DISTINCT device) AS n FROM trial WHERE point != 'tile=1' GROUP BY point HAVING n != 1")
            self.assertEqual(mixed.fetchall(), [], "a point's samples are of one device")
        elsewhere = document["problems"][0]["default_elsewhere"]
        self.assertEqual([(each["device"], each["knobs"]) for each in elsewhere], [("1", {"tile": 1})])
        text = self.succeeds(*self.arguments(spec, "--repeats", 2, "--devices", "0,1")).stdout
        self.assertRegex(text, r"tile=\d+ +on 1 +ok")
        # On other devices it is another sweep.
        self.assertEqual(self.sweep(spec, "--repeats", 1, "--devices", "1")["reused_trials"], 0)

    def test_a_point_may_take_several_devices(self):
        spec = self.subject("""
name = "pairs"
command = ["sh", "-c", "test $CUDA_VISIBLE_DEVICES = ${device} && echo '{\\"ms\\": 1}'"]
metric = {kind = "json", name = "ms"}
limits = {gpus = 2}
knobs = {tile = {kind = "env", values = {from = 1, to = 4}, default = 1}}
""")
        document = self.sweep(spec, "--repeats", 1, "--devices", "0,1,2,3")
        self.assertEqual({(point["verdict"], point["device"]) for point in document["points"]}, {("ok", "0,1"), ("ok", "2,3")})
        self.refuses(*self.arguments(spec, "--devices", "0"), says="1 devices given; the subject needs 2 for a point")

    def test_a_metric_may_be_a_file_of_which_more_is_better(self):
        spec = self.subject("""
name = "throughput"
command = ["sh", "-c", "echo ${tile}.5 > $PINCH_OUTPUTS/rate"]
metric = {kind = "file", file = "rate", unit = "GB/s", better = "higher"}
knobs = {tile = {values = [1, 2, 3], default = 1}}
""")
        document = self.sweep(spec, "--repeats", 2)
        self.assertEqual(document["best"], {"knobs": {"tile": 3}, "metric": 3.5})
        self.assertEqual(document["metric"]["better"], "higher")
        self.assertIs(document["problems"][0]["confirmed"], True)
        self.assertAlmostEqual(document["problems"][0]["regret_of_default"], 3.5 / 1.5)
        rows = re.findall(r"tile=(\d)  ok", self.succeeds(*self.arguments(spec, "--repeats", 2)).stdout)
        self.assertEqual(rows, ["3", "2", "1"])

    def test_a_metric_file_that_is_none_ends_its_trial_alone(self):
        spec = self.subject("""
name = "pipes"
command = ["sh", "-c", "${make}"]
metric = {kind = "file", file = "rate"}
[knobs]
make = {values = ["echo 2 > $PINCH_OUTPUTS/rate", "mkfifo $PINCH_OUTPUTS/rate", "ln -s /dev/zero $PINCH_OUTPUTS/rate"], default = "echo 2 > $PINCH_OUTPUTS/rate"}
""")
        points = self.sweep(spec, "--repeats", 1)["points"]
        self.assertEqual([point["verdict"] for point in points].count("ok"), 1)
        for point in points[1:]:
            self.assertIn("no regular file rate", point["detail"])

    def test_no_output_and_no_pattern_makes_a_regex_metric_endless(self):
        # A matcher that recurses overflows its stack on the line; one that backtracks never ends on the nested repeats.
        for pattern in ("(?:x|y)* time: ([0-9.]+)", "(?:x+x+)+y|time: ([0-9.]+)"):
            spec = self.subject(f"""
name = "long_line"
command = ["sh", "-c", "head -c 1048576 /dev/zero | tr '\\\\0' x; echo ' time: 2.5'"]
metric = {{kind = "regex", pattern = "{pattern}"}}
""")
            point = self.sweep(spec, "--repeats", 1)["points"][0]
            self.assertEqual((point["verdict"], point["metric"]), ("ok", 2.5), pattern)

    def test_runs_on_the_cpus_it_is_given(self):
        cpu = max(os.sched_getaffinity(0))
        spec = self.subject(f"""
name = "pinned"
command = ["sh", "-c", "grep Cpus_allowed_list /proc/self/status"]
metric = {{kind = "regex", pattern = "list:.([0-9]+)"}}
limits = {{cpus = [{cpu}]}}
""")
        if cpu > 0:  # a metric of 0 is none
            self.assertEqual(self.sweep(spec, "--repeats", 1)["points"][0]["metric"], cpu)
        spec = self.subject(spec.read_text().replace(f"[{cpu}]", "[1023]"))
        self.assertIn("CPUs 1023: this machine has none of them", self.sweep(spec, "--repeats", 1)["points"][0]["detail"])

    def test_shows_its_progress_on_a_terminal_only(self):
        spec = self.subject(LOGGER.replace("20}", "2}"))
        master, slave = os.openpty()
        process = subprocess.Popen([self.program, *map(str, self.arguments(spec, "--repeats", 1))], cwd=self.folder, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=slave)
        os.close(slave)
        shown = b""
        while True:
            try:
                piece = os.read(master, 65536)
            except OSError:  # the last one that had the other end is gone
                break
            if not piece:
                break
            shown += piece
        os.close(master)
        self.assertEqual(process.wait(60), OK)
        self.assertRegex(shown.decode(), r"1/5, about \d+ s left: tile=\d,stages=\d")
        self.assertNotIn("s left", self.run_pinch(*self.arguments(spec, "--repeats", 1, "--fresh")).stderr)

    def test_inputs_may_be_files(self):
        write_npy(self.folder / "given.npy", [0, 0], "(2,)")
        spec = self.subject("""
name = "given"
command = ["sh", "-c", "cmp given.npy $PINCH_INPUTS/a.npy && echo '{\\"ms\\": 1}'"]
metric = {kind = "json", name = "ms"}
inputs = {a = {file = "given.npy"}}
""")
        document = self.sweep(spec, "--repeats", 1)
        self.assertEqual(document["points"][0]["verdict"], "ok")
        self.assertEqual(document["inputs"][0]["sha256"], hashlib.sha256((self.folder / "given.npy").read_bytes()).hexdigest())
        write_npy(self.folder / "given.npy", [0, 1], "(2,)")
        self.assertEqual(self.sweep(spec, "--repeats", 1)["reused_trials"], 0, "other inputs, another sweep")
        (self.folder / "given.npy").unlink()
        self.refuses(*self.arguments(spec), says="given.npy")

    def test_inputs_are_saved_once_and_handed_over(self):
        spec = self.subject("""
name = "inputs"
command = ["sh", "-c", "cp $PINCH_INPUTS/a.npy $PINCH_OUTPUTS/b.npy && echo '{\\"ms\\": 1}'"]
metric = {kind = "json", name = "ms"}
problem = {m = [4, 8]}
inputs = {a = {dtype = "f32", shape = ["m", "2 * m"], seed = 3}}
outputs = {b = {file = "b.npy"}}
""")
        document = self.sweep(spec, "--repeats", 1)
        self.assertEqual([point["problem"] for point in document["points"]], [{"m": 4}, {"m": 8}])
        self.assertEqual(len(document["problems"]), 2)
        self.assertEqual(len(document["inputs"][0]["sha256"]), 64)


class Strategies(SweepTest):
    def test_budgets_are_kept(self):
        spec = self.subject(LOGGER)
        document = self.sweep(spec, "--strategy", "random", "--points", 10, "--repeats", 1)
        self.assertEqual(len(document["points"]), 10)
        self.assertEqual(document["problems"][0]["not_run"], 30)
        document = self.sweep(spec, "--seconds", 0.3, "--repeats", 100, "--fresh")
        self.assertLess(sum(len(point["samples"]) for point in document["points"]), 2000)
        document = self.sweep(spec, "--strategy", "local", "--points", 12, "--repeats", 1, "--fresh")
        self.assertEqual(len(document["points"]), 12)
        document = self.sweep(spec, "--strategy", "halving", "--repeats", 1, "--fresh")
        self.assertEqual(document["best"]["knobs"]["tile"], 1)

    RECORDED = {"device_name": "Testing", "kernel_name": "convolution", "problem_size": [4096],
                "tune_params_keys": ["block_x", "block_y"], "tune_params": {"block_x": [16, 32], "block_y": [1, 2]},
                "objective": "time",
                "cache": {"16,1": {"block_x": 16, "block_y": 1, "time": 7.8, "times": [19.5, 3.9, 3.91, 3.9]},
                          "16,2": {"block_x": 16, "block_y": 2, "time": "RuntimeFailedConfig"},
                          "32,1": {"block_x": 32, "block_y": 1, "time": 5, "times": [12.5, 2.5, 2.51, 2.5]}}}

    def test_replays_a_recording_with_no_device(self):
        path = self.folder / "recorded.json"
        path.write_text(json.dumps(self.RECORDED))
        document = self.json_of("sweep", "--replay", path)
        self.assertEqual(document["failed"], 1)
        self.assertLess(document["problems"][0]["band"], 0.03, "the first sample of a configuration is cold")
        self.assertEqual(document["best"], {"knobs": {"block_x": 32, "block_y": 1}, "metric": 2.5})
        verdicts = {(p["knobs"]["block_x"], p["knobs"]["block_y"]): p["verdict"] for p in document["points"]}
        self.assertEqual(verdicts, {(16, 1): "ok", (16, 2): "launch_failed", (32, 1): "ok", (32, 2): "illegal"})
        document = self.json_of("sweep", "--replay", path, "--strategy", "random", "--points", 3)
        self.assertEqual(document["problems"][0]["run"], 3, "only what was recorded is drawn")
        other = json.loads(json.dumps(self.RECORDED))
        other["cache"]["32,1"]["time"] = 52.5  # the author's objective is no mean of the samples
        path.write_text(json.dumps(other))
        self.assertEqual(self.json_of("sweep", "--replay", path)["best"]["knobs"], {"block_x": 16, "block_y": 1})
        path.write_text(json.dumps(self.RECORDED)[:-2] + ",\n")
        self.assertEqual(self.json_of("sweep", "--replay", path)["best"]["metric"], 2.5)
        path.write_text(json.dumps({**self.RECORDED, "device_name": None, "kernel_name": 3}))
        self.assertEqual(self.json_of("sweep", "--replay", path)["subject"], "recorded")
        texts = {**self.RECORDED, "tune_params": {"block_x": [16, "16"], "block_y": [1]},
                 "cache": {"a": {"block_x": 16, "block_y": 1, "time": 7}, "b": {"block_x": "16", "block_y": 1, "time": 5}}}
        path.write_text(json.dumps(texts))
        document = self.json_of("sweep", "--replay", path)
        self.assertEqual([(p["knobs"]["block_x"], p["metric"]) for p in document["points"]], [(16, 7), ("16", 5)])
        path.write_text("{}")
        self.refuses("sweep", "--replay", path, says="\"tune_params_keys\" is missing")


class Listing(SweepTest):
    def test_a_few_of_a_billion_are_listed_in_little_memory(self):
        spec = importlib.util.spec_from_file_location("sweep_overhead", ROOT / "bench" / "sweep_overhead.py")
        bench = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(bench)
        process = self.start("sweep", self.subject(bench.BILLION), "--list")
        lines = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        process.communicate()
        # The rules fall into two groups without a common knob, small enough to be counted one by one.
        ten = range(1, 11)
        first = sum((k3 + k4 <= k0 + 2) and (k3 == k4 or k2 > 2) for k0, k1, k2 in itertools.product(ten, repeat=3) if k0 * k1 * k2 <= 24
                    for k3, k4 in itertools.product(ten, repeat=2))
        second = sum(k7 % k6 == 0 and k8 * k7 <= 24 and k6 * k8 >= 18 for k6, k7, k8 in itertools.product(ten, repeat=3))
        self.assertEqual((process.returncode, lines.count("k0=")), (OK, first * second))
        self.assertIn("of 1000000000 combinations", lines)
        self.assertLess(usage.ru_maxrss / 1024, 200, "MiB")
