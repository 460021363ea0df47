"""Documents in a workspace: uploaded, read in the background, found, and deleted completely."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest

from recollect.core.domain import Caller, Chunk, Document, DocumentStatus, Memory, Ref, Right
from recollect.core.errors import Denied, NotFound, TooLarge
from recollect.documents.documents import (
    MAX_BYTES,
    ListDocuments,
    NewDocument,
    add_document,
    bytes_of,
    delete_document,
    get_document,
    label_of,
    list_documents,
    save_artifact,
    text_of,
)
from recollect.documents.queries import documents
from recollect.documents.workspace_search import ResultKind, SearchWorkspace, search_workspace
from recollect.engine import Engine
from recollect.maintenance import survey, tidy
from recollect.memories.save import Save, save
from recollect.models.embedder_registry import Embedders
from recollect.tenancy.queries import projects
from tests.support.clock import Clock
from tests.support.embedder import StubEmbedder, at_cosine
from tests.support.instance import in_new_workspace, new_caller, open_engine
from tests.support.sample_files import (
    UNTIDY,
    docx,
    entity_bomb,
    in_chunks,
    paragraph,
    pdf,
    run_jobs,
    upload,
)
from tests.support.tools import fetch_rows

pytestmark = pytest.mark.anyio

TABLES = ["document", "document_piece", "chunk", "chunk_word", "chunk_vector"]


async def found(engine: Engine, caller: Caller, query: str) -> list[tuple[ResultKind, str]]:
    """Return the kinds and names of the results."""
    results = await search_workspace(engine, caller, SearchWorkspace(query))
    return [(each.kind, named(each.found)) for each in results]


def named(thing: Memory | Chunk) -> str:
    return thing.content if isinstance(thing, Memory) else thing.document_name


async def counts(engine: Engine, caller: Caller) -> dict[str, int]:
    return {
        table: (
            await fetch_rows(
                engine,
                f"SELECT count(*) FROM {table} WHERE workspace_id = %s",
                caller.workspace_id,
            )
        )[0][0]
        for table in TABLES
    }


async def reloaded(engine: Engine, caller: Caller, document: Document) -> Document:
    return await get_document(engine, caller, Ref(id=document.id))


async def test_N18_uploads_are_read_listed_shown_and_downloaded(
    engine: Engine, caller: Caller
) -> None:
    uploads = {
        "notes.md": b"# Plover\n\nThe plover nests in March.",
        "a.txt": b"A curlew was seen.",
        "b.html": b"<!doctype html><body><p>A <b>dunlin</b> fed.</p></body>",
        "c.pdf": pdf("A knot on page one"),
        "d.docx": docx(paragraph("A ruff displayed.")),
        "e.py": b"def godwit():\n    return 1\n",
        "f.bin": UNTIDY,
    }
    for name, data in uploads.items():
        assert (await upload(engine, caller, name, data)).status is DocumentStatus.WAITING

    await run_jobs(engine)

    listed, has_more = await list_documents(engine, caller, ListDocuments())
    assert not has_more
    assert {each.name: each.status.value for each in listed} == {
        **dict.fromkeys(uploads, "ready"),
        "f.bin": "stored",
    }
    assert {each.name for each in listed if each.embedded_count == each.chunk_count == 1} == (
        set(uploads) - {"f.bin"}
    )
    for document in listed:
        whole = bytes_of(engine, caller, document, 0, document.size - 1)
        assert b"".join([part async for part in whole]) == uploads[document.name]
    for word, name in {
        "plover": "notes.md",
        "curlew": "a.txt",
        "dunlin": "b.html",
        "knot": "c.pdf",
        "ruff": "d.docx",
        "godwit": "e.py",
    }.items():
        assert (ResultKind.DOCUMENT, name) in await found(engine, caller, word)
    shown = [part async for part in text_of(engine, caller, await of_name(engine, caller, "e.py"))]
    assert "".join(shown).encode() == uploads["e.py"]


async def of_name(engine: Engine, caller: Caller, name: str) -> Document:
    listed, _ = await list_documents(engine, caller, ListDocuments())
    return next(each for each in listed if each.name == name)


async def test_memories_chunks_and_artifacts_are_one_ranked_list(
    engine: Engine, caller: Caller, embedder: StubEmbedder
) -> None:
    embedder.table = {
        "q": at_cosine(1.0),
        "A memory.": at_cosine(0.7, axis=1),
        "We chose Oslo.": at_cosine(0.6, axis=2),
        "A chunk.": at_cosine(0.9, axis=3),
        "An artifact.": at_cosine(0.8, axis=4),
        "Far off.": at_cosine(0.0, axis=5),
    }
    await save(engine, caller, Save("A memory."))
    await save(engine, caller, Save("We chose Oslo.", category="decision"))
    await upload(engine, caller, "doc.txt", "A chunk.")
    await upload(engine, caller, "far.txt", "Far off.")
    await save_artifact(engine, caller, "plan.md", "An artifact.")
    await run_jobs(engine)

    results = await search_workspace(engine, caller, SearchWorkspace("q"))

    assert [(each.kind.value, round(each.score, 2)) for each in results] == [
        ("document", 0.9),
        ("artifact", 0.8),
        ("memory", 0.7),
        ("decision", 0.6),
    ]
    only = SearchWorkspace("q", kinds={ResultKind.ARTIFACT, ResultKind.DECISION}, offset=1)
    assert [each.kind for each in await search_workspace(engine, caller, only)] == [
        ResultKind.DECISION
    ]


async def test_matching_words_raise_results_by_meaning_and_find_results_alone(
    engine: Engine, caller: Caller, embedder: StubEmbedder
) -> None:
    embedder.table = {
        "plover nest": at_cosine(1.0),
        "The plover sits on its nest.": at_cosine(0.5, axis=1),
        "Birds and where they breed.": at_cosine(0.5, axis=2),
        "A plover nest, seen from far.": at_cosine(0.0, axis=3),
        "Tax forms.": at_cosine(0.1, axis=4),
    }
    for number, text in enumerate(list(embedder.table)[1:]):
        await upload(engine, caller, f"{number}.txt", text)
    await run_jobs(engine)

    results = await search_workspace(engine, caller, SearchWorkspace("plover nest"))

    assert [each.found.content for each in results] == list(embedder.table)[1:4]


async def scores(engine: Engine, caller: Caller, query: str) -> list[float]:
    return [each.score for each in await search_workspace(engine, caller, SearchWorkspace(query))]


async def test_documents_of_another_workspace_or_project_are_not_found(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    other_org, other_workspace = await new_caller(engine), await in_new_workspace(engine, caller)
    async with engine.pool.everywhere() as db:
        project_id = await projects.add_project(db, caller.workspace_id, "secret", clock.at)
        assert project_id
        await projects.add_member(db, caller.workspace_id, project_id, caller.user_id, clock.at)
    member = replace(caller, project_id=project_id)
    colleague = replace(caller, user_id=other_org.user_id)
    open_one = await upload(engine, caller, "open.txt", "The plover nests in March.")
    await run_jobs(engine)
    scores_before = await scores(engine, colleague, "plover nests in secret")
    kept = await upload(engine, member, "kept.txt", "The plover nests in secret.")
    await run_jobs(engine)

    # The scores do not reveal that another document exists.
    assert await scores(engine, colleague, "plover nests in secret") == scores_before

    async def seen(by: Caller) -> set[str]:
        listed, _ = await list_documents(engine, by, ListDocuments())
        hits = {
            name for kind, name in await found(engine, by, "plover") if kind is ResultKind.DOCUMENT
        }
        assert hits == {each.name for each in listed}
        return hits

    assert await seen(member) == await seen(caller) == {"open.txt", "kept.txt"}
    assert await seen(colleague) == {"open.txt"}
    assert await seen(other_org) == await seen(other_workspace) == set()
    for outsider, document in [
        (other_org, open_one),
        (other_workspace, open_one),
        (colleague, kept),
    ]:
        with pytest.raises(NotFound):
            await get_document(engine, outsider, Ref(id=document.id))
        with pytest.raises(NotFound):
            await delete_document(engine, outsider, Ref(id=document.id))


async def test_a_deleted_document_leaves_no_rows(engine: Engine, caller: Caller) -> None:
    document = await upload(engine, caller, "a.md", "# Plover\n\n" + "The plover nests. " * 500)
    await run_jobs(engine)
    before = await counts(engine, caller)

    await delete_document(engine, caller, Ref(code=document.code))

    assert all(before.values())
    assert await counts(engine, caller) == dict.fromkeys(TABLES, 0)
    assert await found(engine, caller, "plover") == []


async def test_S62_a_zip_or_entity_bomb_fails_and_other_documents_are_read(
    engine: Engine, caller: Caller
) -> None:
    bomb = await upload(engine, caller, "bomb.docx", entity_bomb())
    fine = await upload(engine, caller, "fine.txt", "The plover nests.")

    await run_jobs(engine)

    failed = await reloaded(engine, caller, bomb)
    assert failed.status is DocumentStatus.FAILED
    assert failed.error == "The document declares entities, which no word processor writes."
    assert (await reloaded(engine, caller, fine)).status is DocumentStatus.READY


async def test_a_repeated_upload_returns_the_existing_document(
    engine: Engine, caller: Caller
) -> None:
    first = await upload(engine, caller, "a.txt", "Plover.")
    await run_jobs(engine)

    second = await upload(engine, caller, "a.txt", "Plover.")
    other = await upload(engine, caller, "b.txt", "Plover.")

    assert second == await reloaded(engine, caller, first)
    assert other.id != first.id
    assert (await counts(engine, caller))["document"] == 2


async def test_uploading_a_failed_document_again_reads_it_again(
    engine: Engine, caller: Caller
) -> None:
    bomb = entity_bomb()
    first = await upload(engine, caller, "a.docx", bomb)
    await run_jobs(engine)

    second = await upload(engine, caller, "a.docx", bomb)

    assert (second.id, second.status) == (first.id, DocumentStatus.WAITING)
    await run_jobs(engine)
    assert (await reloaded(engine, caller, first)).status is DocumentStatus.FAILED


async def test_S60_a_too_large_or_interrupted_upload_stores_nothing(
    engine: Engine, caller: Caller
) -> None:
    async def broken_off() -> AsyncIterator[bytes]:
        yield b"x" * 300_000
        raise ConnectionResetError

    with pytest.raises(TooLarge):
        await upload(engine, caller, "large.txt", b"x" * (MAX_BYTES + 1))
    with pytest.raises(ConnectionResetError):
        await add_document(engine, caller, NewDocument("cut.txt"), broken_off())

    assert await counts(engine, caller) == dict.fromkeys(TABLES, 0)


async def test_an_upload_interrupted_by_a_crash_is_deleted_later(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    async with engine.writing(caller) as db:
        await documents.begin(
            db,
            caller,
            documents.DocumentId(UUID(int=1)),
            code="a" * 24,
            kind=documents.DocumentKind.UPLOAD,
            name="half.txt",
            thread_id=None,
            now=clock.at,
        )
    clock.advance(timedelta(hours=2))

    await tidy(engine)

    assert (await counts(engine, caller))["document"] == 0


async def test_an_empty_file_is_stored(engine: Engine, caller: Caller) -> None:
    document = await upload(engine, caller, "empty.txt", b"")
    await run_jobs(engine)

    assert (await reloaded(engine, caller, document)).status is DocumentStatus.STORED


async def test_during_an_embedder_outage_a_document_is_found_by_its_words(
    engine: Engine, caller: Caller, embedder: StubEmbedder, clock: Clock
) -> None:
    await save(engine, caller, Save("Something first."))
    embedder.is_down = True
    document = await upload(engine, caller, "a.txt", "The plover nests in March.")
    await run_jobs(engine)

    assert await found(engine, caller, "plover") == [(ResultKind.DOCUMENT, "a.txt")]
    assert (await reloaded(engine, caller, document)).embedded_count == 0
    embedder.is_down = False
    clock.advance(timedelta(minutes=5))
    await run_jobs(engine)
    assert (await reloaded(engine, caller, document)).embedded_count == 1


async def test_a_document_can_be_the_first_item_of_a_workspace(
    engine: Engine, caller: Caller
) -> None:
    document = await upload(engine, caller, "a.txt", "The plover nests in March.")
    await run_jobs(engine)

    assert (await reloaded(engine, caller, document)).embedded_count == 1


async def test_chunks_are_embedded_again_with_a_new_model(database_url: str, clock: Clock) -> None:
    old, new = StubEmbedder(dimension=8, model="old"), StubEmbedder(dimension=16, model="new")
    async with open_engine(database_url, Embedders(old), clock) as engine:
        caller = await new_caller(engine)
        document = await upload(engine, caller, "a.txt", "The plover nests. " * 300)
        await run_jobs(engine)
        count = (await reloaded(engine, caller, document)).chunk_count
    async with open_engine(database_url, Embedders(new, {"old": old}), clock) as engine:
        await survey(engine)
        await run_jobs(engine)
        clock.advance(timedelta(minutes=5))
        await run_jobs(engine)

        widths = await fetch_rows(
            engine,
            "SELECT vector_dims(embedding), count(*) FROM chunk_vector WHERE workspace_id = %s GROUP BY 1",
            caller.workspace_id,
        )
        assert [tuple(each) for each in widths] == [(16, count)]
        assert (await reloaded(engine, caller, document)).embedded_count == count


async def test_a_document_is_read_again_after_a_crash_and_fails_after_three(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    async def claim_and_crash() -> None:
        async with engine.pool.writing(caller.workspace_id) as db:
            until = clock.at + timedelta(minutes=2)
            await documents.claim_next(db, caller.workspace_id, until=until, now=clock.at)

    once = await upload(engine, caller, "once.txt", "Plover.")
    await claim_and_crash()
    await run_jobs(engine)
    assert (await reloaded(engine, caller, once)).status is DocumentStatus.READING
    clock.advance(timedelta(minutes=3))
    await run_jobs(engine)
    assert (await reloaded(engine, caller, once)).status is DocumentStatus.READY

    always = await upload(engine, caller, "always.txt", "Curlew.")
    for _ in range(3):
        await claim_and_crash()
        clock.advance(timedelta(minutes=3))
    await run_jobs(engine)
    assert (await reloaded(engine, caller, always)).status is DocumentStatus.FAILED


async def test_a_document_deleted_while_it_is_read_stays_deleted(
    engine: Engine, caller: Caller, embedder: StubEmbedder
) -> None:
    await save(engine, caller, Save("Something first."))
    document = await upload(engine, caller, "a.txt", "The plover nests. " * 3000)
    plain = embedder.embed

    async def deleting(*args: object, **options: object) -> object:
        if await counts(engine, caller) != dict.fromkeys(TABLES, 0):
            await delete_document(engine, caller, Ref(id=document.id))
        return await plain(*args, **options)  # pyright: ignore[reportArgumentType, reportCallIssue]

    embedder.embed = deleting  # pyright: ignore[reportAttributeAccessIssue]
    await run_jobs(engine)

    assert await counts(engine, caller) == dict.fromkeys(TABLES, 0)


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\temp\\a.txt", "a.txt"),
        ("a\0b\x1b.txt", "ab.txt"),
        ("gnp\u202etxt.exe", "gnptxt.exe"),
        ("<b>.html", "<b>.html"),
        ("/", "untitled"),
        ("x" * 300, "x" * 255),
    ],
)
def test_S63_a_name_is_a_label_and_never_a_path(name: str, label: str) -> None:
    assert label_of(name) == label


@pytest.mark.parametrize("right", [Right.READ, Right.WRITE, Right.DELETE])
async def test_each_operation_needs_its_right(engine: Engine, caller: Caller, right: Right) -> None:
    document = await upload(engine, caller, "a.txt", "Plover.")
    limited = replace(caller, rights=frozenset(Right) - {right})

    with pytest.raises(Denied):
        match right:
            case Right.READ:
                await list_documents(engine, limited, ListDocuments())
            case Right.WRITE:
                await add_document(engine, limited, NewDocument("b.txt"), in_chunks(b"x"))
            case _:
                await delete_document(engine, limited, Ref(id=document.id))


async def test_documents_are_listed_page_by_page(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    for number in range(5):
        await upload(engine, caller, f"{number}.txt", f"Plover {number}.")
    seen: list[str] = []
    ask = ListDocuments(limit=2)
    while True:
        page, has_more = await list_documents(engine, caller, ask)
        seen += [each.name for each in page]
        if not has_more:
            break
        ask = replace(ask, before=(page[-1].created_at, page[-1].id))

    assert sorted(seen) == [f"{number}.txt" for number in range(5)]
