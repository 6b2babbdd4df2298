"""A cluster of pods in network namespaces ends a job with the bits of one process, whoever goes and comes meanwhile: see
pods.py. Needs root, iproute2 and the programs in bazel-bin (SANGAM_PROGRAMS names another folder).
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import pods
import rendering
from daemons_test import PLACES, PROGRAMS

DATA = "/usr/share/datasets/fashion-mnist"
LONGEST = 200  # seconds


def obstacle():
    """Why the test cannot run here; empty: it can."""
    if not all(os.path.exists(os.path.join(PROGRAMS, place)) for place in PLACES.values()):
        return "there are no programs in %s" % PROGRAMS
    if os.geteuid() != 0:
        return "only root makes network namespaces"
    for command in ("ip", "unshare", "setpriv", "curl", "openssl"):
        if shutil.which(command) is None:
            return "there is no %s" % command
    if not os.path.isdir(DATA):
        return "there is no %s" % DATA
    trial = "ip link add trial type bridge && mount -t tmpfs trial /mnt"
    if subprocess.run(["unshare", "--net", "--mount", "sh", "-c", trial], capture_output=True, check=False).returncode != 0:
        return "this machine allows no network or mount namespaces"
    return ""


class PodsTest(unittest.TestCase):
    def test_the_usual_bits(self):
        reason = obstacle()
        if reason:
            self.skipTest(reason)
        here = os.path.dirname(os.path.abspath(__file__))
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            work = os.path.join(folder, "pods")
            os.mkdir(work)
            done = subprocess.run(["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable,
                                   os.path.join(here, "pods.py"), "cpu", work, PROGRAMS, DATA],
                                  capture_output=True, text=True, timeout=LONGEST, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            report = json.loads(done.stdout)
            self.assertNotIn("error", report, "\n".join(report.get("logs", [])))
            self.assertEqual(report["wait"], 0)
            self.assertEqual(report["job"]["state"], "SUCCEEDED")
            reasons = [change.get("reason", "") for change in report["job"]["history"]]
            self.assertTrue(any("sangam-server-1 drains" in reason for reason in reasons), reasons)
            self.assertTrue(any("sangam-worker-2 lost" in reason for reason in reasons), reasons)
            # Pods of the same name, elsewhere.
            self.assertNotEqual(*report["addresses"])
            self.assertEqual(report["statuses"].pop("killed worker"), -9)
            self.assertEqual(set(report["statuses"].values()), {143}, report["statuses"])

            out = os.path.join(folder, "alone")
            job = os.path.join(rendering.ROOT, "deploy/jobs/fashion_mnist_mlp.textproto")
            alone = subprocess.run([os.path.join(PROGRAMS, PLACES["sangam"]), "run", job, "--workers=1", "--servers=1", "--threads=1",
                                    "--data_root=" + DATA, "--out=" + out, *pods.settings(pods.ALONE)],
                                   capture_output=True, text=True, timeout=LONGEST, check=False)
            self.assertEqual(alone.returncode, 0, alone.stderr)
            self.assertEqual(report["weights"], pods.digest(os.path.join(out, "model.safetensors")))


if __name__ == "__main__":
    unittest.main()
