"""What in rendered manifests refers to what: rules that no schema knows.

faults(documents, ...) returns one line for each fault, "Kind/name: found ..., expected ...".
"""

import re

LABELS = ["name", "instance", "version", "component", "part-of", "managed-by"]
LABEL = "app.kubernetes.io/"

# Who must reach whom, and nobody else anybody: (from, to, port). See docs/architecture.md.
FLOWS = {
    ("coordinator", "server", 7070),
    ("server", "coordinator", 7070),
    ("server", "server", 7070),
    ("worker", "coordinator", 7070),
    ("worker", "server", 7070),
    ("worker", "worker", 7071),
    ("client", "coordinator", 7070),
    ("client", "server", 7070),
}

# The kinds that hold a pod's template, and where.
TEMPLATES = {
    "Pod": (),
    "StatefulSet": ("spec", "template"),
    "Deployment": ("spec", "template"),
    "Job": ("spec", "template"),
}

UNITS = {"": 1, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "k": 10**3, "M": 10**6, "G": 10**9}


def quantity(text):
    match = re.fullmatch(r"(\d+)(Ki|Mi|Gi|Ti|k|M|G|)", str(text))
    return int(match.group(1)) * UNITS[match.group(2)] if match else None


def seconds(text):
    """A duration as the flags of the daemons have it: 90s, 5m, 1h30m."""
    if not re.fullmatch(r"(\d+(ms|s|m|h))+", text):
        return None
    factors = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
    return sum(int(number) * factors[unit] for number, unit in re.findall(r"(\d+)(ms|s|m|h)", text))


def read_config(text):
    """The settings of a daemon's --config file, and its lines that are none."""
    settings, bad = {}, []
    for line in text.splitlines():
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        match = re.fullmatch(r"([a-z_]+) = (\S.*)", line)
        if match and match.group(1) not in settings:
            settings[match.group(1)] = match.group(2)
        else:
            bad.append(line)
    return settings, bad


def selects(selector, labels):
    return all(labels.get(key) == value for key, value in (selector.get("matchLabels") or {}).items())


def covers(pattern, name):
    """Whether a name in a certificate stands for a host, as gRPC compares them: the star is one label, and what
    follows it has a dot."""
    if not pattern.startswith("*."):
        return pattern == name
    rest = pattern[2:]
    return "." in rest and name.split(".", 1)[1:] == [rest]


