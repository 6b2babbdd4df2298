#!/bin/bash
# The programs are built so that a bug in them is hard to use: position-independent, tables read-only after the start, no
# executable stack, checked library calls, guarded stacks.
set -u
failures=0
fail() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}
for program in server/sangam-server worker/sangam-worker client/sangam; do
  readelf -hW "$program" | grep -q "Type: *DYN" || fail "$program is not position-independent"
  readelf -lW "$program" | grep -q "GNU_RELRO" || fail "$program has no read-only tables"
  readelf -dW "$program" | grep -q "BIND_NOW" || fail "$program binds symbols late"
  readelf -lW "$program" | grep -q "GNU_STACK.* RW " || fail "$program has an executable stack"
  symbols="$(readelf --dyn-syms -W "$program")"
  grep -q "__stack_chk_fail" <<<"$symbols" || fail "$program has unguarded stacks"
  # The client calls nothing that can be checked.
  [[ $program == client/* ]] || grep -q "_chk@" <<<"$symbols" || fail "$program has unchecked library calls"
done
exit $((failures > 0))
