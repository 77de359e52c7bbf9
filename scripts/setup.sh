#!/bin/sh
# Installs what building, tests and demo need from Debian's packages, if anything is missing.
# Debian 12 and 13; installing needs root.
set -eu

fail() { echo "setup: $*" >&2; exit 1; }

# Rust may have been installed a moment ago, in a shell that does not know it yet.
PATH="$PATH:${CARGO_HOME:-${HOME:-/root}/.cargo}/bin"

# What has to be there, and the package that brings it: commands by name, files by path.
NEEDED='
cc gcc
c++ g++
/usr/include/stdio.h libc6-dev
make make
git git
riscv64-linux-gnu-gcc gcc-riscv64-linux-gnu
riscv64-linux-gnu-objdump binutils-riscv64-linux-gnu
/usr/riscv64-linux-gnu/include/stdio.h libc6-dev-riscv64-cross
qemu-riscv64 qemu-user
qemu-system-riscv64 qemu-system-misc|qemu-system-riscv
/usr/include/valgrind/pub_tool_tooliface.h valgrind
dtc device-tree-compiler
cpio cpio
xz xz-utils
bzip2 bzip2
mke2fs e2fsprogs
debugfs e2fsprogs
python3 python3
pip3 python3-pip
verilator verilator
cmake cmake
pkg-config pkg-config
ip iproute2
gdb-multiarch gdb-multiarch
ssh openssh-client
tar tar
'

missing() {
    echo "$NEEDED" | while read -r what package; do
        case $what in
        '') continue ;;
        /*) [ -e "$what" ] || echo "$package" ;;
        *) command -v "$what" >/dev/null 2>&1 || [ -x "/sbin/$what" ] || echo "$package" ;;
        esac
    done
}

# Debian 13 has qemu-system-riscv64 in a package of its own.
choose() {
    for name in $(missing); do
        case $name in
        *'|'*)
            if apt-cache show "${name#*|}" 2>/dev/null | grep -q '^Package:'; then
                echo "${name#*|}"
            else
                echo "${name%|*}"
            fi
            ;;
        *) echo "$name" ;;
        esac
    done
}

install() {
    [ "$(id -u)" = 0 ] || fail "installing packages needs root; as root: apt-get install $*"
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >&2
}

if [ -n "$(missing)" ]; then
    command -v apt-get >/dev/null 2>&1 ||
        fail "this system has no apt-get; install the equivalents of:" $(missing)
    [ "$(id -u)" = 0 ] ||
        fail "installing packages needs root; as root: apt-get install" $(choose)
    apt-get update >&2
    # Names are free of blanks.
    # shellcheck disable=SC2046
    install $(choose)
    [ -z "$(missing)" ] || fail "still missing after the installation:" $(missing)
fi

# Cargo.toml says which Rust is the oldest that will do.
OLDEST=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' "$(dirname "$0")/../Cargo.toml")
command -v cargo >/dev/null 2>&1 ||
    fail "cargo is missing: install Rust $OLDEST or newer with rustup (https://rustup.rs)"
RUST=$(cargo --version | sed -n 's/^cargo \([0-9.]*\).*/\1/p')
[ "$(printf '%s\n' "$OLDEST" "$RUST" | sort -V | head -n 1)" = "$OLDEST" ] ||
    fail "cargo is of Rust $RUST, and $OLDEST or newer is needed; with rustup: rustup update stable"
for component in rustfmt clippy; do
    cargo "$(echo $component | sed 's/rustfmt/fmt/')" --version >/dev/null 2>&1 ||
        rustup component add "$component" ||
        fail "$component is missing: rustup component add $component"
done
