"""The book as HTML, by Sphinx: pages are copied as they lie, so that their links stay as they are."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pages
import reference
from pages import ROOT, named

CONF = '''
project = "Nagori"
author = "The Nagori developers"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "index"
html_theme = "furo"
html_title = "Nagori"
# Summaries of results are fetched, which a page that is opened as a file may not do.
html_show_search_summary = False
html_copy_source = False
html_show_copyright = False
html_static_path = ["static"]
html_css_files = ["book.css"]
myst_heading_anchors = 5
myst_enable_extensions = ["tasklist"]
suppress_warnings = ["myst.header", "misc.highlighting_failure"]
html_theme_options = {"navigation_with_keys": True}
'''

CSS = '''
/* Tables of figures scroll by themselves, and do not widen the page. */
.table-wrapper { overflow-x: auto; }
table.docutils td, table.docutils th { font-variant-numeric: tabular-nums; }
'''


# What a browser would fetch from a network.
FETCHED = re.compile(r'<(?:script|link|img)\b[^>]*(?:src|href)="(?:https?:)?//[^"]*')


def linked_files(text, path):
    """What a page has links to."""
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if "://" not in target:
            yield (path.parent / target).resolve()


def relinked(text, path):
    """Links to the contents lead above all folders; those to what the book does not have are code."""
    here = {p.resolve() for p in pages.sources()}

    def new(match):
        target = (path.parent / match[2]).resolve()
        if target == pages.INDEX:
            return f"[{match[1]}]({os.path.relpath(ROOT / 'index.md', path.parent)}{match[3] or ''})"
        if target.is_dir() or target.suffix == ".md" and target not in here:
            return f"`{named(target)}`"
        return match[0]

    return re.sub(r"\[([^]]*)\]\(([^)#\s:]+)(#[^)\s]*)?\)",
                  new, text)


def write_sources(folder, nagori):
    """All pages, pictures and linked files below this folder, as they lie in the repository."""
    generated = {"docs/reference/commands.md": reference.command_pages(nagori),
                 "docs/reference/memories.md": reference.shown_pages(nagori)}
    for path in pages.sources():
        text = path.read_text()
        for file in linked_files(text, path):
            copy = folder / file.relative_to(ROOT)
            if file.is_file() and file.suffix != ".md" and not copy.exists():
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, copy)
        copy = folder / named(path)
        copy.parent.mkdir(parents=True, exist_ok=True)
        # What is only for the runner of examples is no part of a page.
        copy.write_text(re.sub(r"^\s*<!--.*?-->\n", "", relinked(text, path), flags=re.M))
    # What the command says of each command, machine and memory is below the pages that list them.
    said = folder / "docs" / pages.BUILT
    said.mkdir(parents=True)
    for path, below in generated.items():
        for name, text in below.items():
            (said / f"{name}.md").write_text(text)
        with (folder / path).open("a") as page:
            page.write(toctree([f"/docs/{pages.BUILT}/{name}" for name in below]))
    # The contents stand above all folders.
    text = re.sub(r"\]\((?!\w+:)([^)]+)\)", lambda m: f"]({named_from_index(m[1])})", pages.INDEX.read_text())
    for part, listed in pages.contents():
        entries = [f"{title} <{path.removesuffix('.md')}>" for title, path in listed]
        text += toctree(entries, part)
    (folder / "index.md").write_text(text)


def toctree(entries, caption=None):
    options = ":hidden:\n" + (f":caption: {caption}\n" if caption else "")
    return f"\n```{{toctree}}\n{options}\n" + "\n".join(entries) + "\n```\n"


def named_from_index(target):
    path, _, anchor = target.partition("#")
    return named((pages.INDEX.parent / path).resolve()) + ("#" + anchor if anchor else "")


def build(nagori, output):
    """Writes the book into this folder. A link that leads nowhere, also to a heading, fails."""
    output = pathlib.Path(output)
    sources = output / "source"
    shutil.rmtree(output, ignore_errors=True)
    (sources / "static").mkdir(parents=True)
    write_sources(sources, nagori)
    (sources / "conf.py").write_text(CONF)
    (sources / "static/book.css").write_text(CSS)
    done = subprocess.run([sys.executable, "-m", "sphinx", "-b", "html", "-q", "-W", "--keep-going", "-j", "auto",
                           sources, output / "html"])
    if done.returncode:
        raise pages.Wrong("the book: see the warnings above")
    fetched = [f"{page.relative_to(output)}: {found}" for page in (output / "html").rglob("*.html")
               for found in FETCHED.findall(page.read_text())]
    if fetched:
        raise pages.Wrong("the book: it is to need no network, and fetches " + ", ".join(fetched))
    return output / "html/index.html"
