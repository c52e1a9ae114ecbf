"""pinch sass: the JSON contract, both roads to mnemonics, diff, gate, and the refusal of bad files."""

import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import unittest.mock

from harness import CliTest, FAILED, OK, USAGE

DATA = pathlib.Path(__file__).parent.parent / "data" / "sass"
ARCHS = ["80", "90a", "100a", "103a"]
KERNEL_FIELDS = ["name", "arch", "registers", "frame_bytes", "instructions", "unknown_instructions", "local", "loops", "lints"]
LOOP_FIELDS = ["begin", "end", "depth", "instructions", "pipes", "bound_cycles", "bound_by", "simulated_cycles", "transitions",
               "lints"]
MAP = ["--disassembler", "none"]  # the same names on every machine


def nvdisasm():
    """A disassembler that `pinch` would find, or None."""
    built = pathlib.Path(os.environ["PINCH_BIN"]).parent.parent / "cuda_tools"
    found = [str(path) for path in built.rglob("bin/nvdisasm")] if built.is_dir() else []
    for folder in (os.environ.get("CUDA_HOME", "") + "/bin", "/usr/local/cuda/bin"):
        if os.access(folder + "/nvdisasm", os.X_OK):
            found.append(folder + "/nvdisasm")
    return shutil.which("nvdisasm") or (found[0] if found else None)


def cubin(arch):
    return DATA / f"kernels.sm_{arch}.cubin"


class SassCase(CliTest):
    def kernels(self, *args):
        return {kernel["name"]: kernel for kernel in self.json_of("sass", *args)["kernels"]}


