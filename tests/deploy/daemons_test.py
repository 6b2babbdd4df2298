"""The programs do what the manifests ask of them: the pods of an overlay as processes of this machine, each with an
address of its own on loopback, with the manifests' command lines, configuration, probes and certificates like those of
cert-manager. Then the job of examples/submit, and the end of every pod by SIGTERM.

Needs the programs in bazel-bin (SANGAM_PROGRAMS names another folder).
"""

import json
import os
import random
import re
import signal
import subprocess
import tempfile
import time
import unittest
import urllib.error
import urllib.request

import rendering

PROGRAMS = os.environ.get("SANGAM_PROGRAMS", os.path.join(rendering.ROOT, "bazel-bin"))
PLACES = {"sangam-server": "server/sangam-server", "sangam-worker": "worker/sangam-worker", "sangam": "client/sangam"}
COMPONENT = "app.kubernetes.io/component"


def openssl(*arguments):
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


class CertManager:
    """Makes what a Certificate object asks for, as cert-manager does: no subject but a critical alternative name."""

    def __init__(self, folder):
        self.folder = folder
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=sangam-ca",
                "-addext", "keyUsage=critical,digitalSignature,keyCertSign,cRLSign",
                "-keyout", self.path("ca.key"), "-out", self.path("ca.crt"))

    def path(self, name):
        return os.path.join(self.folder, name)

    def make(self, certificate):
        """The folder that a pod sees as its mounted Secret."""
        spec = certificate["spec"]
        secret = self.path(spec["secretName"])
        os.mkdir(secret)
        names = ["DNS:" + name for name in spec.get("dnsNames", [])]
        names += ["IP:" + address for address in spec.get("ipAddresses", [])] + ["URI:" + uri for uri in spec["uris"]]
        usages = {"server auth": "serverAuth", "client auth": "clientAuth"}
        with open(self.path("extensions"), "w", encoding="utf-8") as file:
            file.write("subjectAltName = critical,%s\n" % ",".join(names))
            file.write("keyUsage = critical,digitalSignature\nbasicConstraints = critical,CA:FALSE\n")
            file.write("extendedKeyUsage = %s\n" % ",".join(usages[u] for u in spec["usages"] if u in usages))
        key = os.path.join(secret, "tls.key")
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/", "-keyout", key, "-out", self.path("csr"))
        openssl("x509", "-req", "-in", self.path("csr"), "-CA", self.path("ca.crt"), "-CAkey", self.path("ca.key"), "-CAcreateserial",
                "-days", "1", "-extfile", self.path("extensions"), "-out", os.path.join(secret, "tls.crt"))
        os.chmod(key, 0o440)
        with open(self.path("ca.crt"), encoding="utf-8") as authority, open(os.path.join(secret, "ca.crt"), "w", encoding="utf-8") as copy:
            copy.write(authority.read())
        return secret


class Pod:
    """One pod as a process."""

    def __init__(self, cluster, document, ordinal):
        self.name = "%s-%d" % (document["metadata"]["name"], ordinal)
        self.role = document["metadata"]["labels"][COMPONENT]
        self.spec = document["spec"]["template"]["spec"]
        self.container = self.spec["containers"][0]
        self.host = cluster.new_host()
        self.ports = {port["name"]: port["containerPort"] for port in self.container["ports"]}
        self.folder = os.path.join(cluster.folder, self.name)
        os.mkdir(self.folder)
        self.mounts = cluster.mount(self.spec, self.container, document["spec"].get("volumeClaimTemplates", []), self.folder, self.host)
        self.log = os.path.join(self.folder, "log")
        self.process = None

    def environment(self):
        values = {"metadata.name": self.name, "metadata.namespace": "sangam", "requests.cpu": "2"}
        found = {"PATH": os.environ["PATH"]}
        for variable in self.container.get("env", []):
            source = variable.get("valueFrom", {})
            field = source.get("fieldRef", {}).get("fieldPath") or source.get("resourceFieldRef", {}).get("resource")
            found[variable["name"]] = values[field] if field else variable["value"]
        return found

    def start(self, cluster):
        environment = self.environment()
        command = cluster.command_line(self.container, environment, self.mounts)
        # The name of the pod stands for its address, which the name service would know.
        command = [re.sub(r"^--advertise=.*:", "--advertise=%s:" % self.host, word) for word in command]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, env=environment, cwd=self.folder, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def probe(self, which):
        """The status that a probe of the container gets; None: no answer."""
        get = self.container[which]["httpGet"]
        port = self.ports.get(get["port"], get["port"])
        try:
            with urllib.request.urlopen("http://%s:%s%s" % (self.host, port, get["path"]), timeout=3) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return None

    def last_words(self):
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return "%s:\n%s" % (self.name, log.read()[-2000:])


