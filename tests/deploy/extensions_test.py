"""The examples for JobSet, Kueue and Volcano obey extensions.py, and each of its rules finds its fault."""

import copy
import unittest

import extensions
import rendering

JOB_SET, VOLCANO, CLUSTER_QUEUE, LOCAL_QUEUE, FLAVOR = (
    ("jobset.x-k8s.io", "JobSet"),
    ("batch.volcano.sh", "Job"),
    ("kueue.x-k8s.io", "ClusterQueue"),
    ("kueue.x-k8s.io", "LocalQueue"),
    ("kueue.x-k8s.io", "ResourceFlavor"),
)


def arguments(pod, old, new):
    container = pod["spec"]["containers"][0]
    assert any(old in argument for argument in container["args"])
    container["args"] = [argument.replace(old, new) for argument in container["args"]]


# (what is changed, how, what is said)
PLANTED = [
    (JOB_SET, lambda d: d["spec"].update(replicatedJob=[]), "unknown field spec.replicatedJob"),
    (JOB_SET, lambda d: d["spec"]["network"].update(enableDnsHostnames=True), "unknown field spec.network.enableDnsHostnames"),
    (JOB_SET, lambda d: d["spec"]["network"].update(enableDNSHostnames="true"), "spec.network.enableDNSHostnames = 'true', expected a bool"),
    (JOB_SET, lambda d: d["spec"]["network"].pop("enableDNSHostnames"), "found no enableDNSHostnames"),
    (JOB_SET, lambda d: d["spec"]["replicatedJobs"][1].update(replicas=True), "replicas = True, expected a int"),
    (JOB_SET, lambda d: d["spec"]["replicatedJobs"][1].pop("name"), "found no spec.replicatedJobs[1].name"),
    (JOB_SET, lambda d: d["spec"].update(replicatedJobs={}), "found no list at spec.replicatedJobs"),
    (JOB_SET, lambda d: d["spec"].update(network="yes"), "found no object at spec.network"),
    (JOB_SET, lambda d: d["spec"]["successPolicy"].update(operator="Every"), "spec.successPolicy.operator = 'Every'"),
    (JOB_SET, lambda d: d["spec"]["successPolicy"].update(targetReplicatedJobs=["submit"]), "found the target submit"),
    (JOB_SET, lambda d: d.update(apiVersion="jobset.x-k8s.io/v1"), "found jobset.x-k8s.io/v1"),
    (JOB_SET, lambda d: d["metadata"]["labels"].update({extensions.QUEUE: "batch"}), "found the queue batch"),
    (JOB_SET, lambda d: d["metadata"].update(name="sangam-" + "x" * 60), "expected at most 63 letters"),
    (JOB_SET, lambda d: d["spec"]["network"].update(subdomain="run"), "found --coordinator=sangam-run-coordinator-0-0.sangam-run:7070"),
    (JOB_SET, lambda d: arguments(d["spec"]["replicatedJobs"][1]["template"]["spec"]["template"], "coordinator-0-0", "coordinator-0"), "found --coordinator=sangam-run-coordinator-0.sangam-run:7070"),
    (VOLCANO, lambda d: d["spec"].update(minMember=6), "unknown field spec.minMember"),
    (VOLCANO, lambda d: d["spec"].update(minAvailable=5), "found minAvailable 5, expected all 6 pods"),
    (VOLCANO, lambda d: d["spec"].pop("plugins"), "found no plugin svc"),
    (VOLCANO, lambda d: d["spec"]["tasks"][3]["policies"][0].update(event="TaskComplete"), "event = 'TaskComplete'"),
    (VOLCANO, lambda d: d["spec"]["tasks"][3]["policies"][0].update(exitCode=3), "an event and an exit code"),
    (VOLCANO, lambda d: d["spec"]["tasks"][3]["policies"][0].update(action="Complete"), "action = 'Complete'"),
    (VOLCANO, lambda d: arguments(d["spec"]["tasks"][2]["template"], "coordinator-0", "coordinator-1"), "found --coordinator=sangam-run-coordinator-1.sangam-run:7070"),
    (CLUSTER_QUEUE, lambda d: d["spec"].update(cohort="all"), "unknown field spec.cohort"),
    (CLUSTER_QUEUE, lambda d: d["spec"]["resourceGroups"][0].update(coveredResources=["cpu"]), "found quotas of ['cpu', 'memory'], expected those of ['cpu']"),
    (CLUSTER_QUEUE, lambda d: d["spec"]["resourceGroups"][0]["flavors"][0].update(name="default"), "found the flavor default"),
    (CLUSTER_QUEUE, lambda d: d["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0].update(nominalQuota=32), "nominalQuota = 32, expected a str"),
    (LOCAL_QUEUE, lambda d: d["spec"].update(clusterQueue="all"), "found the ClusterQueue all"),
    (FLAVOR, lambda d: d.update(apiVersion="kueue.x-k8s.io/v1beta1"), "found kueue.x-k8s.io/v1beta1"),
    (FLAVOR, lambda d: d.update(spec={"labels": {}}), "unknown field spec.labels"),
]


class ExtensionsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.documents = [d for name in ("jobset.yaml", "kueue.yaml", "volcano.yaml") for d in rendering.example(name)]

    def test_examples_obey(self):
        self.assertEqual(extensions.faults(self.documents), [])
        kinds = {document["kind"] for document in self.documents}
        self.assertLessEqual({"JobSet", "Job", "ClusterQueue", "LocalQueue", "ResourceFlavor"}, kinds)

    def test_planted_faults_are_found(self):
        for (group, kind), change, expected in PLANTED:
            with self.subTest(expected):
                documents = copy.deepcopy(self.documents)
                change(next(d for d in documents if d["kind"] == kind and d["apiVersion"].startswith(group)))
                found = extensions.faults(documents)
                self.assertTrue([fault for fault in found if expected in fault], found)


if __name__ == "__main__":
    unittest.main()
