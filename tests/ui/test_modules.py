"""The page's pure modules, run in the browser."""

from typing import Any

from tests.support.browser_site import Person


def run(person: Person, module: str, expression: str) -> Any:
    page = person.contexts[0].pages[0] if person.contexts else person.open("/login")
    return page.evaluate(
        f"async () => {{ const m = await import('/ui/{module}'); return {expression} }}"
    )


def test_times_are_formatted_for_people(person: Person) -> None:
    now = "new Date(2026, 10, 16, 14, 30)"
    result = run(
        person,
        "format.js",
        f"""[[2026,10,16,14,29,40],[2026,10,16,14,5],[2026,10,16,9,5],[2026,10,15,23,0],[2026,2,1],[2024,11,31]]
            .map(parts => m.ago(new Date(...parts), {now}))""",
    )

    assert result == [
        "just now",
        "25 min ago",
        "today, 09:05",
        "yesterday, 23:00",
        "1 Mar",
        "31 Dec 2024",
    ]


def test_numbers_and_texts_are_shortened(person: Person) -> None:
    assert run(person, "format.js", "[0, 950, 1234, 34567, 5.6e6].map(m.brief)") == [
        "0",
        "950",
        "1.2k",
        "35k",
        "5.6M",
    ]
    assert run(person, "format.js", "[12, 9400, 482113, 2.5e9].map(m.size)") == [
        "12 B",
        "9.4 kB",
        "482 kB",
        "2.5 GB",
    ]
    assert run(
        person, "format.js", "[m.truncate('one two three', 8), m.truncate('👩‍🚀'.repeat(3), 100)]"
    ) == [
        "one two…",
        "👩‍🚀" * 3,
    ]


def test_a_passage_is_shown_without_its_title_and_with_matches(person: Person) -> None:
    assert run(
        person,
        "format.js",
        r"""[m.withoutTitle('# Lease\n\nIt begins in May.', 'lease.md: Lease'), m.withoutTitle('# Lease', 'lease.md: Lease'),
             m.splitAtMatches('The lease begins; a release too.', 'When does the lease begin?'), m.splitAtMatches('a+b', '(')]""",
    ) == [
        "It begins in May.",
        "# Lease",
        ["The ", "lease", " ", "begins", "; a release too."],
        ["a+b"],
    ]


def test_events_are_the_same_for_any_chunking_of_the_stream(person: Person) -> None:
    result = run(
        person,
        "events.js",
        r"""(() => {
          const text = 'event: delta\ndata: {"text":"ä\\n"}\n\n: a comment\n\nevent: delta\r\ndata: {"text":"b"}\r\n\r\ndata: [DONE]\n\n';
          const whole = new m.Events().push(text);
          for (let at = 0; at <= text.length; at++) {
            const events = new m.Events();
            const cut = [...events.push(text.slice(0, at)), ...events.push(text.slice(at))];
            if (JSON.stringify(cut) !== JSON.stringify(whole)) return at;
          }
          return whole;
        })()""",
    )

    assert result == [
        {"name": "delta", "data": {"text": "ä\n"}},
        {"name": "delta", "data": {"text": "b"}},
        {"name": "done", "data": None},
    ]


def test_the_graph_layout_is_deterministic_with_linked_nodes_close(person: Person) -> None:
    same, near, far, apart = run(
        person,
        "layout.js",
        """(() => {
          const edges = [[0, 1, 1], [0, 2, 1], [1, 2, 1]];
          const one = m.layout(40, edges);
          const two = m.layout(40, edges);
          const distance = (a, b) => Math.hypot(one[a].x - one[b].x, one[a].y - one[b].y);
          const all = one.flatMap((_, a) => one.map((_, b) => (a < b ? distance(a, b) : Infinity)));
          return [JSON.stringify(one) === JSON.stringify(two), distance(0, 1), distance(0, 39), Math.min(...all)];
        })()""",
    )

    assert same
    assert near < far
    assert apart > 10


def test_an_address_names_a_page_and_defaults_to_the_chat(person: Person) -> None:
    assert run(
        person,
        "router.js",
        "['#/memories?view=graph', '#/chat/chat_1', '#/nowhere', ''].map(h => { const p = m.parseRoute(h); return [p.name, p.id, p.query.toString()] })",
    ) == [
        ["memories", "", "view=graph"],
        ["chat", "chat_1", ""],
        ["chat", "", ""],
        ["chat", "", ""],
    ]
