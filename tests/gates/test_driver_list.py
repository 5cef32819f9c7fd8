"""src/backend/cuda/driver_api.hpp lists what the library calls, and nothing else."""

import re
import sys
import unittest

from gate_case import ROOT, TOOLS

sys.path.insert(0, TOOLS)
import tree  # noqa: E402

LIST = "src/backend/cuda/driver_api.hpp"
ROW = re.compile(r"^  X\((\w+), (\w+),", re.MULTILINE)


class DriverList(unittest.TestCase):
    def test_each_function_is_called(self):
        code = "".join(tree.read(ROOT, path) for path in tree.files(ROOT)
                       if path.startswith("src/backend/cuda/") and path != LIST)
        rows = ROW.findall(tree.read(ROOT, LIST))
        self.assertGreater(len(rows), 40)
        for member, name in rows:
            # By the table or, before there is one, by the name that the library exports.
            self.assertRegex(code, rf"(->|\.|\b){member}\(|\"{name}\"|&{member}\b", name)


if __name__ == "__main__":
    unittest.main()
