"""pinch sweep: what is stored, resumed, shared and interrupted, here and through Slurm."""

import os
import re
import signal
import sqlite3

from harness import OK
from harness.sweeps import by_knob, FAULTS, LOGGER, processes, read, SIGNALLED, SweepTest, wait_until


class Resume(SweepTest):
    def log(self, kind="s"):
        path = self.folder / "log"
        return [line for line in (path.read_text().split("\n")[:-1] if path.exists() else []) if line[0] == kind]

    def stopped_after(self, spec, runs, *more):
        """A sweep with so many runs behind it and one in flight, which ends when the gate is removed."""
        (self.folder / "gate").write_text(f"{runs}\n")
        process = self.start(*self.arguments(spec, *more))
        wait_until(lambda: len(self.log()) > runs)
        return process

    def test_kill_9_loses_only_the_point_in_flight(self):
        spec = self.subject(LOGGER)
        process = self.stopped_after(spec, 100, "--repeats", 5)
        process.kill()
        process.communicate()
        self.assertEqual(len(self.rows()), 100)
        (self.folder / "gate").unlink()
        document = self.sweep(spec, "--repeats", 5)
        self.assertEqual(document["reused_trials"], 100)
        self.assertEqual([start["trials"] for start in document["starts"]], [100, 105])
        self.assertEqual(document["starts"][1]["environment"], document["environment"])
        self.assertEqual(len(document["points"]), 40)
        for point in document["points"]:
            self.assertEqual(len(point["samples"]), 5)
        self.assertEqual(len(self.rows()), 205)
        self.assertEqual(len(self.log()), 206, "nothing stored was run again")
        # A third start finds everything there.
        self.sweep(spec, "--repeats", 5)
        self.assertEqual(len(self.log()), 206)

    def test_what_a_killed_sweep_left_running_is_ended(self):
        spec = self.subject(LOGGER)
        process = self.stopped_after(spec, 0)
        process.kill()
        process.communicate()
        # Its session outlives it, and is known by the folder in its environment.
        left = [pid for pid in processes() if str(self.folder).encode() in read(pid, "environ")]
        self.assertTrue(left)
        resumed = self.start(*self.arguments(spec))
        wait_until(lambda: len(self.log()) > 1)
        wait_until(lambda: not [pid for pid in left if str(self.folder).encode() in read(pid, "environ")])
        resumed.send_signal(signal.SIGINT)
        self.assertEqual(self.finish(resumed).code, SIGNALLED)

    def test_ctrl_c_ends_with_what_there_is(self):
        process = self.stopped_after(self.subject(LOGGER), 20, "--json", "-")
        process.send_signal(signal.SIGINT)
        run = self.finish(process)
        self.assertEqual(run.code, SIGNALLED, run)
        self.assertEqual(sum(len(point["samples"]) for point in run.json()["points"]), len([row for row in self.rows() if row[1] == "sample"]))
        self.assertEqual(len(self.rows()), 20)
        self.assertIs(run.json()["problems"][0]["interrupted"], True)
        self.assertIn("interrupted: what is said above may change; the same command goes on from here", run.stderr)

    def test_another_seed_is_another_sweep(self):
        spec = self.subject(LOGGER.replace("20}", "2}"))
        self.sweep(spec, "--repeats", 1)
        self.sweep(spec, "--repeats", 1, "--seed", 2)
        self.assertEqual(len([row for row in self.rows() if row[1] != "confirm"]), 10)
        self.sweep(spec, "--repeats", 1, "--fresh")
        self.assertEqual(len([row for row in self.rows() if row[1] != "confirm"]), 10)

    def test_reused_trials_are_said_to_be_and_forgotten_on_request(self):
        spec = self.subject(LOGGER.replace("20}", "2}"))
        first = self.run_pinch(*self.arguments(spec, "--repeats", 1))
        self.assertNotIn("earlier start", first.stderr)
        rows = len(self.rows())
        self.assertIn(f"{rows} trials from an earlier start; --fresh forgets them", self.run_pinch(*self.arguments(spec, "--repeats", 1)).stderr)
        self.assertNotIn("earlier start", self.run_pinch(*self.arguments(spec, "--repeats", 1, "--fresh")).stderr)

    def test_what_changes_the_program_is_another_sweep(self):
        bin_folder = self.folder / "bin"
        bin_folder.mkdir()
        environment = {"PATH": f"{bin_folder}:{os.environ['PATH']}"}

        def program(text):
            (bin_folder / "measured").write_text(f"#!/bin/sh\necho '{{\"ms\": {text}}}'\n")
            (bin_folder / "measured").chmod(0o755)

        spec = self.subject("""
name = "found in PATH"
command = ["measured"]
sources = ["module.py"]
metric = {kind = "json", name = "ms"}
""")
        (self.folder / "module.py").write_text("x = 1")
        program(1)
        self.assertEqual(self.sweep(spec, env=environment)["reused_trials"], 0)
        self.assertGreater(self.sweep(spec, env=environment)["reused_trials"], 0)
        program(2)
        document = self.sweep(spec, env=environment)
        self.assertEqual((document["reused_trials"], document["best"]["metric"]), (0, 2.0))
        (self.folder / "module.py").write_text("x = 2")
        self.assertEqual(self.sweep(spec, env=environment)["reused_trials"], 0)
        self.assertEqual(self.sweep(spec, env={**environment, "OMP_NUM_THREADS": "3"})["reused_trials"], 0)
        self.assertGreater(self.sweep(spec, env={**environment, "UNRELATED": "3"})["reused_trials"], 0)
        (bin_folder / "nvidia-smi").write_text("#!/bin/sh\necho '0, Planted 9000, GPU-1, 550.90, 1200, 1980, 3201, 700.00'\n")
        (bin_folder / "nvidia-smi").chmod(0o755)
        document = self.sweep(spec, env=environment)
        self.assertEqual(document["reused_trials"], 0, "another GPU")
        self.assertEqual(document["environment"]["gpus"],
                         [{"index": 0, "name": "Planted 9000", "uuid": "GPU-1", "driver": "550.90", "sm_mhz": 1200, "sm_mhz_max": 1980,
                           "memory_mhz": 3201, "power_limit_w": 700}])
        (self.folder / "module.py").unlink()
        self.refuses(*self.arguments(spec), says="module.py", env=environment)

    def test_the_same_sweep_twice_at_once_runs_once(self):
        spec = self.subject(LOGGER.replace("20}", "5}"))
        first = self.stopped_after(spec, 5, "--repeats", 2, "--json", "-")
        second = self.start(*self.arguments(spec, "--repeats", 2, "--json", "-"))
        self.assertIn(f"process {first.pid} runs this sweep; waiting", second.stderr.readline())
        (self.folder / "gate").unlink()
        ran = [self.finish(process, 120) for process in (first, second)]
        self.assertEqual([run.code for run in ran], [OK, OK], ran[1])
        self.assertEqual(ran[0].json()["points"], ran[1].json()["points"])
        self.assertEqual(len(self.log()), len(self.rows()))

    def test_a_sweep_that_is_there_runs_nothing_again(self):
        spec = self.subject(f"""
name = "outputs"
command = ["sh", "-c", "echo s >> log; exec {FAULTS} right"]
metric = {{kind = "json", name = "ms"}}
outputs = {{c = {{file = "c.npy"}}}}
knobs = {{tile = {{kind = "env", values = [1, 2], default = 1}}}}
""")
        self.sweep(spec, "--repeats", 1)
        started = len(self.log())
        self.assertEqual(started, 1 + len(self.rows()), "once more for the outputs that the others are compared with")
        self.sweep(spec, "--repeats", 1)
        self.assertEqual(len(self.log()), started)
        self.sweep(spec, "--repeats", 1, "--fresh")
        self.assertEqual(len(self.log()), 2 * started)

    def test_two_at_once_on_one_database_lose_no_row(self):
        one = self.subject(LOGGER, "one.toml")
        two = self.subject(LOGGER.replace("logger", "other"), "two.toml")
        started = [self.start(*self.arguments(spec, "--repeats", 2)) for spec in (one, two)]
        for process in started:
            run = self.finish(process, 120)
            self.assertEqual(run.code, OK, run)
        self.assertEqual(len([row for row in self.rows() if row[1] != "confirm"]), 2 * 82)


