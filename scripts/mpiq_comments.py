"""Comments within 110 columns, in C, C++ and CUDA, where clang-format leaves them as they are, and in CMake and the shell.
scripts/check_format calls it.

A comment is whole lines that begin with //, with the * of a block, or with # and a blank. A paragraph of it is wrapped where a line is
too long, and keeps its indentation. A line that cannot be broken, such as a table or a link, stays and is reported.
"""
import re
import sys

WIDTH = 110
# The beginning of a comment line: indentation and //, * or #, then the text. A list item or a row of a table
# begins a paragraph.
LINE = re.compile(r"^(\s*(?://|\*|/\*))(\s*)(.*)$")
HASH_LINE = re.compile(r"^(\s*#)(?=\s|$)(\s*)(.*)$")
ITEM = re.compile(r"(?:[-*+]|\d+[.)]|\([a-z\d]\))\s+")
LABEL = re.compile(r"\w+: |shellcheck |SPDX-")


def form_of(path):
    """LINE or HASH_LINE."""
    return LINE if path.endswith((".c", ".h", ".cpp", ".hpp", ".cu", ".cuh", ".def")) else HASH_LINE


def parts(form, line):
    """Prefix, indentation and text of a line that is a comment; None of another line."""
    match = form.match(line)
    if not match or line.lstrip().startswith("*") and not re.match(r"\s*\*(\s|/|$)", line):
        return None
    return match.groups()


def room(prefix, indent):
    return WIDTH - len(prefix) - len(indent)


def filled(words, width):
    """The words in lines of at most this width; a longer word has a line of its own."""
    lines, line = [], ""
    for word in words:
        if line and len(line) + 1 + len(word) > width:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
    return [*lines, line] if line else lines


def is_aligned(text):
    """Columns of a table, which blanks would lose."""
    return re.search(r"\S {2,}\S", text.replace(".  ", ". ")) is not None


def wrapped(form, lines):
    """The lines of a file with each comment line that is too long wrapped, and its rest moved to the lines below."""
    done, number = [], 0
    while number < len(lines):
        line = lines[number]
        comment = parts(form, line)
        number += 1
        if comment is None or len(line) <= WIDTH or is_aligned(comment[2]):
            done.append(line)
            continue
        prefix, indent, text = comment
        item = ITEM.match(text)
        below = prefix.replace("/*", " *"), indent + " " * (len(item.group(0)) if item else 0)
        close = " */" if text.endswith("*/") else ""
        words = text.removesuffix("*/").split()
        while not close and number < len(lines):  # the rest of the paragraph
            following = parts(form, lines[number])
            if following is None or following[:2] != below or not following[2] or ITEM.match(following[2]) \
                    or LABEL.match(following[2]) or is_aligned(following[2]):
                break
            close = " */" if following[2].endswith("*/") else ""
            words += following[2].removesuffix("*/").split()
            number += 1
        first, *rest = filled(words, min(room(prefix, indent), room(*below)) - len(close))
        done += [prefix + indent + first, *("".join(below) + text for text in rest)]
        done[-1] += close
    return done


def too_long(form, lines):
    """Numbers of the comment lines that are too long and could be shorter."""
    return [number for number, line in enumerate(lines, 1) if len(line) > WIDTH and (comment := parts(form, line))
            and " " in comment[2].strip().removesuffix("*/").strip()]


def main(arguments):
    fix = arguments[:1] == ["--fix"]
    wrong = 0
    for path in arguments[fix:]:
        with open(path, encoding="utf-8") as file:
            lines = file.read().split("\n")
        form = form_of(path)
        if fix and too_long(form, lines):
            lines = wrapped(form, lines)
            with open(path, "w", encoding="utf-8") as file:
                file.write("\n".join(lines))
        for number in too_long(form, lines):
            wrong += 1
            print(f"{path}:{number}: a comment of more than {WIDTH} columns", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
