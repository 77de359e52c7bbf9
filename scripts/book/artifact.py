"""The artifact guide: its table of claims is what the scripts say of themselves."""

import re

from pages import ROOT, named

FOLDER = ROOT / "docs/artifact"
CLAIMS = FOLDER / "claims"
FIELDS = ["Claim", "Takes", "Tolerance"]


def said(script):
    """The fields in the comment at a script's head."""
    text = script.read_text()
    return {f: (re.search(rf"^# {f}: (.*(?:\n#   .*)*)", text, re.M) or [None, ""])[1].replace("\n#  ", "")
            for f in FIELDS}


def table():
    rows = "| claim | script | takes | tolerance |\n|---|---|---|---|\n"
    for script in sorted(CLAIMS.glob("*.sh")):
        fields = said(script)
        rows += f"| {fields['Claim']} | [{script.stem}](claims/{script.name}) | {fields['Takes']} | " \
                f"{fields['Tolerance']} |\n"
    return rows


def check():
    problems = []
    for script in sorted(CLAIMS.glob("*.sh")):
        fields = said(script)
        problems += [f"{named(script)}: no `# {f}:`" for f in FIELDS if not fields[f]]
        if not script.stat().st_mode & 0o100:
            problems.append(f"{named(script)} is not executable")
    if table() not in (FOLDER / "index.md").read_text():
        problems.append(f"docs/artifact/index.md: its table is not what the scripts say:\n{table()}")
    return problems
