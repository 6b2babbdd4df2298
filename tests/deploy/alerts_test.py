"""Alerts parse, fire when they should, and are silent when they should: promtool from Debian's package prometheus."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest

import yaml

import rendering

ALERTS = os.path.join(rendering.KUBERNETES, "components/monitoring/alerts.yaml")

POD = {"namespace": "sangam", "pod": "sangam-server-0"}
COORDINATOR = {"namespace": "sangam", "pod": "sangam-coordinator-0"}
PROGRESS = 'sangam_job_info{namespace="sangam", exported_job="7", name="gpt", state="running"}'
PHASES = 'sangam_step_phase_seconds_total{namespace="sangam", pod="sangam-worker-%d", phase="%s"}'

# alert: (series that make it fire, the minute when it does, its labels but severity and name, what {{ $value }} reads as,
#         series that must not make it fire)
CASES = {
    "SangamCoordinatorDown": (
        {'up{job="sangam", component="coordinator", namespace="sangam", pod="sangam-coordinator-0"}': "1 0x9"},
        5,
        {"job": "sangam", "component": "coordinator", **COORDINATOR},
        "",
        {'up{job="sangam", component="coordinator", namespace="sangam", pod="sangam-coordinator-0"}': "1 0 1x9"},
    ),
    "SangamServerDown": (
        {
            'up{job="sangam", component="server", namespace="sangam", pod="sangam-server-0"}': "1 0x9",
            'up{job="sangam", component="server", namespace="sangam", pod="sangam-server-1"}': "1x10",
        },
        5,
        {"job": "sangam", "component": "server", **POD},
        "",
        {
            'up{job="other", component="server", namespace="sangam", pod="x"}': "0x10",
            'up{job="sangam", component="worker", namespace="sangam", pod="x"}': "0x10",
        },
    ),
    "SangamWorkerDown": (
        {'up{job="sangam", component="worker", namespace="sangam", pod="sangam-worker-1"}': "0x20"},
        15,
        {"job": "sangam", "component": "worker", "namespace": "sangam", "pod": "sangam-worker-1"},
        "",
        {'up{job="sangam", component="worker", namespace="sangam", pod="sangam-worker-1"}': "0x8 1x12"},
    ),
    "SangamPodsMissing": (
        {
            'kube_statefulset_replicas{job="kube-state-metrics", namespace="sangam", statefulset="sangam-server"}': "3x20",
            'kube_statefulset_status_replicas_ready{job="kube-state-metrics", namespace="sangam", statefulset="sangam-server"}': "2x20",
        },
        16,
        {"namespace": "sangam", "statefulset": "sangam-server"},
        "1",
        {
            'kube_statefulset_replicas{namespace="sangam", statefulset="sangam-server"}': "3x20",
            'kube_statefulset_status_replicas_ready{namespace="sangam", statefulset="sangam-server"}': "3x20",
            'kube_statefulset_replicas{namespace="other", statefulset="postgres"}': "3x20",
            'kube_statefulset_status_replicas_ready{namespace="other", statefulset="postgres"}': "0x20",
        },
    ),
    "SangamRestarts": (
        {'process_start_time_seconds{job="sangam", namespace="sangam", pod="sangam-server-0"}': "100x4 200x4 300x4 400x4"},
        20,
        {"job": "sangam", **POD},
        "3",
        {
            'process_start_time_seconds{job="sangam", namespace="sangam", pod="sangam-server-0"}': "100x4 200x4 300x12",
            'process_start_time_seconds{job="other", namespace="sangam", pod="x"}': "100x4 200x4 300x4 400x4",
        },
    ),
    "SangamCertificateExpires": (
        # Seven days are 604800 s; the clock of these tests begins at 0.
        {'sangam_certificate_expiry_timestamp_seconds{namespace="sangam", pod="sangam-server-0"}': "260100x20"},
        15,
        POD,
        "3d 0h 0m 0s",
        {'sangam_certificate_expiry_timestamp_seconds{namespace="sangam", pod="sangam-server-0"}': "700000x20"},
    ),
    "SangamNoProgress": (
        {'sangam_job_stalled{namespace="sangam", pod="sangam-coordinator-0", exported_job="7"}': "0 1x9"},
        5,
        {"exported_job": "7", **COORDINATOR},
        "",
        {'sangam_job_stalled{namespace="sangam", pod="sangam-coordinator-0", exported_job="7"}': "0x10"},
    ),
    "SangamJobFailed": (
        {'sangam_jobs{namespace="sangam", pod="sangam-coordinator-0", state="failed"}': "3x10 4x10"},
        15,
        {"state": "failed", **COORDINATOR},
        "",
        {
            'sangam_jobs{namespace="sangam", pod="sangam-coordinator-0", state="failed"}': "3x20",
            'sangam_jobs{namespace="sangam", pod="sangam-coordinator-0", state="succeeded"}': "3x10 4x10",
        },
    ),
    "SangamNonFiniteGradients": (
        {'sangam_train_skipped_steps_total{namespace="sangam", pod="sangam-coordinator-0", exported_job="7"}': "0x5 1x10"},
        10,
        {"exported_job": "7", **COORDINATOR},
        "",
        {'sangam_train_skipped_steps_total{namespace="sangam", pod="sangam-coordinator-0", exported_job="7"}': "5x20"},
    ),
    "SangamWorkerStragglers": (
        # The first one computes, the other waits for it nine parts of ten.
        {
            PHASES % (0, "forward"): "0+54x60",
            PHASES % (0, "wait"): "0+6x60",
            PHASES % (1, "forward"): "0+6x60",
            PHASES % (1, "wait"): "0+54x60",
        },
        40,
        {"namespace": "sangam"},
        "80%",
        {
            PHASES % (0, "forward"): "0+54x60",
            PHASES % (0, "wait"): "0+6x60",
            PHASES % (1, "forward"): "0+40x60",
            PHASES % (1, "wait"): "0+20x60",
            PHASES % (2, "forward"): "5x60",
        },
    ),
    "SangamCheckpointTooOld": (
        {
            'sangam_checkpoint_last_success_timestamp_seconds{namespace="sangam", pod="sangam-coordinator-0"}': "60x90",
            'sangam_job_checkpoint_step{namespace="sangam", pod="sangam-coordinator-0", exported_job="7"}': "500x90",
            PROGRESS: "1x90",
        },
        81,
        COORDINATOR,
        "1h 20m 0s",
        # No job that has a checkpoint runs.
        {
            'sangam_checkpoint_last_success_timestamp_seconds{namespace="sangam", pod="sangam-coordinator-0"}': "60x90",
            'sangam_job_checkpoint_step{namespace="sangam", pod="sangam-coordinator-0", exported_job="6"}': "500x90",
            PROGRESS: "1x90",
        },
    ),
    "SangamCheckpointFailures": (
        {'sangam_checkpoint_failures_total{namespace="sangam", pod="sangam-coordinator-0", reason="unavailable"}': "0x5 1x10"},
        10,
        {"reason": "unavailable", **COORDINATOR},
        "",
        {'sangam_checkpoint_failures_total{namespace="sangam", pod="sangam-coordinator-0", reason="unavailable"}': "2x20"},
    ),
    "SangamDiskStalls": (
        {'sangam_disk_stalls_total{namespace="sangam", pod="sangam-coordinator-0"}': "0x5 1x10"},
        10,
        COORDINATOR,
        "",
        {'sangam_disk_stalls_total{namespace="sangam", pod="sangam-coordinator-0"}': "1x20"},
    ),
    "SangamMemoryNearLimit": (
        {
            'sangam_memory_used_bytes{namespace="sangam", pod="sangam-server-0", kind="parameters"}': "95x20",
            'sangam_memory_limit_bytes{namespace="sangam", pod="sangam-server-0"}': "100x20",
        },
        15,
        POD,
        "95%",
        {
            'sangam_memory_used_bytes{namespace="sangam", pod="sangam-server-0", kind="parameters"}': "80x20",
            'sangam_memory_limit_bytes{namespace="sangam", pod="sangam-server-0"}': "100x20",
        },
    ),
    "SangamRejectedPushes": (
        {'sangam_admission_rejected_total{namespace="sangam", pod="sangam-server-0", reason="memory_budget"}': "0+5x30"},
        20,
        {"reason": "memory_budget", **POD},
        "",
        # Once, and then no more.
        {'sangam_admission_rejected_total{namespace="sangam", pod="sangam-server-0", reason="memory_budget"}': "0x5 3x25"},
    ),
    "SangamRefusesCallers": (
        {'sangam_admission_rejected_total{namespace="sangam", pod="sangam-server-0", reason="rights"}': "0+5x30"},
        20,
        {"reason": "rights", **POD},
        "",
        # A limit is no caller without rights.
        {'sangam_admission_rejected_total{namespace="sangam", pod="sangam-server-0", reason="memory_budget"}': "0+5x30"},
    ),
}


def rule_file(path, folder):
    """The groups of a PrometheusRule, as promtool wants them."""
    with open(path, encoding="utf-8") as file:
        groups = yaml.safe_load(file)["spec"]["groups"]
    target = os.path.join(folder, "rules.yaml")
    with open(target, "w", encoding="utf-8") as file:
        yaml.safe_dump({"groups": groups}, file)
    return target, {rule["alert"]: rule for group in groups for rule in group["rules"]}


def rendered(text, labels, value):
    text = re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda match: labels[match.group(1)], text)
    return re.sub(r"\{\{ \$value[^}]*\}\}", value, text)


def unit_tests(rules):
    tests = []
    for name, (series, minute, labels, value, quiet) in CASES.items():
        rule = rules[name]
        annotations = {key: rendered(text, labels, value) for key, text in rule["annotations"].items()}
        fires = {"exp_labels": {**labels, "severity": rule["labels"]["severity"]}, "exp_annotations": annotations}
        for which, alerts in ((series, [fires]), (quiet, [])):
            # The coordinator's alert fires where there is none, too.
            inputs = dict(which)
            inputs.setdefault('up{job="sangam", component="coordinator", namespace="elsewhere", pod="c"}', "1x100")
            tests.append(
                {
                    "interval": "1m",
                    "input_series": [{"series": key, "values": values} for key, values in inputs.items()],
                    "alert_rule_test": [{"eval_time": "%dm" % minute, "alertname": name, "exp_alerts": alerts}],
                }
            )
    tests.append(
        {
            "interval": "1m",
            "input_series": [{"series": 'up{job="other"}', "values": "1x20"}],
            "alert_rule_test": [
                {
                    "eval_time": "5m",
                    "alertname": "SangamCoordinatorDown",
                    "exp_alerts": [
                        {
                            "exp_labels": {"severity": "critical", "job": "sangam", "component": "coordinator"},
                            "exp_annotations": rules["SangamCoordinatorDown"]["annotations"],
                        }
                    ],
                }
            ],
        }
    )
    # A coordinator that started again and has made no checkpoint since.
    _, _, labels, age, _ = CASES["SangamCheckpointTooOld"]
    rule = rules["SangamCheckpointTooOld"]
    tests.append(
        {
            "interval": "1m",
            "input_series": [
                {"series": 'sangam_checkpoint_last_success_timestamp_seconds{namespace="sangam", pod="sangam-coordinator-0"}', "values": "0x90"},
                {"series": 'process_start_time_seconds{namespace="sangam", pod="sangam-coordinator-0"}', "values": "60x90"},
                {"series": 'process_start_time_seconds{namespace="sangam", pod="sangam-server-0"}', "values": "0x90"},
                {"series": 'sangam_job_checkpoint_step{namespace="sangam", pod="sangam-coordinator-0", exported_job="7"}', "values": "500x90"},
                {"series": PROGRESS, "values": "1x90"},
            ],
            "alert_rule_test": [
                {
                    "eval_time": "81m",
                    "alertname": "SangamCheckpointTooOld",
                    "exp_alerts": [
                        {
                            "exp_labels": {**labels, "severity": rule["labels"]["severity"]},
                            "exp_annotations": {key: rendered(text, labels, age) for key, text in rule["annotations"].items()},
                        }
                    ],
                }
            ],
        }
    )
    return tests


def promtool(*arguments):
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@unittest.skipUnless(shutil.which("promtool"), "there is no promtool (Debian's package prometheus)")
class AlertsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.path, self.rules = rule_file(ALERTS, self.folder)

    def run_unit_tests(self, tests):
        path = os.path.join(self.folder, "tests.yaml")
        with open(path, "w", encoding="utf-8") as file:
            yaml.safe_dump({"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": tests}, file)
        return promtool("test", "rules", path)

    def test_rules_parse(self):
        code, output = promtool("check", "rules", "--lint-fatal", self.path)
        self.assertEqual(code, 0, output)

    def test_a_rule_that_does_not_parse_is_seen(self):
        with open(self.path, encoding="utf-8") as file:
            text = file.read()
        with open(self.path, "w", encoding="utf-8") as file:
            file.write(text.replace("sangam_job_stalled == 1", "sangam_job_stalled === 1"))
        code, _ = promtool("check", "rules", self.path)
        self.assertNotEqual(code, 0)

    def test_each_alert_has_a_case_and_its_words(self):
        self.assertEqual(sorted(CASES), sorted(self.rules))
        for name, rule in self.rules.items():
            self.assertIn(rule["labels"]["severity"], ("critical", "warning"), name)
            self.assertEqual(sorted(rule["annotations"]), ["description", "runbook", "summary"], name)

    def test_each_fires_and_is_silent(self):
        code, output = self.run_unit_tests(unit_tests(self.rules))
        self.assertEqual(code, 0, output)

    def test_an_alert_that_fires_too_late_is_seen(self):
        with open(self.path, encoding="utf-8") as file:
            text = file.read()
        with open(self.path, "w", encoding="utf-8") as file:
            file.write(text.replace("for: 2m", "for: 20m"))
        code, output = self.run_unit_tests(unit_tests(self.rules))
        self.assertNotEqual(code, 0)
        self.assertIn("SangamServerDown", output)

    def test_each_has_its_section_of_the_runbook(self):
        for name, rule in self.rules.items():
            path, _, anchor = rule["annotations"]["runbook"].partition("#")
            with open(os.path.join(rendering.ROOT, path), encoding="utf-8") as file:
                headings = re.findall(r"^## (\w+)$", file.read(), re.MULTILINE)
            self.assertEqual(anchor, name.lower())
            self.assertIn(name, headings)
            self.assertLessEqual(set(headings), set(self.rules), "sections of alerts that are gone")


if __name__ == "__main__":
    unittest.main()
