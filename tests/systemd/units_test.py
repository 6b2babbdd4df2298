#!/usr/bin/env python3
"""The units of deploy/systemd: systemd accepts them and finds them tight, the daemons accept their command lines."""

import glob
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import unittest

UNITS = "deploy/systemd"
PROGRAMS = {"/usr/bin/sangam-server": "server/sangam-server", "/usr/bin/sangam-worker": "worker/sangam-worker"}
# Tenths: 0 is perfect, 100 is open. Most services of a distribution have 90 and more.
MOST_EXPOSURE = 20


def unit_files():
    return sorted(glob.glob(os.path.join(UNITS, "*.service")))


def instance_name(path):
    return os.path.basename(path).replace("@.", "@i1.")


def with_real_programs(text):
    for installed, built in PROGRAMS.items():
        text = text.replace(installed, os.path.abspath(built))
    return text


class UnitsTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def install(self, path, more=""):
        """A copy whose programs exist, with its drop-ins when `more` names one."""
        target = os.path.join(self.folder, instance_name(path))
        with open(path, encoding="utf-8") as unit, open(target, "w", encoding="utf-8") as copy:
            copy.write(with_real_programs(unit.read()))
        if more:
            os.makedirs(target + ".d")
            shutil.copy(more, target + ".d")
        return target

    def analyze(self, *arguments):
        if shutil.which("systemd-analyze") is None:
            self.skipTest("systemd-analyze is missing (package systemd)")
        return subprocess.run(
            ["systemd-analyze", "--no-pager", *arguments], capture_output=True, text=True, timeout=60, check=False
        )

    def cases(self):
        yield from ((path, "") for path in unit_files())
        for drop_in in glob.glob(os.path.join(UNITS, "*.service.d", "*.conf")):
            yield os.path.dirname(drop_in)[: -len(".d")], drop_in

    def test_there_is_one_for_each_part(self):
        names = [os.path.basename(path) for path in unit_files()]
        self.assertEqual(names, ["sangam-coordinator.service", "sangam-server@.service", "sangam-worker@.service"])
        self.assertEqual(len(list(self.cases())), 4)

    def test_systemd_accepts_them(self):
        for path, drop_in in self.cases():
            with self.subTest(path=path, drop_in=drop_in):
                result = self.analyze("verify", "--man=no", self.install(path, drop_in))
                self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_systemd_would_complain(self):
        path = self.install(unit_files()[0])
        with open(path, "a", encoding="utf-8") as unit:
            unit.write("[Service]\nNoNewPrivilges=yes\n")
        self.assertIn("NoNewPrivilges", self.analyze("verify", "--man=no", path).stderr)

    def test_they_are_tight(self):
        for path, drop_in in self.cases():
            with self.subTest(path=path, drop_in=drop_in):
                result = self.analyze(
                    "security", "--offline=yes", "--threshold=%d" % MOST_EXPOSURE, self.install(path, drop_in)
                )
                self.assertEqual(result.returncode, 0, result.stdout[-2000:] + result.stderr)

    def test_a_loose_one_would_be_found(self):
        path = os.path.join(self.folder, "loose.service")
        with open(path, "w", encoding="utf-8") as unit:
            unit.write("[Service]\nExecStart=/bin/true\n")
        result = self.analyze("security", "--offline=yes", "--threshold=%d" % MOST_EXPOSURE, path)
        self.assertNotEqual(result.returncode, 0)

    def test_the_daemons_accept_the_command_lines(self):
        for path in unit_files():
            with self.subTest(path=path), open(path, encoding="utf-8") as unit:
                lines = re.findall(r"^ExecStart=(.*)$", unit.read(), re.MULTILINE)
                self.assertEqual(len(lines), 1)
                line = with_real_programs(lines[0]).replace("%i", "i1")
                line = line.replace("/etc/sangam", os.path.abspath(UNITS))
                result = subprocess.run(
                    shlex.split(line) + ["--print_config"],
                    capture_output=True, text=True, timeout=30, check=False, env={},
                )
                self.assertEqual((result.returncode, result.stderr), (0, ""))
                if "@" in path:
                    self.assertIn("name = i1  # flag --name\n", result.stdout)
                # The file has been read.
                self.assertIn(".conf:", result.stdout)

    def test_the_commented_lines_of_the_configuration_are_accepted_too(self):
        for path in sorted(glob.glob(os.path.join(UNITS, "*.conf"))):
            with self.subTest(path=path), open(path, encoding="utf-8") as text:
                whole = re.sub(r"^# (\w+ = )", r"\1", text.read(), flags=re.MULTILINE)
                self.assertIn(" = ", whole)
                copy = os.path.join(self.folder, "all.conf")
                with open(copy, "w", encoding="utf-8") as target:
                    target.write(whole)
                program = "worker/sangam-worker" if "worker" in path else "server/sangam-server"
                result = subprocess.run(
                    [program, "--config=" + copy, "--print_config"],
                    capture_output=True, text=True, timeout=30, check=False, env={},
                )
                self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_exit_codes_are_understood(self):
        for path in unit_files():
            with self.subTest(path=path), open(path, encoding="utf-8") as unit:
                text = unit.read()
                self.assertIn("\nSuccessExitStatus=130 143\n", text)
                self.assertIn("\nRestartPreventExitStatus=2 65 78\n", text)
                self.assertIn("\nType=notify\n", text)


if __name__ == "__main__":
    unittest.main()
