#!/bin/bash
# Installs the Debian packages of the given groups (tools/packages.txt), or of all groups.
# Does nothing, and needs no rights, where they are present.
#
#   tools/install_packages.sh [GROUP...]
set -euo pipefail

list="$(dirname "${BASH_SOURCE[0]}")/packages.txt"
groups=" ${*:-build data test check} "
known=" $(awk '/^[a-z]/ {print $1}' "$list" | sort -u | tr '\n' ' ') "
for group in $groups; do
  if [[ "$known" != *" $group "* ]]; then
    echo "install_packages: no group '$group' in $list (it has:$known)" >&2
    exit 2
  fi
done

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "install_packages: this is not a Debian system; install what $list names by hand." >&2
  exit 1
fi

missing=()
while read -r group package command; do
  [[ -z "$group" || "$group" == "#"* || "$groups" != *" $group "* ]] && continue
  [[ -n "$command" ]] && command -v "$command" >/dev/null && continue
  # The status reads "install ok installed"; a removed package keeps its configuration and an entry.
  status="$(dpkg-query -W -f='${Status}' "$package" 2>/dev/null || true)"
  [[ "$status" == *" installed" ]] || missing+=("$package")
done <"$list"

if ((${#missing[@]} == 0)); then
  echo "install_packages: all packages are present."
  exit 0
fi

as_root=()
if ((EUID != 0)); then
  if command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [[ -t 0 ]]; }; then
    as_root=(sudo)
  else
    echo "install_packages: these packages are missing, and only root can install them:" >&2
    echo "  apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 1
  fi
fi

echo "install_packages: installing ${missing[*]}"
run_apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -y -q -o Acquire::Retries=3 \
    -o Dpkg::Use-Pty=0 "$@" </dev/null
}
# A stale package list is the usual reason for a failed install; a failed update alone is not fatal,
# as one unreachable extra source must not stop us when the packages are there.
run_apt update >/dev/null || echo "install_packages: apt-get update failed; trying with the lists at hand." >&2
if ! run_apt install --no-install-recommends "${missing[@]}"; then
  echo "install_packages: apt-get could not install the packages above." >&2
  exit 1
fi
