"""Objects of JobSet, Kueue and Volcano: the fields of their definitions, as far as examples of ours could use them, and what
in them refers to what. No package has their schemas. Read from JobSet's v1alpha2, Kueue's v1beta2 and Volcano's
batch v1alpha1.

faults(documents) returns one line for each fault, "Kind/name: found ..., expected ...".
"""

import re

# A shape is a type; a tuple of words, one of which it must be; [shape], a list of such; {"*": shape}, any names; or
# {"field": shape}, an object with these fields and no other, where "field!" must be there. ANYTHING is what others check.
ANYTHING = object()
COUNT = int
QUANTITY = str

JOB_SET = {
    "replicatedJobs": [
        {
            "name!": str,
            "groupName": str,
            "replicas": COUNT,
            "template!": {"metadata": ANYTHING, "spec!": ANYTHING},
            "dependsOn": [{"name!": str, "status!": ("Ready", "Complete")}],
        }
    ],
    "network": {"enableDNSHostnames": bool, "subdomain": str, "publishNotReadyAddresses": bool},
    "successPolicy": {"operator!": ("All", "Any"), "targetReplicatedJobs": [str]},
    "failurePolicy": {
        "maxRestarts": COUNT,
        "restartStrategy": ("Recreate", "BlockingRecreate", "InPlaceRestart"),
        "rules": [
            {
                "name!": str,
                "action!": (
                    "FailJobSet",
                    "RestartJobSet",
                    "RestartJobSetAndIgnoreMaxRestarts",
                    "RestartJob",
                    "RestartJobAndIgnoreMaxRestarts",
                ),
                "onJobFailureReasons": [str],
                "onJobFailureMessagePatterns": [str],
                "targetReplicatedJobs": [str],
            }
        ],
    },
    "suspend": bool,
    "coordinator": {"replicatedJob!": str, "jobIndex": COUNT, "podIndex": COUNT},
    "managedBy": str,
    "ttlSecondsAfterFinished": COUNT,
}

POLICIES = [
    {
        "action": ("AbortJob", "RestartJob", "RestartTask", "RestartPod", "RestartPartition", "TerminateJob", "CompleteJob", "ResumeJob"),
        "event": ("*", "PodPending", "PodRunning", "PodFailed", "PodEvicted", "Unknown", "TaskCompleted", "TaskFailed"),
        "events": [str],
        "exitCode": COUNT,
        "timeout": str,
    }
]

VOLCANO_JOB = {
    "schedulerName": str,
    "minAvailable": COUNT,
    "minSuccess": COUNT,
    "maxRetry": COUNT,
    "queue": str,
    "priorityClassName": str,
    "runningEstimate": str,
    "ttlSecondsAfterFinished": COUNT,
    "plugins": {"*": [str]},
    "policies": POLICIES,
    "volumes": [{"mountPath!": str, "volumeClaimName": str, "volumeClaim": ANYTHING}],
    "networkTopology": ANYTHING,
    "tasks": [
        {
            "name!": str,
            "replicas": COUNT,
            "minAvailable": COUNT,
            "maxRetry": COUNT,
            "template!": {"metadata": ANYTHING, "spec!": ANYTHING},
            "policies": POLICIES,
            "topologyPolicy": ("none", "best-effort", "restricted", "single-numa-node"),
            "dependsOn": {"name": [str], "iteration": ("any", "all")},
            "partitionPolicy": ANYTHING,
        }
    ],
}

STOP_POLICY = ("None", "Hold", "HoldAndDrain")

CLUSTER_QUEUE = {
    "resourceGroups": [
        {
            "coveredResources!": [str],
            "flavors!": [
                {
                    "name!": str,
                    "resources!": [{"name!": str, "nominalQuota!": QUANTITY, "borrowingLimit": QUANTITY, "lendingLimit": QUANTITY}],
                }
            ],
        }
    ],
    "cohortName": str,
    "queueingStrategy": ("StrictFIFO", "BestEffortFIFO"),
    "namespaceSelector": {"matchLabels": {"*": str}, "matchExpressions": ANYTHING},
    "flavorFungibility": ANYTHING,
    "preemption": ANYTHING,
    "admissionChecksStrategy": ANYTHING,
    "stopPolicy": STOP_POLICY,
    "fairSharing": ANYTHING,
}

SPECS = {
    ("jobset.x-k8s.io/v1alpha2", "JobSet"): JOB_SET,
    ("batch.volcano.sh/v1alpha1", "Job"): VOLCANO_JOB,
    ("kueue.x-k8s.io/v1beta2", "ResourceFlavor"): {
        "nodeLabels": {"*": str},
        "nodeTaints": ANYTHING,
        "tolerations": ANYTHING,
        "topologyName": str,
    },
    ("kueue.x-k8s.io/v1beta2", "ClusterQueue"): CLUSTER_QUEUE,
    ("kueue.x-k8s.io/v1beta2", "LocalQueue"): {"clusterQueue!": str, "stopPolicy": STOP_POLICY, "fairSharing": ANYTHING},
}

GROUPS = ("jobset.x-k8s.io", "batch.volcano.sh", "kueue.x-k8s.io")
QUEUE = "kueue.x-k8s.io/queue-name"
# A label of a name in DNS.
LONGEST_NAME = 63


