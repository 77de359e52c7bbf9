#!/bin/sh
# Claim: The model reproduces the 20 published latencies of the board from Linux user space.
# Takes: half a minute on two idle cores
# Tolerance: mean error at most 1.5 %, largest at most 3.5 % (another Debian kernel moves cells by a percent or two)
. "$(dirname "$0")/common"

"$NAGORI" -q bench board --json > board.json
judge '
import csv, json, sys
measured = {(r["op"], r["benchmark"], r["value"], r["method"]): r["latency_ns"] for r in json.load(open(sys.argv[1]))}
rows = csv.DictReader(line for line in open(sys.argv[2]) if not line.startswith("#"))
published = {(r["op"], r["benchmark"], int(r["value"]), r["method"]): float(r["latency_ns"]) for r in rows}
errors = {k: 100 * (measured[k] / v - 1) for k, v in published.items()}
for key, error in sorted(errors.items()):
    print(*key, f"{measured[key]:.0f} ns, published {published[key]:.0f}, {error:+.1f} %")
mean, most = sum(map(abs, errors.values())) / len(errors), max(map(abs, errors.values()))
print(f"{len(errors)} cells: mean error {mean:.1f} %, largest {most:.1f} %")
assert len(errors) == 20 and mean <= 1.5 and most <= 3.5
' board.json "$root/crates/bench/data/board_latency_calibration.csv"