class ContractTest(SassCase):
    def test_answers_the_contract_for_every_arch(self):
        for arch in ARCHS:
            kernels = self.kernels(cubin(arch), *MAP)
            self.assertGreaterEqual(len(kernels), 11)
            for kernel in kernels.values():
                self.assertLessEqual(set(KERNEL_FIELDS), set(kernel))
                self.assertEqual(kernel["arch"], "sm_" + arch)
                self.assertEqual((kernel["unknown_instructions"], kernel["mnemonics_from"]), (0, "opcode map"))
                self.assertEqual(set(kernel["local"]), {"spill_loads", "spill_stores", "array_loads", "array_stores"})
                for loop in kernel["loops"]:
                    self.assertLessEqual(set(LOOP_FIELDS), set(loop))
                    self.assertEqual(loop["bound_cycles"], max(loop["pipes"].values()))
                    self.assertEqual(loop["pipes"][loop["bound_by"]], loop["bound_cycles"])
                    self.assertEqual(list(loop["transitions"]), ["MUFU,F2FP"])
                    for lint in loop["lints"]:
                        self.assertLessEqual({"id", "offset", "message", "saves_cycles"}, set(lint))

    def test_reports_the_softmax_loop(self):
        kernel = self.kernels(cubin("90a"), *MAP)["softmax_loop"]
        loop = kernel["loops"][0]
        self.assertEqual((loop["begin"], loop["end"], loop["depth"], loop["instructions"]), (0x130, 0x2c0, 1, 25))
        self.assertEqual((loop["bound_cycles"], loop["bound_by"]), (32, "xu"))
        self.assertEqual(loop["transitions"], {"MUFU,F2FP": 1})
        self.assertEqual(kernel["registers"], 20)

    def test_scales_with_warps_and_roles(self):
        one = self.kernels(cubin("90a"), *MAP)["hmma_loop"]["loops"][0]
        four = self.kernels(cubin("90a"), *MAP, "--warps", "4")["hmma_loop"]["loops"][0]
        self.assertEqual(four["warps_bound_cycles"], 4 * one["bound_cycles"])
        self.assertGreaterEqual(four["simulated_cycles"], four["warps_bound_cycles"])
        roles = self.kernels(cubin("90a"), *MAP, "--role", "consumer=2")["warp_roles"]["loops"]
        self.assertEqual({loop["role"]: loop["warps"] for loop in roles}, {"consumer": 2, "producer": 1})

    def test_prints_a_table_and_a_listing(self):
        table = self.succeeds("sass", cubin("90a"), *MAP, "--kernel", "^wgmma_serial$").stdout
        for words in ("bound 32 cycles by tensor", "wgmma-serialised", "slack"):
            self.assertIn(words, table)
        listing = self.succeeds("sass", DATA / "kernels.sm_90a.nvdisasm.txt", "--listing", "--kernel", "softmax_loop").stdout
        self.assertIn("[B------:R-:W2:-:S", listing)
        self.assertIn("// kernels.cu:24", listing)

    def test_has_no_simulation_without_control_words(self):
        loop = self.kernels(DATA / "kernels.sm_100a.nohex.txt")["softmax_loop"]["loops"][0]
        for field in ("simulated_cycles", "greedy_cycles", "fair_cycles", "slack"):
            self.assertIsNone(loop[field], field)
        self.assertEqual(loop["bound_cycles"], 32)
        self.assertIn("not simulated", self.succeeds("sass", DATA / "kernels.sm_100a.nohex.txt").stdout)

    def test_says_what_it_does_not_know_without_operands(self):
        kernel = self.kernels(cubin("90a"), *MAP)["division_loop"]
        self.assertIsNone(kernel["loops"][0]["dependency_cycles"])
        self.assertIsNone(kernel["loops"][0]["loads"])
        needs = {lint["id"]: lint["needs"] for lint in kernel["lints_not_run"]}
        self.assertEqual({id for id, need in needs.items() if need == "operands"},
                         {"mask-after-pack", "exp2-denormal", "integer-division", "scalar-loads"})
        self.assertEqual(needs["missing-proxy-fence"], "PTX")
        text = self.kernels(DATA / "kernels.sm_90a.nvdisasm.txt")["division_loop"]
        self.assertEqual({lint["needs"] for lint in text["lints_not_run"]}, {"PTX"})
        self.assertEqual(text["loops"][0]["slack"], kernel["loops"][0]["slack"])
        printed = self.succeeds("sass", cubin("90a"), *MAP, "--kernel", "division_loop").stdout
        self.assertIn("dependency not known without operands", printed)
        self.assertIn("not looked for without operands: mask-after-pack", printed)

    def test_places_every_local_access(self):
        kernel = self.kernels(DATA / "kernels.sm_90a.nvdisasm.txt")["dynamic_array"]
        accesses = kernel["local_accesses"]
        self.assertEqual(len(accesses), sum(kernel["local"].values()))
        self.assertEqual({access["kind"] for access in accesses}, {"array"})
        # bins[index[i] & 31] += i, line 76 of kernels.cu, is the one access in a loop that reads and the one that writes
        self.assertEqual([(a["line"], a["store"]) for a in accesses if a["in_loop"]], [(76, False), (76, True)])

    def test_lists_its_findings(self):
        self.assertIn("wgmma-serialised", self.succeeds("sass", "--list-lints").stdout)

    def test_reads_text_of_each_kind(self):
        for name in ("kernels.sm_90a.nvdisasm.txt", "kernels.sm_80.cuobjdump.txt", "kernels.sm_100a.nohex.txt"):
            self.assertIn("softmax_loop", self.kernels(DATA / name))

    def test_reads_code_inside_containers(self):
        for name in ("scale.none.fatbin", "scale.speed.fatbin", "scale.size.fatbin", "scale.host"):
            self.assertEqual(self.kernels(DATA / name, *MAP)["scale"]["loops"][0]["mix"]["MUFU"], 1, name)

    def test_takes_several_archs_in_one_call(self):
        document = self.json_of("sass", cubin("90a"), cubin("100a"), *MAP)
        self.assertEqual({kernel["arch"] for kernel in document["kernels"]}, {"sm_90a", "sm_100a"})


