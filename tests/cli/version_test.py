"""pinch version."""

import re

from harness import CliTest


class VersionTest(CliTest):
    def test_names_version_revision_and_compiler(self):
        document = self.json_of("version")
        self.assertEqual(list(document), ["name", "version", "git_sha", "compiler"])
        self.assertEqual(document["name"], "pinch")
        self.assertRegex(document["version"], r"^\d+\.\d+\.\d+$")
        self.assertRegex(document["git_sha"], r"^([0-9a-f]{12}|unknown)$")

    def test_prints_the_same_version_for_people(self):
        version = self.json_of("version")["version"]
        self.assertTrue(re.match(rf"pinch {re.escape(version)} ", self.succeeds("version").stdout))


class UsageTest(CliTest):
    def test_refuses_an_unknown_subcommand(self):
        self.refuses("versoin", says=["unknown argument 'versoin'", "did you mean version"])

    def test_refuses_an_unknown_option(self):
        self.refuses("version", "--jsom", says=["pinch version", "'--jsom'", "--json"])

    def test_refuses_no_subcommand(self):
        self.refuses(says="A subcommand is required")