class Manifests:
    """The documents of one installation, and the faults found in them."""

    def __init__(self, documents, version, extra_pods):
        self.documents = documents
        self.version = version
        self.faults = []
        # (object, template): the pods that these manifests make, and pods that others bring (clients).
        self.pods = [(d, self.template(d)) for d in documents if d["kind"] in TEMPLATES]
        self.all_pods = self.pods + [(d, self.template(d)) for d in extra_pods]

    @staticmethod
    def template(document):
        for field in TEMPLATES[document["kind"]]:
            document = document[field]
        return document

    def of_kind(self, kind):
        return [d for d in self.documents if d["kind"] == kind]

    def named(self, kind, name):
        return next((d for d in self.of_kind(kind) if d["metadata"]["name"] == name), None)

    def fault(self, document, text):
        self.faults.append("%s/%s: %s" % (document["kind"], document["metadata"]["name"], text))

    def check(self, network):
        self.check_names_and_labels()
        for document, template in self.pods:
            self.check_pod(document, template["spec"])
        for document in self.of_kind("StatefulSet"):
            self.check_stateful_set(document)
        for document in self.of_kind("Service"):
            self.check_service(document)
        for document in self.of_kind("PodDisruptionBudget"):
            self.check_budget(document)
        for document in self.of_kind("PodMonitor"):
            self.check_monitor(document)
        self.check_certificates()
        if network:
            self.check_network()
        return self.faults

    # Names and labels.

    def check_names_and_labels(self):
        seen = set()
        for document in self.documents:
            metadata = document["metadata"]
            key = (document["kind"], metadata.get("namespace"), metadata["name"])
            if key in seen:
                self.fault(document, "found twice")
            seen.add(key)
            if "cluster.local" in str(document):
                self.fault(document, "found cluster.local, expected names that hold in every cluster")
            if document["kind"] == "Namespace":
                continue
            self.check_labels(document, metadata.get("labels") or {}, "")
        for document, template in self.pods:
            if document["kind"] != "Pod":
                self.check_labels(document, template["metadata"].get("labels") or {}, "of its pods")

    def check_labels(self, document, labels, whose):
        for name in LABELS:
            if not labels.get(LABEL + name):
                self.fault(document, "found no label %s%s %s" % (LABEL, name, whose))
        if labels.get(LABEL + "version") != self.version:
            self.fault(document, "found version %s in a label, expected %s" % (labels.get(LABEL + "version"), self.version))

    # Pods.

    def check_pod(self, document, spec):
        account = self.named("ServiceAccount", spec.get("serviceAccountName"))
        if account is None and document["kind"] == "StatefulSet":
            self.fault(document, "found service account %s, expected one of these manifests" % spec.get("serviceAccountName"))
        if spec.get("automountServiceAccountToken") is not False:
            self.fault(document, "found automountServiceAccountToken, expected false")
        if spec.get("enableServiceLinks") is not False:
            self.fault(document, "found enableServiceLinks, expected false: SANGAM_..._PORT would be settings")
        volumes = {volume["name"]: volume for volume in spec.get("volumes", [])}
        for claim in document.get("spec", {}).get("volumeClaimTemplates", []):
            volumes[claim["metadata"]["name"]] = {"persistentVolumeClaim": {}}
        for volume in volumes.values():
            self.check_volume(document, volume)
        for container in spec["containers"]:
            self.check_container(document, spec, container, volumes)

    def check_volume(self, document, volume):
        if "configMap" in volume and self.named("ConfigMap", volume["configMap"]["name"]) is None:
            self.fault(document, "found no ConfigMap %s" % volume["configMap"]["name"])
        if "secret" in volume:
            name = volume["secret"]["secretName"]
            made = [certificate["spec"]["secretName"] for certificate in self.of_kind("Certificate")]
            if name not in made and document["kind"] == "StatefulSet":
                self.fault(document, "found no Certificate that makes the Secret %s" % name)
            if volume["secret"].get("defaultMode") not in (0o440, 0o400):
                self.fault(document, "found a Secret that others may read, expected defaultMode 0440")

    def check_container(self, document, spec, container, volumes):
        image = container["image"].rsplit("/", 1)[-1]
        tag = image.partition(":")[2]
        if tag not in (self.version, self.version + "-cuda"):
            self.fault(document, "found image %s, expected the tag %s or %s-cuda" % (image, self.version, self.version))
        ports = {port["name"]: port["containerPort"] for port in container.get("ports", [])}
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            if probe not in container:
                if document["kind"] == "StatefulSet":
                    self.fault(document, "found no %s" % probe)
                continue
            get = container[probe]["httpGet"]
            if get["port"] not in ports and get["port"] not in ports.values():
                self.fault(document, "found %s at port %s, expected one of %s" % (probe, get["port"], sorted(ports)))
            if get["path"] not in ("/livez", "/readyz"):
                self.fault(document, "found %s at %s, expected /livez or /readyz" % (probe, get["path"]))
        mounts = {}
        for mount in container.get("volumeMounts", []):
            mounts[mount["mountPath"]] = volumes.get(mount["name"])
            if mount["name"] not in volumes:
                self.fault(document, "found no volume %s" % mount["name"])
            if "subPath" in mount:
                self.fault(document, "found subPath, expected the whole volume: files would never be renewed")
        arguments = dict(re.fullmatch(r"--([a-z_]+)=?(.*)", a).groups() for a in container.get("args", []) if a.startswith("--"))
        self.check_variables(document, container)
        self.check_program(document, container)
        settings = self.settings(document, arguments, mounts)
        settings.update(arguments)
        if document["kind"] == "StatefulSet":
            self.check_daemon(document, spec, container, settings, mounts, ports)

    def check_variables(self, document, container):
        known = {variable["name"] for variable in container.get("env", [])}
        # Set by the controller of indexed jobs.
        known.add("JOB_COMPLETION_INDEX")
        for argument in container.get("args", []):
            for name in re.findall(r"\$\((\w+)\)", argument):
                if name not in known:
                    self.fault(document, "found $(%s) in an argument and no such variable" % name)

    def check_program(self, document, container):
        program = container.get("command", [""])[0].rpartition("/")[2]
        sources = {v["name"]: v.get("valueFrom", {}).get("resourceFieldRef", {}).get("resource") for v in container.get("env", [])}
        # With a GPU the worker chooses for itself.
        on_cpu = program in ("sangam-server", "sangam-worker") and not container["image"].endswith("-cuda")
        if on_cpu and sources.get("SANGAM_THREADS") != "requests.cpu":
            self.fault(document, "found no SANGAM_THREADS of requests.cpu: a thread for each core of the node")
        arguments = container.get("args", [])
        if program == "sangam" and "submit" in arguments and not any(a.startswith("--request_id=") for a in arguments):
            self.fault(document, "found submit without --request_id: a second try would queue a second job")

    def settings(self, document, arguments, mounts):
        """What the file of --config says."""
        if "config" not in arguments:
            return {}
        folder, _, name = arguments["config"].rpartition("/")
        volume = mounts.get(folder) or {}
        found = self.named("ConfigMap", volume.get("configMap", {}).get("name"))
        if found is None or name not in found["data"]:
            self.fault(document, "found --config=%s, expected a file of a mounted ConfigMap" % arguments["config"])
            return {}
        settings, bad = read_config(found["data"][name])
        for line in bad:
            self.fault(found, "found \"%s\" in %s, expected \"name = value\", each name once" % (line, name))
        return settings

    def check_daemon(self, document, spec, container, settings, mounts, ports):
        for flag, name in (("listen", "grpc"), ("admin_listen", "admin")):
            port = settings.get(flag, "").rpartition(":")[2]
            if port != str(ports.get(name)):
                self.fault(document, "found %s = %s, expected the container's port %s" % (flag, settings.get(flag), ports.get(name)))
        drain = seconds(settings.get("drain_timeout", ""))
        if drain is None or spec.get("terminationGracePeriodSeconds", 30) <= drain:
            self.fault(document, "found drain_timeout %s, expected less than the grace period, %s s" % (settings.get("drain_timeout"), spec.get("terminationGracePeriodSeconds")))
        resources = container["resources"]
        memory = [quantity(resources[which]["memory"]) for which in ("requests", "limits")]
        if memory[0] != memory[1]:
            self.fault(document, "found memory requested and limited differently")
        limit = int(settings.get("memory_limit", 0))
        if limit > 0.75 * memory[1]:
            self.fault(document, "found memory_limit %d, expected at most 3/4 of the container's %d" % (limit, memory[1]))
        if settings.get("backend") == "cuda":
            if "nvidia.com/gpu" not in resources["limits"] or not container["image"].endswith("-cuda"):
                self.fault(document, "found backend = cuda, expected a GPU and the image for it")
        elif "nvidia.com/gpu" in resources["limits"] or container["image"].endswith("-cuda"):
            self.fault(document, "found a GPU or the image for it, expected backend = cuda")
        self.check_security(document, settings, mounts)
        for flag in ("state_dir", "data_root"):
            if flag in settings and "persistentVolumeClaim" not in (mounts.get(settings[flag]) or {}):
                self.fault(document, "found %s = %s, expected a volume of its own there" % (flag, settings[flag]))

    def check_security(self, document, settings, mounts):
        files = {"tls_cert": "tls.crt", "tls_key": "tls.key", "tls_ca": "ca.crt"}
        given = [flag for flag in files if flag in settings]
        if not given and "insecure_allow_remote" in settings:
            return
        if len(given) != 3 or "insecure_allow_remote" in settings:
            self.fault(document, "found %s, expected --tls_cert, --tls_key and --tls_ca, or --insecure_allow_remote" % (given or "no security flags"))
            return
        for flag, name in files.items():
            folder, _, file = settings[flag].rpartition("/")
            if file != name or "secret" not in (mounts.get(folder) or {}):
                self.fault(document, "found --%s=%s, expected %s of a mounted Secret" % (flag, settings[flag], name))

    # Objects that point at pods.

    def check_stateful_set(self, document):
        spec = document["spec"]
        if not selects(spec["selector"], spec["template"]["metadata"]["labels"]):
            self.fault(document, "found a selector that does not fit its own pods")
        if LABEL + "version" in spec["selector"]["matchLabels"]:
            self.fault(document, "found the version in a selector, expected labels that never change")
        for claim in spec.get("volumeClaimTemplates", []):
            if LABEL + "version" in claim["metadata"].get("labels", {}):
                self.fault(document, "found the version in a volumeClaimTemplate, which nobody may change")
        if self.named("Service", spec.get("serviceName")) is None:
            self.fault(document, "found no Service %s" % spec.get("serviceName"))
        if spec.get("podManagementPolicy") != "Parallel":
            self.fault(document, "found podManagementPolicy %s, expected Parallel" % spec.get("podManagementPolicy"))
        role = spec["template"]["metadata"]["labels"].get(LABEL + "component")
        if role == "coordinator" and spec["replicas"] != 1:
            self.fault(document, "found %d coordinators, expected 1" % spec["replicas"])

    def selected(self, selector):
        return [(d, t) for d, t in self.all_pods if selects(selector, t["metadata"].get("labels") or {})]

    def check_service(self, document):
        pods = self.selected({"matchLabels": document["spec"]["selector"]})
        if not pods:
            self.fault(document, "found a selector that fits no pod")
        for port in document["spec"]["ports"]:
            for _, template in pods:
                named = {p["name"]: p["containerPort"] for c in template["spec"]["containers"] for p in c.get("ports", [])}
                target = named.get(port["targetPort"], port["targetPort"])
                if target not in named.values() or target != port["port"]:
                    self.fault(document, "found port %s to %s, expected the same port of a container" % (port["port"], port["targetPort"]))

    def check_budget(self, document):
        spec = document["spec"]
        if not self.selected(spec["selector"]):
            self.fault(document, "found a selector that fits no pod")
        if spec.get("maxUnavailable") in (0, "0%", None):
            self.fault(document, "found a budget that holds back every drain of a node")
        if spec.get("unhealthyPodEvictionPolicy") != "AlwaysAllow":
            self.fault(document, "found unhealthyPodEvictionPolicy %s, expected AlwaysAllow" % spec.get("unhealthyPodEvictionPolicy"))

    def check_monitor(self, document):
        pods = [t for d, t in self.selected(document["spec"]["selector"]) if d["kind"] == "StatefulSet"]
        if len(pods) != 3:
            self.fault(document, "found %d kinds of daemons selected, expected 3" % len(pods))
        for endpoint in document["spec"]["podMetricsEndpoints"]:
            for template in pods:
                names = [p["name"] for c in template["spec"]["containers"] for p in c.get("ports", [])]
                if endpoint["port"] not in names:
                    self.fault(document, "found port %s, expected one of %s" % (endpoint["port"], names))

    # Certificates stand for the names that peers connect to.

    def check_certificates(self):
        issuers = {d["metadata"]["name"] for d in self.of_kind("Issuer")}
        for document in self.of_kind("Certificate"):
            if document["spec"]["issuerRef"]["name"] not in issuers:
                self.fault(document, "found no Issuer %s" % document["spec"]["issuerRef"]["name"])
            if document["spec"].get("isCA"):
                continue
            role = document["metadata"]["labels"][LABEL + "component"]
            if document["spec"].get("uris") != ["spiffe://sangam/role/" + role]:
                self.fault(document, "found %s, expected the one URI of the role %s" % (document["spec"].get("uris"), role))
        by_secret = {d["spec"]["secretName"]: d for d in self.of_kind("Certificate")}
        for document, template in self.pods:
            spec = template["spec"]
            role = template["metadata"]["labels"].get(LABEL + "component")
            secrets = [v["secret"]["secretName"] for v in spec.get("volumes", []) if "secret" in v]
            certificates = [by_secret[name] for name in secrets if name in by_secret]
            for certificate in certificates:
                if certificate["metadata"]["labels"][LABEL + "component"] != role:
                    self.fault(document, "found the certificate of another role, %s" % certificate["metadata"]["name"])
                for host in self.hosts_of(document, spec, role):
                    if not any(covers(pattern, host) for pattern in certificate["spec"].get("dnsNames", [])):
                        self.fault(certificate, "found no name for %s, where peers connect to" % host)

    def hosts_of(self, document, spec, role):
        """The names under which a role's pods are connected to."""
        namespace = document["metadata"].get("namespace", "default")
        name = document["metadata"]["name"]
        if role == "coordinator":
            return [name, "%s.%s.svc" % (name, namespace), "localhost"]
        advertised = [a for c in spec["containers"] for a in c.get("args", []) if a.startswith("--advertise=")]
        pod = {"$(POD_NAME)": name + "-0", "$(POD_NAMESPACE)": namespace}
        hosts = []
        for argument in advertised:
            for variable, value in pod.items():
                argument = argument.replace(variable, value)
            hosts.append(argument[len("--advertise=") :].rpartition(":")[0])
        service = document["spec"].get("serviceName")
        for host in hosts:
            if not host.startswith("%s-0.%s." % (name, service)):
                self.fault(document, "found --advertise of %s, expected a name of its Service %s" % (host, service))
        return hosts

    # Who reaches whom, by all policies together.

    def check_network(self):
        policies = self.of_kind("NetworkPolicy")
        for document in policies:
            if not self.selected(document["spec"]["podSelector"]):
                self.fault(document, "found a selector that fits no pod")
            for direction, side in (("ingress", "from"), ("egress", "to")):
                for rule in document["spec"].get(direction, []):
                    for peer in rule.get(side, []):
                        if "namespaceSelector" not in peer and not self.selected(peer["podSelector"]):
                            self.fault(document, "found a peer that fits no pod")
        roles = {}
        for _, template in self.all_pods:
            labels = template["metadata"].get("labels") or {}
            roles[labels.get(LABEL + "component")] = labels
        allowed = set()
        for source, source_labels in roles.items():
            for target, target_labels in roles.items():
                for port in (7070, 7071, 9090):
                    if self.lets(policies, "egress", "to", source_labels, target_labels, port) and self.lets(
                        policies, "ingress", "from", target_labels, source_labels, port
                    ):
                        allowed.add((source, target, port))
        for source, target, port in sorted(FLOWS - allowed):
            if source in roles and target in roles:
                self.faults.append("NetworkPolicy: found %s shut out from %s:%d, expected it to be let through" % (source, target, port))
        for source, target, port in sorted(allowed - FLOWS):
            self.faults.append("NetworkPolicy: found %s let through to %s:%d, expected it to be shut out" % (source, target, port))

    @staticmethod
    def lets(policies, direction, side, labels, peer_labels, port):
        """Whether the policies of the pod with these labels let a connection through."""
        mine = [
            p["spec"]
            for p in policies
            if selects(p["spec"]["podSelector"], labels) and direction.capitalize() in p["spec"]["policyTypes"]
        ]
        if not mine:
            return True
        for spec in mine:
            for rule in spec.get(direction, []):
                ports = [p["port"] for p in rule.get("ports", [])]
                peers = rule.get(side)
                if ports and port not in ports:
                    continue
                if not peers or any("namespaceSelector" not in p and selects(p["podSelector"], peer_labels) for p in peers):
                    return True
        return False


def faults(documents, version, extra_pods=(), network=True):
    """network: whether FLOWS is what the policies must allow."""
    return Manifests(documents, version, list(extra_pods)).check(network)
