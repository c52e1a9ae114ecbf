"""python3 -m harness FILE [CASE...]: runs the cases of one test file. A file without cases fails."""

import importlib.util
import os
import sys
import unittest


def load(path):
    spec = importlib.util.spec_from_file_location(os.path.splitext(os.path.basename(path))[0], path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main(arguments):
    module = load(arguments[0])
    loader = unittest.defaultTestLoader
    suite = loader.loadTestsFromNames(arguments[1:], module) if arguments[1:] else loader.loadTestsFromModule(module)
    if suite.countTestCases() == 0:
        print(f"{arguments[0]}: no test cases", file=sys.stderr)
        return 1
    return 0 if unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
