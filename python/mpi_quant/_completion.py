"""Completion of the command mpiq in bash, zsh and fish: mpiq completion SHELL. What can be completed is what the parsers of the commands say.
SPDX-License-Identifier: Apache-2.0
"""
import contextlib
import io
import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

Run = Callable[[str, str, list[str]], int]  # name of a command, how it calls itself, arguments -> exit code

@dataclass(frozen=True)
class Option:
    """An option of a command."""

    flags: list[str]
    takes: str  # name of its value; empty for none
    choices: list[str]  # values; none if they are free
    help: str

    @classmethod
    def of(cls, row: dict[str, Any]) -> "Option":
        return cls(row["flags"], row["takes"], row["choices"], row["help"])


@dataclass(frozen=True)
class Command:
    """A command of mpiq and what may follow it. Files may always follow."""

    name: str
    help: str
    words: list[str]
    options: list[Option]


def _options(name: str, run: Run) -> list[Option]:
    """The options of a command. None, and a line on stderr, if the command cannot start. All commands start in this process: they import
    the same modules, which takes most of the time."""
    out, why = io.StringIO(), io.StringIO()
    code: object = 1
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(why):
        try:
            code = run(name, f"mpiq {name}", [])
        except SystemExit as end:
            code = end.code
            if isinstance(code, str):
                print(code, file=sys.stderr)
        except Exception as problem:  # pylint: disable=broad-exception-caught  # whatever a module of the user's environment raises
            print(problem, file=sys.stderr)
    if code:
        print(f"mpiq completion: options of {name} are left out: {(why.getvalue().strip().splitlines() or ['?'])[-1]}", file=sys.stderr)
        return []
    described = out.getvalue().strip().rpartition("\n")[2]  # the last line: a module of the user's environment may print, too
    return [Option.of(row) for row in json.loads(described)]


def commands(helps: dict[str, str], own: list[Command], run: Run) -> list[Command]:
    """All commands. helps: name of a command -> its help."""
    os.environ["MPIQ_DESCRIBE"] = "1"
    try:
        found = [Command(name, text, [], _options(name, run)) for name, text in helps.items()]
    finally:
        del os.environ["MPIQ_DESCRIBE"]
    return sorted([*own, *found], key=lambda command: command.name)


def _flags(command: Command) -> list[str]:
    return [flag for option in command.options for flag in option.flags]


def bash(found: list[Command]) -> Iterator[str]:
    """Where nothing fits, bash completes names of files."""
    yield "# Completion of mpiq for bash. Try it with: source <(mpiq completion bash)"
    yield "_mpiq() {"
    yield '  local current=${COMP_WORDS[COMP_CWORD]} words='
    yield '  if [ "$COMP_CWORD" = 1 ]; then'
    yield f"    words={shlex.quote(' '.join([*(command.name for command in found), '--help', '--version']))}"
    yield "  else"
    yield '    case "${COMP_WORDS[1]} ${COMP_WORDS[COMP_CWORD-1]}" in'
    for command in found:
        for option in command.options:
            if option.takes:
                patterns = "|".join(shlex.quote(f"{command.name} {flag}") for flag in option.flags)
                words = f"words={shlex.quote(' '.join(option.choices))} " if option.choices else ""
                yield f"      {patterns}) {words};;"
    yield '      *) case "${COMP_WORDS[1]} $current" in'
    for command in found:
        yield f"        {shlex.quote(command.name + ' -')}*) words={shlex.quote(' '.join(_flags(command)))} ;;"
        if command.words:
            yield f"        {shlex.quote(command.name + ' ')}*) words={shlex.quote(' '.join(command.words))} ;;"
    yield "      esac ;;"
    yield "    esac"
    yield "  fi"
    yield '  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")'
    yield "}"
    yield "complete -o default -F _mpiq mpiq"


def _zsh_text(text: str) -> str:
    """A description in the specification of an option."""
    return "".join("\\" + letter if letter in "[]:\\" else letter for letter in text)


def zsh(found: list[Command]) -> Iterator[str]:
    """A file _mpiq in a folder of fpath, or what zsh evaluates after compinit."""
    yield "#compdef mpiq"
    yield "# Completion of mpiq for zsh. Put it into a folder of $fpath as _mpiq, or after compinit: source <(mpiq completion zsh)"
    yield "_mpiq() {"
    yield "  if (( CURRENT == 2 )); then"
    yield f"    local -a found=({' '.join(shlex.quote(command.name + ':' + _zsh_text(command.help)) for command in found)})"
    yield "    _describe command found"
    yield "    return"
    yield "  fi"
    yield "  shift words"
    yield "  (( CURRENT-- ))"
    yield "  case $words[1] in"
    for command in found:
        specs = []
        for option in command.options:
            value = f":{_zsh_text(option.takes)}:{'(' + ' '.join(option.choices) + ')' if option.choices else '_files'}" if option.takes else ""
            specs += [f"*{flag}[{_zsh_text(option.help)}]{value}" for flag in option.flags]
        specs.append(f"*:word:({' '.join(command.words)})" if command.words else "*:file:_files")
        yield f"    {command.name}) _arguments {' '.join(map(shlex.quote, specs))} ;;"
    yield "  esac"
    yield "}"
    yield 'if [ "$funcstack[1]" = _mpiq ]; then _mpiq "$@"; else compdef _mpiq mpiq; fi'


def _fish_text(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def fish(found: list[Command]) -> Iterator[str]:
    """A file mpiq.fish in ~/.config/fish/completions."""
    yield "# Completion of mpiq for fish: mpiq completion fish > ~/.config/fish/completions/mpiq.fish"
    for command in found:
        yield f"complete -c mpiq -f -n __fish_use_subcommand -a {command.name} -d {_fish_text(command.help)}"
    for command in found:
        after = f"complete -c mpiq -n '__fish_seen_subcommand_from {command.name}'"
        if command.words:
            yield f"{after} -f -a {_fish_text(' '.join(command.words))}"
        for option in command.options:
            names = " ".join(("-l " + flag[2:]) if flag.startswith("--") else "-s " + flag[1:] for flag in option.flags)
            value = (" -x -a " + _fish_text(" ".join(option.choices)) if option.choices else " -r") if option.takes else ""
            yield f"{after} {names}{value} -d {_fish_text(option.help)}"


SHELLS: dict[str, Callable[[list[Command]], Iterator[str]]] = {"bash": bash, "fish": fish, "zsh": zsh}
USAGE = f"""usage: mpiq completion {'|'.join(SHELLS)}

Prints what makes the shell complete mpiq: its commands, their options, and names of files.
  bash: source <(mpiq completion bash)
  zsh:  source <(mpiq completion zsh), after compinit
  fish: mpiq completion fish > ~/.config/fish/completions/mpiq.fish"""


def main(words: list[str], helps: dict[str, str], text: str, run: Run) -> int:
    """The command completion. run starts another command. Returns the exit code."""
    if words in (["-h"], ["--help"]):
        print(USAGE)
        return 0
    if len(words) != 1 or words[0] not in SHELLS:
        print(f"mpiq completion: {'which shell?' if not words else 'no shell ' + repr(' '.join(words))}", USAGE, sep="\n", file=sys.stderr)
        return 2
    own = Command("completion", text, sorted(SHELLS), [Option(["-h", "--help"], "", [], "what this command does")])
    print("\n".join(SHELLS[words[0]](commands(helps, [own], run))))
    return 0
