"""What the command says of itself: its subcommands and options, by their --help."""

import functools
import os
import re
import subprocess

from pages import Wrong


def environment():
    # Help is as wide as on a terminal of 100 columns, whoever builds the book.
    return {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NAGORI_MACHINES")}


@functools.cache
def help_of(nagori, command):
    done = subprocess.run([nagori, *command, "--help"], capture_output=True, text=True, env=environment())
    if done.returncode:
        raise Wrong(f"nagori {' '.join(command)} --help: {done.stderr.strip()}")
    return done.stdout


@functools.cache
def subcommands(nagori, command=()):
    """Names of the commands below this one, with what each is for."""
    text = help_of(nagori, command)
    found = re.search(r"^Commands:\n(.*?)\n(?:\n|\Z)", text, re.M | re.S)
    items = re.findall(r"^  (\S+) +(.*(?:\n {8,}\S.*)*)", found[1], re.M) if found else []
    return {name: " ".join(about.split()) for name, about in items if name != "help"}


@functools.cache
def options(nagori, command):
    """All long options of a command."""
    text = help_of(nagori, command)
    aliases = [a for found in re.findall(r"\[alias(?:es)?: ([^]]*)\]", text) for a in found.split(", ")]
    return frozenset(aliases + re.findall(r"^\s{2,10}(?:-\w, )?(--[a-z0-9-]+)", text, re.M))


def walk(nagori, command=()):
    """Every command, in the order of the help."""
    if command:
        yield command
    for name in subcommands(nagori, command):
        yield from walk(nagori, (*command, name))


def problem(nagori, words):
    """What is wrong with these arguments of `nagori`, as far as its help tells; None if nothing is."""
    command, words = [], list(words)
    while words and words[0] in ("-q", "--quiet"):
        words.pop(0)
    if words and words[0] == "help":
        return None
    while words and words[0] in subcommands(nagori, tuple(command)):
        command.append(words.pop(0))
    name = " ".join(["nagori", *command])
    if subcommands(nagori, tuple(command)) and words and re.fullmatch(r"[a-z][a-z0-9-]*", words[0]):
        return f"`{name}` has no command `{words[0]}`"
    # `sweep` hands what follows to Python, whose options are not in this help.
    if "[ARGUMENTS]..." in help_of(nagori, tuple(command)):
        return None
    known = options(nagori, tuple(command))
    for word in words:
        if word == "--":
            break
        if (option := re.fullmatch(r"(--[a-z][a-z0-9-]*)(?:=.*)?", word, re.S)) and option[1] not in known:
            return f"`{name}` has no option `{option[1]}`"
    return None
