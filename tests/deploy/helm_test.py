"""The chart makes what the overlays make."""

import copy
import json
import os
import subprocess
import tempfile
import unittest

import manifest_rules
import rendering


def normal(documents):
    """By kind and name, without what says which tool made it."""
    found = {}
    for document in copy.deepcopy(documents):
        if document["kind"] == "Namespace":
            continue  # helm --create-namespace
        text = json.dumps(document)
        name = document["metadata"]["name"]
        if document["kind"] == "ConfigMap" and name.rsplit("-", 1)[0] == "sangam-config":
            text = text.replace(name, "sangam-config")
        found[document["kind"], name] = text
    # References to a ConfigMap carry the hash in its name.
    hashed = {name: name.rsplit("-", 1)[0] for kind, name in found if kind == "ConfigMap" and name.startswith("sangam-config-")}
    result = {}
    for (kind, name), text in found.items():
        for old, new in hashed.items():
            text = text.replace(old, new)
        document = json.loads(text)
        for labels in labels_of(document):
            labels.pop("app.kubernetes.io/managed-by", None)
        annotations = document.get("spec", {}).get("template", {}).get("metadata", {}).get("annotations", {})
        annotations.pop("checksum/config", None)
        if kind == "ConfigMap":
            for file, content in document["data"].items():
                if file.endswith(".conf"):
                    document["data"][file] = manifest_rules.read_config(content)[0]
        result[kind, hashed.get(name, name)] = by_name(document)
    return result


def by_name(value):
    """Lists of named things (env, volumes) in the order of their names: patches add in front."""
    if isinstance(value, dict):
        return {key: by_name(field) for key, field in value.items()}
    if isinstance(value, list):
        items = [by_name(item) for item in value]
        if items and all(isinstance(item, dict) and "name" in item for item in items):
            items.sort(key=lambda item: item["name"])
        return items
    return value


def labels_of(document):
    yield document["metadata"].get("labels") or {}
    yield document.get("spec", {}).get("template", {}).get("metadata", {}).get("labels") or {}


def with_monitoring(overlay):
    with tempfile.TemporaryDirectory() as folder:
        copied = rendering.copy_of_kubernetes(os.path.join(folder, "kubernetes"))
        mine = os.path.join(copied, "overlays/mine")
        os.mkdir(mine)
        with open(os.path.join(mine, "kustomization.yaml"), "w", encoding="utf-8") as file:
            file.write("namespace: sangam\nresources: [../%s]\ncomponents: [../../components/monitoring]\n" % overlay)
        return rendering.kustomize(mine)


GPU = ["worker.backend=cuda", "worker.resources.requests.memory=16Gi", "worker.resources.limits.memory=16Gi"]
INSECURE = ["tls.enabled=false", "insecure.allowRemote=true"]
MONITORING = ["monitoring.enabled=true"]


class HelmTest(unittest.TestCase):
    maxDiff = None

    def same(self, manifests, values):
        expected, found = normal(manifests), normal(rendering.helm(*values))
        self.assertEqual(sorted(expected), sorted(found))
        for key, document in expected.items():
            self.assertEqual(document, found[key], key)

    def overlay(self, name):
        return rendering.kustomize(os.path.join(rendering.KUBERNETES, "overlays", name))

    def test_makes_the_cpu_overlay_without_a_value(self):
        self.same(self.overlay("cpu"), [])

    def test_makes_the_gpu_overlay(self):
        self.same(self.overlay("gpu"), GPU)

    def test_makes_the_insecure_overlay(self):
        self.same(self.overlay("insecure"), INSECURE)

    def test_makes_the_monitored_overlays(self):
        for overlay, values in (("cpu", []), ("gpu", GPU), ("insecure", INSECURE)):
            with self.subTest(overlay):
                self.same(with_monitoring(overlay), values + MONITORING)

    def test_sees_a_difference(self):
        for change in ("server.replicas=3", "coordinator.storage.state=1Gi", "networkPolicy.enabled=false", "drainTimeoutSeconds=61"):
            with self.subTest(change), self.assertRaises(AssertionError):
                self.same(self.overlay("cpu"), [change])

    def test_holds_together_under_another_name_and_namespace(self):
        found = rendering.helm(release="lab-a", namespace="lab")
        clients = copy.deepcopy(rendering.example("client.yaml"))
        clients[0]["metadata"]["labels"]["app.kubernetes.io/instance"] = "lab-a"
        self.assertEqual(manifest_rules.faults(found, rendering.version(), clients), [])
        self.assertIn("lab-a-sangam-server", {d["metadata"]["name"] for d in found})

    def test_alerts_carry_the_address_of_the_runbook(self):
        for values, expected in ((MONITORING, 0), (MONITORING + ["monitoring.runbookUrl=https://example.com/runbook.html"], 1)):
            rule = next(d for d in rendering.helm(*values) if d["kind"] == "PrometheusRule")
            alerts = [alert for group in rule["spec"]["groups"] for alert in group["rules"]]
            found = [a["annotations"]["runbook_url"] for a in alerts if "runbook_url" in a["annotations"]]
            self.assertEqual(len(found), expected * len(alerts))
            for address in found:
                self.assertRegex(address, r"^https://example\.com/runbook\.html#sangam[a-z]+$")

    def test_monitoring_objects_have_the_labels_that_are_asked_for(self):
        found = [d for d in rendering.helm(*MONITORING, "monitoring.labels.release=prom") if d["metadata"]["labels"].get("release") == "prom"]
        self.assertEqual(sorted(d["kind"] for d in found), ["PodMonitor", "PrometheusRule"])

    def test_lints(self):
        rendering.run("helm", "lint", "--strict", rendering.CHART)

    def test_refuses_wrong_values(self):
        wrong = {
            "tls.enabled=false": "insecure.allowRemote",
            "insecure.allowRemote=true": "exclude one another",
            "worker.backend=tpu": "worker",
            "server.replica=2": "replica",
            "server.replicas=0": "replicas",
            "server.memoryLimit=4Gi": "memoryLimit",
            "monitoring.enabled=maybe": "monitoring",
            "monitoring.runbookUrl=docs/runbook.md": "runbookUrl",
        }
        for value, expected in wrong.items():
            with self.subTest(value):
                command = ["helm", "template", "sangam", rendering.CHART, "--set", value]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(expected, done.stderr)


if __name__ == "__main__":
    unittest.main()
