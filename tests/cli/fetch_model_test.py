"""scripts/fetch_model.sh where there is no network: a download is tried by tests/real."""

import os
import pathlib
import subprocess

from harness import CliTest, OK, safetensors

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts" / "fetch_model.sh"
NO_NETWORK = {"PIP_INDEX_URL": "http://127.0.0.1:9/", "PIP_RETRIES": "0", "PIP_NO_INDEX": "1"}


class FetchModelTest(CliTest):
    def fetch(self, **env):
        run = subprocess.run([SCRIPT, self.folder / "model"], capture_output=True, text=True, check=False,
                             env={**os.environ, **NO_NETWORK, **env})
        return run.returncode, run.stdout.strip(), run.stderr

    def test_generates_named_shapes_where_nothing_can_be_downloaded(self):
        # A cut download of an earlier run is not taken for the model.
        (self.folder / "model").mkdir()
        (self.folder / "model" / "all-MiniLM-L6-v2.safetensors").write_bytes(b"cut")
        code, path, prose = self.fetch()
        self.assertEqual(code, OK, prose)
        self.assertEqual(path, str(self.folder / "model" / "generated.safetensors"))
        self.assertIn("weights: generated, with the shapes of all-MiniLM-L6-v2 and Llama 3 8B", prose)
        _, tensors = safetensors.read(pathlib.Path(path))
        self.assertEqual(tensors["llama_3_8b.layers.0.mlp.gate_proj.weight"][:2], ("BF16", [14336, 4096]))
        self.succeeds("quantize", path, "--include", "minilm", "--out", "out.safetensors")
        # The second run keeps what the first made.
        made = os.stat(path).st_mtime_ns
        self.assertEqual(self.fetch()[:2], (OK, path))
        self.assertEqual(os.stat(path).st_mtime_ns, made)

    def test_takes_the_file_that_is_named(self):
        named = self.folder / "mine.safetensors"
        named.write_bytes(b"x")
        code, path, prose = self.fetch(PINCH_MODEL=str(named))
        self.assertEqual((code, path), (OK, str(named)))
        self.assertIn("as PINCH_MODEL says", prose)
        code, path, prose = self.fetch(PINCH_MODEL="/none")
        self.assertEqual((code, path), (2, ""))
        self.assertIn("PINCH_MODEL=/none: no such file", prose)
