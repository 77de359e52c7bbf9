#!/usr/bin/env python3
"""The book: docs/ as HTML, and whether what its pages say is so.

    scripts/book/book.py quick NAGORI           what takes seconds: contents, commands, reference, examples
    scripts/book/book.py run NAGORI [PAGE...]   all examples, those that boot Debian included
    scripts/book/book.py build NAGORI FOLDER    the HTML (Sphinx, MyST and Furo are needed)
    scripts/book/book.py reference NAGORI       writes docs/reference/ anew
    scripts/book/book.py file PAGE NAME         prints a file that a page shows

`--update`, behind `run`, writes into the pages what their commands print.
"""

import pathlib
import sys

sys.dont_write_bytecode = True

import artifact  # noqa: E402
import commands  # noqa: E402
import examples  # noqa: E402
import pages  # noqa: E402
import reference  # noqa: E402


def check_commands(nagori):
    """Every command and every option that a page shows is one of `nagori`."""
    problems = []
    for path in [*pages.sources(), pages.INDEX]:
        for number, words in pages.nagori_commands(path):
            if said := commands.problem(nagori, words):
                problems.append(f"{pages.named(path)}:{number}: {said}")
    return problems


def run_examples(nagori, kinds, paths=(), update=False):
    chosen = [pathlib.Path(p).resolve() for p in paths] or pages.sources()
    problems = []
    for path in chosen:
        problems += examples.run_page(path, nagori, kinds, lambda said: print(said, flush=True), update)
    return problems


def print_file(page, name=""):
    for found, text in examples.steps(pathlib.Path(page).resolve()):
        if found == name:
            print(text, end="")
            return 0
    print(f"book: {page} shows no file {name}", file=sys.stderr)
    return 1


def main(arguments):
    update = "--update" in arguments
    arguments = [a for a in arguments if a != "--update"]
    if len(arguments) < 2 or arguments[0] not in ("quick", "run", "build", "reference", "file"):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    if arguments[0] == "file":
        return print_file(*arguments[1:3])
    what, nagori, *rest = arguments
    nagori = str(pathlib.Path(nagori).resolve())
    if not pathlib.Path(nagori).is_file():
        print(f"book: there is no {nagori}", file=sys.stderr)
        return 2
    try:
        if what == "quick":
            problems = (pages.check_contents() + examples.check_tutorials() + artifact.check()
                        + check_commands(nagori) + reference.check(nagori) + run_examples(nagori, ["quick"]))
        elif what == "run":
            problems = run_examples(nagori, examples.KINDS, rest, update)
        elif what == "reference":
            reference.renew(nagori)
            problems = []
        else:
            import sphinx_site
            print(sphinx_site.build(nagori, rest[0] if rest else "build/book"))
            problems = []
    except pages.Wrong as wrong:
        problems = [str(wrong)]
    for problem in problems:
        print(f"book: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
