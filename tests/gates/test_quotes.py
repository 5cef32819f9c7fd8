"""tools/check_quotes.py passes on C++ that is quoted from compiled files and reports other C++."""

import unittest

from gate_case import GateCase

GATE = "check_quotes.py"


class Quotes(GateCase):
    def setUp(self):
        super().setUp()
        self.write("examples/a.cpp", "int main() {\n  int a = 1;\n\n  return a;\n}\n")
        self.write("src/b.cpp", "int b;\n")

    def test_good(self):
        self.write("docs/a.md", "<!-- from examples/a.cpp -->\n\n```cpp\nint a = 1;\n\nreturn a;\n```\n"
                   "<!-- from examples/a.cpp -->\n```cpp\nint main() {\n  int a = 1;\n```\n"
                   "```sh\nls\n```\n")
        self.assert_passes(GATE)

    def test_faults(self):
        for text, words in (
                ("```cpp\nint a = 1;\n```\n", "docs/a.md:1: C++ without a line"),
                ("<!-- from examples/a.cpp -->\n\ntext\n\n```cpp\nint a = 1;\n```\n", "without a line"),
                ("<!-- from examples/none.cpp -->\n```cpp\nint a = 1;\n```\n", "does not exist"),
                ("<!-- from src/b.cpp -->\n```cpp\nint b;\n```\n", "not compiled"),
                ("<!-- from examples/a.cpp -->\n```cpp\nint a = 2;\n```\n", "differs from"),
                ("<!-- from examples/a.cpp -->\n```cpp\nint a = 1;\nreturn a;\n```\n", "differs"),
                ("<!-- from examples/a.cpp -->\n```cpp\n  int a = 1;\n```\n", "differs")):
            with self.subTest(text=text[:40]):
                self.write("docs/a.md", text)
                self.assert_fails(GATE, words)


if __name__ == "__main__":
    unittest.main()
