#!/bin/sh
# Installs the C library, its header and descriptions for pkg-config and CMake, and the command.
#
#   PREFIX      where it will be used (/usr/local), absolute
#   DESTDIR     put in front of every path that is written, for packages
#   LIBDIR      PREFIX/lib
#   INCLUDEDIR  PREFIX/include
#   SHARED, STATIC  the libraries that cargo built
#   COMMAND     the nagori command, if it is to be installed
set -eu
cd "$(dirname "$0")/.."
fail() {
    echo "install: $*" >&2
    exit 1
}
PREFIX=${PREFIX:-/usr/local}
LIBDIR=${LIBDIR:-$PREFIX/lib}
INCLUDEDIR=${INCLUDEDIR:-$PREFIX/include}
DESTDIR=${DESTDIR:-}
case $PREFIX$LIBDIR$INCLUDEDIR in
*[\&\|]*) fail "PREFIX, LIBDIR and INCLUDEDIR must not contain & or |" ;;
esac
for path in "$PREFIX" "$LIBDIR" "$INCLUDEDIR"; do
    case $path in
    /*) ;;
    *) fail "$path: an absolute path is needed" ;;
    esac
done
for file in "${SHARED:?}" "${STATIC:?}"; do
    [ -f "$file" ] || fail "$file is missing: make install builds it"
done

header=crates/capi/include/nagori_memory.h
abi=$(sed -n 's/^#define NAGORI_ABI_VERSION \([0-9][0-9]*\)$/\1/p' "$header")
[ -n "$abi" ] || fail "$header: no NAGORI_ABI_VERSION"
release=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
[ -n "$release" ] || fail "Cargo.toml: no version"
# The interface's number, then the release: 2.0.1.0.
version=$abi.$release
soname=libnagori_memory.so.$abi
real=libnagori_memory.so.$version

fill() {
    sed -e "s|@PREFIX@|$PREFIX|g" -e "s|@LIBDIR@|$LIBDIR|g" -e "s|@INCLUDEDIR@|$INCLUDEDIR|g" \
        -e "s|@VERSION@|$version|g" -e "s|@ABI@|$abi|g" -e "s|@SONAME@|$soname|g" \
        -e "s|@REALNAME@|$real|g" "crates/capi/install/$1.in" > "$2/$1"
    chmod 644 "$2/$1"
}

lib=$DESTDIR$LIBDIR
install -d "$lib/pkgconfig" "$lib/cmake/NagoriMemory" "$DESTDIR$INCLUDEDIR"
install -m 755 "$SHARED" "$lib/$real"
ln -sf "$real" "$lib/$soname"
ln -sf "$soname" "$lib/libnagori_memory.so"
install -m 644 "$STATIC" "$lib/libnagori_memory.a"
install -m 644 "$header" "$DESTDIR$INCLUDEDIR/nagori_memory.h"
fill nagori-memory.pc "$lib/pkgconfig"
fill NagoriMemoryConfig.cmake "$lib/cmake/NagoriMemory"
fill NagoriMemoryConfigVersion.cmake "$lib/cmake/NagoriMemory"
if [ -n "${COMMAND:-}" ]; then
    install -d "$DESTDIR$PREFIX/bin"
    install -m 755 "$COMMAND" "$DESTDIR$PREFIX/bin/nagori"
fi
