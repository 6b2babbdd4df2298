#!/bin/bash
# The manual pages: groff has nothing to complain about, and they say what they should.
set -u
cd deploy/share || exit 1
if ! command -v groff >/dev/null; then
  echo "skipped: groff is not installed (package groff)"
  exit 0
fi
failures=0
fail() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}

for page in sangam.1 sangam-server.8 sangam-worker.8; do
  complaints="$(groff -man -Tutf8 -ww -z -rLL=78n "$page" 2>&1)"
  [[ -z "$complaints" ]] || fail "$page: $complaints"
  text="$(groff -man -Tutf8 -P-cbou -rLL=78n "$page")"
  for words in NAME SYNOPSIS "SEE ALSO"; do
    grep -q "^$words" <<<"$text" || fail "$page has no section $words"
  done
  grep -q -- "--config=FILE" <<<"$text" || fail "$page does not have --config=FILE that can be copied"
  echo "$page: $(wc -l <<<"$text") lines"
done
# The test would see a fault.
printf '.TH X 1\n.SH NAME\n.nosuchrequest\n' >"${TEST_TMPDIR:-/tmp}/bad.1"
[[ -n "$(groff -man -Tutf8 -ww -z "${TEST_TMPDIR:-/tmp}/bad.1" 2>&1)" ]] || fail "groff complains of nothing"
exit $((failures > 0))
