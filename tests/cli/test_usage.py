#!/usr/bin/env python3
"""Help, versions and wrong usage. VRAMLINK_REGENERATE=1 writes the golden files."""

import json
import os
import re

from cli_case import ROOT, CliCase, main

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden")
COMMANDS = ("demo", "pub", "sub", "grab", "ls", "doctor", "explain", "version")


class UsageTest(CliCase):
    def assert_golden(self, name, text):
        path = os.path.join(GOLDEN, name)
        if os.environ.get("VRAMLINK_REGENERATE"):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        with open(path, encoding="utf-8") as file:
            self.assertEqual(text, file.read())

    def help_of(self, *command):
        finished = self.run_cli(*command, "--help")
        self.assert_code(finished, 0)
        self.assertEqual(finished.err, "")
        return finished.out.decode()

    def test_help_is_the_golden_text(self):
        self.assert_golden("help.txt", self.help_of())
        for command in COMMANDS:
            self.assert_golden(f"help_{command}.txt", self.help_of(command))

    def test_help_begins_with_two_examples(self):
        for command in ((), *((each,) for each in COMMANDS)):
            lines = self.help_of(*command).splitlines()
            self.assertEqual(lines[0], "Examples:")
            self.assertTrue(all("vramlink" in line for line in lines[1:3]), lines)

    def test_documents_name_every_option(self):
        """In the section of the command; what all have is said once, at the end."""
        for document, heading, once in (
                ("docs/command.md", r"^## ([a-z, ]+)$", ("--help", "--color", "--group")),
                ("docs/man/vramlink.1.scd", r"^# OPTIONS OF ([A-Z]+)$",
                 ("--help", "--color", "--group"))):
            with open(os.path.join(ROOT, document), encoding="utf-8") as file:
                text = file.read()
            sections = {}
            for title, body in re.findall(heading + r"(.*?)(?=^#{1,2} |\Z)", text, re.M | re.S):
                sections.update(dict.fromkeys(title.lower().split(", "), body))
            self.assertIn("--color", text)
            self.assertIn("--group", text)
            for command in COMMANDS:
                for option in re.findall(r"^  (?:-\w )?(--[\w-]+)", self.help_of(command), re.M):
                    if option not in once:
                        self.assertRegex(sections.get(command, ""), rf"{option}\b(?!-)",
                                         f"{document}: {command}")

    def test_no_command_prints_help_to_stderr(self):
        finished = self.run_cli()
        self.assert_code(finished, 2)
        self.assertEqual(finished.out, b"")
        self.assertIn("Commands:", finished.err)

    def test_wrong_usage_is_one_line_and_2(self):
        cases = [
            (["film"], "there is no command 'film'"),
            (["--film"], "--film"),
            (["pub"], "NAME is required"),
            (["pub", "a"], "--test-card"),
            (["pub", "a", "b", "--test-card"], "--test-card"),
            (["pub", "a", "b", "--film"], "--film"),
            (["pub", "a", "-", "--loop"], "--loop"),
            (["pub", "a", "-", "b"], "-"),
            (["pub", "a", "b", "--fps", "fast"], "--fps"),
            (["pub", "a", "b", "--size", "big"], "--size"),
            (["pub", "a", "b", "--format", "RGBB", "--size", "4x4"], "--format"),
            (["pub", "a", "b", "--slots", "1"], "--slots"),
            (["pub", "a", "b", "--slots", "65"], "--slots"),
            (["pub", "a", "b", "--slots", "8:4"], "--slots"),
            (["pub", "a", "b", "--policy", "wait"], "--policy"),
            (["pub", "a", "b", "--policy", "evict:0"], "--policy"),
            (["pub", "a", "b", "--linger", "-1"], "--linger"),
            (["pub", "a", "b", "--count", "0"], "--count"),
            (["sub"], "NAME is required"),
            (["sub", "a", "--policy", "queue:0"], "--policy"),
            (["sub", "a", "--policy", "newest"], "--policy"),
            (["sub", "a", "--y4m", "b", "--raw", "c"], "one file"),
            (["sub", "a", "--npy", "-"], "--count"),
            (["grab", "a"], "--out is required"),
            (["grab", "a", "-o", "b.jpg"], ".png"),
            (["ls", "a"], "a"),
            (["demo", "--seconds", "soon"], "--seconds"),
            (["demo", "--color", "blue"], "--color"),
            (["demo", "--gpu", "host"], "--gpu"),
            (["demo", "--device", "gpu"], "--device"),
            (["pub", "a", "b", "--device", "GPU-1"], "--device"),
            (["doctor", "a"], "a"),
            (["ls", "--group", ""], "--group"),
            (["ls", "--group", "no such group"], "there is no group of that name"),
        ]
        for arguments, words in cases:
            with self.subTest(arguments=arguments):
                finished = self.run_cli(*arguments)
                self.assert_refused(finished, 2, words)
                self.assertEqual(finished.out, b"")

    def test_version(self):
        self.assertRegex(self.run_cli("version").out.decode(),
                         r"^vramlink \d+\.\d+\.\d+ \(wire version \d+\)\n$")
        version = json.loads(self.run_cli("version", "--json").out)
        self.assertEqual(version["schema"], "vramlink.version/1")
        self.assertEqual(version["wire_version"], 1)

    def test_wrong_names_of_channels(self):
        for name in (".hidden", "a/b", "a b", "x" * 121, ""):
            with self.subTest(name=name):
                self.assertIn(self.run_cli("sub", name, "--timeout", 0).code, (2, ))
                self.assertIn(self.run_cli("pub", name, "--test-card").code, (2, ))

    def test_full_stdout_is_an_error(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("there is no /dev/full")
        with open("/dev/full", "wb") as full:
            self.assert_refused(self.run_cli("version", stdout=full), 1, "No space left")


if __name__ == "__main__":
    main()
