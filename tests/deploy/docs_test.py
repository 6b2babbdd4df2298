"""Commands and links in the documentation name what there is."""

import glob
import os
import re
import shlex
import unittest

import rendering

DOCUMENTS = ["README.md", "docs/kubernetes.md"]
CLUSTER_TOOLS = ("kubectl ", "helm ", "docker ")


def commands(text):
    """Of all code blocks, as lists of words."""
    found = []
    for block in re.findall(r"^```\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        for line in block.replace("\\\n", " ").splitlines():
            if line.startswith(CLUSTER_TOOLS):
                found.append(shlex.split(line, comments=True))
    return found


def faults(words, objects):
    """What is wrong with a command; objects: kind/name of all that the overlays and examples make."""
    tool, rest = words[0], words[1:]
    if tool == "docker":
        if rest[0] != "build":
            return []
        with open(os.path.join(rendering.ROOT, rest[rest.index("-f") + 1]), encoding="utf-8") as file:
            stages = re.findall(r" AS (\S+)", file.read())
        target = rest[rest.index("--target") + 1]
        return [] if target in stages else ["found the target %s, expected one of %s" % (target, stages)]
    if tool == "helm":
        arguments = [word for word in rest if word not in ("upgrade", "install", "--install", "--create-namespace")]
        rendering.run("helm", "template", *[os.path.join(rendering.ROOT, a) if a.startswith("deploy/") else a for a in arguments])
        return []
    wrong = []
    for flag, check in (("-k", rendering.kustomize), ("-f", lambda path: open(path, encoding="utf-8").close())):
        if flag in rest and "apply" in rest:
            check(os.path.join(rendering.ROOT, rest[rest.index(flag) + 1]))
    for word in rest:
        match = re.fullmatch(r"(statefulset|job|certificate|pod)/([a-z0-9-]+)", word)
        if match and "%s/%s" % match.groups() not in objects:
            wrong.append("found %s, expected one of %s" % (word, sorted(objects)))
        if re.match(r"sangam-[a-z]+-\d+(:|$)", word) and "statefulset/" + word.rsplit("-", 1)[0] not in objects:
            wrong.append("found the pod %s" % word)
    if "-n" in rest and rest[rest.index("-n") + 1] != "sangam":
        wrong.append("found another namespace than that of the overlays")
    return wrong


def anchors(text):
    """What a heading is called in a link."""
    headings = re.findall(r"^#{1,6} (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def link_faults(path, text):
    faults = []
    for link in re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", text, flags=re.DOTALL)):
        if "://" in link:
            continue
        target, _, anchor = link.partition("#")
        target = os.path.normpath(os.path.join(os.path.dirname(path), target)) if target else path
        if not os.path.exists(target):
            faults.append("found no %s" % link)
        elif anchor:
            with open(target, encoding="utf-8") as file:
                if anchor not in anchors(file.read()):
                    faults.append("found no heading for %s" % link)
    return faults


class DocsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        documents = rendering.example("client.yaml")
        for name in ("overlays/cpu", "examples/submit"):
            documents += rendering.kustomize(os.path.join(rendering.KUBERNETES, name))
        cls.objects = {"%s/%s" % (d["kind"].lower(), d["metadata"]["name"]) for d in documents}

    def test_commands_name_what_there_is(self):
        seen = []
        for name in DOCUMENTS:
            with open(os.path.join(rendering.ROOT, name), encoding="utf-8") as file:
                found = commands(file.read())
            self.assertTrue(found, name)
            for words in found:
                with self.subTest(words):
                    self.assertEqual(faults(words, self.objects), [])
            seen += found
        self.assertGreater(len(seen), 20)

    def test_faults_are_seen(self):
        for line in (
            "kubectl -n sangam rollout status statefulset/sangam-ps",
            "kubectl -n default logs job/sangam-submit",
            "kubectl -n sangam exec sangam-head-0 -- ls",
            "docker build -f deploy/Dockerfile --target gpu .",
        ):
            with self.subTest(line):
                self.assertNotEqual(faults(shlex.split(line), self.objects), [])
        with self.assertRaises(AssertionError):
            faults(shlex.split("kubectl apply -k deploy/kubernetes/overlays/tpu"), self.objects)
        with self.assertRaises(AssertionError):
            faults(shlex.split("helm upgrade --install sangam deploy/helm/sangam --set server.replicaz=1"), self.objects)

    def test_links_lead_somewhere(self):
        paths = [os.path.join(rendering.ROOT, name) for name in ("README.md", "SECURITY.md")]
        paths += glob.glob(os.path.join(rendering.ROOT, "docs/**/*.md"), recursive=True)
        self.assertGreater(len(paths), 20)
        for path in paths:
            with self.subTest(path), open(path, encoding="utf-8") as file:
                self.assertEqual(link_faults(path, file.read()), [])
        here = os.path.join(rendering.ROOT, "README.md")
        self.assertEqual(len(link_faults(here, "[a](docs/no.md) [b](docs/runbook.md#no) [c](docs/runbook.md#sangamjobfailed)")), 2)

    def test_versions_are_the_programs_own(self):
        for name in DOCUMENTS:
            with open(os.path.join(rendering.ROOT, name), encoding="utf-8") as file:
                found = set(re.findall(r"sangam:(\d+\.\d+\.\d+)", file.read()))
            self.assertLessEqual(found, {rendering.version()}, name)


if __name__ == "__main__":
    unittest.main()
