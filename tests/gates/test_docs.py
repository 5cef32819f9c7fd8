"""tools/check_docs.py passes on good documents and reports dead links and long documents."""

import unittest

from gate_case import GateCase

GATE = "check_docs.py"


class Docs(GateCase):
    def setUp(self):
        super().setUp()
        self.write("docs/errors.md", "# Errors\n\n## What a `Code` says\n")
        self.write("src/a.cpp", "")
        self.write("README.md", "# Name\n[e](docs/errors.md#what-a-code-says) [s](src/) [n](#name)\n"
                   "[w](https://example.org/none) `[c](none.md)`\n```\n[f](none.md)\n```\n")

    def test_good(self):
        self.assert_passes(GATE)

    def test_faults(self):
        for text, words in (
                ("[a](docs/none.md)\n", "leads nowhere"),
                ("[a]: none.md\n", "leads nowhere"),
                ("[a](errors.md#none)\n", "no heading"),
                ("[a](#none)\n", "no heading"),
                ("line\n" * 301, "at most 300")):
            with self.subTest(text=text[:30]):
                self.write("docs/bad.md", text)
                self.assert_fails(GATE, words)


if __name__ == "__main__":
    unittest.main()
