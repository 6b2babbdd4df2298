"""The pods of an overlay on this machine, as a cluster has them: each with a network namespace of its own, an address
that is another one after every start, the names of Kubernetes from a name server that answers late, a root file system
that cannot be written, the user 10001, and the manifests' own command lines, configuration and certificates.

Usage: pods.py OVERLAY WORK PROGRAMS DATA      as root, in network and mount namespaces of its own

Trains Fashion-MNIST while pods go and come back, and prints one JSON object: what happened. pods_test.py looks at it.
"""

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time

import rendering
from daemons_test import COMPONENT, PLACES, CertManager

NET = "10.77.0"
NAMESPACE = "sangam"
# Not the usual one: no manifest may name a cluster's domain.
DOMAIN = "cluster.test"
USER = 10001
DELAYS = "0.0,0.3,0.0,0.7,0.05"
# What decides the bits, and what does not: where the samples are read, who computes, what is written down.
ALONE = ["epochs=0", "steps=600", "evaluation={}"]
SETTINGS = [*ALONE, "data.served=true", "resources.workers=3", "resources.servers=2", "checkpoint.every_steps=50"]


def shell(*command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


class Pod:
    def __init__(self, cluster, document, ordinal):
        self.cluster = cluster
        metadata = document["metadata"]
        self.set = metadata["name"]
        self.name = "%s-%d" % (self.set, ordinal)
        self.role = metadata["labels"][COMPONENT]
        self.claims = [claim["metadata"]["name"] for claim in document["spec"].get("volumeClaimTemplates", [])]
        self.spec = document["spec"]["template"]["spec"]
        self.container = self.spec["containers"][0]
        self.ports = {port["name"]: port["containerPort"] for port in self.container.get("ports", [])}
        self.root = os.path.join(cluster.work, self.name)
        self.address = None
        self.process = None
        self.starts = 0

    def names(self):
        """What the name server knows of the pod: as a headless Service and, of the coordinator, as a Service."""
        zone = "%s.svc.%s" % (NAMESPACE, DOMAIN)
        names = ["%s.%s.%s" % (self.name, self.set, zone)]
        return names + ["%s.%s" % (self.set, zone)] if self.role == "coordinator" else names

    def environment(self):
        values = {"metadata.name": self.name, "metadata.namespace": NAMESPACE, "requests.cpu": "1"}
        found = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
        for variable in self.container.get("env", []):
            source = variable.get("valueFrom", {})
            field = source.get("fieldRef", {}).get("fieldPath") or source.get("resourceFieldRef", {}).get("resource")
            found[variable["name"]] = values[field] if field else variable["value"]
        return found

    def binds(self):
        """What is mounted: (place on this machine, place in the pod, may be written)."""
        volumes = {volume["name"]: volume for volume in self.spec.get("volumes", [])}
        binds = [("/usr", "/usr", False), (self.cluster.programs, "/usr/local/bin", False), ("/dev", "/dev", True),
                 ("/proc", "/proc", True), ("/sys", "/sys", False)]
        for mount in self.container["volumeMounts"]:
            volume = volumes.get(mount["name"], {})
            if "secret" in volume:
                place = self.cluster.secrets[volume["secret"]["secretName"]]
            elif "configMap" in volume:
                place = self.cluster.config_map(volume["configMap"]["name"])
            elif mount["name"] == "data":
                place = self.cluster.data
            else:
                # Volumes of claims outlive their pods; others are new.
                place = os.path.join(self.cluster.work, "volumes", self.name, mount["name"])
                if mount["name"] not in self.claims:
                    shell("rm", "-rf", place)
                os.makedirs(place, exist_ok=True)
                os.chown(place, USER, USER)
            binds.append((place, mount["mountPath"], not mount.get("readOnly", False) and mount["name"] != "data"))
        return binds

    def start(self):
        self.starts += 1
        self.address = self.cluster.next_address()
        namespace = "p%s" % self.address.split(".")[3]
        shell("ip", "netns", "add", namespace)
        shell("ip", "link", "add", "v" + namespace, "type", "veth", "peer", "name", "eth0", "netns", namespace)
        shell("ip", "link", "set", "v" + namespace, "master", "nodes", "up")
        for words in (["addr", "add", self.address + "/24", "dev", "eth0"], ["link", "set", "eth0", "up"], ["link", "set", "lo", "up"]):
            shell("ip", "-n", namespace, *words)
        environment = self.environment()
        words = [re.sub(r"\$\((\w+)\)", lambda match: environment[match.group(1)], word)
                 for word in self.container["command"] + self.container["args"]]
        lines = ["set -e", "mount -t tmpfs -o mode=755 pod %s" % self.root, "cd %s" % self.root,
                 "mkdir etc", "ln -s usr/bin usr/lib usr/lib64 usr/sbin ."]
        for place, inside, writable in self.binds():
            lines += ["mkdir -p .%s" % inside, "mount --bind %s .%s" % (place, inside)]
            if not writable:
                lines.append("mount -o remount,bind,ro .%s" % inside)
        lines += ["printf 'nameserver %s.1\\nsearch %s.svc.%s svc.%s %s\\noptions ndots:5 timeout:2 attempts:3\\n' >etc/resolv.conf"
                  % (NET, NAMESPACE, DOMAIN, DOMAIN, DOMAIN),
                  "echo 'hosts: files dns' >etc/nsswitch.conf", "echo '127.0.0.1 localhost' >etc/hosts",
                  "mount -o remount,ro %s" % self.root,
                  'exec setpriv --reuid=%d --regid=%d --clear-groups --no-new-privs --inh-caps=-all --bounding-set=-all '
                  'chroot --skip-chdir . "$@"' % (USER, USER)]
        # chroot wants a right that the pod must not have, so it comes first.
        lines[-1] = ('exec chroot %s /usr/bin/setpriv --reuid=%d --regid=%d --clear-groups --no-new-privs --inh-caps=-all '
                     '--bounding-set=-all /usr/bin/env -i "$@"' % (self.root, USER, USER))
        os.makedirs(self.root, exist_ok=True)
        variables = ["%s=%s" % pair for pair in environment.items()]
        command = ["ip", "netns", "exec", namespace, "unshare", "--mount", "bash", "-c", "\n".join(lines), "pod", *variables, *words]
        with open(self.log(), "ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        self.cluster.write_names()

    def log(self):
        return os.path.join(self.cluster.work, self.name + ".log")

    def last_words(self):
        with open(self.log(), encoding="utf-8", errors="replace") as log:
            return "%s:\n%s" % (self.name, log.read()[-3000:])

    def probe(self, which):
        get = self.container[which]["httpGet"]
        url = "http://%s:%s%s" % (self.address, self.ports.get(get["port"], get["port"]), get["path"])
        done = subprocess.run(["curl", "-s", "-o", "/dev/null", "-m", "3", "-w", "%{http_code}", url], capture_output=True, text=True, check=False)
        return int(done.stdout or 0)

    def stop(self, number):
        """Sends a signal; the exit status."""
        self.process.send_signal(number)
        status = self.process.wait(timeout=self.spec["terminationGracePeriodSeconds"])
        self.address = None
        self.cluster.write_names()
        return status


class Cluster:
    def __init__(self, overlay, work, programs, data):
        self.work, self.programs, self.data = work, os.path.join(work, "programs"), data
        self.addresses = 1
        self.documents = rendering.kustomize(os.path.join(rendering.KUBERNETES, "overlays", overlay))
        os.makedirs(self.programs)
        for place in PLACES.values():
            shell("cp", "-L", os.path.join(programs, place), self.programs)
        os.makedirs(os.path.join(work, "secrets"))
        manager = CertManager(os.path.join(work, "secrets"))
        self.secrets = {}
        for document in self.documents:
            if document["kind"] == "Certificate" and not document["spec"].get("isCA"):
                secret = manager.make(document)
                # As fsGroup leaves them.
                shell("chown", "-R", "0:%d" % USER, secret)
                self.secrets[document["spec"]["secretName"]] = secret
        sets = {d["metadata"]["labels"][COMPONENT]: d for d in self.documents if d["kind"] == "StatefulSet"}
        counts = {"coordinator": 1, "server": 2, "worker": 3}
        self.pods = [Pod(self, sets[role], ordinal) for role, count in counts.items() for ordinal in range(count)]
        self.records = os.path.join(work, "names")
        self.write_names()
        shell("ip", "link", "set", "lo", "up")
        # What `ip netns add` leaves would stay on the machine.
        os.makedirs("/run/netns", exist_ok=True)
        shell("mount", "-t", "tmpfs", "netns", "/run/netns")
        shell("ip", "link", "add", "nodes", "type", "bridge")
        shell("ip", "addr", "add", NET + ".1/24", "dev", "nodes")
        shell("ip", "link", "set", "nodes", "up")
        here = os.path.dirname(os.path.abspath(__file__))
        self.name_server = subprocess.Popen([sys.executable, os.path.join(here, "name_server.py"), NET + ".1", self.records, DELAYS])

    def next_address(self):
        self.addresses += 1
        return "%s.%d" % (NET, self.addresses)

    def config_map(self, name):
        folder = os.path.join(self.work, "config", name)
        if os.path.isdir(folder):
            return folder
        os.makedirs(folder)
        data = next(d for d in self.documents if d["kind"] == "ConfigMap" and d["metadata"]["name"] == name)["data"]
        for file_name, text in data.items():
            with open(os.path.join(folder, file_name), "w", encoding="utf-8") as file:
                file.write(text)
        return folder

    def write_names(self):
        lines = ["%s %s" % (name, pod.address) for pod in self.pods if pod.address for name in pod.names()]
        with open(self.records + ".new", "w", encoding="ascii") as file:
            file.write("\n".join(lines) + "\n")
        os.rename(self.records + ".new", self.records)

    def pod(self, name):
        return next(pod for pod in self.pods if pod.name == name)

    def await_probe(self, which, seconds, pods=None):
        deadline = time.monotonic() + seconds
        for pod in pods or self.pods:
            while pod.probe(which) != 200:
                if pod.process.poll() is not None or time.monotonic() > deadline:
                    raise AssertionError("%s of %s\n%s" % (which, pod.name, pod.last_words()))
                time.sleep(0.1)


class Client:
    """The pod of examples/client.yaml, which people run commands in."""

    def __init__(self, cluster):
        document = rendering.example("client.yaml")[0]
        template = {"metadata": document["metadata"], "spec": {"template": {"spec": document["spec"]}}}
        self.pod = Pod(cluster, template, 0)
        # What it works on is kept from one command to the next.
        self.pod.claims = [volume["name"] for volume in document["spec"]["volumes"] if "emptyDir" in volume]
        self.work = os.path.join(cluster.work, "volumes", self.pod.name, "work")
        os.makedirs(self.work)

    def run(self, *arguments, timeout=60):
        pod = self.pod
        pod.container = dict(pod.container, command=["/usr/local/bin/sangam"], args=list(arguments))
        with open(pod.log(), "wb"):
            pass
        pod.start()
        status = pod.process.wait(timeout=timeout)
        with open(pod.log(), encoding="utf-8", errors="replace") as log:
            return status, log.read()

    def must(self, *arguments, timeout=60):
        status, text = self.run(*arguments, timeout=timeout)
        if status != 0:
            raise AssertionError("sangam %s: exit status %d\n%s" % (" ".join(arguments), status, text))
        return text


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def settings(overrides):
    return [word for setting in overrides for word in ("--set", setting)]


def described(client):
    """The job as JSON; warnings of the client may stand before it."""
    text = client.must("describe", "1", "--output=json")
    return json.loads(text[text.index("{\n"):])


def await_step(client, step, seconds):
    deadline = time.monotonic() + seconds
    while True:
        job = described(client)
        if int(job.get("progress", {}).get("steps_done", 0)) >= step or job["state"] in ("SUCCEEDED", "FAILED"):
            return job
        if time.monotonic() > deadline:
            raise AssertionError("the job is not at step %d\n%s" % (step, job))
        time.sleep(0.2)


def main():
    overlay, work, programs, data = sys.argv[1:5]
    cluster = Cluster(overlay, work, programs, data)
    report = {"statuses": {}}
    try:
        for pod in cluster.pods:
            pod.start()
        cluster.await_probe("startupProbe", 60)
        cluster.await_probe("readinessProbe", 60)
        client = Client(cluster)
        shell("cp", os.path.join(rendering.ROOT, "deploy/jobs/fashion_mnist_mlp.textproto"), client.work)
        client.must("submit", "/work/fashion_mnist_mlp.textproto", "--wait_for_daemons", *settings(SETTINGS))
        await_step(client, 100, 60)
        # A server goes as a drained node makes it go, and comes back with another address.
        server = cluster.pod("sangam-server-1")
        before = server.address
        report["statuses"]["drained server"] = server.stop(signal.SIGTERM)
        server.start()
        report["addresses"] = [before, server.address]
        await_step(client, 250, 60)
        # A worker's node dies, and the coordinator's a little later.
        worker = cluster.pod("sangam-worker-2")
        report["statuses"]["killed worker"] = worker.stop(signal.SIGKILL)
        worker.start()
        await_step(client, 400, 60)
        coordinator = cluster.pod("sangam-coordinator-0")
        report["statuses"]["drained coordinator"] = coordinator.stop(signal.SIGTERM)
        coordinator.start()
        cluster.await_probe("readinessProbe", 60)
        report["wait"] = client.run("wait", "1", "--timeout=60s")[0]
        report["job"] = described(client)
        client.must("export", "1", "--out=/work/model.safetensors")
        report["cluster"] = client.must("cluster")
        report["weights"] = digest(os.path.join(client.work, "model.safetensors"))
        for pod in reversed(cluster.pods):
            report["statuses"][pod.name] = pod.stop(signal.SIGTERM)
    except Exception as error:  # pylint: disable=broad-except
        report["error"] = "%s: %s" % (type(error).__name__, error)
        report["logs"] = [pod.last_words() for pod in cluster.pods if os.path.exists(pod.log())]
    finally:
        for pod in cluster.pods:
            if pod.process is not None and pod.process.poll() is None:
                pod.process.kill()
                pod.process.wait()
        cluster.name_server.kill()
        cluster.name_server.wait()
    print(json.dumps(report))


if __name__ == "__main__":
    main()