class RoadsTest(SassCase):
    def test_agree_with_and_without_nvdisasm(self):
        tool = nvdisasm()
        if tool is None:
            self.skipTest("no nvdisasm; scripts/fetch_cuda_tools.sh installs one")
        for arch in ARCHS:
            with_tool, without = self.kernels(cubin(arch), "--disassembler", tool), self.kernels(cubin(arch), *MAP)
            self.assertEqual(list(with_tool), list(without))
            self.assertEqual(with_tool["softmax_loop"]["loops"][0]["loads"]["count"], 1, (arch, "operands are known to nvdisasm alone"))
            for name, a in with_tool.items():
                b = without[name]
                for field in ("registers", "frame_bytes", "instructions", "local", "roles", "exits"):
                    self.assertEqual(a[field], b[field], (arch, name, field))
                self.assertEqual(len(a["loops"]), len(b["loops"]), (arch, name))
                for x, y in zip(a["loops"], b["loops"]):
                    for field in ("begin", "end", "depth", "mix", "pipes", "bound_cycles", "simulated_cycles", "slack", "transitions"):
                        self.assertEqual(x[field], y[field], (arch, name, field))


    def test_falls_back_to_the_map_where_a_found_nvdisasm_fails(self):
        folder = self.folder / "bin"
        folder.mkdir()
        tool = folder / "nvdisasm"
        tool.write_text("#!/bin/sh\necho 'no such architecture' >&2\nexit 1\n")
        tool.chmod(0o755)
        run = self.succeeds("sass", cubin("90a"), "--json", "-", env={"PATH": f"{folder}:{os.environ['PATH']}"})
        self.assertEqual({k["mnemonics_from"] for k in json.loads(run.stdout)["kernels"]}, {"opcode map"})
        for words in ("kernels.sm_90a.cubin", "opcode map", "no such architecture"):
            self.assertIn(words, run.stderr)
        self.refuses("sass", cubin("90a"), "--disassembler", tool, says=["kernels.sm_90a.cubin", "no such architecture"])


class CompileTest(SassCase):
    def nvcc(self):
        """The compiler that `pinch` would find; a skip where there is none."""
        for found in (shutil.which("nvcc"), os.environ.get("CUDA_HOME", "") + "/bin/nvcc", "/usr/local/cuda/bin/nvcc"):
            if found and os.access(found, os.X_OK):
                return found
        return self.skipTest("no nvcc")

    def test_reads_what_nvcc_builds_of_one_source(self):
        nvcc, source = self.nvcc(), self.folder / "host.cu"
        source.write_text((DATA / "scale.cu").read_text() + "int main() { scale<<<1, 1>>>(nullptr, nullptr, 0, 1.0f); }\n")
        archs = ["-gencode=arch=compute_90a,code=sm_90a", "-gencode=arch=compute_100a,code=sm_100a"]
        outputs = {"program": [], "object.o": ["-c"], "all.o": ["-c", "-Xfatbin", "-compress-all"], "relocatable.o": ["-dc"],
                   "bare.fatbin": ["-fatbin"], "small.fatbin": ["-fatbin", "-Xfatbin", "-compress-mode=size"]}
        expected = None
        for name, options in outputs.items():
            subprocess.run([nvcc, *archs, *options, "-o", self.folder / name, source], check=True, capture_output=True)
            kernels = self.json_of("sass", self.folder / name, *MAP)["kernels"]
            self.assertEqual([(k["name"], k["arch"]) for k in kernels], [("scale", "sm_90a"), ("scale", "sm_100a")], name)
            if name != "relocatable.o":  # not linked: its calls and addresses differ
                expected = expected or kernels
                self.assertEqual(kernels, expected, name)

    def test_compiles_ptx_and_reads_it(self):
        nvcc, ptx = self.nvcc(), self.folder / "scale.ptx"
        subprocess.run([nvcc, "-ptx", "-arch=compute_90a", "-o", ptx, DATA / "scale.cu"], check=True, capture_output=True)
        kernels = {level: self.kernels(ptx, *MAP, "--arch", "90a", "--opt-level", level)["scale"] for level in "03"}
        self.assertGreater(kernels["0"]["instructions"], kernels["3"]["instructions"])
        self.assertEqual(kernels["3"]["loops"][0]["mix"]["MUFU"], 1)
        ptx.write_text(ptx.read_text().replace("ex2.approx", "ex3.approx"))
        self.refuses("sass", ptx, *MAP, says=["failed", "ex3"])

    def test_hands_ptx_on_without_its_byte_order_mark_and_names_the_file(self):
        ptxas, ptx = self.folder / "ptxas", self.folder / "marked.ptx"
        ptxas.write_text('#!/bin/sh\nfor last; do :; done\nhead -c 8 "$last" >&2\necho " ptxas $last, line 1; fatal" >&2\nexit 255\n')
        ptxas.chmod(0o755)
        ptx.write_bytes(b"\xef\xbb\xbf.version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(){ret;}\n")
        with unittest.mock.patch.dict(os.environ, PATH=f"{self.folder}:{os.environ['PATH']}"):
            self.refuses("sass", ptx, *MAP, says=[f"{ptx}: failed", f".version ptxas {ptx}, line 1"])

    def test_compiles_cuda_for_several_archs_and_reads_its_ptx(self):
        self.nvcc()
        source = self.folder / "scale.cu"
        source.write_text("""
extern "C" __global__ void scale(const float* in, float* out, int n, float c) {
#pragma unroll 1
  for (int i = 0; i < n; ++i) {
    float e;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(in[i] * c));
    out[i] = e * 0.3f;
  }
}
""")
        document = self.json_of("sass", source, *MAP, "--arch", "90a,100a")
        self.assertEqual([kernel["arch"] for kernel in document["kernels"]], ["sm_90a", "sm_100a"])
        for kernel in document["kernels"]:
            self.assertIn("algebra-scale-after-exp2", [lint["id"] for lint in kernel["lints"]])

    def test_reports_what_the_compiler_said(self):
        self.nvcc()
        source = self.folder / "bad.cu"
        source.write_text("this is no C++\n")
        self.refuses("sass", source, says=["failed", "bad.cu"])
        source.write_text("")
        self.refuses("sass", source, says=["no kernel", "bad.cu"])


