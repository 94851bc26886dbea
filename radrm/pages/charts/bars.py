"""Bars, also in layers on top of each other; histograms."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from radrm.pages.charts.frame import TOP, Axis, Frame, Kind, at, known, legend, paint, pattern, safe

MOST_BINS = 400


class Bin(Struct, frozen=True):
    """The bars at one place of the level axis.

    `label` stands below; "" for none. `values` has one for each layer, not below zero; None:
    unknown. `name` is the place in full, for the pointer; "" for the label.
    """

    label: str
    values: Sequence[float | None]
    name: str = ""


def bars(
    name: str,
    title: str,
    bins: Sequence[Bin],
    axis: Axis,
    layers: Sequence[Kind] = (Kind(""),),
    *,
    edges: bool = False,
    width: float = 560,
    height: float = 220,
) -> str:
    """Return a chart with a bar for each bin, in layers; the first layer is the lowest.

    `edges`: labels stand at the left edge of bars, which touch, as in a histogram. Of more than
    400 bins the last ones are drawn. `name` is unique in the page.
    """
    frame = Frame(name, title, width, height)
    left_out, shown = len(bins[:-MOST_BINS]), bins[-MOST_BINS:]
    values = [[_amount(value) for value in each.values[: len(layers)]] for each in shown]
    sums = [sum(value or 0.0 for value in each) for each in values]
    top = frame.rows(axis, max(sums, default=0.0))
    room = (frame.right - frame.left) / max(1, len(shown))
    gap = 0.0 if room < 3 else 1.0 if edges else min(room * 0.2, 8.0)
    used: set[int] = set()
    unknown = False
    for place, (each, parts) in enumerate(zip(shown, values, strict=True)):
        x, low = frame.left + room * place + gap / 2, 0.0
        drawn = []
        for layer, part in enumerate(parts):
            if not part:
                continue
            used.add(layer)
            y, below = frame.up(low + part, top), frame.up(low, top)
            drawn.append(
                f'<rect {paint(name, layer, layers[layer])} x="{at(x)}" y="{at(y)}" '
                f'width="{at(max(0.5, room - gap))}" height="{at(max(0.3, below - y))}"/>'
            )
            low += part
        if each.values and all(part is None for part in parts):
            unknown = True
            frame.body.append(
                f'<rect class="unknown" x="{at(x)}" y="{at(TOP)}" width="{at(room - gap)}" '
                f'height="{at(frame.bottom - TOP)}"><title>{safe(each.name or each.label)}: unknown'
                "</title></rect>"
            )
        if drawn:
            words = _bar(each, parts, axis, layers)
            frame.body.append(f"<g><title>{safe(words)}</title>{''.join(drawn)}</g>")
    shift = 0.0 if edges else room / 2
    frame.columns(
        [(frame.left + room * i + shift, b.label) for i, b in enumerate(shown) if b.label]
    )
    frame.defs += [pattern(name, layer, layers[layer]) for layer in sorted(used)]
    if not used:
        frame.nothing()
    if left_out:
        frame.notes.append(f"{left_out} earlier bars are not drawn.")
    samples = [
        (f'<rect {paint(name, layer, layers[layer])} width="20" height="12"/>', layers[layer].name)
        for layer in sorted(used)
    ]
    if unknown:
        samples.append(('<rect class="unknown" width="20" height="12"/>', "unknown"))
    said = _said(shown, sums, values, axis, layers)
    return frame.figure(said, legend([each for each in samples if each[1]]))


def _amount(value: float | None) -> float | None:
    found = known(value)
    return None if found is None else max(0.0, found)


def _bar(each: Bin, parts: Sequence[float | None], axis: Axis, layers: Sequence[Kind]) -> str:
    words = [
        f"{layers[layer].name} {axis.show(part)}".strip()
        for layer, part in enumerate(parts)
        if part
    ]
    return f"{each.name or each.label}: {', '.join(words)}"


def _said(
    bins: Sequence[Bin],
    sums: Sequence[float],
    values: Sequence[Sequence[float | None]],
    axis: Axis,
    layers: Sequence[Kind],
) -> str:
    if not any(sums):
        return f"{axis.title}: nothing on record."
    most = max(range(len(sums)), key=lambda place: sums[place])
    words = [f"{axis.title}. The most is {axis.show(sums[most])}"]
    words.append(f"at {bins[most].name or bins[most].label};")
    words.append(f"all together {axis.show(sum(sums))}.")
    if len(layers) > 1:
        for layer, kind in enumerate(layers):
            total = sum(each[layer] or 0.0 for each in values if layer < len(each))
            words.append(f"{kind.name}: {axis.show(total)}.")
    return " ".join(words)
