"""Markdown as the page shows it: rendered here, then cleaned of everything that could act."""

from html import escape
from typing import Any

import nh3
from markdown_it import MarkdownIt

# Longer texts are shown as they are: rendering must never be what an answer waits for.
LONGEST = 200_000

_SCHEMES = {"http", "https", "mailto"}
_TAGS = {
    *("p", "br", "hr", "em", "strong", "s", "code", "pre", "blockquote", "a"),
    *("h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li"),
    *("table", "thead", "tbody", "tr", "th", "td"),
}
_ATTRIBUTES = {"a": {"href", "title"}, "ol": {"start"}, "code": {"class"}}


def render(text: str) -> str:
    """HTML that is safe to show: no markup of the author's own, no images, no foreign schemes."""
    if len(text) > LONGEST:
        return ""
    return _CLEANER.clean(_PARSER.render(text))


def _only_languages(tag: str, name: str, value: str) -> str | None:
    """A class says only which language code is in."""
    if (tag, name) == ("code", "class"):
        return value if value.startswith("language-") and " " not in value else None
    return value


def _as_link(self: Any, tokens: Any, index: int, options: Any, env: Any) -> str:
    """An image that loads by itself would tell its owner who reads; a link has to be followed."""
    token = tokens[index]
    label = self.renderInlineAsText(token.children or [], options, env) or "image"
    return f'<a href="{escape(str(token.attrs.get("src", "")))}">{escape(label)}</a>'


def _parser() -> MarkdownIt:
    # A single line end is a line break: that is how people write in a chat.
    parser = MarkdownIt("commonmark", {"html": False, "linkify": False, "breaks": True})
    parser.enable(["table", "strikethrough"])
    parser.add_render_rule("image", _as_link)
    return parser


_PARSER = _parser()
_CLEANER = nh3.Cleaner(
    tags=_TAGS,
    attributes=_ATTRIBUTES,
    attribute_filter=_only_languages,
    url_schemes=_SCHEMES,
    link_rel="noopener noreferrer",
    set_tag_attribute_values={"a": {"target": "_blank"}},
)
