"""tools/check_text.py passes on clean text and reports each kind of fault."""

import unittest

from gate_case import GateCase

GATE = "check_text.py"


class Text(GateCase):
    def test_clean(self):
        self.write("src/a.cpp", "int a;\n")
        self.write("tools/run", "#!/bin/sh\n")
        self.assert_passes(GATE)

    def test_faults(self):
        for path, text, words in (
                ("src/a.cpp", "int a;  // TO" + "DO: more\n", "finish it"),
                ("README.md", "FIX" + "ME\n", "finish it"),
                ("src/a.cpp", "int a; \n", "blanks at the end of the line"),
                ("src/a.cpp", "\tint a;\n", "a tab"),
                ("src/a.cpp", "int a;\r\n", "carriage returns"),
                ("src/a.cpp", "int a;", "no newline"),
                ("src/a.cpp", "int a;\n\n", "blank lines at the end"),
                ("src/a.cpp", "int a;\n" * 601, "601 lines")):
            with self.subTest(text=text[:30]):
                self.write("README.md", "fine\n")
                self.write(path, text)
                self.assert_fails(GATE, words)

    def test_long_file_with_a_reason(self):
        self.write("src/a.cpp", "// long-file: one table.\n" + "int a;\n" * 601)
        self.assert_passes(GATE)


if __name__ == "__main__":
    unittest.main()
