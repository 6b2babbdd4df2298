"""All that deploy/ renders obeys the schemas, the rules of check_manifests.mjs and those of manifest_rules.py."""

import json
import os
import shutil
import subprocess
import tempfile
import unittest

import manifest_rules
import rendering


def checked(manifests):
    """The faults that the tools of others find, for each name."""
    # Node looks for packages beside the script.
    script = os.path.join(os.environ["DEPLOY_NODE"], "check_manifests.mjs")
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        json.dump(manifests, file, default=str)
        file.flush()
        done = subprocess.run(["node", script, file.name], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError("check_manifests.mjs: " + done.stderr)
    return json.loads(done.stdout)


def in_another_namespace():
    """overlays/cpu in a namespace of another name, changed where it says that one has to."""
    with tempfile.TemporaryDirectory() as folder:
        copy = rendering.copy_of_kubernetes(os.path.join(folder, "kubernetes"))
        for name in ("kustomization.yaml", "namespace.yaml"):
            path = os.path.join(copy, "overlays/cpu", name)
            with open(path, encoding="utf-8") as file:
                text = file.read()
            text = text.replace("namespace: sangam", "namespace: lab").replace("  name: sangam\n  labels", "  name: lab\n  labels")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        return rendering.kustomize(os.path.join(copy, "overlays/cpu"))


def without_component(overlay, component):
    """An overlay, rendered without one of its components."""
    with tempfile.TemporaryDirectory() as folder:
        copy = rendering.copy_of_kubernetes(os.path.join(folder, "kubernetes"))
        path = os.path.join(copy, "overlays", overlay, "kustomization.yaml")
        with open(path, encoding="utf-8") as file:
            lines = [line for line in file if not line.strip().endswith("components/" + component)]
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(lines)
        shutil.rmtree(os.path.join(copy, "components", component))
        return rendering.kustomize(os.path.join(copy, "overlays", overlay))


def pods_of_jobset():
    """What JobSet makes of its object, for whose own schema there is no package, and what lies beside it."""
    made = []
    for document in rendering.example("jobset.yaml"):
        if document["kind"] != "JobSet":
            made.append(document)
            continue
        for replicated in document["spec"]["replicatedJobs"]:
            metadata = dict(document["metadata"], name="%s-%s" % (document["metadata"]["name"], replicated["name"]))
            made.append({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": replicated["template"]["spec"]})
    return made


def pods_of_volcano():
    """The same of a Volcano Job."""
    made = []
    for document in rendering.example("volcano.yaml"):
        if not document["apiVersion"].startswith("batch.volcano.sh"):
            made.append(document)
            continue
        for task in document["spec"]["tasks"]:
            metadata = dict(task["template"]["metadata"], name="%s-%s-0" % (document["metadata"]["name"], task["name"]))
            metadata["namespace"] = document["metadata"]["namespace"]
            made.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": task["template"]["spec"]})
    return made


class ManifestsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        overlays = os.path.join(rendering.KUBERNETES, "overlays")
        cls.version = rendering.version()
        cls.clients = rendering.example("client.yaml")
        cls.submit = rendering.kustomize(os.path.join(rendering.KUBERNETES, "examples/submit"))
        cls.clusters = {name: rendering.kustomize(os.path.join(overlays, name)) for name in sorted(os.listdir(overlays))}
        cls.clusters["my-cluster"] = rendering.kustomize(os.path.join(rendering.KUBERNETES, "examples/my-cluster"))
        cls.clusters["another namespace"] = in_another_namespace()
        cls.clusters["helm"] = rendering.helm()
        cls.clusters["helm with all"] = rendering.helm("worker.backend=cuda", "monitoring.enabled=true", "image.pullSecrets[0].name=pull", "worker.runtimeClassName=nvidia", "worker.data.claimName=data-sets")
        rest = {
            "client": cls.clients,
            "submit": cls.submit,
            "jobset": pods_of_jobset(),
            "volcano": pods_of_volcano(),
        }
        cls.found = checked({**cls.clusters, **rest})
        cls.rest = rest

    def test_obey_schemas_and_rules(self):
        for name, found in self.found.items():
            with self.subTest(name):
                self.assertEqual(found, [])

    def test_hold_together(self):
        for name, documents in self.clusters.items():
            with self.subTest(name):
                self.assertEqual(manifest_rules.faults(documents, self.version, self.clients), [])

    def test_examples_hold_together(self):
        for name, documents in self.rest.items():
            with self.subTest(name):
                self.assertEqual(manifest_rules.faults(documents, self.version, network=False), [])

    def test_without_certificates_daemons_are_told_nothing_about_security(self):
        """Which they refuse at the start; the base alone is not for use, and the rules say so."""
        found = manifest_rules.faults(without_component("cpu", "tls"), self.version, self.clients)
        self.assertEqual(len([fault for fault in found if "found no security flags" in fault]), 3, found)

    def test_tls_is_the_default_and_its_absence_is_named(self):
        for name, documents in self.clusters.items():
            with self.subTest(name):
                text = json.dumps(documents, default=str)
                self.assertEqual("--insecure_allow_remote" in text, name == "insecure")
                self.assertEqual("--tls_cert=" in text, name != "insecure")

    def test_examples_of_a_job_are_the_same_job(self):
        jobs = [self.submit] + [rendering.example(name) for name in ("jobset.yaml", "volcano.yaml")]
        texts = [next(d for d in documents if d["kind"] == "ConfigMap")["data"]["job.textproto"] for documents in jobs]
        specs = {text[text.index("name:") :].strip() for text in texts}
        self.assertEqual(len(specs), 1)


if __name__ == "__main__":
    unittest.main()
