#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Write manual pages from the help, the headers and the pages of this tree.

    render.py verbs FPISA PAGE.in	a page whose line @VERBS@ becomes the CLI's own help
    render.py api HEADER PAGE.in	a page whose line @API@ becomes the header's declarations and comments
    render.py names HEADER		the header's functions
    render.py wire WIRE.md		the wire format as a page of section 7

@DATE@ becomes the day of $SOURCE_DATE_EPOCH, or of the source.
"""
import os
import re
import sys
import time

import table

WIDTH, GAP = 72, 2  # columns of a table's text, and spaces between the table's columns
KEYS = 3  # columns that both halves of a table have that is too wide for one page


def escape(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text[:1] in (".", "'") else text


def literal(lines):
    return [".Bd -literal", *map(escape, lines), ".Ed"]


def fill(lines, head):
    """Render plain text, as in this tree's help and comments: paragraphs, indented code, and lists of items that begin with `head`."""
    out, listing = [], False
    for line in lines:
        item = re.match(head, line)
        if item:
            if not listing:
                out.append(".Bl -tag -width Ds")
            if listing and out[-2].startswith(".It") and out[-2].endswith(",") and not out[-1]:
                out[-2] += " " + escape(item[1].strip())  # an item on two lines
                out[-1] = escape(item[2] or "")
            else:
                out += [f".It {escape(item[1].strip())}", escape(item[2] or "")]
            listing = True
        elif listing and re.match(r" {4,}\S", line):
            out.append(escape(line.strip()))
        else:
            if listing:
                out.append(".El")
            listing = False
            if line.startswith("\t"):
                out += literal([line[1:]])
            else:
                out.append(escape(line.strip()) or ".Pp")
    text = "\n".join(out + [".El"] * listing)
    text = text.replace(".Ed\n.Bd -literal\n", "")  # join lines of code into one block
    text = re.sub(r"(?:\.Pp\n)+(?=\.B[dl]|\.S[hs]|\.Pp)", "", text)
    return [line for line in re.sub(r"^(\.Pp\n)+|(\n\.Pp)+$", "", text).splitlines() if line]


def verbs(fpisa):
    found, common = table.verbs(fpisa)
    head = r"  ((?:--|[A-Z]+)\S*(?: \S+)*?|[a-z]\w*(?:, \w+)*(?=\s{2,}\S))(?:\s{2,}(.*)|$)"
    out = []
    for v in found:
        out += [f".Ss fpisa {escape(v.name)} {escape(v.args)}".rstrip(),
                escape(v.help[0].upper() + v.help[1:] + "."), ".Pp"]
        more = fill(v.more, head)
        if not more or more[0].startswith(".Bl"):
            out.pop()
        out += more
    return out + [".Ss Options of every verb"] + fill(common, head)


# -- the library's header ---------------------------------------------------


def declarations(header):
    """Return (comment lines, declaration lines) in the header's order. The first comment is the file's own."""
    with open(header) as f:
        text = f.read()
    text = re.sub(r"^#(?!define FPISA_\w+ ).*\n", "", text, flags=re.M).replace('extern "C" {', "")
    found, comment, declared = [], [], []

    def close():
        if comment or declared:
            found.append((list(comment), list(declared)))
        comment.clear()
        declared.clear()

    inside = False
    for line in text.splitlines():
        if "SPDX" in line:
            continue
        if not inside and not declared and line.startswith("/*") or comment and comment[-1] is None:
            if comment and comment[-1] is None:
                comment.pop()
            else:
                close()
            comment.append(re.sub(r"^(/\*| \*/| \*)( |$)?|\s*\*/$", "", line))
            if "*/" not in line:
                comment.append(None)  # goes on
            continue
        if not line.strip() and not inside:
            close()
        elif line.strip() and line != "}":
            declared.append(line)
            inside = line.endswith("{") or (inside and not line.startswith("}"))
    close()
    return found


def names(header):
    return [n for _, d in declarations(header) for n in re.findall(r"^[a-z].*?\b(fpisa_\w+)\(", "\n".join(d), re.M)]


def api(header):
    out = []
    for comment, declared in declarations(header):
        comment = [line for line in comment if line is not None]
        functions = re.findall(r"^[a-z].*?\b(fpisa_\w+)\(", "\n".join(declared), re.M)
        kinds = re.findall(r"^(?:struct|enum) \w+", "\n".join(declared), re.M)
        if declared and not all(re.fullmatch(r"struct \w+;", d) for d in declared):
            out.append(".Ss " + escape(", ".join(functions or kinds or ["Result flags"])))
            out += literal(declared)
        if comment:
            out += [".Pp"] + fill(comment, r"(-E[A-Z]+(?:, -E[A-Z]+)*|\w+)\t+(.*)")
    return out[1:] if out[:1] == [".Pp"] else out


# -- the wire format -----------------------------------------------------------


def inline(text):
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text)
    parts = re.split(r"(`[^`]*`|\*\*[^*]+\*\*|(?<![\w*])\*[^*\s][^*]*\*)", text)
    out = ""
    for p in parts:
        mark = "B" if p[:1] == "`" or p[:2] == "**" else "I" if re.fullmatch(r"\*[^*\s][^*]*\*", p) else None
        out += f"\\f{mark}{escape(p.strip('`') if p[:1] == '`' else p.strip('*'))}\\fR" if mark else \
            p.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + out if out[:1] in (".", "'") else out


