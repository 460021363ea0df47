"""Render Markdown for the page, and remove everything that could run or load."""

from html import escape
from typing import Any

import nh3
from markdown_it import MarkdownIt

# Longer texts are shown unrendered: rendering must never delay an answer.
MAX_CHARACTERS = 200_000

_SCHEMES = {"http", "https", "mailto"}
_TAGS = {
    *("p", "br", "hr", "em", "strong", "s", "code", "pre", "blockquote", "a"),
    *("h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li"),
    *("table", "thead", "tbody", "tr", "th", "td"),
}
_ATTRIBUTES = {"a": {"href", "title"}, "ol": {"start"}, "code": {"class"}}


def render(text: str) -> str:
    """Return safe HTML: no raw markup, no images, and only known URL schemes."""
    if len(text) > MAX_CHARACTERS:
        return ""
    return _CLEANER.clean(_PARSER.render(text))


def _filter_class(tag: str, name: str, value: str) -> str | None:
    """Keep a class only if it names the language of a code block."""
    if (tag, name) == ("code", "class"):
        return value if value.startswith("language-") and " " not in value else None
    return value


def _image_as_link(self: Any, tokens: Any, index: int, options: Any, env: Any) -> str:
    """Render an image as a link: loading it would tell its server who reads the message."""
    token = tokens[index]
    label = self.renderInlineAsText(token.children or [], options, env) or "image"
    return f'<a href="{escape(str(token.attrs.get("src", "")))}">{escape(label)}</a>'


def _parser() -> MarkdownIt:
    # A single newline is a line break, as people expect in a chat.
    parser = MarkdownIt("commonmark", {"html": False, "linkify": False, "breaks": True})
    parser.enable(["table", "strikethrough"])
    parser.add_render_rule("image", _image_as_link)
    return parser


_PARSER = _parser()
_CLEANER = nh3.Cleaner(
    tags=_TAGS,
    attributes=_ATTRIBUTES,
    attribute_filter=_filter_class,
    url_schemes=_SCHEMES,
    link_rel="noopener noreferrer",
    set_tag_attribute_values={"a": {"target": "_blank"}},
)
