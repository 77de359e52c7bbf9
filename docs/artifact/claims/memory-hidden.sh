#!/bin/sh
# Claim: The 50 MHz board hides what tells memories apart: a pointer chase on PCM takes 1.14 times as long as on DDR4
#   there, and 2.13 times as long on a machine at 3.2 GHz.
# Takes: a minute on two idle cores
# Tolerance: 5 % of each ratio
. "$(dirname "$0")/common"

page_file run.md walk.c
compile walk
for machine in vc707 server; do
    "$NAGORI" -q compare --machine "$machine" --memory-model ddr4,pcm --placement nvmm --region-of-interest \
        --output none --json "$machine.json" -- ./walk 2>/dev/null
done
judge '
import json, sys
for name, expected in (("vc707", 1.14), ("server", 2.13)):
    rows = json.load(open(name + ".json"))["memory_models"]
    ratio = next(r["run_time"]["mean"] for r in rows if r["memory_model"] == "pcm")
    print(f"{name}: PCM / DDR4 = {ratio:.3f}, expected {expected}")
    assert abs(ratio / expected - 1) <= 0.05
'
