"""Searching memories by meaning (R195-R207, R223), with every cosine known."""

import json
from typing import Any, ClassVar

import pytest

from recollect.engine.core import Engine
from recollect.models.assemble import assemble
from recollect.settings import Settings
from tests.support.clock import Clock
from tests.support.embedder import StubEmbedder, at_cosine
from tests.support.house import Visitor, key_for, new_caller, open_house, serve, visit
from tests.support.live import on_a_port
from tests.support.statebase import (
    complaint,
    found,
    open_session,
    problem,
    remember,
    search,
)

pytestmark = pytest.mark.anyio

ASKED = "where does Ada live?"


@pytest.fixture
def embedder() -> StubEmbedder:
    """The question is the first axis; `x 0.8` is a text at cosine 0.8 to it."""
    stub = StubEmbedder({ASKED: at_cosine(1.0)})
    for hundredths in range(101):
        cosine = hundredths / 100
        for turn, name in enumerate("abcdefg"):
            stub.table[f"{name} {cosine}"] = at_cosine(cosine, turn=turn)
    return stub


async def test_R195_a_search_sees_every_session_of_the_caller_and_nobody_elses(
    visitor: Visitor, engine: Engine
) -> None:
    stranger = await new_caller(engine)
    key = await key_for(engine, stranger.workspace_id)
    async with visit(serve(engine), **{"X-API-Key": key}) as http:
        await remember(http, "c 0.95")
    await remember(visitor.http, "a 0.9", await open_session(visitor.http))
    await remember(visitor.http, "b 0.8", await open_session(visitor.http))

    texts = await found(visitor.http, ASKED)

    assert texts == ["a 0.9", "b 0.8"]


@pytest.mark.parametrize("body", [{}, {"query": ""}, {"query": None}, {"query": "  "}])
async def test_R196_a_query_is_required(visitor: Visitor, body: dict[str, Any]) -> None:
    answer = await visitor.http.post("/v1/memory/search", json=body)

    assert complaint(answer) == (400, "invalid_request", "query")


@pytest.mark.parametrize("query", [["Ada"], 7, {"text": "Ada"}, True])
async def test_R196_a_query_is_a_text(visitor: Visitor, query: Any) -> None:
    answer = await visitor.http.post("/v1/memory/search", json={"query": query})

    assert complaint(answer) == (400, "invalid_request", "query")


async def test_R197_a_session_narrows_a_search(visitor: Visitor) -> None:
    ours = await open_session(visitor.http)
    await remember(visitor.http, "a 0.8", ours)
    await remember(visitor.http, "b 0.9")

    assert await found(visitor.http, ASKED, session_id=ours["id"]) == ["a 0.8"]


@pytest.mark.parametrize("session_id", ["sess_aaaaaaaaaaaa", "nonsense", ""])
async def test_R197_an_unknown_session_narrows_to_nothing(
    visitor: Visitor, session_id: str
) -> None:
    await remember(visitor.http, "a 0.9")

    assert await found(visitor.http, ASKED, session_id=session_id) == []


async def test_R198_a_user_narrows_to_all_their_sessions(visitor: Visitor) -> None:
    for text, user in [("a 0.9", "ada"), ("b 0.8", "grace"), ("c 0.75", "ada"), ("d 0.95", None)]:
        await remember(visitor.http, text, await open_session(visitor.http, user_id=user))

    assert await found(visitor.http, ASKED, user_id="ada") == ["a 0.9", "c 0.75"]
    assert await found(visitor.http, ASKED, user_id="nobody") == []


async def test_R199_a_type_narrows_a_search(visitor: Visitor) -> None:
    await remember(visitor.http, "a 0.9", type="fact")
    await remember(visitor.http, "b 0.8", type="policy")
    await remember(visitor.http, "c 0.75")

    assert await found(visitor.http, ASKED, type="policy") == ["b 0.8"]
    assert await found(visitor.http, ASKED, type="general") == ["c 0.75"]


