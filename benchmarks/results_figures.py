"""The results as pictures: gains with their intervals, and ours less the paper's.

SVG, written as text: it follows the reader's dark or light setting, which a drawing
library cannot, and equal records give equal bytes with any version of anything.
"""

from collections.abc import Callable, Iterable, Mapping
from html import escape

from results_format import BASES, DATASETS, TITLES, Key, Row
from results_rows import Cell, Gain

# Okabe and Ito: told apart by colour-blind readers, too; lighter ones in the dark
_STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1f2328; }
.small { font-size: 11px; } .title { font-weight: 600; } .end { text-anchor: end; }
.mid { text-anchor: middle; } .page { fill: #fff; } .faint { fill: #59636e; }
.rule { stroke: #d1d9e0; } .zero { stroke: #59636e; }
.r { stroke: #0072b2; fill: #0072b2; } .i { stroke: #b34f00; fill: #b34f00; }
.hollow { fill: none; stroke-width: 1.6; } .bar { stroke-width: 1.8; }
.up { fill: #0072b2; } .down { fill: #b34f00; } .none { fill: #59636e; opacity: .08; }
.edge { fill: none; stroke: #1f2328; stroke-width: 1.6; }
.bold { font-weight: 700; } .on { fill: #fff; }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc; } .page { fill: #0d1117; } .faint { fill: #9198a1; }
.rule { stroke: #3d444d; } .zero { stroke: #9198a1; }
.r { stroke: #56b4e9; fill: #56b4e9; } .i { stroke: #e69f00; fill: #e69f00; }
.hollow { fill: none; } .edge { stroke: #f0f6fc; } .on { fill: #fff; }
}
"""
_NAMES = {"gpr": "GPR-GNN", "bern": "BernNet", "jacobi": "JacobiConv"}
_LINE, _GAP = 16, 10  # pixels: one interval, and the space between two graphs
_CELL = (62, 24)


def forest(gains: Iterable[Gain]) -> str:
    """Gains of DSF-R and DSF-I over their base, one panel for each base model."""
    shown = [
        row
        for row in gains
        if row.split_kind == "stratified" and row.model in _diverse(row.base)
    ]
    ends = [0.0, *(end for row in shown for end in (row.low, row.high))]
    ends += [row.paper_gain for row in shown if row.paper_gain is not None]
    low, high = int(min(ends) // 1), int(-(-max(ends) // 1))
    left, right, width = 100, 664, 680

    def x(value: float) -> float:
        return left + (right - left) * (value - low) / max(high - low, 1)

    parts, y = _legend(), 76.0
    for base in (base for base in BASES if any(row.base == base for row in shown)):
        parts.append(_text(8, y, f"DSF over {_NAMES[base]}", "title"))
        top, y = y + 10, y + 20
        body = []
        for graph, title in DATASETS.items():
            rows = {r.model: r for r in shown if (r.base, r.graph) == (base, graph)}
            lines = [rows[model] for model in _diverse(base) if model in rows]
            if lines:
                middle = y + _LINE * (len(lines) - 1) / 2
                body.append(_text(8, middle + 4, title))
            for row in lines:
                body += _interval(row, y, x)
                y += _LINE
            y += _GAP * bool(lines)
        bottom = y - _GAP / 2
        for tick in range(low, high + 1):
            kind = "rule" if tick else "zero"
            parts.append(_line(x(tick), top, x(tick), bottom, kind))
            if tick % 2 == 0:
                label = f"{tick:+d}" if tick else "0"
                parts.append(_text(x(tick), bottom + 14, label, "small mid faint"))
        parts += body
        y = bottom + 44
    title = "Gain of diverse filters in points of test accuracy"
    return _svg(width, y - 18, title, parts)


def _diverse(base: str) -> tuple[str, str]:
    return f"dsf-{base}-r", f"dsf-{base}-i"


def _legend() -> list[str]:
    parts = [_text(8, 20, "Gain of diverse filters, points of test accuracy", "title")]
    for kind, start in (("r", 8), ("i", 190)):
        parts += _mark(start + 10, 40, kind, (start, start + 20))
        parts.append(_text(start + 28, 44, f"DSF-{kind.upper()}, ours, 95 %", "small"))
    for kind, start in (("r", 372), ("i", 520)):
        parts.append(_diamond(start + 8, 40, kind))
        parts.append(_text(start + 20, 44, f"DSF-{kind.upper()}, the paper", "small"))
    return parts


def _interval(row: Gain, y: float, x: Callable[[float], float]) -> list[str]:
    kind = row.model[-1]
    note = f"{TITLES[row.model]}, {DATASETS[row.graph]}: {row.gain:+z.2f}"
    note += f" ({row.low:+z.2f} to {row.high:+z.2f})"
    parts = _mark(x(row.gain), y, kind, (x(row.low), x(row.high)))
    if row.paper_gain is not None:
        note += f", the paper {row.paper_gain:+z.2f}"
        parts.append(_diamond(x(row.paper_gain), y, kind))
    return [f"<g><title>{escape(note)}</title>", *parts, "</g>"]


def _mark(x: float, y: float, kind: str, ends: tuple[float, float]) -> list[str]:
    dot = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" class="{kind}"/>'
    return [_line(ends[0], y, ends[1], y, f"{kind} bar"), dot]


def _diamond(x: float, y: float, kind: str) -> str:
    path = f"M{x - 5.5:.1f} {y:.1f}l5.5 -5.5 5.5 5.5 -5.5 5.5z"
    return f'<path d="{path}" class="{kind} hollow"/>'


def heat_map(cells: Iterable[Cell], theirs: Mapping[Key, Row]) -> str:
    """Our mean less the paper's, for every model and graph of its Table 2."""
    found = {
        (cell.graph, cell.model): cell
        for cell in cells
        if cell.split_kind == "stratified" and cell.difference is not None
    }
    table = [key for key, row in theirs.items() if "mean" in row]
    graphs = [g for g in DATASETS if any(key[0] == g for key in table)]
    models = [m for m in TITLES if any(key[1] == m for key in table)]
    wide, high = _CELL
    left, top = 104, 84
    lines = (
        "Blue is above the paper, orange below it. Framed where other splits would not",
        "explain the difference. Empty where nothing was run or nothing is printed.",
    )
    parts = [_text(8, 20, "Table 2: our mean less the paper's, points", "title")]
    parts += [
        _text(8, 38 + 15 * i, line, "small faint") for i, line in enumerate(lines)
    ]
    for j, graph in enumerate(graphs):
        middle = left + (j + 0.5) * wide
        parts.append(_text(middle, top - 8, DATASETS[graph], "small mid"))
    for i, model in enumerate(models):
        y = top + i * high
        parts.append(_text(8, y + 16, TITLES[model], "small"))
        for j, graph in enumerate(graphs):
            cell = found.get((graph, model))
            parts += _square(left + j * wide, y, cell)
    width, height = left + wide * len(graphs) + 8, top + high * len(models) + 10
    return _svg(width, height, "Table 2: our mean less the paper's", parts)


def _square(x: float, y: float, cell: Cell | None) -> list[str]:
    wide, high = _CELL
    place = f'x="{x + 1}" y="{y + 1}" width="{wide - 2}" height="{high - 2}" rx="2"'
    if cell is None or cell.difference is None:
        return [f'<rect {place} class="none"/>']
    gap = cell.difference
    strength = 0.9 * min(1.0, (abs(gap) / 8) ** 0.7)  # small ones are seen, too
    note = f"{TITLES[cell.model]}, {DATASETS[cell.graph]}: {cell.mean:.2f}, the paper "
    note += f"{cell.paper_mean:.2f}"
    kind = "up" if gap > 0 else "down"
    apart = cell.mark_over_splits != "="
    style = "small mid" + " bold" * apart + " on" * (strength > 0.8)
    return [
        f"<g><title>{escape(note)}</title>",
        f'<rect {place} class="{kind}" fill-opacity="{strength:.2f}"/>',
        *([f'<rect {place} class="edge"/>'] if apart else []),
        _text(x + wide / 2, y + 16, f"{gap:+z.1f}", style),
        "</g>",
    ]


def _text(x: float, y: float, text: str, kind: str = "") -> str:
    of_kind = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{of_kind}>{escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {ends} class="{kind}"/>'


def _svg(width: float, height: float, title: str, parts: list[str]) -> str:
    size = f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}"'
    size += f' height="{height:.0f}"'
    lines = (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{_STYLE}</style>",
        '<rect width="100%" height="100%" rx="6" class="page"/>',
        *parts,
        "</svg>",
    )
    return "\n".join(lines) + "\n"
