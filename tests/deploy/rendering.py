"""Renders what lies in deploy/ as a cluster would get it."""

import os
import re
import shutil
import subprocess

import yaml

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
KUBERNETES = os.path.join(ROOT, "deploy/kubernetes")
CHART = os.path.join(ROOT, "deploy/helm/sangam")


def version():
    with open(os.path.join(ROOT, "common/base/version.h"), encoding="utf-8") as header:
        return re.search(r'kVersion\[\] = "([^"]+)"', header.read()).group(1)


def run(*command, text=None):
    """The output of a command that must succeed."""
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError("%s: exit status %d\n%s" % (" ".join(command), done.returncode, done.stderr or done.stdout))
    return done.stdout


def load(text):
    return [document for document in yaml.safe_load_all(text) if document]


def kustomize(folder):
    return load(run("kubectl", "kustomize", folder))


def helm(*values, release="sangam", namespace="sangam"):
    arguments = [argument for value in values for argument in ("--set", value)]
    return load(run("helm", "template", release, CHART, "--namespace", namespace, *arguments))


def copy_of_kubernetes(target):
    """A copy of deploy/kubernetes that a test may change."""
    shutil.copytree(KUBERNETES, target)
    return target


def example(name):
    with open(os.path.join(KUBERNETES, "examples", name), encoding="utf-8") as file:
        return load(file.read())
