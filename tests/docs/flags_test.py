#!/usr/bin/env python3
"""Flags that documents, manifests, units and scripts name exist, and the daemons' flags are documented.

A flag belongs to the last program that its line names in front of it (lines that end with a backslash go on); to one of
ours, whose --help must have it, or to another, which is not looked at until its command ends. Where no program is named it must be a flag of
one of ours, or stand in FOREIGN.
"""

import os
import re
import subprocess
import unittest

FOLDERS = ("README.md", "docs", "deploy")
TEXTS = (".md", ".sh", ".yaml", ".yml", ".service", ".conf", ".tpl", ".json", ".txt", "Dockerfile")
PROGRAMS = {
    "sangam-server": "server/sangam-server",
    "sangam-worker": "worker/sangam-worker",
    "sangam": "client/sangam",
}
# Flags of other programs, where the text does not say whose: name -> whose.
FOREIGN = {
    "fix": "tools/check",
    "skip_install": "deploy/quickstart.sh",
    "stand-in": "tests/device/run.sh",
    "build-arg": "buildah",
    "namespace": "helm",
    "previous": "kubectl logs",
    "force": "kubectl delete",
    "publish-not-ready-addresses": "Volcano's plugin svc",
    "disable-network-policy": "Volcano's plugin svc",
    "stamp": "bazel",
    "embed_label": "bazel",
}

FLAG = re.compile(r"(?<![\w/-])--([a-z][a-z0-9_-]*)")
# Words that are programs, where one can be told: ours (in any folder, as an image or a unit), and others that have
# flags of their own.
OURS = re.compile(r"(?<![\w.])(sangam-server|sangam-worker|sangam)(?![\w.:/@-])(?:[ \t]+([a-z_]+))?")
OTHERS = re.compile(
    r"(?<![\w.-])(bazel|kubectl|helm|kind|docker|buildah|podman|git|npm|pip|apt-get|curl|openssl|systemctl|"
    r"systemd-analyze|journalctl|promtool|python3|tools/\w+|tests/[\w/]+(?:\.sh|\.py)?|deploy/[\w/]+\.(?:sh|py)|"
    r"kustomize|mmdebstrap|buf|prlimit|bash|COPY|RUN|install|useradd|groupadd|strip)(?![\w-])"
)
# Where a command ends.
END = re.compile(r"[`;|]|&&")


def run(*command):
    # A name that the environment may have must not change what is printed.
    result = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True, env={})
    return result.stdout


def flags_of_help(text):
    return {name for name in re.findall(r"^  --([a-z_]+)", text, re.MULTILINE)} | {"help"}


def tables():
    """{"sangam-server": {...}, "sangam list": {...}, "sangam": flags of all verbs}"""
    found = {name: flags_of_help(run(PROGRAMS[name], "--help")) for name in ("sangam-server", "sangam-worker")}
    listed = run(PROGRAMS["sangam"], "--help")
    verbs = re.findall(r"^  ([a-z]+)(?: |$)", listed.split("Usage:")[1], re.MULTILINE)
    found["sangam"] = {"help", "version"}
    for verb in verbs:
        found["sangam " + verb] = flags_of_help(run(PROGRAMS["sangam"], verb, "--help"))
        found["sangam"] |= found["sangam " + verb]
    return found


def logical_lines(text):
    """(number, line), with lines that end with a backslash put together."""
    begin, parts = 1, []
    for number, line in enumerate(text.split("\n"), 1):
        if not parts:
            begin = number
        if line.endswith("\\"):
            parts.append(line[:-1])
            continue
        yield begin, " ".join(parts + [line])
        parts = []