class DiffTest(SassCase):
    def test_calls_equal_files_the_same(self):
        document = self.json_of("sass", "diff", cubin("90a"), cubin("90a"), *MAP)
        self.assertEqual({kernel["verdict"] for kernel in document["kernels"]}, {"same"})
        self.assertEqual(document["only_a"], [])

    def test_sees_registers_and_code(self):
        changed = self.folder / "changed.txt"
        text = (DATA / "kernels.sm_90a.nvdisasm.txt").read_text()
        self.assertEqual(text.count("HFMA2.BF16_V2 R5, R7"), 1, "the line that is planted")
        begin, word = text.index("HFMA2.BF16_V2 R5, R7"), "/* 0x0000000705057223 */"  # of an FFMA
        at = text.index("/* 0x", begin)
        changed.write_text(text[:begin] + "FFMA R5, R7" + text[begin + len("HFMA2.BF16_V2 R5, R7") : at] + word + text[at + len(word) :])
        document = self.json_of("sass", "diff", DATA / "kernels.sm_90a.nvdisasm.txt", changed)
        verdicts = {kernel["name"]: kernel["verdict"] for kernel in document["kernels"]}
        self.assertEqual(verdicts.pop("dequant_loop"), "code")
        self.assertEqual(set(verdicts.values()), {"same"})
        loop = next(kernel for kernel in document["kernels"] if kernel["name"] == "dequant_loop")["loops"][0]
        self.assertEqual(loop["mix"], {"FFMA": [0, 1], "HFMA2": [4, 3]})

    def test_shows_the_stall_counts_that_changed(self):
        text = (DATA / "kernels.sm_90a.nvdisasm.txt").read_text()
        line = text.index("MUFU.EX2", text.index("text.softmax_loop,"))
        at = text.index("/* 0x", text.index("/* 0x", line) + 5) + 5  # the upper half of that instruction's word
        high = int(text[at : at + 16], 16)
        stall = high >> 41 & 15
        changed = self.folder / "changed.txt"
        changed.write_text(text[:at] + f"{high + (1 << 41):016x}" + text[at + 16 :])
        printed = self.succeeds("sass", "diff", DATA / "kernels.sm_90a.nvdisasm.txt", changed).stdout
        self.assertIn("softmax_loop (sm_90a): schedule only", printed)
        self.assertRegex(printed, rf"stall counts: .*S{stall:02} \d+ -> \d+, S{stall + 1:02} \d+ -> \d+")
        kernels = self.json_of("sass", "diff", DATA / "kernels.sm_90a.nvdisasm.txt", changed)["kernels"]
        before, after = next(k for k in kernels if k["name"] == "softmax_loop")["loops"][0]["stalls"]
        self.assertEqual((after[stall] - before[stall], after[stall + 1] - before[stall + 1]), (-1, 1))

    def test_takes_what_text_does_not_say_for_no_difference(self):
        kernels = self.json_of("sass", "diff", DATA / "kernels.sm_90a.nvdisasm.txt", cubin("90a"), *MAP)["kernels"]
        self.assertEqual(next(k for k in kernels if k["name"] == "softmax_loop")["registers"], [None, 20])
        self.assertEqual({kernel["verdict"] for kernel in kernels}, {"same"})

    def test_holds_a_binary_against_its_disassembly_by_the_words(self):
        for arch, text in (("90a", "kernels.sm_90a.nvdisasm.txt"), ("80", "kernels.sm_80.cuobjdump.txt")):
            for files in ((cubin(arch), DATA / text), (DATA / text, cubin(arch))):
                kernels = self.json_of("sass", "diff", *files, *MAP)["kernels"]
                self.assertEqual({kernel["verdict"] for kernel in kernels}, {"same"}, files)
        self.refuses("sass", "diff", cubin("100a"), DATA / "kernels.sm_100a.nohex.txt", *MAP,
                     says=["kernels.sm_100a.nohex.txt", "opcode map", "--disassembler"])

    def test_refuses_builds_for_different_archs(self):
        self.refuses("sass", "diff", cubin("90a"), cubin("100a"), *MAP, says="same arch")