async def test_R200_any_of_the_tags_is_enough(visitor: Visitor) -> None:
    for text, tags in [
        ("a 0.9", ["a"]),
        ("b 0.85", ["b"]),
        ("c 0.8", ["a", "b"]),
        ("d 0.75", ["c"]),
    ]:
        await remember(visitor.http, text, tags=tags)
    await remember(visitor.http, "e 0.95")

    assert await found(visitor.http, ASKED, tags=["a", "b"]) == ["a 0.9", "b 0.85", "c 0.8"]
    assert await found(visitor.http, ASKED, tags=["nowhere"]) == []


async def test_R201_filters_combine(visitor: Visitor) -> None:
    ours = await open_session(visitor.http, user_id="ada")
    theirs = await open_session(visitor.http, user_id="ada")
    for text, session, kind, tag in [
        ("a 0.9", ours, "fact", "home"),
        ("b 0.9", theirs, "fact", "home"),
        ("c 0.9", ours, "event", "home"),
        ("d 0.9", ours, "fact", "work"),
    ]:
        await remember(visitor.http, text, session, type=kind, tags=[tag])

    texts = await found(
        visitor.http, ASKED, session_id=ours["id"], user_id="ada", type="fact", tags=["home"]
    )

    assert texts == ["a 0.9"]


async def test_R202_ten_results_unless_asked_and_never_more_than_fifty(visitor: Visitor) -> None:
    session = await open_session(visitor.http)
    for _ in range(60):
        await remember(visitor.http, "a 0.9", session)

    counts = [
        len(await search(visitor.http, ASKED, **given))
        for given in (
            {},
            {"limit": None},
            {"limit": 1},
            {"limit": 50},
            {"limit": 51},
            {"limit": 9999},
        )
    ]

    assert counts == [10, 10, 1, 50, 50, 50]


@pytest.mark.parametrize("limit", [0, -1, "ten", "10", 1.5, True, []])
async def test_R202_a_limit_is_a_number_from_one(visitor: Visitor, limit: Any) -> None:
    answer = await visitor.http.post("/v1/memory/search", json={"query": ASKED, "limit": limit})

    assert complaint(answer) == (400, "invalid_request", "limit")


async def test_R203_the_threshold_is_0_7_unless_given(visitor: Visitor) -> None:
    await remember(visitor.http, "a 0.69")
    await remember(visitor.http, "b 0.71")

    assert await found(visitor.http, ASKED) == ["b 0.71"]
    assert await found(visitor.http, ASKED, threshold=None) == ["b 0.71"]
    assert await found(visitor.http, ASKED, threshold=0.6) == ["b 0.71", "a 0.69"]


@pytest.mark.parametrize("threshold", [-0.1, 1.1, "0.5", True, [], -1, 2])
async def test_R204_a_threshold_outside_0_to_1_is_refused(visitor: Visitor, threshold: Any) -> None:
    answer = await visitor.http.post(
        "/v1/memory/search", json={"query": ASKED, "threshold": threshold}
    )

    assert complaint(answer) == (400, "invalid_request", "threshold")


@pytest.mark.parametrize(
    ("threshold", "expected"),
    [
        (0.0, ["a 1.0", "b 0.5", "c 0.0"]),
        (0, ["a 1.0", "b 0.5", "c 0.0"]),
        (1.0, ["a 1.0"]),
        (1, ["a 1.0"]),
    ],
)
async def test_R204_both_ends_are_thresholds(
    visitor: Visitor, threshold: float, expected: list[str]
) -> None:
    for text in ("a 1.0", "b 0.5", "c 0.0"):
        await remember(visitor.http, text)

    assert await found(visitor.http, ASKED, threshold=threshold) == expected


@pytest.mark.parametrize("query", [ASKED, "  spaces kept \n", "日本 🐘 <b>&amp;"])
async def test_R205_the_answer_is_data_and_the_query_as_it_was_asked(
    visitor: Visitor, query: str
) -> None:
    answer = await visitor.http.post("/v1/memory/search", json={"query": query})

    expected: dict[str, Any] = {"object": "list", "data": [], "query": query, "degraded": False}
    assert answer.status_code == 200
    assert answer.json() == expected  # not degraded: there is nothing to miss