def faults_of(path, text, flags):
    everything = set().union(*flags.values())
    for number, line in logical_lines(text):
        # Programs and flags in the order in which they stand.
        events = [(m.start(), "ours", m) for m in OURS.finditer(line)]
        events += [(m.start(), "other", m) for m in OTHERS.finditer(line)]
        events += [(m.start(), "flag", m) for m in FLAG.finditer(line)]
        events += [(m.start(), "end", m) for m in END.finditer(line)]
        owner = None
        for _, kind, match in sorted(events, key=lambda event: event[0]):
            if kind == "end":
                owner = None if owner == "other" else owner
            elif kind == "ours" and owner == "other":
                pass  # An argument of that program.
            elif kind == "ours":
                verb = "sangam %s" % match.group(2)
                owner = verb if match.group(1) == "sangam" and verb in flags else match.group(1)
            elif kind == "other":
                owner = "other"
            elif owner is None or owner == "sangam":
                name = match.group(1)
                if name.replace("-", "_") not in everything and name not in FOREIGN:
                    yield "%s:%d: --%s is no flag of the programs" % (path, number, name)
            elif owner != "other" and match.group(1).replace("-", "_") not in flags[owner]:
                # In prose one sentence may speak of several programs.
                if path.endswith(".md") and "`--" in line and match.group(1).replace("-", "_") in everything:
                    continue
                yield "%s:%d: %s has no flag --%s" % (path, number, owner, match.group(1))


def texts():
    for top in FOLDERS:
        if os.path.isfile(top):
            yield top
        for folder, _, names in os.walk(top):
            yield from (os.path.join(folder, name) for name in sorted(names) if name.endswith(TEXTS))


class FlagsTest(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.flags = tables()

    def test_the_tables_are_read(self):
        self.assertIn("state_dir", self.flags["sangam-server"])
        self.assertIn("backend", self.flags["sangam-worker"])
        self.assertIn("overwrite", self.flags["sangam run"])
        self.assertGreater(len(self.flags), 15)

    def test_every_flag_that_is_named_exists(self):
        faults, files = [], 0
        for path in texts():
            files += 1
            with open(path, encoding="utf-8") as file:
                faults += faults_of(path, file.read(), self.flags)
        self.assertGreater(files, 8)
        self.assertEqual("\n".join(faults), "")

    def test_faults_would_be_found(self):
        def faults(text):
            return list(faults_of("x.sh", text, self.flags))

        self.assertEqual(faults("sangam-server --listen=a --state-dir=b"), [])
        self.assertEqual(faults("sangam-server \\\n  --no_such"), ["x.sh:1: sangam-server has no flag --no_such"])
        self.assertEqual(faults("bin/sangam-worker --state_dir=x"), ["x.sh:1: sangam-worker has no flag --state_dir"])
        self.assertEqual(faults("sangam list --overwrite"), ["x.sh:1: sangam list has no flag --overwrite"])
        self.assertEqual(faults("- --no_such=1"), ["x.sh:1: --no_such is no flag of the programs"])
        self.assertEqual(faults("bazel build --no_such //server:sangam-server"), [])
        self.assertEqual(faults("kubectl scale sangam-server --replicas=3"), [])
        self.assertEqual(len(faults("kubectl get pod && sangam-server --replicas=3")), 1)

    def test_the_daemons_flags_are_documented(self):
        text = ""
        for path in texts():
            if path.endswith(".md"):
                with open(path, encoding="utf-8") as file:
                    text += file.read()
        for program in ("sangam-server", "sangam-worker"):
            missing = [name for name in sorted(self.flags[program]) if not re.search(r"--%s\b" % name, text)]
            self.assertEqual(missing, [], program)

    def test_configuration_files_have_names_of_flags(self):
        for path in texts():
            if path.endswith(".conf") and ".service.d" not in path:
                program = "sangam-worker" if "worker" in os.path.basename(path) else "sangam-server"
                with open(path, encoding="utf-8") as file:
                    for name in re.findall(r"^(?:# )?(\w+) = ", file.read(), re.MULTILINE):
                        self.assertIn(name, self.flags[program] | {"name"}, path)


if __name__ == "__main__":
    unittest.main()
