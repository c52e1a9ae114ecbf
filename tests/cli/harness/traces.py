"""What the tests of pinch trace share: the example's pipeline at each level, and traces made up event by event."""

import importlib.util
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples" / "trace_your_kernel"
LEVELS = {"off": 0, "coarse": 1, "detailed": 2}


def seeds():
    spec = importlib.util.spec_from_file_location("make_seeds", ROOT / "tests" / "fuzz" / "make_seeds.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def build(folder, level, blocks=60):
    """The example at one level, with fewer blocks."""
    source = folder / "pipeline.cc"
    source.write_text((EXAMPLE / "pipeline.cc").read_text().replace("kBlocks = 200", f"kBlocks = {blocks}"))
    binary = folder / f"pipeline_{level}"
    subprocess.run([os.environ.get("CXX", "c++"), "-O1", "-std=c++20", "-pthread", f"-I{ROOT}/include", f"-DPINCH_TRACE_LEVEL={LEVELS[level]}",
                    source, "-o", binary], check=True)
    return binary
