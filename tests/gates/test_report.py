"""tools/test_report.py counts, gives the reasons of skips, and fails when a label ran nothing."""

import json
import unittest

from gate_case import GateCase

GATE = "test_report.py"
JUNIT = """<testsuite name="x">
<testcase name="unit.A.b" status="run" time="1"/>
<testcase name="unit.A.c" status="{status}" time="1">{inner}
<system-out>a.cpp:7: Skipped
this machine has no GPU

[  SKIPPED ] A.c (0 ms)
</system-out></testcase>
</testsuite>"""
SKIPPED = ("notrun", '<skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>')
SKIPPED_BY_CODE = ("notrun", '<skipped message="SKIP_RETURN_CODE=77"/>')
FAILED = ("fail", '<failure message="Failed"/>')
NOT_BUILT = ("notrun", '<skipped message="Unable to find executable"/>')


SHARD = """<testsuites><testsuite name="A">
<testcase name="b" status="run" result="completed" time="1" classname="A"/>
<testcase name="c" status="run" result="skipped" time="1" classname="A">
<skipped message="a.cpp:7&#x0A;this machine has no GPU"/></testcase>{more}
</testsuite></testsuites>"""
FAILED_IN_SHARD = """<testcase name="d" status="run" result="completed" time="1" classname="A">
<failure message="a.cpp:9&#x0A;it broke" type=""/></testcase>"""


class Report(GateCase):
    def stages(self, outcome, *more, stage="passed"):
        status, inner = outcome
        self.write("stages.tsv", "\n".join((*more, f"dev tests\t{stage}\t3\t")) + "\n")
        self.write("dev tests.junit.xml", JUNIT.format(status=status, inner=inner))
        self.write("dev tests.tests.json", json.dumps({"tests": [
            {"name": name, "properties": [{"name": "LABELS", "value": ["unit", "model"]}]}
            for name in ("unit.A.b", "unit.A.c")]}))

    def last_line(self, expected, *labels):
        result = self.run_gate(GATE, self.tree, *labels)
        self.assertEqual(result.stdout.split("\n")[-2], expected, result.stdout + result.stderr)
        self.assertEqual(result.returncode, 0 if " 0 failed" in expected else 1)
        return result.stdout

    def test_skips_are_counted_with_their_reason(self):
        self.stages(SKIPPED, "gate x\tpassed\t1\t", "fuzz\tskipped\t0\tno clang",
                    "dev build\tbuilt\t9\t")
        text = self.last_line("2 passed, 0 failed, 2 skipped", "unit")
        self.assertIn("this machine has no GPU", text)
        self.assertIn("no clang", text)

    def test_program_that_ends_with_the_code_for_skipped(self):
        self.stages(SKIPPED_BY_CODE)
        self.last_line("1 passed, 0 failed, 1 skipped", "unit")

    def test_failure(self):
        self.stages(FAILED, stage="failed")
        self.assertIn("dev tests: unit.A.c", self.last_line("1 passed, 1 failed, 0 skipped"))

    def test_program_that_was_not_built(self):
        self.stages(NOT_BUILT, stage="failed")
        self.last_line("1 passed, 1 failed, 0 skipped")

    def test_failed_build(self):
        self.stages(SKIPPED, "asan build\tfailed\t1\tsee the log")
        self.assertIn("asan build: see the log", self.last_line("1 passed, 1 failed, 1 skipped"))

    def test_stage_that_failed_without_a_failed_test(self):
        self.stages(SKIPPED, stage="failed")
        self.last_line("1 passed, 1 failed, 1 skipped")

    def test_one_test_that_stands_for_many(self):
        self.stages(SKIPPED)
        self.write("dev tests.gtest/unit.A.b.xml", SHARD.format(more=""))
        self.assertIn("dev tests: unit.A.b: A.c",
                      self.last_line("1 passed, 0 failed, 2 skipped", "unit"))

    def test_failure_of_one_of_many(self):
        self.stages(FAILED, stage="failed")
        self.write("dev tests.gtest/unit.A.c.xml", SHARD.format(more=FAILED_IN_SHARD))
        self.assertIn("dev tests: unit.A.c: A.d: it broke",
                      self.last_line("2 passed, 1 failed, 1 skipped"))

    def test_many_that_passed_in_a_program_that_failed(self):
        """It leaked, for one."""
        self.stages(FAILED, stage="failed")
        self.write("dev tests.gtest/unit.A.c.xml", SHARD.format(more=""))
        self.assertIn("dev tests: unit.A.c: Failed",
                      self.last_line("2 passed, 1 failed, 1 skipped"))

    def test_label_that_ran_nothing(self):
        self.stages(SKIPPED)
        self.assertIn("label crash", self.last_line("1 passed, 1 failed, 1 skipped", "crash"))
        self.last_line("1 passed, 0 failed, 1 skipped", "unit", "model")
        self.last_line("1 passed, 0 failed, 1 skipped", "gpu", "python")

    def test_stand_in_driver_of_which_all_tests_were_skipped(self):
        """It needs nothing of the machine, unlike a GPU."""
        self.stages(SKIPPED)
        self.write("dev tests.tests.json", json.dumps({"tests": [
            {"name": name, "properties": [{"name": "LABELS", "value": [label]}]}
            for name, label in (("unit.A.b", "unit"), ("unit.A.c", "simcuda"))]}))
        self.assertIn("label simcuda: none of its tests ran",
                      self.last_line("1 passed, 1 failed, 1 skipped", "unit", "simcuda"))


if __name__ == "__main__":
    unittest.main()
