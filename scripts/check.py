#!/usr/bin/env python3
"""Rules of the house that no compiler checks.

1. Crates depend on each other as the table in ARCHITECTURE.md says, and on nothing else.
2. No source file is too long.
3. Nothing that belongs to one machine or one package registry is written into a file.
4. Links between our documents lead somewhere.
5. All places that say which Rust is needed say the same.
6. The modules of a crate do not depend on each other in a circle.
7. No line is too long to be read in a window beside another one.
8. ARCHITECTURE.md stays short enough to be read in one sitting.
9. Sentences of comments do not begin with words that say nothing without the sentence before.
"""

import json
import pathlib
import re
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
MAX_LINES = 850
MAX_COLUMNS = 120
# Words as `wc -w` counts them, so the bars of tables are some.
MAX_WORDS = 2500
LONG_KINDS = {".rs", ".c", ".h", ".S", ".py", ".sh", ".cpp", ".sv", ".svh"}
# Split up, so that this file does not contain them.
FORBIDDEN = ["/work" + "/", "crates" + ".io", "index." + "crates", "pypi" + ".org",
             "npmjs" + ".com", "proxy." + "golang", "deb.debian" + ".org", "/root" + "/."]
# Machine-written, or read by machines only.
UNREAD = {"Cargo.lock"}
# Kinds of files whose comments begin with // or /*, and with #.
C_KINDS = {".rs", ".c", ".h", ".S", ".cpp", ".sv", ".svh"}
HASH_KINDS = {".py", ".sh", ".S", ".toml"}
# Kinds of files whose lines end at MAX_COLUMNS.
NARROW_KINDS = {".md", ".py", ".sh"} | C_KINDS
# Files that code writes; its strings decide where their lines end.
WRITTEN = {"docs/events.md", "docs/registers.md", "docs/reference/commands.md", "docs/reference/machines.md",
           "docs/reference/memories.md", "guest/include/nagori_regs.h"}

problems = []


def run(*command):
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def allowed_edges():
    """Rows `| `crate` | `a`, `b` | ... |` of the table under "Crate map"."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    section = re.search(r"^## Crate map$(.*?)^## ", text, re.M | re.S)
    rows = {}
    for line in section.group(1).splitlines() if section else []:
        cells = [c.strip() for c in line.strip().strip("|").split("|")]
        name = re.fullmatch(r"`([a-z0-9-]+)`", cells[0])
        if name and len(cells) >= 3:
            rows[name.group(1)] = set(re.findall(r"`([a-z0-9-]+)`", cells[1]))
    if not rows:
        sys.exit("ARCHITECTURE.md: no table of crates under `## Crate map`")
    return rows


def check_dependencies():
    rows = allowed_edges()
    metadata = json.loads(run("cargo", "metadata", "--format-version", "1", "--no-deps", "--locked"))
    packages = {p["name"]: p for p in metadata["packages"]}

    def short(name):
        return name.removeprefix("nagori-")

    for name, package in sorted(packages.items()):
        if short(name) not in rows:
            problems.append(f"ARCHITECTURE.md: the crate map has no row for `{short(name)}`")
            continue
        # Tests may look at more of the house than the code they test.
        used = {short(d["name"]) for d in package["dependencies"]
                if d["name"] in packages and d["kind"] != "dev"}
        for extra in sorted(used - rows[short(name)]):
            problems.append(f"crates/{short(name)}: depends on `{extra}`, which the crate map "
                            "of ARCHITECTURE.md does not allow")
    for gone in sorted(set(rows) - {short(n) for n in packages}):
        problems.append(f"ARCHITECTURE.md: there is no crate `{gone}`")


def check_files():
    for name in run("git", "ls-files").splitlines():
        path = ROOT / name
        if path.name in UNREAD or not path.is_file():
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        lines = text.count("\n")
        if path.suffix in LONG_KINDS and lines > MAX_LINES:
            problems.append(f"{name}: {lines} lines; split it (at most {MAX_LINES})")
        for number, line in enumerate(text.splitlines(), 1):
            for word in FORBIDDEN:
                if word in line:
                    problems.append(f"{name}:{number}: `{word}` does not belong in a file")
        if path.suffix == ".md":
            for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
                if "://" not in target and not (path.parent / target).exists():
                    problems.append(f"{name}: the link to {target} leads nowhere")


def check_rust():
    """Cargo.toml's rust-version is the source; setup.sh reads it there."""
    (oldest,) = re.findall(r'^rust-version = "(.*)"$', (ROOT / "Cargo.toml").read_text(), re.M)
    for name, pattern in [("README.md", r"\(([0-9.]+) or newer\)"),
                          ("fuzz/Cargo.toml", r'^rust-version = "(.*)"$')]:
        said = re.findall(pattern, (ROOT / name).read_text(), re.M)
        if said != [oldest]:
            problems.append(f"{name}: Rust {' '.join(said) or 'of no version'} is needed, says this file, "
                            f"and Cargo.toml says {oldest}")


