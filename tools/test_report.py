#!/usr/bin/env python3
"""Reads what tools/test left under build/results and prints the report.

stages.tsv has a line for each stage: name, passed|failed|skipped|built, seconds, reason. A ctest
stage NAME also has NAME.junit.xml and NAME.tests.json, and where one test of ctest stands for many
of GoogleTest, NAME.gtest/TEST.xml with what became of these. The last line printed is
"N passed, N failed, N skipped". Usage: tools/test_report.py FOLDER [LABEL THAT MUST HAVE RUN]...
"""

import collections
import json
import os
import re
import sys
import xml.etree.ElementTree

# These may run nothing: they need what a machine may lack.
MAY_RUN_NOTHING = ("gpu", "python")
SKIP_REASON = re.compile(r"^.*: Skipped\n(.*?)(?:\n\s*\n|\n\[|\Z)", re.MULTILINE | re.DOTALL)
SKIP_LINE = re.compile(r"^skipped: (.*)$", re.MULTILINE | re.IGNORECASE)


class Count:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.seconds = 0.0

    def add(self, status, seconds=0.0):
        setattr(self, status, getattr(self, status) + 1)
        self.seconds += seconds


def labels_of(path):
    """test name -> its labels"""
    try:
        with open(path, encoding="utf-8") as file:
            tests = json.load(file)["tests"]
    except (OSError, ValueError, KeyError):
        return {}
    labels = {}
    for test in tests:
        for entry in test.get("properties", []):
            if entry["name"] == "LABELS" and entry["value"]:
                labels[test["name"]] = entry["value"]
    return labels


def reason_of(output):
    match = SKIP_REASON.search(output) or SKIP_LINE.search(output)
    return " ".join(match.group(1).split()) if match else "it gave no reason"


def read_junit(path):
    """Yields name, passed|failed|skipped, seconds, reason."""
    for case in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
        status = case.get("status")
        seconds = float(case.get("time") or 0)
        output = "".join(part.text or "" for part in case.iter("system-out"))
        if status == "run":
            yield case.get("name"), "passed", seconds, ""
        elif status in ("notrun", "disabled") and case.find("skipped") is not None:
            message = case.find("skipped").get("message", "")
            if message.startswith(("SKIP_REGULAR_EXPRESSION_MATCHED", "SKIP_RETURN_CODE")):
                yield case.get("name"), "skipped", seconds, reason_of(output)
            elif status == "disabled":
                yield case.get("name"), "skipped", seconds, "it is disabled"
            else:
                yield case.get("name"), "failed", seconds, f"it could not run: {message}"
        else:
            failure = case.find("failure")
            yield case.get("name"), "failed", seconds, (
                failure.get("message", "") if failure is not None else status or "")


def read_gtest(path, shard):
    """Yields what read_junit() does, for the tests that one test of ctest stands for."""
    for case in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
        name = f"{shard}: {case.get('classname')}.{case.get('name')}"
        seconds = float(case.get("time") or 0)
        failure, skip = case.find("failure"), case.find("skipped")
        if failure is not None:
            yield name, "failed", seconds, failure.get("message", "").split("\n")[-1]
        elif skip is not None:
            yield name, "skipped", seconds, skip.get("message", "").split("\n")[-1]
        else:
            yield name, "passed", seconds, ""


def read_stage(folder, stage):
    """As read_junit(), and for each test of ctest that stands for many, these instead."""
    for case in read_junit(os.path.join(folder, f"{stage}.junit.xml")):
        test, result = case[:2]
        path = os.path.join(folder, f"{stage}.gtest", f"{test}.xml")
        inner = list(read_gtest(path, test)) if os.path.exists(path) else []
        # One that failed as a whole failed, whatever its tests say of themselves.
        if not inner or result == "failed" and all(one[1] != "failed" for one in inner):
            inner.append(case)
        yield from ((test, *one) for one in inner)


def main():
    folder, *must_run = sys.argv[1:]
    total = Count()
    rows, skips, failures = [], collections.OrderedDict(), []
    ran = collections.Counter()
    with open(os.path.join(folder, "stages.tsv"), encoding="utf-8") as file:
        stages = [line.rstrip("\n").split("\t") for line in file]
    for name, status, seconds, reason in stages:
        junit = os.path.join(folder, f"{name}.junit.xml")
        if not os.path.exists(junit):
            rows.append((name, status, f"{int(seconds)} s"))
            if status != "built":
                total.add(status)
            if status == "failed":
                failures.append((name, reason))
            elif status == "skipped":
                skips.setdefault(reason, []).append(name)
            continue
        labels = labels_of(os.path.join(folder, f"{name}.tests.json"))
        counts = collections.defaultdict(Count)
        for of, test, result, took, why in read_stage(folder, name):
            own = labels.get(of, [of.split(".")[0]])
            counts[own[-1]].add(result, took)
            total.add(result)
            if result == "skipped":
                skips.setdefault(why, []).append(f"{name}: {test}")
            else:
                ran.update(own)
            if result == "failed":
                failures.append((f"{name}: {test}", why))
        if status == "failed" and not any(count.failed for count in counts.values()):
            total.add("failed")
            failures.append((name, reason))
        rows.append((name, status, f"{int(seconds)} s"))
        for label, count in sorted(counts.items()):
            rows.append((f"  {label}", f"{count.passed} passed, {count.failed} failed, "
                         f"{count.skipped} skipped", f"{count.seconds:.0f} s"))

    for label in must_run:
        if label not in MAY_RUN_NOTHING and ran[label] == 0:
            total.add("failed")
            failures.append((f"label {label}", "none of its tests ran"))

    print("\nStages")
    for name, status, took in rows:
        print(f"  {name:<28} {status:<38} {took:>7}")
    if skips:
        print("\nSkipped")
        for reason, names in skips.items():
            print(f"  {len(names)} because: {reason}")
            for name in names[:5]:
                print(f"      {name}")
            if len(names) > 5:
                print(f"      and {len(names) - 5} more")
    if failures:
        print("\nFailed")
        for name, reason in failures:
            print(f"  {name}: {reason}")
    print(f"\n{total.passed} passed, {total.failed} failed, {total.skipped} skipped")
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
