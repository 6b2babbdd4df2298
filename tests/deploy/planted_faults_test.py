"""Every check finds the fault that it is there for: manifests with one fault each."""

import copy
import os
import unittest

import manifest_rules
import manifests_test
import rendering

COORDINATOR, SERVER, WORKER = (("StatefulSet", "sangam-" + role) for role in ("coordinator", "server", "worker"))


def pod(document):
    return document["spec"]["template"]["spec"]


def container(document):
    return pod(document)["containers"][0]


def config(document, file, old, new):
    assert old in document["data"][file], old
    document["data"][file] = document["data"][file].replace(old, new)


def volume(document, name):
    return next(v for v in pod(document)["volumes"] if v["name"] == name)


def arguments(document, old, new):
    container(document)["args"] = [new if a.startswith(old) else a for a in container(document)["args"] if new or not a.startswith(old)]


CONFIG = ("ConfigMap", "sangam-config")

# (what is changed, how, what our own rules say)
BY_RULES = [
    (SERVER, lambda d: d["metadata"]["labels"].pop("app.kubernetes.io/part-of"), "found no label app.kubernetes.io/part-of"),
    (SERVER, lambda d: d["spec"]["template"]["metadata"]["labels"].pop("app.kubernetes.io/instance"), "found no label app.kubernetes.io/instance of its pods"),
    (SERVER, lambda d: d["spec"]["template"]["metadata"]["labels"].update({"app.kubernetes.io/component": "severs"}), "a selector that does not fit its own pods"),
    (SERVER, lambda d: d["spec"]["selector"]["matchLabels"].update({"app.kubernetes.io/version": "0.1.0"}), "found the version in a selector"),
    (COORDINATOR, lambda d: d["spec"]["volumeClaimTemplates"][0]["metadata"]["labels"].update({"app.kubernetes.io/version": "0.1.0"}), "found the version in a volumeClaimTemplate"),
    (SERVER, lambda d: d["metadata"]["labels"].update({"app.kubernetes.io/version": "0.0.9"}), "found version 0.0.9 in a label"),
    (SERVER, lambda d: d["spec"].update(serviceName="sangam-servers"), "found no Service sangam-servers"),
    (SERVER, lambda d: d["spec"].update(podManagementPolicy="OrderedReady"), "expected Parallel"),
    (COORDINATOR, lambda d: d["spec"].update(replicas=2), "found 2 coordinators"),
    (("Service", "sangam-server"), lambda d: d["spec"]["selector"].update({"app.kubernetes.io/component": "ps"}), "found a selector that fits no pod"),
    (("Service", "sangam-worker"), lambda d: d["spec"]["ports"][0].update(port=7070), "found port 7070 to grpc"),
    (("Service", "sangam-worker"), lambda d: d["spec"]["ports"][0].update(targetPort="http"), "found port 7071 to http"),
    (("PodDisruptionBudget", "sangam-server"), lambda d: d["spec"].update(maxUnavailable=0), "holds back every drain"),
    (("PodDisruptionBudget", "sangam-server"), lambda d: d["spec"].pop("unhealthyPodEvictionPolicy"), "expected AlwaysAllow"),
    (("PodDisruptionBudget", "sangam-server"), lambda d: d["spec"]["selector"]["matchLabels"].update({"app.kubernetes.io/component": "ps"}), "fits no pod"),
    (SERVER, lambda d: pod(d).update(serviceAccountName="default"), "found service account default"),
    (SERVER, lambda d: pod(d).pop("automountServiceAccountToken"), "automountServiceAccountToken"),
    (SERVER, lambda d: pod(d).pop("enableServiceLinks"), "enableServiceLinks"),
    (SERVER, lambda d: pod(d).update(terminationGracePeriodSeconds=60), "expected less than the grace period"),
    (SERVER, lambda d: container(d).update(image="sangam:latest"), "found image sangam:latest"),
    (SERVER, lambda d: container(d).update(image="sangam:0.1.0-cuda"), "expected backend = cuda"),
    (SERVER, lambda d: container(d).pop("livenessProbe"), "found no livenessProbe"),
    (SERVER, lambda d: container(d)["readinessProbe"]["httpGet"].update(port="metrics"), "found readinessProbe at port metrics"),
    (SERVER, lambda d: container(d)["readinessProbe"]["httpGet"].update(path="/healthz"), "found readinessProbe at /healthz"),
    (SERVER, lambda d: container(d)["ports"][0].update(containerPort=7777), "expected the container's port 7777"),
    (SERVER, lambda d: container(d)["resources"]["requests"].update(memory="1Gi"), "found memory requested and limited differently"),
    (SERVER, lambda d: container(d)["resources"].update(requests={"memory": "2Gi"}, limits={"memory": "2Gi"}), "found memory_limit 2684354560"),
    (SERVER, lambda d: container(d)["volumeMounts"][0].update(name="configuration"), "found no volume configuration"),
    (SERVER, lambda d: container(d)["volumeMounts"][0].update(subPath="server.conf"), "found subPath"),
    (SERVER, lambda d: volume(d, "config")["configMap"].update(name="sangam"), "found no ConfigMap sangam"),
    (SERVER, lambda d: volume(d, "tls")["secret"].update(secretName="sangam-tls"), "found no Certificate that makes the Secret sangam-tls"),
    (SERVER, lambda d: volume(d, "tls")["secret"].update(secretName="sangam-worker-tls"), "found the certificate of another role"),
    (SERVER, lambda d: volume(d, "tls")["secret"].pop("defaultMode"), "found a Secret that others may read"),
    (WORKER, lambda d: container(d)["env"].pop(), "found no SANGAM_THREADS of requests.cpu"),
    (SERVER, lambda d: arguments(d, "--config", "--config=/etc/sangam/ps.conf"), "found --config=/etc/sangam/ps.conf"),
    (SERVER, lambda d: arguments(d, "--name", "--name=$(HOSTNAME)"), "found $(HOSTNAME) in an argument"),
    (SERVER, lambda d: arguments(d, "--tls_key", None), "expected --tls_cert, --tls_key and --tls_ca"),
    (SERVER, lambda d: arguments(d, "--tls_cert", "--tls_cert=/etc/sangam-tls/cert.pem"), "expected tls.crt of a mounted Secret"),
    (SERVER, lambda d: arguments(d, "--advertise", "--advertise=$(POD_NAME).sangam-worker.$(POD_NAMESPACE).svc:7070"), "expected a name of its Service sangam-server"),
    (SERVER, lambda d: arguments(d, "--advertise", "--advertise=$(POD_NAME).sangam-server.$(POD_NAMESPACE).svc.cluster.local:7070"), "found cluster.local"),
    (CONFIG, lambda d: config(d, "server.conf", "drain_timeout = 60s", "drain_timeout: 60s"), 'found "drain_timeout: 60s" in server.conf'),
    (CONFIG, lambda d: config(d, "server.conf", "drain_timeout = 60s", "drain_timeout = 2m"), "found drain_timeout 2m"),
    (CONFIG, lambda d: config(d, "worker.conf", "listen = 0.0.0.0:7071", "listen = 0.0.0.0:7070"), "found listen = 0.0.0.0:7070"),
    (CONFIG, lambda d: config(d, "worker.conf", "admin_listen = 0.0.0.0:9090\n", ""), "found admin_listen = None"),
    (CONFIG, lambda d: config(d, "worker.conf", "drain_timeout", "backend = cuda\ndrain_timeout"), "expected a GPU and the image for it"),
    (CONFIG, lambda d: config(d, "coordinator.conf", "state_dir = /var/lib/sangam", "state_dir = /var/lib/other"), "found state_dir = /var/lib/other"),
    (("Certificate", "sangam-server"), lambda d: d["spec"].update(dnsNames=["*.sangam-server"]), "found no name for sangam-server-0.sangam-server.sangam.svc"),
    (("Certificate", "sangam-server"), lambda d: d["spec"].update(dnsNames=["*.sangam-server.default.svc"]), "found no name for sangam-server-0"),
    (("Certificate", "sangam-coordinator"), lambda d: d["spec"]["dnsNames"].remove("sangam-coordinator"), "found no name for sangam-coordinator"),
    (("Certificate", "sangam-worker"), lambda d: d["spec"].update(uris=["spiffe://sangam/role/admin"]), "expected the one URI of the role worker"),
    (("Certificate", "sangam-worker"), lambda d: d["spec"]["issuerRef"].update(name="letsencrypt"), "found no Issuer letsencrypt"),
    (("NetworkPolicy", "sangam-default-deny"), lambda d: d["spec"].update(ingress=[{}], egress=[{}]), "found client let through to coordinator:9090"),
    (("NetworkPolicy", "sangam-server"), lambda d: d["spec"]["ingress"][0]["from"].pop(), "found client shut out from server:7070"),
    (("NetworkPolicy", "sangam-worker"), lambda d: d["spec"]["egress"][0]["ports"][0].update(port=7071), "found worker shut out from"),
    (("NetworkPolicy", "sangam-worker"), lambda d: d["spec"]["ingress"][0]["from"][0]["podSelector"]["matchLabels"].update({"app.kubernetes.io/component": "trainer"}), "found a peer that fits no pod"),
    (("NetworkPolicy", "sangam-client"), lambda d: d["spec"]["podSelector"]["matchLabels"].update({"app.kubernetes.io/component": "user"}), "found a selector that fits no pod"),
]

