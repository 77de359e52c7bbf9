#!/bin/sh
# Claim: Every table of the application study follows from the stored results.
# Takes: some seconds; no guest image (the runs themselves are `make suite`, hours)
# Tolerance: none; the page is equal to the byte
. "$(dirname "$0")/common"

cp "$root/docs/suite.md" suite.md
"$NAGORI" -q suite report --results "$root/suite/results/study.jsonl.zst" --document suite.md
judge '
import sys
assert open("suite.md").read() == open(sys.argv[1]).read(), "docs/suite.md is not what the results say"
' "$root/docs/suite.md"
