"""Small pieces of SVG that are legible on a light and on a dark page."""

from collections.abc import Iterable
from html import escape
from typing import Final

STYLE: Final = """\
<style>
  text { font: 13px system-ui, sans-serif; fill: #1f2328; }
  .small { font-size: 11.5px; fill: #59636e; }
  .box { fill: #ddf4ff; stroke: #0969da; }
  .line { stroke: #59636e; fill: none; }
  .rail { stroke: #d1d9e0; }
  .tip { fill: #59636e; }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc; }
    .small { fill: #9198a1; }
    .box { fill: #12233a; stroke: #4493f8; }
    .line { stroke: #9198a1; }
    .rail { stroke: #3d444d; }
    .tip { fill: #9198a1; }
  }
</style>"""
"""Colours by the reader's setting: an image in a page cannot see the colours of the page."""

TIP: Final = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
    'orient="auto-start-reverse"><path class="tip" d="M0 0L8 4L0 8z"/></marker></defs>'
)


def picture(title: str, width: int, height: int, parts: Iterable[str]) -> str:
    """Put parts together to one picture. title: read aloud by screen readers."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img">'
    )
    return "\n".join([head, f"<title>{escape(title)}</title>", STYLE, TIP, *parts, "</svg>", ""])


def text(x: float, y: float, words: str, anchor: str = "middle", kind: str = "") -> str:
    """Write words at a point."""
    style = f' class="{kind}"' if kind else ""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}"{style}>{escape(words)}</text>'


def box(x: float, y: float, width: float, height: float) -> str:
    """Draw a box with round corners."""
    return f'<rect class="box" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6"/>'


def arrow(path: str) -> str:
    """Draw an arrow along a path."""
    return f'<path class="line" d="{path}" marker-end="url(#tip)"/>'


def width_of(words: str) -> int:
    """Estimate the width of words in pixels: fonts differ, so it is generous."""
    return round(7.2 * len(words))