class GateTest(SassCase):
    def setUp(self):
        super().setUp()
        self.baseline = self.folder / "baseline.json"
        self.succeeds("sass", cubin("90a"), cubin("100a"), *MAP, "--json", self.baseline)

    def gate(self, *args, code):
        run = self.run_pinch("sass", "gate", "--baseline", self.baseline, *args, *MAP)
        self.assertEqual(run.code, code, run)
        return run.stdout

    def plant(self, kernel, change):
        document = json.loads(self.baseline.read_text())
        for entry in document["kernels"]:
            if entry["name"] == kernel and entry["arch"] == "sm_90a":
                change(entry)
        self.baseline.write_text(json.dumps(document))

    def test_passes_what_has_not_changed(self):
        self.assertIn("28 kernels compared, 0 failures", self.gate(cubin("90a"), cubin("100a"), code=OK))

    def test_fails_on_each_kind_of_regression(self):
        self.plant("softmax_loop", lambda k: k.update(registers=k["registers"] - 1))
        self.plant("hmma_loop", lambda k: k["loops"][0].update(bound_cycles=20))
        self.plant("poly_rolled", lambda k: k["loops"][0].update(simulated_cycles=1))
        self.plant("forced_spill", lambda k: k["local"].update(spill_loads=0))
        self.plant("hmma_loop", lambda k: k["loops"][0].update(lints=[]))
        printed = self.gate(cubin("90a"), cubin("100a"), code=FAILED)
        for words in ("softmax_loop (sm_90a): 20 registers, baseline 19", "bound 24 cycles, baseline 20, +20.0%", "poly_rolled (sm_90a): loop 0x",
                      "forced_spill (sm_90a): 182 local accesses, baseline 88", "hmma_loop (sm_90a): 1 findings, baseline 0", "5 failures"):
            self.assertIn(words, printed)

    def test_fails_on_more_frame_and_shared_memory(self):
        self.plant("forced_spill", lambda k: k.update(frame_bytes=k["frame_bytes"] - 8))
        printed = self.gate(cubin("90a"), cubin("100a"), code=FAILED)
        self.assertIn("forced_spill (sm_90a): 184 bytes of frame, baseline 176", printed)
        self.gate(cubin("90a"), cubin("100a"), "--max-frame", "8", code=OK)
        corpus = [DATA.parent.parent.parent / "data" / "sass" / "h200_loops.cubin", "--kernel", "^ffma_wide$"]
        self.succeeds("sass", *corpus, *MAP, "--json", self.baseline)
        self.plant("ffma_wide", lambda k: k.update(shared_bytes=k["shared_bytes"] - 4096))
        self.assertIn("ffma_wide (sm_90a): 16384 bytes of shared memory, baseline 12288", self.gate(*corpus, code=FAILED))
        self.gate(*corpus, "--max-shared", "4096", code=OK)

    def test_does_not_pass_what_it_cannot_know(self):
        text = DATA / "kernels.sm_90a.nvdisasm.txt"
        self.succeeds("sass", text, "--json", self.baseline)
        printed = self.gate(text, code=OK)
        self.assertIn("not judged: softmax_loop (sm_90a): registers not known to either", printed)
        self.plant("softmax_loop", lambda k: k.update(registers=20))
        self.plant("hmma_loop", lambda k: k.update(frame_bytes=0))
        printed = self.gate(text, code=FAILED)
        self.assertIn("softmax_loop (sm_90a): registers not known, baseline 20", printed)
        self.assertIn("2 failures", printed)

    def test_names_kernels_that_the_baseline_does_not_have(self):
        document = json.loads(self.baseline.read_text())
        document["kernels"] = [k for k in document["kernels"] if k["name"] != "hmma_loop"]
        self.baseline.write_text(json.dumps(document))
        self.assertIn("not judged: hmma_loop (sm_90a): not in the baseline", self.gate(cubin("90a"), cubin("100a"), code=OK))

    def test_does_not_mix_roads(self):
        document = json.loads(self.baseline.read_text())
        for kernel in document["kernels"]:
            kernel["mnemonics_from"] = "nvdisasm"
        self.baseline.write_text(json.dumps(document))
        self.refuses("sass", "gate", "--baseline", self.baseline, cubin("90a"), cubin("100a"), *MAP,
                     says=["by nvdisasm", "opcode map", "--disassembler"])

    def test_does_not_pass_with_nothing_to_compare(self):
        self.refuses("sass", "gate", "--baseline", self.baseline, DATA / "scale.host", *MAP, "--allow-missing", says="no kernel of the baseline")
        self.baseline.write_text('{"kernels": []}')
        self.refuses("sass", "gate", "--baseline", self.baseline, cubin("90a"), *MAP, says=["holds no kernel"])

    def test_allows_what_the_thresholds_allow(self):
        self.plant("softmax_loop", lambda k: k.update(registers=k["registers"] - 2))
        self.gate(cubin("90a"), cubin("100a"), "--max-registers", "1", code=FAILED)
        self.gate(cubin("90a"), cubin("100a"), "--max-registers", "2", code=OK)

    def test_fails_where_an_arch_is_missing(self):
        self.assertIn("sm_100a", self.gate(cubin("90a"), code=FAILED))
        self.gate(cubin("90a"), "--allow-missing", code=OK)

    def test_refuses_a_baseline_that_is_none(self):
        self.baseline.write_text("{}")
        self.refuses("sass", "gate", "--baseline", self.baseline, cubin("90a"), *MAP, says=["baseline.json", "kernels"])
        self.refuses("sass", "gate", "--baseline", self.folder / "none", cubin("90a"), *MAP, says="cannot be read")


