"""tools/check_shell passes on a clean script and reports an unquoted variable."""

import shutil
import unittest

from gate_case import GateCase, skip

GATE = "check_shell"


class Shell(GateCase):
    def test_good(self):
        self.write("tools/run", '#!/usr/bin/env bash\necho "$1"\n')
        self.assert_passes(GATE)

    def test_fault(self):
        self.write("tools/run", "#!/usr/bin/env bash\nrm $1\n")
        self.assert_fails(GATE, "SC2086")


if __name__ == "__main__":
    if not shutil.which("shellcheck"):
        skip("shellcheck is not installed")
    unittest.main()
