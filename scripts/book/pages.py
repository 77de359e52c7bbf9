"""The pages of the book: the contents in docs/index.md, and what is in code blocks."""

import pathlib
import re
import shlex

ROOT = pathlib.Path(__file__).resolve().parents[2]
INDEX = ROOT / "docs/index.md"
# Pages outside docs/ that the book has, too.
OUTSIDE = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"]
# Pages that only the book has: `book.py build` writes them.
BUILT = "reference/said"


class Wrong(Exception):
    """What is wrong with the book, with file and line."""


def named(path):
    return str(path.relative_to(ROOT))


def sources():
    """All Markdown files of the book, without its contents."""
    docs = [p for p in sorted((ROOT / "docs").rglob("*.md")) if p != INDEX]
    return docs + [ROOT / name for name in OUTSIDE]


def contents():
    """What docs/index.md lists below each heading: [(part, [(title, path from the root)])], in its order."""
    parts, part = [], None
    for number, line in enumerate(INDEX.read_text().splitlines(), 1):
        if heading := re.match(r"## (.+)", line):
            part = heading[1]
            parts.append((part, []))
        elif heading := re.match(r"### (.+)", line):
            parts.append((f"{part}: {heading[1][0].lower()}{heading[1][1:]}", []))
        elif part and (item := re.match(r"\s*- \[([^]]+)\]\(([^)#]+\.md)\)", line)):
            target = (INDEX.parent / item[2]).resolve()
            if not target.is_file():
                raise Wrong(f"{named(INDEX)}:{number}: there is no {item[2]}")
            parts[-1][1].append((item[1], named(target)))
    return [(title, listed) for title, listed in parts if listed]


def check_contents():
    """Every page is listed once."""
    listed = [path for _, pages in contents() for _, path in pages]
    problems = [f"{named(INDEX)}: {p} is listed twice" for p in sorted(set(listed)) if listed.count(p) > 1]
    missing = {named(p) for p in sources()} - set(listed)
    return problems + [f"{named(INDEX)}: {p} is not listed, so nobody finds it" for p in sorted(missing)]


def blocks(path):
    """Code blocks: (first line's number, language, comment before it, its lines); indented ones have no language."""
    lines = path.read_text().splitlines()
    comment, number, blank = "", 0, True
    while number < len(lines):
        line = lines[number]
        if fence := re.match(r"(\s*)(```+|~~~+)\s*(\S*)", line):
            indent, ticks, language = len(fence[1]), fence[2], fence[3]
            end = number + 1
            while end < len(lines) and lines[end].strip() != ticks:
                end += 1
            yield number + 2, language, comment, [x[indent:] if not x[:indent].strip() else x
                                                  for x in lines[number + 1:end]]
            comment, number, blank = "", end + 1, False
        elif blank and re.match(r"\s{4,}\S", line):
            end = number
            while end < len(lines) and (not lines[end].strip() or lines[end].startswith("    ")):
                end += 1
            yield number + 1, "", comment, [x.strip() for x in lines[number:end]]
            comment, number, blank = "", end, True
        else:
            if line.strip():
                found = re.fullmatch(r"\s*<!--\s*(.*?)\s*-->", line)
                comment = found[1] if found else ""
            blank = not line.strip()
            number += 1


def joined(lines):
    """Lines with those that end in a backslash put together with the next: (offset, line)."""
    at = 0
    while at < len(lines):
        start, line = at, lines[at]
        while line.endswith("\\") and at + 1 < len(lines):
            at += 1
            line = line[:-1].rstrip() + " " + re.sub(r"^>\s", "", lines[at]).lstrip()
        yield start, line
        at += 1


def nagori_commands(path):
    """Calls of `nagori` in code blocks: (line number, its arguments)."""
    for first, language, _, lines in blocks(path):
        if language not in ("", "console", "sh", "shell"):
            continue
        for offset, line in joined(lines):
            line = re.sub(r"^\$ ", "", line.strip())
            for call in re.finditer(r"(?:^|[;&|(]\s*|\btime )nagori\s+(?=(.*))", line):
                yield first + offset, arguments(call[1])


def arguments(text):
    """Words of a call up to a comment, a pipe, or the end of the command."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars="();<>|&")
    lexer.wordchars += "@:,%+{}[]!\\^$*?=~."
    lexer.commenters = "#"
    words = []
    try:
        for word in lexer:
            if set(word) <= set("();|&"):
                break
            words.append(word)
    except ValueError:
        # A quotation that a later line ends; what is there is looked at.
        pass
    return words
