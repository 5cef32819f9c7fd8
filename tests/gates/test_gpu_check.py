"""tools/gpu-check on a build made of stand-ins: what it runs, judges, prints and refuses."""

import json
import os
import unittest

from gate_case import ROOT, GateCase

GATE = "gpu-check"
PASSES = "#!/bin/sh\nexit 0\n"
FAILS = "#!/bin/sh\necho what went wrong\nexit 1\n"
SKIPS = "#!/bin/sh\nexit 77\n"
# Name, n, p50, p99, floor, ratio, target, verdict, as the harness of the benchmarks writes them.
FLOOR = "floor: raw call\t4000\t1.30\t1.90\t\t\t\t"
REACHED = "publish in place\t4000\t1.70\t2.40\t1.30\t1.31\t<= +0.60\treached"
MISSED = "publish in place\t4000\t2.70\t3.40\t1.30\t2.08\t<= +0.60\tMISSED"


def bench(*rows, code=0):
    lines = "".join(f"printf '%s\\n' '{row}' >>\"$2\"\n" for row in rows)
    return f"#!/bin/sh\n[ \"$1\" = --rows ] || exit 9\n{lines}exit {code}\n"


class GpuCheck(GateCase):
    def setUp(self):
        super().setUp()
        # As if a driver were there: the script looks at this before it looks for one.
        os.environ["VRAMLINK_CUDA_LIBRARY"] = os.path.join(self.tree, "libcuda.so.1")
        self.addCleanup(os.environ.pop, "VRAMLINK_CUDA_LIBRARY", None)

    def program(self, path, text):
        self.write(path, text)
        os.chmod(os.path.join(self.tree, path), 0o755)

    def build(self, tests, benches, made_in=None):
        """A build with `tests` (name, label, program) and `benches` (name, program)."""
        made_in = made_in or self.tree
        self.write("CMakeCache.txt", f"CMAKE_CACHEFILE_DIR:INTERNAL={made_in}\n")
        lines = ""
        for name, label, text in tests:
            self.program(f"tests/{name}", text)
            lines += (f'add_test({name} "{made_in}/tests/{name}")\nset_tests_properties({name} '
                      f"PROPERTIES LABELS {label} SKIP_RETURN_CODE 77)\n")
        self.write("CTestTestfile.cmake", lines)
        for name, text in benches:
            self.program(f"bench/{name}", text)

    def check(self, code, *arguments):
        result = self.run_gate(GATE, "--build", self.tree, *arguments)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result.stdout.split("\n")[:-1]

    def test_all_is_well(self):
        self.build([("a", "gpu", PASSES), ("b", "gpu", SKIPS), ("c", "unit", FAILS)],
                   [("bench_gpu_publish", bench(FLOOR, REACHED)), ("bench_latency", FAILS)])
        lines = self.check(0)
        self.assertRegex(lines[-1], r"^tests gpu +1 passed, 0 failed, 1 skipped  PASS$")
        self.assertRegex(lines[-2], r"^publish in place +4000 +1\.70 +2\.40 +1\.30 +1\.31 +"
                                    r"<= \+0\.60  reached$")
        self.assertRegex(lines[-3], r"^floor: raw call +4000 +1\.30 +1\.90 +$")

    def test_failed_test(self):
        self.build([("a", "gpu", PASSES), ("b", "gpu", FAILS)],
                   [("bench_gpu_publish", bench(FLOOR, REACHED))])
        lines = self.check(1)
        self.assertIn("what went wrong", "\n".join(lines))
        self.assertRegex(lines[-1], r"1 passed, 1 failed, 0 skipped  FAIL$")

    def test_nothing_ran(self):
        self.build([("c", "unit", PASSES)], [("bench_gpu_publish", bench(FLOOR, REACHED))])
        self.check(1)
        self.build([("a", "gpu", SKIPS)], [])
        self.assertIn("no test ran", self.check(1)[-1])

    def test_missed_target(self):
        self.build([("a", "gpu", PASSES)], [("bench_gpu_publish", bench(FLOOR, MISSED))])
        self.assertRegex(self.check(1)[-2], r"MISSED$")

    def test_benchmark_that_fails(self):
        self.build([("a", "gpu", PASSES)], [("bench_gpu_publish", bench(FLOOR, code=3))])
        self.assertRegex(self.check(1)[-2], r"^bench_gpu_publish .*FAILED: ended with 3$")

    def test_no_time_left(self):
        self.build([("a", "gpu", PASSES)], [("bench_gpu_publish", bench(FLOOR, REACHED))])
        self.assertRegex(self.check(1, "--seconds", "4")[-2], r"not run: no time left$")

    def test_carried_build_is_fitted(self):
        self.build([("a", "gpu", PASSES)], [], made_in="/nowhere/build")
        with open(os.path.join(self.tree, "CMakeCache.txt"), "a", encoding="utf-8") as file:
            file.write("CMAKE_HOME_DIRECTORY:INTERNAL=/nowhere\n")
        self.write("GoogleTestAddTests.cmake", "")
        self.write("tests/a_include.cmake", "/nowhere/build/a /nowhere/tests/b.py\n"
                   'include("/usr/share/cmake-9.9/Modules/GoogleTestAddTests.cmake")\n')
        for _ in range(2):  # and stays so
            self.assertRegex(self.check(0)[-1], r"1 passed.*PASS$")
            with open(os.path.join(self.tree, "tests/a_include.cmake"), encoding="utf-8") as file:
                self.assertEqual(file.read(), f"{self.tree}/a {ROOT}/tests/b.py\n"
                                 f'include("{self.tree}/GoogleTestAddTests.cmake")\n')

    def test_some_tests(self):
        self.build([("fine", "gpu", PASSES), ("broken", "gpu", FAILS)], [])
        self.check(0, "--tests", "fine")

    def test_stand_in_driver_judges_nothing(self):
        del os.environ["VRAMLINK_CUDA_LIBRARY"]
        smoke = bench(FLOOR, MISSED).replace("[ ", '[ "$3" = --smoke ] && [ ', 1)
        self.build([("a", "simcuda", PASSES)], [("bench_gpu_publish", smoke)])
        self.check(5, "--simcuda")
        self.write("tests/simcuda/libcuda.so.1", "")
        lines = self.check(0, "--simcuda")
        self.assertRegex(lines[-2], r"not judged$")
        self.assertRegex(lines[-1], r"^tests simcuda .*PASS$")

    CRASH = ("All/Steps.End/a_drop", "All/Steps.End/b_drop", "Deaths.Both")

    def crash_build(self, text):
        """With three crash cases, of which ctest is to run none."""
        self.build([("a", "gpu", PASSES)] +
                   [(f"gpu.crash.{name}", "gpu", FAILS) for name in self.CRASH],
                   [("bench_gpu_publish", bench(FLOOR, REACHED))])
        self.program("tests/crash/crash_tests", text)

    # As a GoogleTest program: each shard runs its part of the cases that the filter names.
    SHARD = '''#!/bin/bash
[[ $VRAMLINK_TEST_DEVICE == "$WANT_DEVICE" ]] || exit 9
echo "$GTEST_SHARD_INDEX/$GTEST_TOTAL_SHARDS on $CUDA_VISIBLE_DEVICES, $VRAMLINK_TEST_GPU_SHARED" \
  >>"$SHARDS"
number=0 status=0
IFS=: read -ra cases <<<"${1#--gtest_filter=}"
for name in "${cases[@]}"; do
  ((number++ % GTEST_TOTAL_SHARDS == GTEST_SHARD_INDEX)) || continue
  echo "[ RUN      ] $name"
  case $name in
    $ENDS) exit 3 ;;
    $BROKEN) echo "what went wrong"; echo "[  FAILED  ] $name (1 ms)"; status=1 ;;
    *) echo "[       OK ] $name (1 ms)" ;;
  esac
done
exit $status
'''

    def crash_check(self, code, *arguments, **settings):
        self.shards = os.path.join(self.tree, "shards")
        settings = {"CUDA_VISIBLE_DEVICES": "0,5", "WANT_DEVICE": "gpu", "SHARDS": self.shards,
                    "BROKEN": "", "ENDS": "", **settings}
        self.write("shards", "")
        for name, value in settings.items():
            os.environ[name] = value
            self.addCleanup(os.environ.pop, name, None)
        return self.check(code, *arguments)

    def seen_shards(self):
        with open(self.shards, encoding="utf-8") as file:
            return sorted(file.read().splitlines())

    def test_crash_cases_go_side_by_side_on_each_gpu(self):
        self.crash_build(self.SHARD)
        lines = self.crash_check(0, "--crash", "2")
        self.assertRegex(lines[-1], r"^tests gpu +1 passed, 0 failed, 0 skipped  PASS$")
        self.assertRegex(lines[-2], r"^crash gpu, 2 processes on each of 2 +3 passed, 0 failed, "
                                    r"0 skipped  PASS$")
        self.assertRegex(lines[-3], r"^publish in place ")
        self.assertEqual(self.seen_shards(), ["0/4 on 0, 1", "1/4 on 5, 1", "2/4 on 0, 1",
                                              "3/4 on 5, 1"])

    def test_crash_case_that_is_alone_on_its_gpu(self):
        self.crash_build(self.SHARD)
        self.crash_check(0, "--crash", "1")
        self.assertEqual(self.seen_shards(), ["0/2 on 0, ", "1/2 on 5, "])

    def test_crash_cases_that_fail_or_never_end_in_order(self):
        self.crash_build(self.SHARD)
        lines = self.crash_check(1, BROKEN="Deaths.*")
        self.assertIn("what went wrong", "\n".join(lines))
        self.assertRegex(lines[-2], r"2 passed, 1 failed, 0 skipped  FAIL$")
        lines = self.crash_check(1, "--crash", "1", ENDS="*a_drop")  # b_drop runs elsewhere
        self.assertRegex(lines[-2], r"1 passed, 2 failed, 0 skipped  FAIL$")

    def test_crash_cases_that_are_chosen_or_not_wanted(self):
        self.crash_build(self.SHARD)
        lines = self.crash_check(0, "--tests", "^a$|Steps.*a_drop")
        self.assertRegex(lines[-2], r" 1 passed, 0 failed, 0 skipped  PASS$")
        lines = self.crash_check(0, "--crash", "0")
        self.assertRegex(lines[-2], r"^publish in place ")
        self.assertEqual(self.seen_shards(), [])

    def test_crash_cases_on_the_stand_in_driver(self):
        self.build([("a", "simcuda", PASSES)] +
                   [(f"simcuda.crash.{name}", "simcuda", FAILS) for name in self.CRASH], [])
        self.program("tests/crash/crash_tests", self.SHARD)
        self.write("tests/simcuda/libcuda.so.1", "")
        driver = os.path.join(self.tree, "tests/simcuda/libcuda.so.1")
        lines = self.crash_check(0, "--simcuda", "--crash", "2", WANT_DEVICE=driver)
        self.assertRegex(lines[-2], r"^crash simcuda, 2 processes on each of 1 +3 passed")

    def test_json(self):
        self.build([("a", "gpu", PASSES)], [("bench_gpu_publish", bench(FLOOR, REACHED))])
        path = os.path.join(self.tree, "out.json")
        self.check(0, "--json", path)
        with open(path, encoding="utf-8") as file:
            answer = json.load(file)
        self.assertEqual(answer["schema"], "vramlink.gpu-check/1")
        self.assertEqual(answer["tests"]["passed"], 1)
        self.assertEqual(answer["crash"]["verdict"], "not run")
        self.assertEqual(answer["rows"][1]["verdict"], "reached")
        self.assertEqual(answer["rows"][0]["floor"], "")

    def test_what_cannot_be(self):
        self.check(2, "--seconds", "soon")
        self.check(2, "--crash", "all")
        self.check(2, "--film")
        self.check(5)  # no build
        del os.environ["VRAMLINK_CUDA_LIBRARY"]
        self.build([("a", "gpu", PASSES)], [])
        if not os.path.exists("/dev/nvidiactl"):
            self.check(5)


if __name__ == "__main__":
    unittest.main()