def tbl(rows):
    """Return tables of tbl(1): one table whose columns are narrowed until it fits, or two tables."""
    cells = [[c.strip() for c in re.split(r"(?<!\\)\|", row.strip().strip("|"))] for row in rows]
    cells = [c for c in cells if not all(re.fullmatch(r":?-+:?", x) for x in c)]
    columns = max(map(len, cells))
    cells = [c + [""] * (columns - len(c)) for c in cells]
    least = [max((len(w) for c in cells for w in c[i].split()), default=1) for i in range(columns)]
    if sum(least) + GAP * (columns - 1) <= WIDTH:
        return one_table(cells, least)
    half = (KEYS + columns) // 2
    return [line for part in (range(KEYS, half), range(half, columns))
            for line in one_table([[c[i] for i in (*range(KEYS), *part)] for c in cells],
                                  [least[i] for i in (*range(KEYS), *part)])]


def one_table(cells, least):
    columns = len(least)
    width = [max(len(c[i]) for c in cells) for i in range(columns)]
    while sum(width) + GAP * (columns - 1) > WIDTH and any(w > m for w, m in zip(width, least)):
        i = max((i for i in range(columns) if width[i] > least[i]), key=lambda i: width[i])
        width[i] -= 1
    out = [".TS", f"{GAP} ".join(f"lbw({w or 1}n)" for w in width),
           f"{GAP} ".join(f"lw({w or 1}n)" for w in width) + "."]
    for row in cells:
        wrapped = []
        for i, c in enumerate(row):
            wrapped.append(f"T{{\n.nh\n.na\n{inline(c)}\nT}}" if len(c) > width[i] else inline(c))
        out.append("\t".join(wrapped))
    return out + [".TE"]


def wire(path):
    with open(path) as f:
        lines = f.read().splitlines()
    out, i, listing = [], 0, None

    def end_list():
        nonlocal listing
        if listing:
            out.append(".El")
        listing = None

    while i < len(lines):
        line = lines[i]
        if line.startswith("```"):
            end = lines.index("```", i + 1)
            end_list()
            out += literal(lines[i + 1:end])
            i = end
        elif line.startswith("|"):
            end = next((k for k in range(i, len(lines)) if not lines[k].startswith("|")), len(lines))
            end_list()
            out += tbl(lines[i:end])
            i = end - 1
        elif line.startswith("#"):
            end_list()
            level, title = re.match(r"(#+) (.*)", line).groups()
            if len(level) > 1:
                out.append(f".Sh {title.upper()}" if len(level) == 2 else f".Ss {inline(title)}")
        elif re.match(r"(- |\d+\. )", line):
            kind = "-bullet" if line.startswith("-") else "-enum"
            if listing != kind:
                end_list()
                out.append(f".Bl {kind} -compact")
                listing = kind
            out += [".It", inline(line.split(" ", 1)[1])]
        elif not line.strip():
            if not (listing and i + 1 < len(lines) and re.match(r"- |\d+\. | ", lines[i + 1])):
                end_list()
                out.append(".Pp")
        else:
            if listing and not line.startswith(" "):
                end_list()
                out.append(".Pp")
            out.append(inline(line.strip()))
        i += 1
    end_list()
    text = re.sub(r"(?:\.Pp\n)+(?=\.(?:Sh|Ss|Pp|Bl|Bd|TS))", "", "\n".join(out))
    text = re.sub(r"(\.S[hs] .*\n)(?:\.Pp\n)+", r"\1", text)
    return re.sub(r"^(\.Pp\n)+", "", text).splitlines()


def page(template, mark, lines):
    with open(template) as f:
        text = f.read()
    assert text.count(mark + "\n") == 1
    return text.replace(mark + "\n", "\n".join(lines) + "\n")


WIRE_HEAD = """'\\" t
.\\" From doc/wire.md.
.Dd @DATE@
.Dt FPISA-WIRE 7
.Os
.Sh NAME
.Nm fpisa-wire
.Nd what a worker and an FPISA aggregator exchange
.Sh DESCRIPTION
"""
WIRE_TAIL = ".Sh SEE ALSO\n.Xr libfpisa 3 ,\n.Xr fpisa 8\n"


def main():
    what, source, *rest = sys.argv[1:]
    if what == "names":
        print("\n".join(names(source)))
        return
    if what == "verbs":
        text = page(rest[0], "@VERBS@", verbs(source))
    elif what == "api":
        text = page(rest[0], "@API@", api(source)).replace("@NAMES@", " ,\n.Nm ".join(names(source)))
    else:
        text = WIRE_HEAD + "\n".join(wire(source)) + "\n" + WIRE_TAIL
    day = time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH") or os.path.getmtime(rest[0] if rest else source)))
    sys.stdout.write(text.replace("@DATE@", time.strftime("%B ", day) + f"{day.tm_mday}, {day.tm_year}"))


if __name__ == "__main__":
    main()