MARKER = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+(?=\S)")
# A line with nothing but a link or a word (which may be an address), where no line could end.
UNBREAKABLE = re.compile(r"\s*(?:(?:[-*+]|\d+[.)])\s+)?(?:!?\[[^]]*\]\([^)]*\)\S*|\S+)")


def prose(text):
    """The numbered lines of Markdown that could be broken: no tables, code, comments and lone links."""
    inside = None  # What ends the code or the comment that the line is in.
    column = 0  # Where the text of a list's item begins.
    blank, code = True, False
    for number, line in enumerate(text.splitlines(), 1):
        words = line.strip()
        if inside:
            inside = None if inside in words else inside
            continue
        if not words:
            blank = True
            continue
        indent = len(line) - len(line.lstrip())
        if blank and indent < column:
            column = 0
        code = indent >= column + 4 and (blank or code)
        blank = False
        if code:
            continue
        if fence := re.match("```|~~~", words):
            inside = fence[0]
        elif words.startswith("<!--"):
            inside = None if "-->" in words else "-->"
        elif not words.startswith("|"):
            if marker := MARKER.match(line):
                column = marker.end()
            if not UNBREAKABLE.fullmatch(line):
                yield number, line


def wide_lines(name, text):
    """Numbers and lengths of lines that are too long, in files of kinds where that counts."""
    kind = pathlib.PurePath(name).suffix
    if kind not in NARROW_KINDS or name in WRITTEN:
        return []
    lines = prose(text) if kind == ".md" else enumerate(text.splitlines(), 1)
    return [(number, len(line)) for number, line in lines if len(line) > MAX_COLUMNS]


def check_width():
    for name in run("git", "ls-files").splitlines():
        path = ROOT / name
        wide = wide_lines(name, path.read_text()) if path.suffix in NARROW_KINDS and path.is_file() else []
        for number, columns in wide:
            problems.append(f"{name}:{number}: {columns} columns (at most {MAX_COLUMNS})")


def lines_of_comments(name, text):
    """The numbered lines of a file's comments, without what makes them comments."""
    kind = pathlib.PurePath(name).suffix
    if kind in C_KINDS:
        number, at = 1, 0
        for m in COMMENT.finditer(text):
            number, at = number + text.count("\n", at, m.start()), m.start()
            if m[0].startswith("/"):
                yield from ((n, line.strip("/*! \t")) for n, line in enumerate(m[0].splitlines(), number))
    if kind in HASH_KINDS:
        for number, line in enumerate(text.splitlines(), 1):
            if line.lstrip().startswith("#"):
                yield number, line.strip("# \t")


# Begins a sentence that says what something is by what it has in common with what was described before.
RIDDLE = re.compile(r"(?:^(?:- )?|[.!?] )(The same|Those of)\b")


def riddles(name, text):
    """Numbers of lines of comments in which a sentence begins so, and its first words."""
    if "The same" not in text and "Those of" not in text:
        return []
    return [(number, m[1]) for number, line in lines_of_comments(name, text) for m in RIDDLE.finditer(line)]


def check_riddles():
    for name in run("git", "ls-files").splitlines():
        path = ROOT / name
        if path.suffix in C_KINDS | HASH_KINDS and path.is_file():
            for number, words in riddles(name, path.read_text()):
                problems.append(f"{name}:{number}: a sentence begins with `{words}`; say what it is about, so that it "
                                "can be understood alone")


COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|r(#*)".*?"\1|"(?:\\.|[^"\\])*"|' r"'(?:\\.|[^'\\])'", re.S)
TEST = re.compile(r"#\[cfg\(test\)\](?:\s*#\[[^]]*\])*")


def code_of(text):
    """Rust without comments, strings and what only tests are compiled with, and the modules among the latter."""
    text = COMMENT.sub("", text)
    code, tests, at = "", [], 0
    for test in TEST.finditer(text):
        if test.start() < at:
            continue
        code += text[at:test.start()]
        at, depth = test.end(), 0
        if module := re.match(r"\s*(?:pub(?:\([^)]*\))?\s+)?mod\s+(\w+)\s*;", text[at:]):
            tests.append(module[1])
        # Up to the end of the item.
        while at < len(text):
            at += 1
            depth += (text[at - 1] in "([{") - (text[at - 1] in ")]}")
            if depth <= 0 and text[at - 1] in ";}":
                break
    return code + text[at:], tests


def names_in(tree):
    """The first names of `a::b, c::{d, e}`."""
    while tree != (tree := re.sub(r"\{[^{}]*\}", "", tree)):
        pass
    return re.findall(r"(?:^|,)\s*(\w+)", tree)


def group_at(text, at):
    """What is between the brace at this place and the one that closes it."""
    depth = 0
    for end in range(at, len(text)):
        depth += (text[end] == "{") - (text[end] == "}")
        if depth == 0:
            return text[at + 1:end]
    return text[at + 1:]


def modules_of(src):
    """Which of the modules directly below `src` each of them uses; tests may look at anything."""
    codes, skipped = {}, set()
    for path in sorted(src.rglob("*.rs")):
        of = path.relative_to(src).with_suffix("")
        base = of.parent if of.name in ("mod", "lib", "main") else of
        codes[of], tests = code_of(path.read_text())
        skipped |= {base / t for t in tests}
    uses, exports = {}, {}
    for of, code in codes.items():
        # Binaries beside a library are no modules of it.
        if any(p in skipped or p.name.endswith("tests") for p in [of, *of.parents]) or of.parts[0] == "bin":
            continue
        parts = of.parts[:-1] if of.name == "mod" else of.parts
        is_root = parts[0] in ("lib", "main")
        up = "self::" if is_root else "super::" * len(parts)
        used = uses.setdefault(parts[0], set())
        for m in re.finditer(rf"(?:\bcrate::|(?<![\w:]){up})(?!super\b)(\w+|\{{)", code):
            used.update(names_in(group_at(code, m.start(1))) if m[1] == "{" else [m[1]])
        if is_root:
            # Who uses what the root exports uses the module that has it.
            for m in re.finditer(r"\buse\s+(?:crate::|self::)?(\w+)::([^;]*);", code):
                exports.update({name: m[1] for name in re.findall(r"\w+", m[2])})
    resolved = {m: {n if n in uses else exports.get(n) for n in used} for m, used in uses.items()}
    return {m: {n for n in used if n in uses and n != m} for m, used in resolved.items()}


def circles(uses):
    """The sets of modules each of which depends on all others of its set, the largest first."""
    def reach(module):
        seen, todo = set(), [module]
        while todo:
            new = uses[todo.pop()] - seen
            seen |= new
            todo += new
        return seen

    reached = {m: reach(m) for m in uses}
    found = {frozenset(n for n in reached[m] if m in reached[n]) for m in uses if m in reached[m]}
    return sorted(map(sorted, found), key=lambda c: (-len(c), c))


def circle_problem(crate, uses):
    """The largest circle of a crate, if there is one."""
    found = circles(uses)
    return f"crates/{crate}: {len(found[0])} modules in a circle: {', '.join(found[0])}" if found else None


def check_one_build():
    """What the tests of all crates build is what the command is made of: with other features of a dependency, all that
    uses it would be compiled again for the command alone."""
    def crates(*what):
        told = run("cargo", "tree", "--offline", "--prefix", "none", "--format", "{p} {f}", *what)
        return {line.removesuffix(" (*)").replace(" (proc-macro)", "") for line in told.splitlines()}
    tests = crates("--workspace", "--edges", "all")
    for crate in sorted(crates("--package", "nagori-cli", "--edges", "normal,build") - tests):
        problems.append(f"Cargo.toml: tests build `{crate.split()[0]}` with other features than the command has it "
                        f"({crate}): ask for them in crates/cli/Cargo.toml")


EXAMPLE = re.compile(r"^\s*//[/!] ```(?:rust|no_run)?$", re.M)
TEXT = re.compile(r"//[/!] ```text\n.*?//[/!] ```\n", re.S)


def examples_problem(crate, source, tested):
    """What is wrong if examples in the documentation of a library are looked for, or not."""
    has_some = bool(EXAMPLE.search(TEXT.sub("", source)))
    if has_some and not tested:
        return f"crates/{crate}: its documentation has examples, so `doctest = false` has to go from its Cargo.toml"
    if tested and not has_some:
        return f"crates/{crate}: its documentation has no examples: `doctest = false` in [lib] saves the time to look"
    return None


def check_examples():
    for lib in sorted(ROOT.glob("crates/*/src/lib.rs")):
        crate = lib.parent.parent
        source = "".join(path.read_text() for path in sorted(lib.parent.rglob("*.rs")))
        tested = tomllib.loads((crate / "Cargo.toml").read_text()).get("lib", {}).get("doctest", True)
        problems.extend(filter(None, [examples_problem(crate.name, source, tested)]))


def check_circles():
    crates = {src.parent.name: modules_of(src) for src in sorted(ROOT.glob("crates/*/src"))}
    problems.extend(filter(None, (circle_problem(name, uses) for name, uses in crates.items())))


def word_problem(text):
    words = len(text.split())
    if words > MAX_WORDS:
        return (f"ARCHITECTURE.md: {words} words (at most {MAX_WORDS}); it is a map, and details belong into "
                "docs/internals")
    return None


def check_words():
    problems.extend(filter(None, [word_problem((ROOT / "ARCHITECTURE.md").read_text())]))


def main():
    check_dependencies()
    check_circles()
    check_examples()
    check_one_build()
    check_files()
    check_width()
    check_riddles()
    check_words()
    check_rust()
    for p in problems:
        print(f"check: {p}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
