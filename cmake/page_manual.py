#!/usr/bin/env python3
"""Makes a manual page of a page of docs/: page_manual.py PAGE.md NAME SECTION VERSION "SUMMARY" OUT

It knows what the pages have: headings, paragraphs, lists, tables and blocks of code. A row of a table becomes a tagged paragraph: the
first cell is the tag.
"""
import re
import sys


def escaped(text):
    """Text that troff takes literally."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("…", "...").replace("–", "\\-")
    return "\\&" + text if text.startswith((".", "'")) else text


def inline(text):
    """A line of prose: code in bold, emphasis in italics, links as their text."""
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text)
    out = []
    for part in re.split(r"(`[^`]+`|\*\*[^*]+\*\*|(?<!\w)\*[^*\s][^*]*\*(?!\w))", text):
        if part.startswith("`") and part.endswith("`") and len(part) > 2:
            out.append("\\fB" + escaped(part[1:-1]) + "\\fR")
        elif part.startswith("**"):
            out.append("\\fB" + escaped(part[2:-2]) + "\\fR")
        elif part.startswith("*") and len(part) > 2:
            out.append("\\fI" + escaped(part[1:-1]) + "\\fR")
        elif part:
            out.append(escaped(part))
    return "".join(out)


def cells(line):
    """The cells of a row of a table. A bar within a cell has a backslash before it."""
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]


def row(line):
    tag, *rest = cells(line)
    return [".TP", inline(tag), inline(". ".join(cell.rstrip(".") for cell in rest if cell) + ".")]


def manual(page):
    """The lines of the page without its head."""
    out, lines, i = [], page.splitlines(), 0
    while i < len(lines):
        line = lines[i]
        if line.startswith("```"):
            end = next(k for k in range(i + 1, len(lines)) if lines[k].startswith("```"))
            out += [".PP", ".nf", ".RS 4", *map(escaped, lines[i + 1:end]), ".RE", ".fi"]
            i = end
        elif re.match(r"\|[- |:]+\|$", line):
            out.pop() if out else None
        elif line.startswith("|"):
            following = lines[i + 1] if i + 1 < len(lines) else ""
            if not re.match(r"\|[- |:]+\|$", following):  # a head says nothing that the section does not
                out += row(line)
            else:
                i += 1
        elif match := re.match(r"(#+) (.*)", line):
            if len(match[1]) > 1:
                out.append((".SH " if len(match[1]) == 2 else ".SS ") + '"' + escaped(match[2].replace("`", "")).upper().replace('"', "'") + '"')
        elif match := re.match(r"(?:[-*]|\d+\.) (.*)", line):
            out += [".IP \\(bu 2", inline(match[1])]
        elif not line.strip():
            out.append(".PP")
        else:
            out.append(inline(line.strip()))
        i += 1
    return [line for k, line in enumerate(out) if not (line == ".PP" and (k + 1 == len(out) or out[k + 1].startswith((".PP", ".SH", ".SS", ".TP", ".IP"))))]


def main(path, name, section, version, summary, out):
    with open(path, encoding="utf-8") as file:
        body = manual(file.read())
    head = [f'.TH {name.upper()} "{section}" "" "mpi_quant {version}"', ".SH NAME", f"{name} \\- {escaped(summary)}", ".SH DESCRIPTION"]
    tail = [".SH SEE ALSO", "\\fBmpiq\\-run\\fR(1)"]
    with open(out, "w", encoding="utf-8") as file:
        file.write("\n".join(head + body + tail) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
