"""The parts of a report: escaped text, tables, figures, one style sheet. It uses no scripts and nothing from the network."""
import base64
import html
import io
import re

from mpi_quant.figures import look as fig

STYLE = """
:root { color-scheme: light dark; --ink: #1c1c1c; --soft: #5a5a5a; --paper: #ffffff; --line: #d5d5d5; --tint: #f3f6f9;
  --good: #00694c; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e6e6; --soft: #a8a8a8; --paper: #15181b; --line: #3a3f44;
  --tint: #1f252b; --good: #5fd3ac; } }
body { margin: 0 auto; padding: 1.5rem; max-width: 66rem; font: 16px/1.5 system-ui, sans-serif; color: var(--ink);
  background: var(--paper); }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .3rem; } h2 { font-size: 1.25rem; margin: 2.2rem 0 .6rem; }
h3, h4 { font-size: 1rem; margin: 1.4rem 0 .4rem; } p { margin: .4rem 0; } .soft, figcaption, dt { color: var(--soft); }
.verdict { border-left: .35rem solid var(--good); background: var(--tint); padding: .6rem 1rem; margin: .8rem 0; }
.verdict.none { border-color: var(--soft); } .verdict strong { font-size: 1.08rem; }
pre { overflow-x: auto; margin: .4rem 0; padding: .5rem .7rem; border: 1px solid var(--line); background: var(--paper); }
figure { margin: 1.2rem 0 2rem; } figure img { display: block; max-width: 100%; height: auto; margin: 0 auto; background: #fff; }
figcaption { margin-top: .3rem; }
nav ul { margin: 0; padding-left: 1.3rem; columns: 2; } nav a { color: inherit; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .79rem; font-variant-numeric: tabular-nums; width: 100%; }
th, td { padding: .2rem .35rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th { text-align: right; color: var(--soft); font-weight: 600; } .left { text-align: left; } td.words { white-space: normal; min-width: 7rem; }
tr.first td { border-top: 2px solid var(--line); } .faster { color: var(--good); font-weight: 600; }
dl { display: grid; grid-template-columns: 10rem 1fr; gap: .2rem 1rem; font-size: .9rem; }
dd { margin: 0; overflow-wrap: anywhere; }
@media screen and (prefers-color-scheme: dark) { figure img { filter: invert(.91) hue-rotate(180deg); } }
@media print { :root { --ink: #000; --soft: #444; --paper: #fff; --line: #bbb; --tint: #f3f6f9; --good: #00694c; }
  @page { size: A4; margin: 16mm 14mm; } body { padding: 0; max-width: none; font-size: 10.5pt; }
  table { font-size: 7.4pt; } th, td { padding: .12rem .3rem; } .wide { overflow: visible; }
  figure, .verdict, tr, h3 { break-inside: avoid; } h2, h3, h4 { break-after: avoid; } thead { display: table-header-group; } }
"""


def text(value):
    """A text as HTML. Characters that XML does not allow, such as control characters, are left out."""
    allowed = "".join(c for c in str(value) if c in "\t\n" or 0x20 <= ord(c) < 0xD800 or 0xE000 <= ord(c) < 0xFFFE)
    return html.escape(allowed)


def paragraph(words, css=""):
    return f"<p{_css(css)}>{text(words)}</p>"


def code(line):
    """A line to copy."""
    return f"<pre><code>{text(line)}</code></pre>"


def _css(css):
    return f' class="{css}"' if css else ""


def table(head, rows, left=1, classes=()):
    """A table. Cells are texts, or (text, class); the first `left` columns are words. classes: a class for each row."""
    def cell(tag, value, column):
        words, css = value if isinstance(value, tuple) else (value, "")
        css = " ".join(c for c in ("left" if column < left else "", css) if c)
        return f"<{tag}{_css(css)}>{text(words)}</{tag}>"

    lines = ['<div class="wide"><table>', "<thead><tr>" + "".join(cell("th", v, i) for i, v in enumerate(head)) + "</tr></thead>",
             "<tbody>"]
    for n, row in enumerate(rows):
        lines.append(f"<tr{_css(classes[n] if n < len(classes) else '')}>" +
                     "".join(cell("td", v, i) for i, v in enumerate(row)) + "</tr>")
    return "\n".join(lines + ["</tbody></table></div>"])


def terms(pairs):
    """A list of terms with their descriptions."""
    return "<dl>\n" + "\n".join(f"<dt>{text(t)}</dt><dd>{text(d)}</dd>" for t, d in pairs if str(d)) + "\n</dl>"


def heading(level, words, name=""):
    """A heading with an anchor: its name, or its words."""
    return f'<h{level} id="{name or re.sub("[^a-z0-9]+", "-", words.lower()).strip("-")}">{text(words)}</h{level}>'


def figure(drawn, plot, name):
    """A figure of matplotlib as an image inside the page, below its title and above a caption: what the plot shows, how to read
    it, and the conditions of the measurement."""
    fig.lay_out(drawn, with_words=False)
    title, conditions = drawn.words
    shows = plot.__doc__.partition(" (")[0].rstrip(".")  # options in brackets are for the command line
    caption = " ".join([f"This figure shows {shows[0].lower()}{shows[1:]}.", plot.read, *conditions])
    out = io.BytesIO()
    drawn.savefig(out, format="svg", metadata={"Date": None})
    width = round(drawn.get_figwidth() * 96)
    fig.plt.close(drawn)
    data = base64.b64encode(out.getvalue()).decode("ascii")
    return (f'<figure>{heading(3, title, name)}<img width="{width}" alt="{text(title)}" src="data:image/svg+xml;base64,{data}" />\n'
            f"<figcaption>{text(caption)}</figcaption></figure>")


HEADING = re.compile('<h([234]) id="([^"]*)">(.*?)</h')


def contents(body):
    """The body, in which every heading has an anchor of its own, and before it the list of them."""
    seen, items = {}, []

    def anchored(found):
        level, name, words = found.groups()
        seen[name] = seen.get(name, 0) + 1
        own = name if seen[name] == 1 else f"{name}-{seen[name]}"
        items.append(f'<li style="margin-left: {int(level) - 2}rem"><a href="#{own}">{words}</a></li>')
        return f'<h{level} id="{own}">{words}</h'
    body = [HEADING.sub(anchored, part) for part in body]
    return ["<nav><h2>Contents</h2>", "<ul>", *items, "</ul></nav>", *body]


def page(title, body):
    return ('<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8" />\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1" />\n'
            f"<title>{text(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n" + "\n".join(body) + "\n</body>\n</html>\n")
