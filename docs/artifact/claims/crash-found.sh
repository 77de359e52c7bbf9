#!/bin/sh
# Claim: Crash exploration finds a forgotten flush, names the store, and covers every cut once it is mended.
# Takes: some seconds, once a boot is cached
# Tolerance: none
. "$(dirname "$0")/common"

page_file tutorials/crash.md log.c
compile log
crash() {
    "$NAGORI" -q crash --machine small --order commit --file log:/bin/log --recover 'log recover' "$@"
}
status=0
crash --workload 'log append 10 buggy' --fail-fast --json buggy.json > buggy.txt 2>&1 || status=$?
[ "$status" = 1 ] || { cat buggy.txt; echo "exit code $status, 1 was expected" >&2; exit 1; }
status=0
crash --workload 'log append 10' --json mended.json > mended.txt 2>&1 || status=$?
[ "$status" = 0 ] || { cat mended.txt; echo "exit code $status, 0 was expected" >&2; exit 1; }
cat buggy.txt mended.txt
judge '
text = open("buggy.txt").read()
assert "log.c:36 is lost" in text, "the store is not named"
assert "0 findings; 21 recoveries; of 21 cuts 21 covered completely" in open("mended.txt").read()
'
