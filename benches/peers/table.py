"""The tables of the comparison, and the page that has them."""

from . import wires
from .measure import BASE

END = "<!-- end -->"
# As in `make bench`: with more other work than this, ratios mean nothing.
MAX_OTHERS = 0.1

HEADS = {
    "h2load": [
        "| over | clients | server | requests/s | p50 ms | p99 ms | CPU a request µs | memory MB | requests/s over ovms's | CPU over ovms's |",
        "|---|--:|---|--:|--:|--:|--:|--:|--:|--:|",
    ],
    "perf_analyzer": [
        "| model | clients | server | requests/s | p50 ms | p99 ms | requests/s over ovms's |",
        "|---|--:|---|--:|--:|--:|--:|",
    ],
}


def digits(value):
    """A figure with three digits, and no more than are needed of a large one."""
    if value is None:
        return "—"
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 1 else f"{value:.3f}"


def figures(cell):
    """The figures of a load's table, and those of which it has ratios."""
    if cell.load == "h2load":
        return ["rate", "p50", "p99", "cpu", "memory"], ["rate", "cpu"]
    return ["rate", "p50", "p99"], ["rate"]


def rows(cell, servers):
    """The rows of a cell, one for each server; one without figures has the reason."""
    first = wires.NAMES[cell.wire] if cell.load == "h2load" else f"`{cell.model}`"
    absolute, relative = figures(cell)
    for name in servers:
        cells = [first, str(cell.clients), name]
        if name in cell.turns:
            cells += [digits(cell.median(name, figure)) for figure in absolute]
            if cell.others > MAX_OTHERS:
                cells += ["busy"] * len(relative)
            elif name == BASE:
                cells += ["1"] * len(relative)
            else:
                cells += [digits(cell.ratio(name, figure)) for figure in relative]
        else:
            why = cell.failures.get(name, "not measured").replace("|", "/")
            cells += [f"not measured: {why}"] + [""] * (len(absolute) + len(relative) - 1)
        yield f"| {' | '.join(cells)} |"


def table(cells, servers):
    """The table of cells of one load."""
    return "\n".join([*HEADS[cells[0].load], *(row for cell in cells for row in rows(cell, servers))])


def of_servers(servers, versions, reasons):
    """The table of what was compared, or why not."""
    lines = ["| server or load | version | |", "|---|---|---|"]
    for name in [*servers, "h2load", "perf_analyzer"]:
        why = f"not measured: {reasons[name]}".replace("|", "/") if name in reasons else ""
        lines.append(f"| {name} | {versions.get(name, '—')} | {why} |")
    return "\n".join(lines)


def blocks(run, cells, servers, versions, reasons):
    """The blocks of the page by name."""
    made = {"run": run, "servers": of_servers(servers, versions, reasons)}
    for model in dict.fromkeys(cell.model for cell in cells):
        made[model] = table([c for c in cells if c.model == model and c.load == "h2load"], servers)
    analyzed = [cell for cell in cells if cell.load == "perf_analyzer"]
    if analyzed:
        made["perf_analyzer"] = table(analyzed, servers)
    return made


def replaced(page, name, block):
    """The page with another block; raises if it has none of that name."""
    begin = f"<!-- peers: {name} -->"
    before, found, rest = page.partition(begin)
    _, ended, after = rest.partition(END)
    if not (found and ended):
        raise ValueError(f"the page has no block `{name}`")
    return f"{before}{begin}\n{block}\n{END}{after}"
