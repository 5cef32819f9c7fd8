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

    def test_tables(self):
        head = "| | n | p50 | p99 | p99.9 | max | x floor |\n|---|---|---|---|---|---|---|\n"
        short = "| | n | p50 | p99 | floor | x floor |\n|---|---|---|---|---|---|\n"
        for table in (head + "| a | 9 | 1 | 2.5 | 2.5 | **7** | |\n| b | 9 | 1 | | 3 | 4 | x |\n",
                      short + "| a | 9 | 1.53 | 2.51 | 1.29 | 1.18 |\n| b | 9 | 1 | 2 | | |\n"):
            self.write("docs/figures.md", table)
            self.assert_passes(GATE)
        for table, words in (
                (head + "| a | 9 | 1 | 2 | 3 | 4 | |\n| b | 9 | 1.53 | 2.51 | 1.29 | 1.18 | |\n",
                 "docs/figures.md:6: p99 of 2.51 is more than p99.9 of 1.29"),
                (head + "| a | 9 | 3 | 2 | | | |\n", "p50 of 3 is more than p99 of 2"),
                (head + "| a | 9 | 1 | 2 | 9 | **8** | |\n", "p99.9 of 9 is more than max of 8"),
                (short + "| a | 9 | 1.53 | 2.51 | 1.29 | 1.81 |", "1.53 is not 1.81 times 1.29")):
            with self.subTest(words=words):
                self.write("docs/figures.md", "# Figures\n\n" + table)
                self.assert_fails(GATE, words)

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
