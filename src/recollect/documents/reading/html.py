"""The text of an HTML page, with headings and lists as in Markdown."""

import re
from collections.abc import Iterator

from selectolax.lexbor import LexborHTMLParser, LexborNode

_UNREAD = ["script", "style", "noscript", "template", "svg", "iframe", "object", "head"]
_HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}
_BLOCKS = {
    *_HEADINGS,
    *("address", "article", "aside", "blockquote", "body", "dd", "details", "div", "dl", "dt"),
    *("fieldset", "figcaption", "figure", "footer", "form", "header", "hr", "li", "main", "nav"),
    *("ol", "p", "pre", "section", "summary", "table", "tr", "ul"),
}
_CELLS = {"td", "th"}
_SPACES = re.compile(r"\s+")
_GAPS = re.compile(r"[ \t]*\n(?:[ \t]*\n)+")


def text_of_html(source: str) -> str:
    """Return the visible text of the page, block by block."""
    page = LexborHTMLParser(source)
    title = page.css_first("title")
    name = _SPACES.sub(" ", title.text()).strip() if title else ""
    has_heading = page.css_first("h1") is not None
    page.strip_tags(_UNREAD)
    body = page.body
    text = "".join(_said(body)) if body else ""
    text = _GAPS.sub("\n\n", text).strip()
    return f"# {name}\n\n{text}" if name and not has_heading else text


def _said(body: LexborNode) -> Iterator[str]:
    for node in body.traverse(include_text=True):
        tag = node.tag or ""
        before = node.prev
        if before is not None and before.tag in _BLOCKS:
            yield "\n\n"
        if tag == "-text":
            yield _words(node)
        elif tag in _HEADINGS:
            yield f"\n\n{_HEADINGS[tag]} "
        elif tag == "li":
            yield "\n- "
        elif tag in {"br", "tr"}:
            yield "\n"
        elif tag in _CELLS:
            yield " | " if before is not None else ""
        elif tag in _BLOCKS:
            yield "\n\n"


def _words(node: LexborNode) -> str:
    text = node.text_content or ""
    parent = node.parent
    if parent is not None and parent.tag == "pre":
        return text
    return _SPACES.sub(" ", text)
