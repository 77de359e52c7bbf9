#!/bin/sh
# Claim: The core's timing is that of Rocket's RTL, program by program, within the errors of docs/validation.md.
# Takes: ten minutes, with Rust, Verilator and a build of the model; no guest image
# Tolerance: that of `make validate-quick`, which fails beyond it
. "$(dirname "$0")/common"

make -C "$root" validate-quick && echo "holds: $(basename "$0" .sh)"
