"""pinch quantize."""

import json
import math
import os
import pty
import random
import resource
import signal
import struct
import subprocess
import time

from harness import CliTest, ENVIRONMENT, OK, Run, safetensors

INTERRUPTED = 130
MIB = 1 << 20


def normal(count, seed):
    generator = random.Random(seed)
    return [generator.gauss(0, 0.05) for _ in range(count)]


class QuantizeTest(CliTest):
    def setUp(self):
        super().setUp()
        self.model, self.out = self.folder / "model.safetensors", self.folder / "out.safetensors"

    def write_model(self, extra=None):
        """Two weights and a bias; returns the weights' values as FP32 rounds them."""
        values = {"a.weight": normal(6 * 64, 1), "b.weight": normal(2 * 32, 2)}
        tensors = {"a.weight": ("F32", [6, 64], safetensors.f32(values["a.weight"])),
                   "b.weight": ("F32", [2, 32], safetensors.f32(values["b.weight"])),
                   "a.bias": ("BF16", [6], bytes(range(12)))} | (extra or {})
        safetensors.write(self.model, tensors, {"format": "pt"})
        return {name: struct.unpack(f"{len(list_)}f", safetensors.f32(list_)) for name, list_ in values.items()}

    def write_large_model(self, megabytes, count):
        """Weights of random BF16 numbers (none of them NaN), without holding them in memory."""
        piece = bytes(byte & 0xbf for byte in random.Random(3).randbytes(MIB))
        weight = lambda: ("BF16", [megabytes * 512, 1024], ((piece for _ in range(megabytes)), megabytes * MIB))
        safetensors.write(self.model, {f"layer.{i}.weight": weight() for i in range(count)})

    def left_behind(self):
        return sorted(path.name for path in self.folder.iterdir())

    def quantize(self, *options, **kwargs):
        return self.succeeds("quantize", self.model, "--out", self.out, *options, **kwargs)

    def check_decoded(self, row, name, original, format_):
        """Decodes a tensor of the output here and compares errors with those the program reports."""
        _, tensors = safetensors.read(self.out)
        packed = name + "_packed" in tensors
        codes, scales = tensors[name + "_packed" if packed else name], tensors[name + "_scale"]
        columns, group = codes[1][1] * 2, 16 if format_ == "nvfp4" else 32
        alpha = 1.0
        if format_ == "nvfp4":
            stored = struct.unpack("<f", tensors[name + ("_global_scale" if packed else "_scale_2")][2])[0]
            alpha = 1 / stored if packed else stored
        scale_of = safetensors.e4m3 if format_ == "nvfp4" else lambda code: math.ldexp(1, code - 127)
        decoded = safetensors.decode(codes[2], scales[2], columns, group, scale_of, alpha)
        errors = [w - q for w, q in zip(original, decoded, strict=True)]
        rel_l2 = math.sqrt(sum(e * e for e in errors) / sum(w * w for w in original))
        self.assertAlmostEqual(row["rel_l2"], rel_l2, delta=1e-6)
        self.assertAlmostEqual(row["max_abs"], max(map(abs, errors)), delta=1e-7)
        self.assertAlmostEqual(row["snr_db"], -20 * math.log10(rel_l2), delta=1e-3)
        # Half of the widest step of E2M1 (4 to 6) over its largest value bounds an element by a sixth of its group's largest;
        # MXFP4 saturates above 6 of at most 8 steps, a quarter.
        bound = 1 / 6 + 1 / 16 if format_ == "nvfp4" else 1 / 4
        for at in range(0, len(original), group):
            largest = max(map(abs, original[at:at + group]))
            self.assertLessEqual(max(map(abs, errors[at:at + group])), bound * largest)

    def test_every_format_and_layout_decodes_to_the_weights(self):
        originals = self.write_model()
        for format_ in ("nvfp4", "mxfp4"):
            for layout in ("modelopt", "compressed-tensors"):
                with self.subTest(format=format_, layout=layout):
                    document = self.json_of("quantize", self.model, "--out", self.out, "--format", format_, "--layout", layout)
                    self.assertEqual((document["format"], document["layout"]), (format_, layout))
                    rows = {row["name"]: row for row in document["tensors"]}
                    for name, original in originals.items():
                        self.check_decoded(rows[name], name, original, format_)

    def test_the_decoder_notices_a_wrong_nibble_order(self):
        originals = self.write_model()
        document = self.json_of("quantize", self.model, "--out", self.out)
        metadata, tensors = safetensors.read(self.out)
        dtype, shape, codes = tensors["a.weight"]
        tensors["a.weight"] = (dtype, shape, bytes(byte >> 4 | byte << 4 & 0xf0 for byte in codes))
        safetensors.write(self.out, tensors, metadata)
        with self.assertRaises(AssertionError):
            self.check_decoded(document["tensors"][0], "a.weight", originals["a.weight"], "nvfp4")

    def test_json_keeps_its_schema(self):
        self.write_model()
        document = self.json_of("quantize", self.model, "--out", self.out)
        self.assertEqual(list(document), ["model", "output", "format", "layout", "quantized", "copied", "bytes_in", "bytes_out",
                                          "tensors"])
        self.assertEqual((document["quantized"], document["copied"]), (2, 1))
        self.assertEqual(document["bytes_in"], 4 * 6 * 64 + 4 * 2 * 32 + 12)
        quantized, _, copied = document["tensors"]
        self.assertEqual(list(quantized), ["name", "action", "dtype", "shape", "bytes_in", "bytes_out", "rel_l2", "max_abs",
                                           "snr_db"])
        self.assertEqual(quantized["bytes_out"], 6 * 64 // 2 + 6 * 64 // 16 + 4)
        self.assertEqual(copied, {"name": "a.bias", "action": "copied", "dtype": "BF16", "shape": [6], "bytes_in": 12,
                                  "bytes_out": 12, "reason": "not 2-D"})

    def test_prints_a_table_and_keeps_prose_off_stdout(self):
        self.write_model()
        run = self.quantize()
        self.assertRegex(run.stdout, r"a\.weight +F32 +\[6, 64\] +\d\.\d+e-02")
        self.assertRegex(run.stdout, r"a\.bias +BF16 +\[6\] copied: not 2-D")
        self.assertIn("2 of 3 tensors quantised to nvfp4 (modelopt)", run.stderr)
        self.assertNotIn("\r", run.stderr, "no progress bar where stderr is no terminal")

    def test_other_tensors_and_metadata_are_kept(self):
        self.write_model({"ids": ("I64", [1, 16], bytes(range(128))), "odd": ("F32", [1, 3], safetensors.f32([1, 2, 3]))})
        self.quantize()
        before, after = safetensors.read(self.model), safetensors.read(self.out)
        for name in ("a.bias", "ids", "odd"):
            self.assertEqual(before[1][name], after[1][name])
        self.assertEqual(after[0]["format"], "pt")
        self.assertEqual(json.loads(after[0]["quantization_config"])["quantization"]["group_size"], 16)

    def test_include_and_exclude_search_names(self):
        self.write_model()
        chosen = lambda *options: [row["name"] for row in self.json_of("quantize", *options, "--out", self.out, self.model)
                                   ["tensors"] if row["action"] == "quantized"]
        self.assertEqual(chosen("--include", "^a"), ["a.weight"])
        self.assertEqual(chosen("--exclude", r"a\."), ["b.weight"])
        self.assertEqual(chosen("--include", "a", "--include", "b", "--exclude", "^b"), ["a.weight"])

    def test_no_name_and_no_pattern_makes_the_search_endless(self):
        # A matcher that recurses overflows its stack on the name; one that backtracks never ends on the nested repeats.
        name = "x" * 100_000
        self.write_model({name: ("F32", [2, 32], safetensors.f32(normal(64, 3)))})
        rows = self.json_of("quantize", self.model, "--out", self.out, "--include", "^(?:x|y)*$", "--exclude", "(x+x+)+y")["tensors"]
        self.assertEqual([row["name"] for row in rows if row["action"] == "quantized"], [name])

    def test_writes_the_configuration(self):
        self.write_model()
        self.quantize("--exclude", "^b", "--config", "hf_quant_config.json")
        config = json.loads((self.folder / "hf_quant_config.json").read_text())
        self.assertEqual(config["quantization"]["exclude_modules"], ["b"])

    def test_replaces_an_earlier_output_whole(self):
        self.write_model()
        self.out.write_text("earlier")
        self.quantize()
        self.assertEqual(self.left_behind(), ["model.safetensors", "out.safetensors"])
        self.quantize("--format", "mxfp4", "--json", "report.json")
        self.assertEqual(json.loads((self.folder / "report.json").read_text())["format"], "mxfp4")

    def test_two_runs_give_the_same_bytes(self):
        self.write_model()
        self.quantize()
        first = self.out.read_bytes()
        self.quantize()
        self.assertEqual(self.out.read_bytes(), first)

    def refused(self, *options, says, code=2):
        """Refused, and neither the output nor a part of it is there."""
        before = self.left_behind()
        self.refuses("quantize", self.model, "--out", self.out, *options, says=says, code=code)
        self.assertEqual(self.left_behind(), before)

    def test_refuses_what_cannot_be_meant(self):
        self.write_model()
        self.refused("--format", "int4", says=["int4", "nvfp4", "mxfp4"])
        self.refused("--layout", "gguf", says=["gguf", "modelopt", "compressed-tensors"])
        self.refused("--include", "(", says=["--include", "'('", "regular expression"])
        self.refused("--exclude", r"(a)\1", says=["--exclude", "invalid escape sequence"])
        self.refused("--include", "no_such", says="none of 3 tensors is selected")
        self.refused("--frmat", "nvfp4", says="--format")
        self.refuses("quantize", self.model, says="--out")
        self.refuses("quantize", "--out", self.out, says="MODEL")
        self.refuses("quantize", self.model, "--out", self.model, says="is the model itself")
        self.refuses("quantize", self.model, "--out", "/dev/null", says="not a regular file")
        self.refuses("quantize", self.model, "--out", self.folder, says="not a regular file")
        self.refuses("quantize", self.model, "--out", self.folder / "none" / "out", says="No such file")

    def test_refuses_models_that_are_not(self):
        self.refused(says=["model.safetensors", "No such file"])
        self.model.write_bytes(b"")
        self.refused(says=["model.safetensors: byte 0", "truncated_length"])
        self.model.write_text('{"weight_map": {}}')
        self.refused(says=["header_too_long", "that an index names"])
        self.write_model()
        self.model.write_bytes(self.model.read_bytes()[:-1])
        self.refused(says="offsets_out_of_range")
        self.model.unlink()
        os.mkfifo(self.model)
        self.refused(says="not a regular file", code=ENVIRONMENT)

    def test_refuses_a_nan_weight_by_place(self):
        self.write_model({"c": ("F32", [2, 16], safetensors.f32([0] * 20 + [math.nan] + [0] * 11))})
        self.refused(says=['tensor "c"', "row 1, column 4", "nan"])

    def test_refuses_to_quantise_its_own_output(self):
        self.write_model()
        self.quantize()
        self.model.write_bytes(self.out.read_bytes())
        self.refused(says="none of 7 tensors is selected and can be quantised")

    def test_refuses_a_full_disk_before_the_work(self):
        self.write_model()
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))
        run = subprocess.run([self.program, "quantize", self.model, "--out", self.out], capture_output=True, text=True,
                             preexec_fn=limit, check=False)
        self.assertEqual(run.returncode, ENVIRONMENT, run.stderr)
        self.assertIn("cannot reserve", run.stderr)
        self.assertEqual(self.left_behind(), ["model.safetensors"])

    def test_an_unreadable_json_target_is_said_after_the_work(self):
        self.write_model()
        run = self.run_pinch("quantize", self.model, "--out", self.out, "--json", "none/report.json")
        self.assertEqual(run.code, ENVIRONMENT, run)
        self.assertTrue(self.out.exists())

    def test_ctrl_c_leaves_nothing(self):
        self.write_large_model(64, 4)
        for number in (signal.SIGINT, signal.SIGTERM):
            process = self.start("quantize", self.model, "--out", self.out)
            deadline = time.monotonic() + 30
            while not list(self.folder.glob("*.part*")):
                self.assertLess(time.monotonic(), deadline, "the work has not begun")
                time.sleep(0.001)
            process.send_signal(number)
            run = self.finish(process)
            self.assertEqual(run.code, INTERRUPTED, run)
            self.assertIn("interrupted; nothing was written", run.stderr)
            self.assertEqual(self.left_behind(), ["model.safetensors"])

    def max_rss_of(self, *args):
        process = self.start(*args)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        stdout, stderr = process.stdout.read(), process.stderr.read()
        process.stdout.close(), process.stderr.close()
        self.assertEqual(process.returncode, OK, Run(process.args[1:], process.returncode, stdout, stderr))
        return usage.ru_maxrss * 1024

    def test_peak_memory_stays_below_three_times_the_largest_tensor(self):
        largest = 64
        self.write_large_model(largest, 4)
        for format_ in ("nvfp4", "mxfp4"):
            peak = self.max_rss_of("quantize", self.model, "--out", self.out, "--format", format_)
            self.assertLessEqual(peak, 3 * largest * MIB)
            # What is measured besides: pieces of 1 MiB, so the size of the tensors does not show at all.
            self.assertLessEqual(peak, 48 * MIB)

    def test_the_memory_measurement_notices_a_program_that_keeps_a_tensor(self):
        script = self.folder / "keeps"
        script.write_text("#!/usr/bin/env python3\nx = bytearray(80 * 1024 * 1024)\n")
        script.chmod(0o755)
        self.program = str(script)
        self.assertGreater(self.max_rss_of("quantize"), 80 * MIB)

    def test_draws_a_progress_bar_on_a_terminal(self):
        self.write_model()
        ours, theirs = pty.openpty()
        with subprocess.Popen([self.program, "quantize", self.model, "--out", self.out], stderr=theirs,
                              stdout=subprocess.DEVNULL) as process:
            self.assertEqual(process.wait(30), OK)
        os.close(theirs)
        shown = os.read(ours, 65536).decode()
        os.close(ours)
        self.assertRegex(shown, r"\[#*\.*\] +\d+%  [ab]\.")
        self.assertIn("\r\x1b[K", shown.rsplit("%", 1)[1], "the bar is taken away before the summary")
