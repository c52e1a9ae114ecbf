"""pinch generate: the man page and the completion say what --help says, since both come from the commands themselves."""

import re
import shutil
import subprocess

from harness import CliTest


class Generated(CliTest):
    def commands(self, path=()):
        """{("tune", "gemm"): its long options} of every command that --help lists."""
        text = self.succeeds(*path, "--help").stdout
        listed = re.search(r"\nSubcommands:\n(.*?)(\n\n|\Z)", text, re.S)
        names = " ".join(re.findall(r"^  (-\S+)", text, re.M))  # "-h,--help", "--pairs,--no-pairs{false}"
        found = {path: set(re.findall(r"--[\w-]+", names))}
        for name in re.findall(r"^  (\w+)", listed[1], re.M) if listed else []:
            found.update(self.commands((*path, name)))
        return found

    def test_the_man_page_has_every_command_and_option(self):
        page = self.succeeds("generate", "man").stdout
        commands = self.commands()
        self.assertGreater(len(commands), 25)
        parts = dict(re.findall(r'^\.SS "pinch ([^"]*)"\n(.*?)(?=^\.S[SH] )', page, re.M | re.S))
        self.assertEqual(set(parts), {" ".join(path) for path in commands if path})
        for path, options in commands.items():
            for option in options - {"--help"} if path else ():
                self.assertIn(option.replace("-", "\\-"), parts[" ".join(path)], path)
        requests = {line.split()[0] for line in page.splitlines() if line.startswith((".", "'"))}
        self.assertLessEqual(requests, {".TH", ".SH", ".SS", ".TP", ".PP", ".B", ".I", ".nf", ".fi"})

    def test_the_man_page_is_clean_roff(self):
        groff = shutil.which("groff")
        if groff is None:
            self.skipTest("no groff")
        page = self.succeeds("generate", "man").stdout
        run = lambda text: subprocess.run([groff, "-man", "-ww", "-Tascii", "-z"], input=text, capture_output=True, text=True, check=False).stderr
        self.assertEqual(run(page), "")
        self.assertIn("nothing_like_it", run(page + ".nothing_like_it\n"), "a planted fault is seen")

    def completed(self, *words):
        script = ('source completion; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _pinch; printf "%s\\n" "${COMPREPLY[@]}"')
        run = subprocess.run(["bash", "-c", script, "bash", *words], cwd=self.folder, capture_output=True, text=True, check=True)
        self.assertEqual(run.stderr, "")
        return set(run.stdout.split())

    def test_bash_completes_commands_options_and_values(self):
        (self.folder / "completion").write_text(self.succeeds("generate", "bash").stdout)
        for path, options in self.commands().items():
            self.assertEqual(self.completed("pinch", *path, "--"), options, path)
        self.assertEqual(self.completed("pinch", "tu"), {"tune"})
        self.assertEqual(self.completed("pinch", "tune", "att"), {"attention"})
        self.assertEqual(self.completed("pinch", "tune", "gemm", "--format", ""), {"nvfp4", "mxfp4"})
        self.assertEqual(self.completed("pinch", "tune", "gemm", "--m", "8", "--wei"), {"--weights"})
        self.assertEqual(self.completed("pinch", "check", "flake", "--", "--"), set(), "what stands behind -- is another program's")
