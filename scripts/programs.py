"""The compiled programs of validation/same, which `same` and `cost` run.

What a compiler makes of a source depends on its version, and records are of instructions; so the compiled programs are
in the repository, stripped, in one archive. Compiling them anew makes the same archive with the same compiler.
"""

import hashlib
import io
import lzma
import pathlib
import re
import shutil
import subprocess
import tarfile
import tempfile
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
ARCHIVE = ROOT / "validation" / "same" / "programs.tar.xz"
LIST = ROOT / "validation" / "same" / "programs.toml"
CROSS = "riscv64-linux-gnu-"
# Where both kinds of programs are linked to, unless they say otherwise.
LINKED_AT = "0x80000000"
# Member of the archive that says what it was made with.
COMPILER = "compiler.txt"


class Trouble(Exception):
    """What is wrong, for people."""


def run(*command, cwd=None):
    """Runs a command, and gives what it prints."""
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    except OSError as e:
        raise Trouble(f"cannot run {command[0]}: {e.strerror}; make setup installs it") from e
    if done.returncode != 0:
        raise Trouble(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stderr}{done.stdout}")
    return done.stdout


def expanded(table):
    """Names and descriptions of the programs of the list: for each source and each place one."""
    programs = {}
    for kind in ("bare", "speed"):
        for entry in table.get(kind, []):
            for source in entry["sources"]:
                name = source + entry.get("suffix", "")
                if name in programs:
                    raise Trouble(f"{LIST.name}: there are two programs `{name}`")
                programs[name] = {**entry, "kind": kind, "source": source}
    return programs


def compile_bare(source, at, into, work):
    """By the Makefile of guest/bare, in a copy of it, as code elsewhere needs another linker script."""
    copy = work / f"bare-{at}"
    if not copy.exists():
        shutil.copytree(ROOT / "guest" / "bare", copy, ignore=shutil.ignore_patterns("build"))
        script = copy / "link.ld"
        script.write_text(script.read_text().replace(LINKED_AT, at))
    if not (work / "include").exists():
        shutil.copytree(ROOT / "guest" / "include", work / "include")
    run("make", "-C", copy, f"CROSS={CROSS}", f"build/{source}.elf")
    shutil.copy(copy / "build" / f"{source}.elf", into)


def speed_flags():
    """The compiler's flags of `nagori bench speed`, from where they are."""
    text = (ROOT / "crates/bench/src/speed/programs.rs").read_text()
    inside = "".join(text.split(f"const {name}: &[&str] = &[", 1)[1].split("];", 1)[0] for name in ("FLAGS", "BARE"))
    return re.findall(r'"([^"]*)"', inside)


def compile_speed(program, into, work):
    """As `nagori bench speed` does it."""
    copy = work / "speed"
    if not copy.exists():
        shutil.copytree(ROOT / "guest" / "speed", copy)
        shutil.copy(ROOT / "LICENSE", copy / "text.txt")
    place = [f"-Wl,--defsym=DATA={program['data']}"] if "data" in program else []
    more = ["text.S"] if program["source"] == "compress" else []
    sizes = [f"-DSCALE={program['scale']}", f"-DHARTS={program.get('harts', 1)}"]
    run(f"{CROSS}gcc", *place, *speed_flags(), *sizes,
        "start.S", "start.c", f"{program['source']}.c", *more, "-o", into, cwd=copy)


def compile_all(progress=print):
    """Compiles all programs of the list, and writes the archive."""
    files = {COMPILER: run(f"{CROSS}gcc", "--version").splitlines()[0].encode() + b"\n"}
    with tempfile.TemporaryDirectory(prefix="nagori-programs-") as directory:
        work = pathlib.Path(directory)
        for name, program in expanded(tomllib.loads(LIST.read_text())).items():
            progress(name)
            elf = work / f"{name}.elf"
            if program["kind"] == "bare":
                compile_bare(program["source"], program.get("at", LINKED_AT), elf, work)
            else:
                compile_speed(program, elf, work)
            run(f"{CROSS}strip", "--strip-all", elf)
            files[elf.name] = elf.read_bytes()
    ARCHIVE.write_bytes(packed(files))


def packed(files):
    """An archive of files by name, with the same bytes for the same files."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name in sorted(files):
            member = tarfile.TarInfo(name)
            member.size = len(files[name])
            member.mode = 0o644
            tar.addfile(member, io.BytesIO(files[name]))
    return lzma.compress(raw.getvalue(), preset=9 | lzma.PRESET_EXTREME)


def unpacked(archive=None):
    """The files of the archive by name."""
    try:
        raw = lzma.decompress((archive or ARCHIVE).read_bytes())
    except (OSError, lzma.LZMAError) as e:
        raise Trouble(f"cannot read the compiled programs: {e}; scripts/same --compile makes them") from e
    with tarfile.open(fileobj=io.BytesIO(raw)) as tar:
        return {m.name: tar.extractfile(m).read() for m in tar.getmembers()}


def digest(files):
    """Of all files with their names, whatever they are compressed with."""
    total = hashlib.sha256()
    for name in sorted(files):
        total.update(f"{name} {len(files[name])}\n".encode())
        total.update(files[name])
    return total.hexdigest()


def write_to(directory, files):
    """Writes the programs to a directory; gives their paths by name without `.elf`."""
    paths = {}
    for name, content in files.items():
        if name.endswith(".elf"):
            path = pathlib.Path(directory, name)
            path.write_bytes(content)
            paths[name.removesuffix(".elf")] = path
    return paths