class OwnKernelsTest(SassCase):
    def test_counts_every_product_of_the_streaming_kernels(self):
        run = self.run_pinch("sass", self.program, *MAP, "--kernel", "stream_kernel", "--json", "-")
        if "no device code" in run.stderr:
            self.skipTest("the program is built without CUDA")
        kernels = run.json()["kernels"]
        self.assertGreaterEqual(len(kernels), 6)
        for kernel in kernels:
            m_blocks, row_tiles, in_flight = map(int, re.search(r"StreamInstanceELi(\d+)ELi(\d+)ELi(\d+)E", kernel["name"]).groups())
            hot = [loop for loop in kernel["loops"] if loop["branches"]]
            self.assertEqual(len(hot), 1, kernel["name"])
            # A slot of its ring is 64 columns: four products a tile of 16 rows and 8 columns of the result.
            self.assertEqual(hot[0]["mix"]["HMMA"], 4 * m_blocks * row_tiles * in_flight, kernel["name"])
            self.assertEqual(hot[0]["mix"].get("STG", 0) + hot[0]["mix"].get("BAR", 0), 0, "the end of a row of tiles is left out")
            self.assertGreaterEqual(hot[0]["simulated_cycles"], hot[0]["warps_bound_cycles"])


class RefusalTest(SassCase):
    def bad(self, content, says):
        path = self.folder / "bad.cubin"
        path.write_bytes(content)
        self.refuses("sass", path, *MAP, says=["bad.cubin", *says])

    def test_names_file_and_offset(self):
        whole = cubin("90a").read_bytes()
        self.bad(b"", ["offset 0x0", "empty"])
        self.bad(bytes(range(256)) * 64, ["offset 0x0", "neither"])
        self.bad(whole[:40], ["offset 0x28"])
        self.bad(whole[: len(whole) // 2], ["offset 0x", "outside the file"])
        table = int.from_bytes(whole[40:48], "little")
        absurd = bytearray(whole)
        absurd[table + 64 + 32 : table + 64 + 40] = (1 << 60).to_bytes(8, "little")
        self.bad(bytes(absurd), ["offset 0x", "claims 1152921504606846976 bytes"])

    def test_names_the_file_of_an_arch_without_a_model(self):
        path = self.folder / "old.txt"
        path.write_text("\t.target\tsm_70\n\t.section\t.text.k,\"ax\"\n  /*0000*/  EXIT ;\n")
        self.refuses("sass", path, says=["old.txt, k", "sm_70", "sm_90a"])
        path.write_text("\t.section\t.text.k,\"ax\"\n  /*0000*/  EXIT ;\n")
        self.refuses("sass", path, says=["old.txt, k", "--arch"])

    def test_reads_text_behind_a_byte_order_mark(self):
        path = self.folder / "bom.txt"
        path.write_bytes(b"\xef\xbb\xbf" + (DATA / "tiny.nvdisasm.txt").read_bytes())
        self.assertEqual(list(self.kernels(path)), ["tiny"])
        path.write_bytes((DATA / "tiny.nvdisasm.txt").read_text().encode("utf-16"))
        self.refuses("sass", path, says=["bom.txt", "UTF-16"])

    def test_names_the_file_that_memory_does_not_suffice_for(self):
        path, size = self.folder / "large.cubin", 1 << 29
        with path.open("wb") as file:
            file.truncate(size)
        limit = size + size // 2  # the file is mapped, then copied
        run = subprocess.run([self.program, "sass", path, *MAP], capture_output=True, text=True,
                             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
        self.assertEqual((run.returncode, run.stdout), (USAGE, ""), run.stderr)
        for words in ("large.cubin", "not enough memory"):
            self.assertIn(words, run.stderr)

    def test_tells_a_host_binary_without_device_code(self):
        self.refuses("sass", "/bin/true", says=["no device code", "/bin/true"])

    def test_refuses_what_it_does_not_know(self):
        self.refuses("sass", self.folder / "none", says="none")
        self.refuses("sass", self.folder, says=["folder", str(self.folder)])
        for arch in ("70", "banana"):
            self.refuses("sass", cubin("90a"), "--arch", arch, says=["sm_" + arch, "sm_90a"])
        self.refuses("sass", cubin("90a"), "--arch", "100a", *MAP, says=["kernels.sm_90a.cubin", "code for sm_90a", "sm_100a"])
        self.refuses("sass", cubin("90a"), "--pair", "NOSUCH,F2FP", *MAP, says=["NOSUCH", "tensor"])
        self.refuses("sass", cubin("90a"), "--role", "nosuch=2", *MAP, says=["nosuch", "consumer", "producer"])
        self.succeeds("sass", cubin("90a"), "--arch", "90a,100a", "--pair", "MUFU,UTCHMMA", "--pair", "xu,HMMA.16816", *MAP)
        self.refuses("sass", cubin("90a"), "--role", "consumer", says="NAME=WARPS")
        self.refuses("sass", cubin("90a"), "--pair", "MUFU", says="A,B")
        self.refuses("sass", cubin("90a"), *MAP, "--kernel", "nothing_like_it", says="no kernel matches")
        self.refuses("sass", cubin("90a"), "--kernel", "(", says="regular expression")
        # A kernel that is not asked for is not disassembled.
        self.refuses("sass", cubin("90a"), "--disassembler", "/bin/false", "--kernel", "^softmax_loop$", says="cannot be disassembled")
        self.refuses("sass", cubin("90a"), "--disassembler", "/bin/false", "--kernel", "nothing_like_it", says="no kernel matches")
        self.refuses("sass", says="give a file")
