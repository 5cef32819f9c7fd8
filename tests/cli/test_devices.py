#!/usr/bin/env python3
"""The command with GPUs: those of the stand-in driver that VRAMLINK_CUDA_LIBRARY names, or real ones."""

import json
import os
import re
import signal
import subprocess
import sys
import unittest

from cli_case import CLI, CliCase, main, pattern, png, read_png, skip, y4m


def usable_gpus():
    """UUIDs, in the driver's order."""
    answer = json.loads(subprocess.run([CLI, "doctor", "--json"], capture_output=True,
                                       check=False).stdout)
    passed = {check["subject"] for check in answer["checks"]
              if check["id"] == "round-trip" and check["verdict"] == "pass"}
    return [check["subject"] for check in answer["checks"]
            if check["id"] == "device" and check["subject"] in passed]


GPUS = usable_gpus()
STAND_IN = "simcuda" in os.environ.get("VRAMLINK_CUDA_LIBRARY", "")


class DevicesTest(CliCase):
    def setUp(self):
        super().setUp()
        del self.environment["VRAMLINK_CUDA"]

    def doctor(self, code=0):
        finished = self.run_cli("doctor", "--json")
        self.assert_code(finished, code)
        answer = json.loads(finished.out)
        return answer, {(check["subject"], check["id"]): check for check in answer["checks"]}

    def test_doctor_sends_frames_through_each_gpu(self):
        answer, checks = self.doctor()
        self.assertEqual(answer["ready"]["gpus"], len(GPUS))
        self.assertRegex(checks["driver", "driver"]["text"], r"CUDA \d+\.\d")
        for uuid in GPUS:
            self.assertIn("compute capability", checks[uuid, "device"]["text"])
            self.assertEqual(checks[uuid, "round-trip"]["verdict"], "pass")
            self.assertRegex(checks[uuid, "sharing"]["text"], "MPS")
            self.assertEqual((uuid, "peer") in checks, len(GPUS) > 1)
        lines = self.run_cli("doctor").out.decode().splitlines()
        self.assertEqual(lines[-1].split(";")[0],
                         f"ready: host yes, GPU yes ({len(GPUS)} of {len(GPUS)})")

    def test_doctor_with_hidden_gpus(self):
        self.environment["CUDA_VISIBLE_DEVICES"] = ""
        answer, checks = self.doctor()
        self.assertEqual(checks["driver", "driver"]["verdict"], "warn")
        self.assertEqual(checks["driver", "driver"]["remedy"], "unset CUDA_VISIBLE_DEVICES")
        self.assertEqual(answer["ready"], {"host": True, "gpus": 0, "gpus_seen": 0})
        self.environment["VRAMLINK_CUDA"] = "require"
        _, checks = self.doctor(code=1)
        self.assertEqual(checks["driver", "driver"]["verdict"], "fail")

    def test_doctor_without_a_driver(self):
        self.environment["VRAMLINK_CUDA_LIBRARY"] = self.path("libcuda.so.1")
        self.environment["VRAMLINK_CUDA"] = "require"
        _, checks = self.doctor(code=1)
        self.assertEqual(checks["driver", "driver"]["verdict"], "fail")
        self.assertIn(self.path("libcuda.so.1"), checks["driver", "driver"]["text"])
        self.assertTrue(checks["driver", "driver"]["remedy"])
        self.environment["VRAMLINK_CUDA"] = "off"
        _, checks = self.doctor()
        self.assertEqual(checks["driver", "driver"]["verdict"], "skip")

    @unittest.skipUnless(STAND_IN, "needs the stand-in driver")
    def test_doctor_on_other_machines(self):
        self.environment["VRAMLINK_SIMCUDA_DEVICES"] = "2"
        _, checks = self.doctor()
        self.assertEqual(checks[GPUS[0], "peer"]["verdict"], "pass")
        self.assertIn("read by GPU 1", checks[GPUS[0], "peer"]["text"])
        self.environment["VRAMLINK_SIMCUDA_PEER_ACCESS"] = "0"
        _, checks = self.doctor()
        self.assertEqual(checks[GPUS[0], "peer"]["verdict"], "warn")
        self.assertIn("the subscriber: ", checks[GPUS[0], "peer"]["text"])
        self.assertIn("--gpu 1 --copy-frames", checks[GPUS[0], "peer"]["remedy"])
        self.assertEqual(os.listdir(self.runtime), [])
        self.environment["VRAMLINK_SIMCUDA_DRIVER_VERSION"] = "11080"
        _, checks = self.doctor(code=1)
        self.assertIn("11.8", checks["driver", "driver"]["text"])
        self.assertIn("525", checks["driver", "driver"]["remedy"])

    @unittest.skipUnless(STAND_IN, "needs the stand-in driver")
    def test_doctor_with_drivers_that_lack_something(self):
        clip = self.write("clip.y4m", y4m(64, 48, 1))
        for profile, words in (("no_vmm", "no virtual memory management"),
                               ("wsl", "cannot be exported as a file descriptor"),
                               ("no_memops", "cannot write and wait for 64-bit words")):
            self.environment["VRAMLINK_SIMCUDA_PROFILE"] = profile
            answer, checks = self.doctor(code=1)
            self.assertEqual(answer["ready"]["gpus"], 0, profile)
            self.assertEqual(checks[GPUS[0], "device"]["verdict"], "fail")
            self.assertIn(words, checks[GPUS[0], "device"]["text"])
            self.assert_refused(self.run_cli("pub", "cam0", clip, "--gpu", GPUS[0]), 5, words)
        self.environment["VRAMLINK_SIMCUDA_PROFILE"] = "old_driver"
        _, checks = self.doctor(code=1)
        self.assertIn("11.8", checks["driver", "driver"]["text"])
        for profile in ("no_pools", "mig"):
            self.environment["VRAMLINK_SIMCUDA_PROFILE"] = profile
            answer, _ = self.doctor()
            self.assertGreater(answer["ready"]["gpus"], 0, profile)
            self.assertEqual(answer["ready"]["gpus"], answer["ready"]["gpus_seen"])

    @unittest.skipUnless(STAND_IN, "needs the stand-in driver")
    def test_doctor_says_whether_mps_is_on(self):
        for mps, verdict, words in (("off", "pass", "MPS is off: kernels of several processes take"),
                                    ("on", "pass", "MPS is on: kernels of several processes run"),
                                    ("unknown", "skip", "does not say whether MPS is on")):
            self.environment["VRAMLINK_SIMCUDA_MPS"] = mps
            _, checks = self.doctor()
            self.assertEqual(checks[GPUS[0], "sharing"]["verdict"], verdict)
            self.assertIn(words, checks[GPUS[0], "sharing"]["text"])
            self.assertEqual("pgrep" in checks[GPUS[0], "sharing"].get("remedy", ""),
                             verdict == "skip")

    def test_byte_for_byte_through_a_gpu(self):
        clip = y4m(64, 48, 12)
        for device in ("0", GPUS[-1]):
            publisher, received = self.transfer(
                (self.write("clip.y4m", clip), "--gpu", device), ("--y4m", self.path("out.y4m")))
            self.assert_code(publisher, 0)
            self.assert_code(received, 0)
            self.assertEqual(self.read("out.y4m"), clip)
            self.assertIn("is on GPU ", publisher.err)

    def test_raw_and_counting(self):
        frames = pattern(64 * 48 * 4 * 5)
        source = self.write("frames.raw", frames)
        arguments = (source, "--format", "RGBA", "--size", "64x48", "--device", "auto")
        publisher, received = self.transfer((*arguments, "--json"), ("--raw", "-"))
        self.assert_code(publisher, 0)
        self.assertEqual(received.out, frames)
        self.assertEqual(json.loads(publisher.out)["device"], GPUS[0])
        publisher, received = self.transfer(arguments, ("--json",))
        self.assertEqual(json.loads(received.out)["received"], 5)
        self.assertEqual(json.loads(received.out)["device"], GPUS[0])

    def test_grab_and_ls(self):
        pixels = pattern(8 * 6 * 4)
        rows = [pixels[row * 32:row * 32 + 32] for row in range(6)]
        picture = self.write("a.png", png(8, 6, 6, rows))
        process = self.start("pub", "cam0", picture, "--loop", "--gpu", 0)
        self.wait_for("cam0")
        self.assert_code(self.run_cli("grab", "cam0", "-o", "out.png"), 0)
        self.assertEqual(read_png(self.read("out.png"))[3], pixels)
        listed = json.loads(self.run_cli("ls", "--json").out)
        self.assertEqual(listed["channels"][0]["device"], GPUS[0])
        self.assertIn(GPUS[0], self.run_cli("ls").out.decode())
        process.send_signal(signal.SIGINT)
        self.assert_code(self.finish(process), 130)

    def publish_on(self, gpu, name="cam0"):
        """A channel that goes on, in the memory of that GPU; its frame."""
        frame = pattern(16 * 12 * 4)
        source = self.write(name + ".raw", frame)
        self.start("pub", name, source, "--format", "RGBA", "--size", "16x12", "--loop", "--gpu",
                   gpu)
        self.wait_until(lambda: name.encode() in self.run_cli("ls", "--names").out)
        return frame

    def received(self, *arguments):
        """What one frame of the channel was, and where it was read."""
        finished = self.run_cli("sub", "cam0", "--count", 1, "--raw", self.path("out.raw"), "--json",
                                *arguments)
        self.assert_code(finished, 0)
        return self.read("out.raw"), json.loads(finished.out)["device"]

    def test_readers_are_named_in_every_way(self):
        frame = self.publish_on(0)
        wishes = (("--device", GPUS[0]), ("--gpu", 0), ("--device", "auto"), ("--gpu", GPUS[0]),
                  ("--gpu", "auto"), ("--device", "0"))
        # Where each process starts a real driver, the first ones must do.
        for wish in wishes if STAND_IN else wishes[:3]:
            with self.subTest(wish=wish):
                self.assertEqual(self.received(*wish), (frame, GPUS[0]))
        for wish in wishes[:2] if STAND_IN else wishes[:1]:
            with self.subTest(grab=wish):
                self.assert_code(self.run_cli("grab", "cam0", "-o", "a.npy", *wish), 0)
                self.assertEqual(self.read("a.npy")[-len(frame):], frame)
                os.remove(self.path("a.npy"))
        # The host cannot map the frames of a GPU.
        for command in (("sub", "cam0"), ("grab", "cam0", "-o", "a.png")):
            self.assert_refused(self.run_cli(*command, "--device", "host"), 5, GPUS[0], "cannot map")
        self.assertFalse(os.path.exists(self.path("a.png")))

    def test_a_gpu_cannot_read_frames_of_the_host(self):
        self.publish_picture("cam0", "GRAY8", 8, 8, bytes(64))
        self.assert_refused(self.run_cli("sub", "cam0", "--gpu", 0), 5, "host", "cannot map")
        self.assertEqual(self.received("--device", "host"), (bytes(64), "host"))

    def two_gpus(self):
        """Their UUIDs; of the stand-in driver, which has as many as the test asks for."""
        if STAND_IN:
            self.environment["VRAMLINK_SIMCUDA_DEVICES"] = "2"
            _, checks = self.doctor()
            return [subject for subject, check in checks if check == "device"]
        if len(GPUS) < 2:
            self.skipTest("one GPU is visible, and this needs two")
        return GPUS

    def skip_if_apart(self, *reader):
        """Real GPUs of which the reader does not reach the channel's; the stand-in's can."""
        finished = self.run_cli("sub", "cam0", "--count", 1, *reader)
        if not STAND_IN and finished.code == 5:
            self.skipTest(finished.err)

    def test_read_by_another_gpu(self):
        gpus = self.two_gpus()
        frame = self.publish_on(0)
        self.skip_if_apart("--gpu", 1)
        self.assertEqual(self.received("--gpu", 1), (frame, gpus[1]))
        self.assertEqual(self.received("--device", gpus[1]), (frame, gpus[1]))
        self.assert_code(self.run_cli("grab", "cam0", "-o", "a.npy", "--device", gpus[1]), 0)
        self.assertEqual(self.read("a.npy")[-len(frame):], frame)

    @unittest.skipUnless(STAND_IN, "needs GPUs that do not reach one another")
    def test_copies_for_a_gpu_that_does_not_reach_the_channel(self):
        gpus = self.two_gpus()
        self.environment["VRAMLINK_SIMCUDA_PEER_ACCESS"] = "0"
        frame = self.publish_on(0)
        for command in (("sub", "cam0", "--count", 1), ("grab", "cam0", "-o", "a.npy")):
            self.assert_refused(self.run_cli(*command, "--gpu", 1), 5, "--copy-frames")
        self.assertEqual(self.received("--gpu", 1, "--copy-frames"), (frame, gpus[1]))
        self.assert_code(
            self.run_cli("grab", "cam0", "-o", "a.npy", "--gpu", 1, "--copy-frames"), 0)
        self.assertEqual(self.read("a.npy")[-len(frame):], frame)

    def test_legacy_handles(self):
        clip = y4m(64, 48, 12)
        publisher, received = self.transfer(
            (self.write("clip.y4m", clip), "--gpu", 0, "--legacy-handles", "always", "--json"),
            ("--y4m", self.path("out.y4m")))
        self.assert_code(publisher, 0)
        self.assert_code(received, 0)
        self.assertEqual(self.read("out.y4m"), clip)
        counted = json.loads(publisher.out)
        self.assertEqual((counted["path"], counted["legacy_imports"]), ("legacy_handle", 1))
        self.assertIn("legacy handles", publisher.err)

    @unittest.skipUnless(STAND_IN, "needs a GPU that exports no descriptors")
    def test_a_gpu_without_virtual_memory(self):
        self.environment["VRAMLINK_SIMCUDA_PROFILE"] = "no_vmm"
        frame = pattern(16 * 12 * 4)
        source = self.write("in.raw", frame)
        shape = ("--format", "RGBA", "--size", "16x12", "--loop", "--gpu", 0)
        self.assert_refused(self.run_cli("pub", "cam0", source, *shape), 5, "legacy handles")
        self.start("pub", "cam0", source, *shape, "--legacy-handles", "if-needed")
        self.wait_until(lambda: b"cam0" in self.run_cli("ls", "--names").out)
        self.assertEqual(self.received()[0], frame)
        self.assertIn(b"(legacy handles)", self.run_cli("ls").out)
        listed = json.loads(self.run_cli("ls", "--json").out)["channels"][0]
        self.assertEqual((listed["path"], listed["legacy_imports"]), ("legacy_handle", 1))
        explained = json.loads(self.run_cli("explain", "cam0", "--json").out)
        self.assertIn("legacy handle", explained["paths"][0]["reason"])
        explained = json.loads(self.run_cli("explain", "cam0", "--try", "--json").out)
        self.assertEqual(explained["trial"]["path"], "direct")

    def test_hidden_gpu_of_a_channel(self):
        gpus = self.two_gpus()
        frame = self.publish_on(1)
        self.environment["CUDA_VISIBLE_DEVICES"] = "0"
        for command in (("sub", "cam0", "--count", 1), ("grab", "cam0", "-o", "a.npy")):
            self.assert_refused(
                self.run_cli(*command), 5, f"its frames live on {gpus[1]}, which this process does",
                'CUDA_VISIBLE_DEVICES is "0"', "add it to CUDA_VISIBLE_DEVICES, or name a device")
        self.skip_if_apart("--gpu", 0)
        self.assertEqual(self.received("--gpu", 0), (frame, gpus[0]))

    def test_keep_follows_publishers_to_other_devices(self):
        gpus = self.two_gpus() if STAND_IN else GPUS
        frame = pattern(16 * 12 * 4)
        source = self.write("frame.raw", frame)
        subscriber = self.start("sub", "cam0", "--keep", "--policy", "queue:2", "--raw",
                                self.path("out"))
        devices = (gpus[0], gpus[-1], "host", gpus[0])
        for device in devices:
            publisher = self.start("pub", "cam0", source, "--format", "RGBA", "--size", "16x12",
                                   "--device", device, "--policy", "block",
                                   "--wait-subscribers", 1)
            self.assert_code(self.finish(publisher), 0)
        self.wait_until(lambda: self.read("out") == frame * len(devices), subscriber)
        larger = self.write("larger.raw", pattern(16 * 24 * 4))
        self.finish(self.start("pub", "cam0", larger, "--format", "RGBA", "--size", "16x24",
                               "--gpu", 0, "--wait-subscribers", 1))
        finished = self.finish(subscriber)
        self.assert_code(finished, 1)
        self.assertIn("the format changed from RGBA 16x12 to RGBA 16x24", finished.err)
        self.assertEqual(self.read("out"), frame * len(devices))

    def test_demo_on_a_named_gpu(self):
        gpus = self.two_gpus() if STAND_IN else GPUS
        for wish in (str(len(gpus) - 1), gpus[-1]):
            finished = self.run_cli("demo", "--seconds", 0.5, "--size", "64x64", "--json", "--gpu",
                                    wish)
            self.assert_code(finished, 0)
            answer = json.loads(finished.out)
            self.assertEqual((answer["backend"], answer["device"]), ("cuda", gpus[-1]))
            self.assertEqual(answer["torn"], 0)
            self.assertGreater(min(answer["received"]), 0)

    def test_demo_takes_a_gpu_by_itself(self):
        finished = self.run_cli("demo", "--seconds", 1, "--size", "320x240", "--json")
        self.assert_code(finished, 0)
        self.assertRegex(finished.err, r"frames live on GPU \d+ \(.*--host")
        answer = json.loads(finished.out)
        self.assertEqual((answer["backend"], answer["device"]), ("cuda", GPUS[0]))
        self.assertEqual(answer["torn"], 0)
        self.assertGreater(min(answer["received"]), 0)
        finished = self.run_cli("demo", "--seconds", 1, "--size", "320x240", "--json", "--host")
        self.assertEqual(json.loads(finished.out)["backend"], "host")

    def test_demo_with_crashes(self):
        finished = self.run_cli("demo", "--seconds", 5, "--size", "320x240", "--json", "--crash",
                                "--gpu", "auto")
        self.assert_code(finished, 0)
        answer = json.loads(finished.out)
        self.assertEqual(answer["torn"], 0)
        self.assertEqual(answer["recovered"], answer["killed"])
        self.assertGreater(answer["killed"], 0)

    def test_gpu_that_is_not_there(self):
        self.assert_refused(self.run_cli("pub", "a", "--test-card", "--gpu", 99), 5, "99",
                            "this process sees host, GPU 0")
        other = "GPU-" + re.sub(r"[0-9a-f]", "e", GPUS[0][4:])
        self.assert_refused(self.run_cli("demo", "--gpu", other), 5, other)
        self.environment["VRAMLINK_CUDA"] = "off"
        self.assert_refused(self.run_cli("demo", "--gpu", "auto"), 5, "VRAMLINK_CUDA")


if __name__ == "__main__":
    if not os.access(CLI, os.X_OK):
        main()  # says so
    if not GPUS and STAND_IN:
        sys.exit("no frame came through a device of the stand-in driver; `vramlink doctor` says why")
    if not GPUS:
        skip("no GPU can be used; `vramlink doctor` says why")
    main()
