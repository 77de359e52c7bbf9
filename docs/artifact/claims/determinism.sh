#!/bin/sh
# Claim: A program costs the same to the cycle in every run, with either engine.
# Takes: some seconds, once a boot is cached
# Tolerance: none; every statistic is equal
. "$(dirname "$0")/common"

page_file tutorials/program.md kv.c
compile kv
for run in translator again interpreter; do
    engine=$run
    [ "$run" = again ] && engine=translator
    "$NAGORI" -q run --placement nvmm --method extended --engine "$engine" --output none --json "$run.json" -- ./kv 2000
done 2>/dev/null
judge '
import json, sys
runs = [json.load(open(name)) for name in sys.argv[1:]]
for run in runs:
    run.pop("host", None)
first = runs[0]
for name, run in zip(sys.argv[1:], runs):
    differ = [k for k in first if first[k] != run.get(k)]
    print(name, run["summary"]["busy_cycles"], "cycles,", "different: " + ", ".join(differ) if differ else "equal")
    assert not differ
' translator.json again.json interpreter.json