def shape_faults(value, shape, path):
    if shape is ANYTHING:
        return
    if isinstance(shape, tuple):
        if value not in shape:
            yield "found %s = %r, expected one of %s" % (path, value, ", ".join(shape))
    elif isinstance(shape, list):
        if not isinstance(value, list):
            yield "found no list at %s" % path
            return
        for index, item in enumerate(value):
            yield from shape_faults(item, shape[0], "%s[%d]" % (path, index))
    elif isinstance(shape, dict):
        if not isinstance(value, dict):
            yield "found no object at %s" % path
            return
        fields = {name.rstrip("!"): inner for name, inner in shape.items()}
        for name in shape:
            if name.endswith("!") and name[:-1] not in value:
                yield "found no %s.%s" % (path, name[:-1])
        for name, field in value.items():
            inner = fields.get(name, fields.get("*"))
            if inner is None:
                yield "found unknown field %s.%s" % (path, name)
            else:
                yield from shape_faults(field, inner, "%s.%s" % (path, name))
    # A bool is an int to Python, and to nobody else.
    elif not isinstance(value, shape) or (shape is int and (isinstance(value, bool) or value < 0)):
        yield "found %s = %r, expected a %s" % (path, value, shape.__name__)


def name_of(document):
    return document["metadata"]["name"]


def hosts_of_jobset(document):
    """The names under which its pods find one another."""
    network = document["spec"].get("network", {})
    domain = network.get("subdomain", name_of(document))
    for replicated in document["spec"]["replicatedJobs"]:
        for job in range(replicated.get("replicas", 1)):
            for pod in range(replicated["template"]["spec"].get("completions", 1)):
                yield "%s-%s-%d-%d.%s" % (name_of(document), replicated["name"], job, pod, domain)


def hosts_of_volcano(document):
    for task in document["spec"]["tasks"]:
        for pod in range(task.get("replicas", 1)):
            yield "%s-%s-%d.%s" % (name_of(document), task["name"], pod, name_of(document))


def host_faults(hosts, pods):
    hosts = list(hosts)
    for host in hosts:
        if len(host.split(".")[0]) > LONGEST_NAME:
            yield "found the name %s, expected at most %d letters" % (host, LONGEST_NAME)
    for pod in pods:
        for container in pod["spec"]["containers"]:
            for argument in container.get("args", []):
                match = re.fullmatch(r"--coordinator=(.*):\d+", argument)
                if match and match.group(1) not in hosts:
                    yield "found %s, expected one of %s" % (argument, ", ".join(hosts))


def jobset_faults(document):
    spec = document["spec"]
    names = [replicated["name"] for replicated in spec["replicatedJobs"]]
    targets = spec.get("successPolicy", {}).get("targetReplicatedJobs", [])
    for target in targets:
        if target not in names:
            yield "found the target %s, expected one of %s" % (target, ", ".join(names))
    if spec.get("network", {}).get("enableDNSHostnames") is not True:
        yield "found no enableDNSHostnames, and pods that find one another by name"
    yield from host_faults(hosts_of_jobset(document), (r["template"]["spec"]["template"] for r in spec["replicatedJobs"]))


def volcano_faults(document):
    spec = document["spec"]
    pods = sum(task.get("replicas", 1) for task in spec["tasks"])
    if spec.get("minAvailable") != pods:
        yield "found minAvailable %s, expected all %d pods at once" % (spec.get("minAvailable"), pods)
    for policy in spec.get("policies", []) + [p for task in spec["tasks"] for p in task.get("policies", [])]:
        if ("event" in policy or "events" in policy) == ("exitCode" in policy):
            yield "found a policy with an event and an exit code, or neither"
    if "svc" not in spec.get("plugins", {}):
        yield "found no plugin svc, and pods that find one another by name"
    yield from host_faults(hosts_of_volcano(document), (task["template"] for task in spec["tasks"]))


def kueue_faults(document, documents):
    names = {(d["kind"], name_of(d)) for d in documents}
    if document["kind"] == "LocalQueue" and ("ClusterQueue", document["spec"]["clusterQueue"]) not in names:
        yield "found the ClusterQueue %s, expected one of these" % document["spec"]["clusterQueue"]
    for group in document["spec"].get("resourceGroups", []) if document["kind"] == "ClusterQueue" else []:
        for flavor in group["flavors"]:
            if ("ResourceFlavor", flavor["name"]) not in names:
                yield "found the flavor %s, expected one of these" % flavor["name"]
            resources = [resource["name"] for resource in flavor["resources"]]
            if resources != group["coveredResources"]:
                yield "found quotas of %s, expected those of %s in this order" % (resources, group["coveredResources"])


def faults(documents):
    """Of all examples together: one names the queue of another."""
    found = []
    queues = [(d["metadata"].get("namespace"), name_of(d)) for d in documents if d["kind"] == "LocalQueue"]
    for document in documents:
        where = "%s/%s: " % (document["kind"], name_of(document))
        group = document["apiVersion"].partition("/")[0]
        if group not in GROUPS:
            continue
        shape = SPECS.get((document["apiVersion"], document["kind"]))
        if shape is None:
            found.append(where + "found %s, expected one of %s" % (document["apiVersion"], sorted({v for v, _ in SPECS})))
            continue
        wrong = list(shape_faults(document.get("spec", {}), shape, "spec"))
        # What refers to what can be asked only of an object that has its fields.
        if not wrong and document["kind"] == "JobSet":
            wrong += jobset_faults(document)
            queue = document["metadata"].get("labels", {}).get(QUEUE)
            if queue is not None and (document["metadata"].get("namespace"), queue) not in queues:
                wrong.append("found the queue %s, expected one of %s" % (queue, queues))
        elif not wrong and group == "batch.volcano.sh":
            wrong += volcano_faults(document)
        elif not wrong and group == "kueue.x-k8s.io":
            wrong += kueue_faults(document, documents)
        found += [where + text for text in wrong]
    return found