# What the tools of others say.
BY_TOOLS = [
    (SERVER, lambda d: d["spec"].update(replica=2), "unknown field .spec.replica"),
    (SERVER, lambda d: d["spec"].update(replicas="two"), "replicas"),
    (SERVER, lambda d: d["spec"].pop("selector"), "selector"),
    (SERVER, lambda d: container(d)["livenessProbe"].update(httpget={}), "unknown field .spec.template.spec.containers[0].livenessProbe.httpget"),
    (SERVER, lambda d: d.update(apiVersion="apps/v3"), "no schema of apps/v3 StatefulSet"),
    (("NetworkPolicy", "sangam-dns"), lambda d: d["spec"]["egress"][0]["ports"][0].update(ports=53), "unknown field .spec.egress[0].ports[0].ports"),
    (("PodDisruptionBudget", "sangam-server"), lambda d: d["spec"].update(unhealthyPodEvictionPolicy=True), "unhealthyPodEvictionPolicy"),
    (("Certificate", "sangam-server"), lambda d: d["spec"].update(dnsName=["x"]), "unknown field .spec.dnsName"),
    (("Certificate", "sangam-server"), lambda d: d["spec"].pop("secretName"), "secretName"),
    (("Issuer", "sangam-ca"), lambda d: d["spec"].update(ca="sangam-ca"), "ca must be object"),
    (SERVER, lambda d: pod(d).update(hostNetwork=True), "PSS102"),
    (SERVER, lambda d: pod(d).pop("securityContext"), "PSS205"),
    (SERVER, lambda d: container(d)["securityContext"].pop("runAsNonRoot"), "PSS203"),
    (SERVER, lambda d: container(d)["securityContext"].update(allowPrivilegeEscalation=True), "PSS202"),
    (SERVER, lambda d: container(d)["securityContext"].update(privileged=True), "PSS103"),
    (SERVER, lambda d: container(d)["securityContext"].pop("capabilities"), "PSS206"),
    (SERVER, lambda d: container(d)["securityContext"].pop("readOnlyRootFilesystem"), "KBP102"),
    (SERVER, lambda d: pod(d)["volumes"].append({"name": "host", "hostPath": {"path": "/"}}), "PSS105"),
    (SERVER, lambda d: pod(d)["securityContext"].update(runAsUser=1000), "KBP104"),
    (SERVER, lambda d: container(d)["resources"].pop("requests"), "KBP002"),
    (SERVER, lambda d: container(d)["resources"].pop("limits"), "KBP005"),
    (SERVER, lambda d: container(d).update(image="sangam"), "KBP116"),
    (SERVER, lambda d: container(d)["ports"][0].update(hostPort=7070), "PSS106"),
    (("Service", "sangam-coordinator"), lambda d: d["spec"].update(type="NodePort"), "KBP114"),
]


