"""tests/mutation/run can still make each of its changes, and the tests that it asks exist."""

import fnmatch
import importlib.machinery
import importlib.util
import os
import sys
import unittest

from gate_case import ROOT, GateCase
from test_invariants import tests_of_this_tree


def load():
    sys.dont_write_bytecode = True
    loader = importlib.machinery.SourceFileLoader(
        "mutation_run", os.path.join(ROOT, "tests", "mutation", "run"))
    module = importlib.util.module_from_spec(
        importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


RUN = load()


class Mutations(GateCase):
    def test_each_place_is_in_the_code_once(self):
        for mutation in RUN.MUTATIONS:
            self.assertIsNone(RUN.misplaced(ROOT, mutation), mutation.name)

    def test_each_changes_something_and_has_a_name_of_its_own(self):
        names = [mutation.name for mutation in RUN.MUTATIONS]
        self.assertEqual(len(names), len(set(names)))
        for mutation in RUN.MUTATIONS:
            self.assertNotEqual(mutation.old, mutation.new, mutation.name)

    def test_the_tests_that_are_to_notice_exist(self):
        known = tests_of_this_tree()
        for mutation in RUN.MUTATIONS:
            for pattern in mutation.tests.split(":"):
                # A name here has neither the instance before it nor the parameter behind it.
                found = fnmatch.filter(known, pattern) or fnmatch.filter(known, pattern + "*")
                self.assertTrue(found, f"{mutation.name}: no test is called {pattern}")

    def test_a_place_that_is_gone_is_seen(self):
        self.write("rule.cpp", "look(); look(); store();\n")
        for old, code in (("store();", None), ("look();", "2 times"), ("rest();", "0 times")):
            problem = RUN.misplaced(self.tree, RUN.Mutation("x", "rule.cpp", old, "", "T.*"))
            if code is None:
                self.assertIsNone(problem)
            else:
                self.assertIn(code, problem)
        self.assertIn("there is no", RUN.misplaced(
            self.tree, RUN.Mutation("x", "gone.cpp", "a", "b", "T.*")))


if __name__ == "__main__":
    unittest.main()