async def test_R206_a_result_is_the_memory_and_its_score(visitor: Visitor) -> None:
    memory = await remember(visitor.http, "a 0.9", type="fact", tags=["home"], metadata={"n": 1})

    [hit] = await search(visitor.http, ASKED)

    assert hit == {**memory, "score": pytest.approx(0.9, abs=1e-3), "found_by": "meaning"}
    assert type(hit["score"]) is float


async def test_R207_scores_lie_between_0_and_1_and_the_best_comes_first(
    visitor: Visitor, embedder: StubEmbedder
) -> None:
    embedder.table["opposite"] = at_cosine(-0.9)
    for text in ("c 0.3", "a 1.0", "opposite", "b 0.75", "d 0.0"):
        await remember(visitor.http, text)

    hits = await search(visitor.http, ASKED, threshold=0.0)

    assert [(hit["content"], hit["score"]) for hit in hits] == [
        ("a 1.0", pytest.approx(1.0, abs=1e-3)),
        ("b 0.75", pytest.approx(0.75, abs=1e-3)),
        ("c 0.3", pytest.approx(0.3, abs=1e-3)),
        ("d 0.0", pytest.approx(0.0, abs=1e-3)),
        ("opposite", 0.0),
    ]
    assert all(0.0 <= hit["score"] <= 1.0 for hit in hits)


class Endpoint:
    """An embeddings endpoint, as two well-known ones answer: each model with its own dimension."""

    dimensions: ClassVar = {"text-embedding-004": 768, "text-embedding-3-small": 1536}
    near = frozenset({ASKED, "Ada lives in London"})

    def __init__(self) -> None:
        self.models: set[str] = set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        asked = json.loads((await receive())["body"])
        self.models.add(asked["model"])
        dimension = self.dimensions[asked["model"]]
        data = [
            {"index": index, "embedding": at_cosine(text in self.near, dimension).tolist()}
            for index, text in enumerate(asked["input"])
        ]
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps({"data": data}).encode()})


@pytest.mark.parametrize("model", Endpoint.dimensions)
async def test_R223_either_named_model_can_serve(
    database_url: str, clock: Clock, embedder: StubEmbedder, model: str
) -> None:
    endpoint = Endpoint()
    with on_a_port(endpoint) as url:
        settings = Settings(embedding_url=url, embedding_model=model)
        embedders = assemble(settings, embedder)
        async with open_house(database_url, embedders, clock) as engine:
            caller = await new_caller(engine)
            key = await key_for(engine, caller.workspace_id)
            async with visit(serve(engine), **{"X-API-Key": key}) as http:
                saved = await remember(http, "Ada lives in London")
                await remember(http, "something else")

                hits = await search(http, ASKED)

            async with engine.pool.everywhere() as db:
                cursor = await db.execute(
                    "SELECT model, dimension FROM generation WHERE workspace_id = %s",
                    [caller.workspace_id],
                )
                generations = await cursor.fetchall()
        await embedders.aclose()

    assert endpoint.models == {model}
    assert generations == [(model, Endpoint.dimensions[model])]
    assert hits == [{**saved, "score": pytest.approx(1.0), "found_by": "meaning"}]


async def test_a_query_longer_than_a_memory_is_refused(visitor: Visitor) -> None:
    answer = await visitor.http.post("/v1/memory/search", json={"query": "a" * 10_001})

    assert answer.status_code == 400
    assert answer.json() == problem(
        "invalid_request",
        "`query` may have at most 10,000 characters; this has 10,001.",
        param="query",
    )


async def test_an_empty_list_of_tags_asks_for_no_tag_in_particular(visitor: Visitor) -> None:
    await remember(visitor.http, "a 0.9")

    assert await found(visitor.http, ASKED, tags=[]) == ["a 0.9"]


async def test_a_text_searched_for_in_its_own_words_passes_every_threshold(
    visitor: Visitor,
) -> None:
    texts = [f"statement number {n}" for n in range(40)]
    session = await open_session(visitor.http)
    for text in texts:
        await remember(visitor.http, text, session)

    missed = [text for text in texts if text not in await found(visitor.http, text, threshold=1.0)]

    assert missed == []
