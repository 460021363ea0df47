"""Markdown of models and people is rendered as safe HTML (S91, S92)."""

from html.parser import HTMLParser

import pytest

from recollect.api.dashboard.markdown import MAX_CHARACTERS, render

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg onload=alert(1)><animate onbegin=alert(1)>",
    "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
    "<style>@import 'https://evil.example/x.css'</style>",
    "<a href='javascript:alert(1)' onclick=alert(1)>here</a>",
    "[here](javascript:alert(1))",
    "[here](JaVaScRiPt:alert(1))",
    "[here](&#106;avascript:alert(1))",
    "[here](data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==)",
    "[here](vbscript:msgbox(1))",
    "[here](file:///etc/passwd)",
    "<javascript:alert(1)>",
    "![x](javascript:alert(1))",
    '[here](https://a.example "x\\" onmouseover=\\"alert(1)")',
    '![x" onerror="alert(1)](https://evil.example/x.png)',
    "```html onload=alert(1)\n<script>alert(1)</script>\n```",
    '```"><script>alert(1)</script>\nx\n```',
    "[x]: javascript:alert(1)\n\n[x]",
    "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
]


class TagCollector(HTMLParser):
    """Collects the tags and attributes of HTML."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


@pytest.mark.parametrize("text", HOSTILE)
def test_S91_hostile_markup_is_removed(text: str) -> None:
    collector = TagCollector()
    collector.feed(render(text))

    assert {tag for tag, _ in collector.found} <= {"p", "a", "code", "pre"}
    for _, attributes in collector.found:
        assert set(attributes) <= {"href", "title", "class", "target", "rel"}
        assert (attributes.get("href") or "https:").startswith(("https:", "http:", "mailto:"))


def test_S92_an_image_is_rendered_as_a_link() -> None:
    html = render("![a map](https://maps.example/1.png)")

    assert html == (
        '<p><a href="https://maps.example/1.png" target="_blank" rel="noopener noreferrer">a map'
        "</a></p>\n"
    )


def test_S92_links_send_no_referrer_and_no_opener() -> None:
    html = render('[docs](https://docs.example/a?b=1&c=2 "the docs")')

    assert html == (
        '<p><a href="https://docs.example/a?b=1&amp;c=2" title="the docs" target="_blank" '
        'rel="noopener noreferrer">docs</a></p>\n'
    )


def test_common_chat_markdown_is_rendered() -> None:
    html = render("one\ntwo\n\n- *a*\n- `b`\n\n```python\nx < 1\n```\n\n|k|v|\n|-|-|\n|1|2|")

    assert "one<br>\ntwo" in html
    assert "<li><em>a</em></li>" in html
    assert '<code class="language-python">x &lt; 1\n</code>' in html
    assert "<td>2</td>" in html


def test_a_text_over_the_limit_is_not_rendered() -> None:
    assert render("a" * (MAX_CHARACTERS + 1)) == ""


def test_deep_nesting_gives_output_of_bounded_length() -> None:
    assert len(render(">" * 20_000 + "x")) < 400_000