# Stands in for srun: notes its options and runs the command as srun would, a signal as 128 + its number.
SRUN = """#!/bin/bash
words=()
while [[ $1 == --* ]]; do words+=("$1"); shift; done
echo "${words[@]}" >> "$PINCH_TEST_FOLDER/srun.log"
for word in "${words[@]}"; do [[ $word == --time=* ]] && time=${word#--time=}; [[ $word == --chdir=* ]] && cd "${word#--chdir=}"; done
seconds=$((10#${time%:*} * 60 + 10#${time#*:}))
timeout -s KILL $seconds "$@" & wait $!
code=$?
[[ $code == 137 ]] && echo "srun: error: *** STEP CANCELLED AT 2026-01-01 DUE TO TIME LIMIT ***" >&2
exit $code
"""


class Slurm(SweepTest):
    def setUp(self):
        super().setUp()
        (self.folder / "bin").mkdir()
        for name, text in (("srun", SRUN), ("scancel", "#!/bin/sh\necho \"$@\" >> \"$PINCH_TEST_FOLDER/scancel.log\"\n")):
            (self.folder / "bin" / name).write_text(text)
            (self.folder / "bin" / name).chmod(0o755)
        self.environment = {"PATH": f"{self.folder}/bin:{os.environ['PATH']}", "PINCH_TEST_FOLDER": str(self.folder)}

    SPEC = f"""
name = "faults"
command = ["{FAULTS}", "${{kind}}", "7"]
metric = {{kind = "json", name = "ms"}}
limits = {{timeout_s = 60, memory_mib = 512, gpus = 2}}
knobs = {{kind = {{values = ["ok", "exit", "segfault"], default = "ok"}}}}
"""

    def test_goes_through_srun_and_reads_what_it_says(self):
        document = self.sweep(self.subject(self.SPEC), "--engine", "slurm", "--jobs", 3, "--repeats", 2, env=self.environment)
        verdicts = {kind: point["verdict"] for kind, point in by_knob(document, "kind").items()}
        self.assertEqual(verdicts, {"ok": "ok", "exit": "launch_failed", "segfault": "crashed"})
        self.assertIn("SIGSEGV", by_knob(document, "kind")["segfault"]["detail"])
        for line in (self.folder / "srun.log").read_text().splitlines():
            for word in ("--ntasks=1", "--time=1:00", "--mem=512M", "--gpus=2", f"--chdir={self.folder}"):
                self.assertIn(word, line.split())

    def test_reads_the_time_limit_from_what_srun_says(self):
        spec = self.subject(self.SPEC.replace("timeout_s = 60", "timeout_s = 1").replace('["ok", "exit", "segfault"], default = "ok"', '["hang"], default = "hang"'))
        document = self.sweep(spec, "--engine", "slurm", env=self.environment)
        self.assertEqual(document["points"][0]["verdict"], "timeout")

    def test_cancels_its_jobs_when_it_is_stopped(self):
        spec = self.subject(LOGGER)
        (self.folder / "gate").write_text("0\n")
        process = self.start(*self.arguments(spec, "--engine", "slurm"), env=self.environment)
        wait_until((self.folder / "log").exists)
        process.send_signal(signal.SIGINT)
        self.assertEqual(self.finish(process).code, SIGNALLED)
        name = re.search(r"--job-name=(\S+)", (self.folder / "srun.log").read_text())[1]
        self.assertEqual((self.folder / "scancel.log").read_text().split(), [f"--name={name}"])

    def test_refuses_what_only_this_machine_has(self):
        spec = self.subject(self.SPEC.replace('kind = "json", name = "ms"', 'kind = "wall"'))
        self.refuses(*self.arguments(spec, "--engine", "slurm"), says="would time the queue")
        self.refuses(*self.arguments(self.subject(self.SPEC), "--engine", "slurm", "--devices", "0,1"), says="--devices names devices of this machine")
