#!/bin/sh
# Claim: The 3D-XPoint-like DIMM answers pointer chases as Wang et al. (MICRO 2020) measured them on Optane DIMMs:
#   some 190 ns out of its first buffer, some 370 ns out of the medium.
# Takes: a second; no guest image
# Tolerance: 20 % of each latency
. "$(dirname "$0")/common"

for span in '8 KiB' '64 MiB'; do
    "$NAGORI" -q mem run --memory xpoint --trace "gen:pointer-chase,count=20000,span=$span" --mode dependent --json \
        > "$span.json"
done
judge '
import json
for span, published in (("8 KiB", 190), ("64 MiB", 370)):
    latency = json.load(open(span + ".json"))["read_latency_avg_ns"]
    print(f"{span}: {latency:.0f} ns, measured some {published}")
    assert abs(latency / published - 1) <= 0.2
'