class Cluster:
    def __init__(self, folder, documents):
        self.folder = folder
        self.documents = documents
        self.net = "127.%d.%d" % (random.randint(1, 250), random.randint(0, 250))
        self.hosts = 0
        self.secrets = {}
        certificates = [d for d in documents if d["kind"] == "Certificate" and not d["spec"].get("isCA")]
        if certificates:
            manager = CertManager(folder)
            self.secrets = {d["spec"]["secretName"]: manager.make(d) for d in certificates}
        self.coordinator = None
        sets = {d["metadata"]["labels"][COMPONENT]: d for d in documents if d["kind"] == "StatefulSet"}
        self.pods = []
        for role in ("coordinator", "server", "worker"):
            for ordinal in range(sets[role]["spec"]["replicas"]):
                self.pods.append(Pod(self, sets[role], ordinal))

    def new_host(self):
        self.hosts += 1
        host = "%s.%d" % (self.net, self.hosts)
        if self.hosts == 1:
            self.coordinator = host
        return host

    def placed(self, text, host):
        """A text of the manifests with addresses of this machine."""
        return text.replace("0.0.0.0", host).replace("sangam-coordinator:", self.coordinator + ":")

    def mount(self, spec, container, claims, folder, host):
        """Makes the volumes of a pod: path in the container -> path here."""
        volumes = {volume["name"]: volume for volume in spec.get("volumes", [])}
        paths = {}
        for mount in container["volumeMounts"]:
            volume = volumes.get(mount["name"], {})
            path = os.path.join(folder, mount["name"])
            if "secret" in volume:
                path = self.secrets[volume["secret"]["secretName"]]
            else:
                os.mkdir(path)
            if "configMap" in volume:
                data = next(d for d in self.documents if d["kind"] == "ConfigMap" and d["metadata"]["name"] == volume["configMap"]["name"])
                for name, text in data["data"].items():
                    for place, here in paths.items():
                        text = text.replace(place, here)
                    with open(os.path.join(path, name), "w", encoding="utf-8") as file:
                        file.write(self.placed(text, host))
            paths[mount["mountPath"]] = path
        # What a configuration says of volumes that were mounted after it.
        for name in os.listdir(os.path.join(folder, "config")) if os.path.isdir(os.path.join(folder, "config")) else []:
            with open(os.path.join(folder, "config", name), "r+", encoding="utf-8") as file:
                text = re.sub(r"(?<= = )(/\S+)$", lambda match: paths.get(match.group(1), match.group(1)), file.read(), flags=re.MULTILINE)
                file.seek(0)
                file.truncate()
                file.write(text)
        assert len(claims) == len([m for m in container["volumeMounts"] if m["name"] in [c["metadata"]["name"] for c in claims]])
        return paths

    def command_line(self, container, environment, mounts):
        words = []
        for word in container["command"] + container["args"]:
            word = re.sub(r"\$\((\w+)\)", lambda match: environment[match.group(1)], word)
            for place, here in sorted(mounts.items(), reverse=True):
                word = word.replace(place + "/", here + "/")
            words.append(self.placed(word, self.coordinator))
        words[0] = os.path.join(PROGRAMS, PLACES[os.path.basename(words[0])])
        return words

    def await_all(self, which, seconds):
        deadline = time.monotonic() + seconds
        for pod in self.pods:
            while pod.probe(which) != 200:
                if pod.process.poll() is not None or time.monotonic() > deadline:
                    raise AssertionError("%s of %s: %s\n%s" % (which, pod.name, pod.probe(which), pod.last_words()))
                time.sleep(0.05)

    def submit(self, documents):
        """Runs the container of a Job that submits; its exit status and output."""
        job = next(d for d in documents if d["kind"] == "Job")
        spec = job["spec"]["template"]["spec"]
        container = spec["containers"][0]
        self.documents = self.documents + documents
        folder = os.path.join(self.folder, "client")
        os.mkdir(folder)
        mounts = self.mount(spec, container, [], folder, "")
        environment = {"PATH": os.environ["PATH"]}
        for variable in container["env"]:
            value = variable.get("value", "2b1c4c1e-9d57-4a92-bd0a-3f1f3a6f2c55")
            for place, here in mounts.items():
                value = value.replace(place + "/", here + "/")
            environment[variable["name"]] = value
        command = self.command_line(container, environment, mounts)
        return subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=120, check=False)

    def doctor(self):
        """What `sangam doctor` holds for a fault, with the client's certificate."""
        secret = self.secrets["sangam-client-tls"]
        command = [os.path.join(PROGRAMS, PLACES["sangam"]), "doctor", "--coordinator=%s:7070" % self.coordinator, "--output=json"]
        command += ["--tls_%s=%s/%s" % (flag, secret, file) for flag, file in (("cert", "tls.crt"), ("key", "tls.key"), ("ca", "ca.crt"))]
        done = subprocess.run(command, env={}, capture_output=True, text=True, timeout=60, check=False)
        return [finding for finding in json.loads(done.stdout) if finding["verdict"] == "FAULT"]

    def end(self):
        """Ends the pods, workers first; (pod, exit status, seconds, grace period)."""
        ends = []
        for pod in reversed(self.pods):
            if pod.process is None or pod.process.poll() is not None:
                continue
            start = time.monotonic()
            pod.process.send_signal(signal.SIGTERM)
            grace = pod.spec["terminationGracePeriodSeconds"]
            try:
                status = pod.process.wait(timeout=grace)
            except subprocess.TimeoutExpired:
                pod.process.kill()
                status = pod.process.wait()
            ends.append((pod, status, time.monotonic() - start, grace))
        return ends


