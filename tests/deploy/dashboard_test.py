"""The dashboard's queries parse, and they and the alerts name only metrics that the daemons have."""

import json
import os
import re
import shutil
import tempfile
import unittest

import yaml

import alerts_test
import rendering

DASHBOARD = os.path.join(rendering.KUBERNETES, "components/monitoring/dashboard.json")


def documented_metrics():
    """Names in docs/observability.md, which a test of the daemons holds against what they answer."""
    with open(os.path.join(rendering.ROOT, "docs/observability.md"), encoding="utf-8") as file:
        return set(re.findall(r"\b(?:sangam|process)_[a-z_]+\b", file.read()))


def metrics_in(expression):
    # A label's value may look like a metric.
    names = re.findall(r"\b(?:sangam|process)_[a-z_]+\b", re.sub(r'"[^"]*"', '""', expression))
    return {re.sub(r"_(bucket|sum|count)$", "", name) if name.endswith(("_bucket", "_sum", "_count")) else name for name in names}


def queries(dashboard):
    return [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]


def parse_faults(expressions):
    """What promtool says of expressions, as rules."""
    with tempfile.TemporaryDirectory() as folder:
        rules = []
        for index, expression in enumerate(expressions):
            # What Grafana fills in.
            for variable in ("$namespace", "$training_job"):
                expression = expression.replace(variable, ".+")
            rules.append({"record": "query:%d" % index, "expr": expression})
        path = os.path.join(folder, "rules.yaml")
        with open(path, "w", encoding="utf-8") as file:
            yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}, file)
        code, output = alerts_test.promtool("check", "rules", path)
        return output if code else ""


class DashboardTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with open(DASHBOARD, encoding="utf-8") as file:
            cls.dashboard = json.load(file)

    def test_panels_are_whole(self):
        seen = set()
        for panel in self.dashboard["panels"]:
            self.assertNotIn(panel["id"], seen)
            seen.add(panel["id"])
            place = panel["gridPos"]
            self.assertLessEqual(place["x"] + place["w"], 24, panel["title"])
            if panel["type"] != "row":
                self.assertTrue(panel["targets"], panel["title"])
                self.assertEqual(panel["datasource"]["uid"], "${datasource}", panel["title"])
        self.assertGreater(len(queries(self.dashboard)), 20)

    def test_variables_are_declared(self):
        declared = {variable["name"] for variable in self.dashboard["templating"]["list"]}
        used = set(re.findall(r"\$\{?(\w+)", json.dumps(self.dashboard["panels"])))
        self.assertEqual(used - declared, set())

    @unittest.skipUnless(shutil.which("promtool"), "there is no promtool (Debian's package prometheus)")
    def test_queries_parse(self):
        self.assertEqual(parse_faults(queries(self.dashboard)), "")
        self.assertNotEqual(parse_faults(["sum by pod (up)"]), "")

    def test_only_metrics_that_there_are(self):
        known = documented_metrics()
        with tempfile.TemporaryDirectory() as folder:
            _, alerts = alerts_test.rule_file(alerts_test.ALERTS, folder)
        expressions = {"panel": queries(self.dashboard), "alert": [rule["expr"] for rule in alerts.values()]}
        for where, texts in expressions.items():
            for text in texts:
                self.assertEqual(metrics_in(text) - known, set(), "%s: %s" % (where, text))
        self.assertEqual(metrics_in('rate(sangam_nonsense_total{a="sangam_train_loss"}[1m])') - known, {"sangam_nonsense_total"})


if __name__ == "__main__":
    unittest.main()
