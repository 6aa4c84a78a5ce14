"""Makes the HTML pages: all Markdown pages and the C reference out of mpi_quant.h, by Doxygen. Any warning is an error."""
import argparse
import os
import re
import shutil
import subprocess
import sys

from mpi_quant import _places
from mpi_quant.commands import command_line

ROOT = _places.data()


def label(path, slug):
    """The label of a heading, different from the labels of all other pages."""
    return re.sub(r"\W", "_", os.path.relpath(path, ROOT)) + "__" + slug


def slug(heading):
    """The anchor that code forges give to a heading."""
    plain = re.sub(r"[`*]|\]\([^)]*\)|\[", "", heading)
    return re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")


def filtered(path):
    """The page with a label after every heading, and with links that lead to those labels."""
    def link(match):
        target, anchor = match.groups()
        to = os.path.normpath(os.path.join(os.path.dirname(path), target)) if target else path
        return f"](#{label(to, anchor)})"

    def whole(target):  # Doxygen would look in the folder that it was started in first
        return os.path.normpath(os.path.join(os.path.dirname(path), target))

    def heading(match):
        anchor = slug(match[2])
        seen[anchor] = seen.get(anchor, -1) + 1
        number = f"-{seen[anchor]}" if seen[anchor] else ""
        return f"{match[1]}{match[2]} {{#{label(path, anchor + number)}}}"

    def lines():
        in_code = False
        with open(path, encoding="utf-8") as file:
            for line in file:
                in_code ^= line.startswith("```")
                if not in_code:
                    line = re.sub(r"\]\(([^()#:]*)#([^()]+)\)", link, line)
                    line = re.sub(r"\]\(([^()#:]+\.md)\)", lambda m: f"]({whole(m[1])})", line)
                    line = re.sub(r"^(##+ )(.+)$", heading, line)
                yield line

    path, seen = os.path.abspath(path), {}
    return "".join(lines())


def output_of(*command):
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()


def pages_in_order():
    """The pages of the tree, in whose order the site lists them: README.md, then as docs/index.md does, then the others by their names."""
    with open(os.path.join(ROOT, "docs/index.md"), encoding="utf-8") as file:
        listed = ["README.md", "docs/index.md", *(os.path.normpath(os.path.join("docs", path)) for path in re.findall(r"\]\(([^()#:]+\.md)\)", file.read()))]
    pages = output_of("git", "-c", "safe.directory=*", "ls-files", "*.md", ":!results/*/[a-z]*.md")  # without generated tables
    return sorted(pages, key=lambda page: (listed.index(page) if page in listed else len(listed), page))


def build(output):
    os.makedirs(output, exist_ok=True)
    pages = pages_in_order()
    version = output_of("scripts/version", "docs")[1]
    environment = {**os.environ, "MPIQ_PAGES": " ".join(pages), "MPIQ_DOCS": output, "MPIQ_VERSION": version}
    return subprocess.run(["doxygen", "docs/Doxyfile"], cwd=ROOT, check=False, env=environment).returncode


def main(words):
    parser = argparse.ArgumentParser(prog=command_line.program(), description=__doc__)
    command_line.add_version(parser)
    parser.add_argument("output", nargs="?", default=os.path.join(ROOT, "build", "docs"),
                        help="folder for the pages; the first one is html/index.html (default: build/docs)")
    parser.add_argument("--filter", metavar="PAGE", type=command_line.existing_file,
                        help="print a Markdown page as Doxygen reads it, and do nothing else; Doxygen calls this")
    arguments = parser.parse_args(words)
    if not _places.tree():
        parser.error("the pages are made in the source tree, and this mpiq is installed elsewhere: mpi_quant's docs/ has them as text")
    if arguments.filter:
        sys.stdout.write(filtered(arguments.filter))
        return 0
    if shutil.which("doxygen") is None:
        print(f"{command_line.program()}: needs doxygen: scripts/setup check", file=sys.stderr)
        return 3
    return build(os.path.abspath(arguments.output))