@unittest.skipUnless(all(os.path.exists(os.path.join(PROGRAMS, place)) for place in PLACES.values()), "there are no programs in %s" % PROGRAMS)
class DaemonsTest(unittest.TestCase):
    def run_overlay(self, name):
        submit = rendering.kustomize(os.path.join(rendering.KUBERNETES, "examples/submit"))
        documents = rendering.kustomize(os.path.join(rendering.KUBERNETES, "overlays", name))
        with tempfile.TemporaryDirectory() as folder:
            cluster = Cluster(folder, documents)
            try:
                for pod in cluster.pods:
                    pod.start(cluster)
                cluster.await_all("startupProbe", 60)
                cluster.await_all("readinessProbe", 60)
                cluster.await_all("livenessProbe", 10)
                if name != "insecure":
                    done = cluster.submit(submit)
                    self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                    self.assertIn("SUCCEEDED", done.stdout + done.stderr)
                    self.assertEqual(cluster.doctor(), [])
            finally:
                ends = cluster.end()
            for pod, status, took, grace in ends:
                # 143: ended by SIGTERM, in order.
                self.assertEqual(status, 143, pod.last_words())
                self.assertLess(took, grace / 3, pod.name)
            self.assertEqual(len(ends), len(cluster.pods), [pod.last_words() for pod in cluster.pods])

    def test_pods_with_certificates_train_a_job(self):
        self.run_overlay("cpu")

    def test_pods_without_certificates_become_ready(self):
        self.run_overlay("insecure")

    def test_without_either_they_refuse(self):
        """Exit status 78, and what to do."""
        documents = rendering.kustomize(os.path.join(rendering.KUBERNETES, "overlays/insecure"))
        with tempfile.TemporaryDirectory() as folder:
            cluster = Cluster(folder, documents)
            pod = cluster.pods[0]
            container = dict(pod.container, args=[a for a in pod.container["args"] if a != "--insecure_allow_remote"])
            environment = pod.environment()
            command = cluster.command_line(container, environment, pod.mounts)
            with open(os.path.join(pod.folder, "config/coordinator.conf"), "r+", encoding="utf-8") as file:
                text = file.read().replace(pod.host, "0.0.0.0").replace(":7070", ":0").replace(":9090", ":0")
                file.seek(0)
                file.truncate()
                file.write(text)
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=20, check=False)
            self.assertEqual(done.returncode, 78, done.stderr)
            self.assertIn("--insecure_allow_remote", done.stderr)

    def test_the_programs_know_every_setting(self):
        """A setting that they do not know ends them."""
        for name in ("cpu", "gpu"):
            documents = rendering.kustomize(os.path.join(rendering.KUBERNETES, "overlays", name))
            data = next(d for d in documents if d["kind"] == "ConfigMap")["data"]
            for file_name, text in data.items():
                program = PLACES["sangam-worker" if file_name == "worker.conf" else "sangam-server"]
                for wrong in ("", "no_such_setting = 1\n"):
                    with self.subTest((name, file_name, wrong)), tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:
                        file.write(text + wrong)
                        file.flush()
                        command = [os.path.join(PROGRAMS, program), "--config=" + file.name, "--print_config"]
                        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
                        self.assertEqual(done.returncode != 0, bool(wrong), done.stderr)


if __name__ == "__main__":
    unittest.main()