def planted(documents, which, change):
    """A copy with one document changed."""
    found = copy.deepcopy(documents)
    kind, name = which
    target = next(d for d in found if d["kind"] == kind and d["metadata"]["name"].startswith(name))
    change(target)
    return found


class PlantedFaultsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = rendering.kustomize(os.path.join(rendering.KUBERNETES, "overlays/cpu"))
        cls.clients = rendering.example("client.yaml")

    def test_our_rules_find_them(self):
        for index, (which, change, expected) in enumerate(BY_RULES):
            with self.subTest(index=index, expected=expected):
                faults = manifest_rules.faults(planted(self.cluster, which, change), rendering.version(), self.clients)
                self.assertTrue([fault for fault in faults if expected in fault], faults)

    def test_a_submit_that_cannot_be_repeated_is_a_fault(self):
        submit = rendering.kustomize(os.path.join(rendering.KUBERNETES, "examples/submit"))
        changed = planted(submit, ("Job", "sangam-submit"), lambda d: arguments(d, "--request_id", None))
        self.assertEqual(manifest_rules.faults(submit, rendering.version(), network=False), [])
        faults = manifest_rules.faults(changed, rendering.version(), network=False)
        self.assertEqual(len([fault for fault in faults if "submit without --request_id" in fault]), 1, faults)

    def test_a_document_twice_is_a_fault(self):
        faults = manifest_rules.faults(self.cluster + self.cluster[-1:], rendering.version(), self.clients)
        self.assertTrue([fault for fault in faults if "found twice" in fault], faults)

    def test_the_tools_find_them(self):
        bad = {str(index): planted(self.cluster, which, change) for index, (which, change, _) in enumerate(BY_TOOLS)}
        found = manifests_test.checked(bad)
        for index, (_, _, expected) in enumerate(BY_TOOLS):
            with self.subTest(expected=expected):
                faults = found[str(index)]
                self.assertTrue([fault for fault in faults if expected in fault], faults)


if __name__ == "__main__":
    unittest.main()
