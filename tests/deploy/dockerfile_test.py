"""The Dockerfile, by dockerfilelint and by rules of our own; the scripts of deploy/ by shellcheck. The image itself is built
and run by image.sh."""

import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import rendering

DOCKERFILE = os.path.join(rendering.ROOT, "deploy/Dockerfile")


def instructions(text):
    """(instruction, arguments) of each line; continuation lines joined."""
    text = re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE)
    joined = re.sub(r"\\\n", " ", text)
    return [tuple((line.split(None, 1) + [""])[:2]) for line in joined.splitlines() if line.strip()]


def rule_faults(text):
    faults = []
    stages, defaults, users, stop = set(), {}, {}, {}
    current = None
    for instruction, rest in instructions(text):
        if instruction == "ARG":
            name, _, value = rest.partition("=")
            if current is None:
                defaults[name] = value
            if re.search(r"PASSW|TOKEN|SECRET|KEY", name, re.IGNORECASE):
                faults.append("found the argument %s, expected no secrets" % name)
        elif instruction == "FROM":
            image, _, current = rest.partition(" AS ")
            image = re.sub(r"\$\{(\w+)\}", lambda match: defaults.get(match.group(1), ""), image)
            if image not in stages and (":" not in image or image.endswith(":latest")):
                faults.append("found FROM %s, expected a tag" % image)
            users[current] = users.get(image)
            stop[current] = stop.get(image)
            stages.add(current)
        elif instruction == "ADD":
            faults.append("found ADD, expected COPY")
        elif instruction == "USER":
            users[current] = rest
        elif instruction == "STOPSIGNAL":
            stop[current] = rest
        elif instruction in ("CMD", "ENTRYPOINT") and not rest.startswith("["):
            faults.append("found a shell in %s, expected a list: signals would not arrive" % instruction)
    for stage in ("cpu", "cuda"):
        if stage not in stages:
            faults.append("found no stage %s" % stage)
        elif users[stage] != "10001:10001":
            faults.append("found user %s in %s, expected 10001:10001" % (users[stage], stage))
        elif stop[stage] != "SIGTERM":
            faults.append("found STOPSIGNAL %s in %s, expected SIGTERM" % (stop[stage], stage))
    found = re.search(r'image\.version="([^"]*)"', text)
    if not found or found.group(1) != rendering.version():
        faults.append("found version %s, expected %s" % (found and found.group(1), rendering.version()))
    return faults


def lint_faults(text):
    """Of dockerfilelint. Tags are the business of rule_faults: the linter takes stages and arguments for images."""
    with tempfile.NamedTemporaryFile("w", suffix=".Dockerfile", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        script = os.path.join(os.environ["DEPLOY_NODE"], "node_modules/dockerfilelint/bin/dockerfilelint")
        output = subprocess.run(["node", script, "-o", "json", file.name], capture_output=True, text=True, check=False).stdout
    issues = json.loads(output)["files"][0]["issues"]
    return ["%s: %s" % (issue["content"], issue["title"]) for issue in issues if issue["title"] != "Base Image Missing Tag"]


class DockerfileTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with open(DOCKERFILE, encoding="utf-8") as file:
            cls.text = file.read()

    def test_obeys_rules(self):
        self.assertEqual(rule_faults(self.text), [])

    def test_obeys_the_linter(self):
        self.assertEqual(lint_faults(self.text), [])

    def test_rules_find_faults(self):
        changes = {
            ("USER 10001:10001", "USER root"): "found user root",
            ("STOPSIGNAL SIGTERM", "STOPSIGNAL SIGKILL"): "found STOPSIGNAL SIGKILL",
            ("COPY --from=programs", "ADD"): "found ADD",
            ("debian:bookworm-slim", "debian"): "expected a tag",
            ("debian:bookworm-slim", "debian:latest"): "expected a tag",
            ("ARG REVISION=unknown", "ARG API_TOKEN"): "found the argument API_TOKEN",
            ('CMD ["/usr/local/bin/sangam", "--help"]', "CMD sangam --help"): "found a shell in CMD",
            ('image.version="%s"' % rendering.version(), 'image.version="0.0.1"'): "found version 0.0.1",
            ("AS cuda\n", "AS gpu\n"): "found no stage cuda",
        }
        for (old, new), expected in changes.items():
            with self.subTest(expected):
                self.assertIn(old, self.text)
                faults = rule_faults(self.text.replace(old, new))
                self.assertTrue([fault for fault in faults if expected in fault], faults)

    def test_the_linter_finds_faults(self):
        for line, expected in {"RUN sudo true": "sudo", "EXPOSE 99999": "port", "RUN apt-get update && apt-get install x": "apt-get"}.items():
            with self.subTest(line):
                faults = lint_faults(self.text + line + "\n")
                self.assertTrue([fault for fault in faults if expected in fault.lower()], faults)

    def test_nothing_unexpected_goes_into_the_build(self):
        """The ignore file names what goes in; all else stays out."""
        with open(os.path.join(rendering.ROOT, ".dockerignore"), encoding="utf-8") as file:
            lines = [line.strip() for line in file if line.strip() and not line.startswith("#")]
        self.assertEqual(lines[0], "*")
        for line in lines[1:]:
            path = line.removeprefix("!/")
            there = line.startswith("!/") and os.path.exists(os.path.join(rendering.ROOT, path))
            self.assertTrue(there or line == "**/__pycache__" or path.startswith("prebuilt"), line)


@unittest.skipUnless(shutil.which("shellcheck"), "there is no shellcheck")
class ScriptsTest(unittest.TestCase):
    def check(self, *paths):
        return subprocess.run(["shellcheck", *paths], capture_output=True, text=True, check=False)

    def test_scripts_are_sound(self):
        scripts = []
        for top in ("deploy", "tests/deploy"):
            for folder, _, files in os.walk(os.path.join(rendering.ROOT, top)):
                scripts += [os.path.join(folder, name) for name in files if name.endswith(".sh")]
        self.assertGreater(len(scripts), 3)
        done = self.check(*scripts)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_an_unsound_one_is_seen(self):
        with tempfile.NamedTemporaryFile("w", suffix=".sh", encoding="utf-8") as file:
            file.write("#!/bin/bash\nrm -rf $1/x\n")
            file.flush()
            self.assertNotEqual(self.check(file.name).returncode, 0)


if __name__ == "__main__":
    unittest.main()
