"""The built-in model: no language model, but honest, deterministic and always there.

It keeps what it is told to remember, answers questions by quoting memories, and says so when it
knows nothing. It is asked over the same protocol as any other model and uses the same tools.
"""

import contextlib
import hashlib
import json
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

from recollect.models.chat import CHAT, Answer

NAME = "recollect-librarian"
Object = dict[str, Any]
# How it puts what it was told to remember: "I" is somebody else in the next chat.
Retell = Callable[[str], str]

_SAVE = ("x_save_memory", "save_memory")
_RECALL = ("x_recall_memory", "recall_memory")

_REMEMBER = re.compile(
    r"^\W*(?:(?:please|hey|ok|okay|and|also|can you|could you|i want you to)\W+)*"
    r"(?:remember|note|memori[sz]e|keep in mind|make a note|don't forget|do not forget|save)\b"
    r"(?:\s+(?:this|the following))?(?:\s+that\b)?\s*[:,-]?\s*(?P<what>.+)",
    re.IGNORECASE | re.DOTALL,
)
_QUESTION = re.compile(
    r"\?\s*$|^\W*(?:who|what|when|where|which|whose|why|how|is|are|do|does|did|can|could|will|would|"
    r"should|was|were|have|has|tell me|show me|list|find|recall|search|look up)\b",
    re.IGNORECASE,
)
_ENTRY = re.compile(
    r"^\d+\. \*\*(?P<id>mem_\w+)\*\* \([^\n]*?score (?P<score>[\d.]+)\)\n(?P<text>.*?)"
    r"(?=\n\d+\. \*\*mem_|\Z)",
    re.MULTILINE | re.DOTALL,
)
_ITEM = re.compile(r'^\{"id": "mem_.*\}$', re.MULTILINE)
_FENCE = re.compile(r"<recollect-memory-[0-9a-f]+>")

_WHO_I_AM = (
    "I am recollect-librarian: no language model, only a librarian. I keep what you tell me to "
    "remember (“Remember that …”) and answer questions by quoting what is kept. To talk with a "
    "real model, set RECOLLECT_CHAT_URL."
)
_NOTHING = "I know nothing about that. I only know what I was told to remember."


@dataclass(frozen=True, slots=True)
class _Reply:
    text: str = ""
    call: tuple[str, Object] | None = None


class Librarian:
    """Answers chat completions, streamed or whole."""

    def __init__(self, now: Callable[[], float] = time.time, retell: Retell = str) -> None:
        self._now = now
        self._retell = retell

    @property
    def takes_tools(self) -> bool:
        """It works with nothing else."""
        return True

    @asynccontextmanager
    async def post(
        self, path: str, body: bytes, headers: Mapping[str, str]
    ) -> AsyncGenerator[Answer]:
        """Answer a request; only chat completions are understood."""
        del headers
        request: Object = {}
        messages: list[Object] = []
        with contextlib.suppress(ValueError, TypeError, AttributeError):
            request = json.loads(body)
            messages = _messages(request)
        if path != CHAT or not messages:
            yield _refusal("`messages` must be a list of messages that is not empty.")
            return
        wanted = _object(request.get("response_format")).get("type", "text")
        if wanted != "text":
            yield _refusal(f"{NAME} is no language model and cannot write JSON to a schema.")
            return
        choice = request.get("tool_choice")
        reply = answer(messages, _offered(request), choice, retell=self._retell)
        head: Object = {
            "id": "chatcmpl-" + hashlib.sha256(body).hexdigest()[:24],
            "created": int(self._now()),
            "model": NAME,
        }
        usage = _usage(messages, reply)
        if request.get("stream"):
            options = _object(request.get("stream_options"))
            shown = usage if options.get("include_usage") else None
            yield Answer(200, {"content-type": "text/event-stream"}, _stream(head, reply, shown))
        else:
            told = json.dumps(_whole(head, reply, usage), ensure_ascii=False).encode()
            yield Answer(200, {"content-type": "application/json"}, _once(told))

    async def get(self, path: str) -> Any:
        """It has nothing else to tell."""
        del path
        return {"object": "list", "data": []}

    async def aclose(self) -> None:
        """There is nothing to let go of."""


def answer(
    messages: Sequence[Object],
    offered: Sequence[str],
    choice: Any = None,
    *,
    retell: Retell = str,
) -> _Reply:
    """What the librarian says, or which tool it calls first."""
    last = max((i for i, each in enumerate(messages) if each.get("role") == "user"), default=-1)
    prompt = "\n".join(_text(each.get("content")) for each in messages)
    said = _own_words(_text(messages[last].get("content"))) if last >= 0 else ""
    results = [each for each in messages[last + 1 :] if each.get("role") == "tool"]
    if results:
        return _Reply(_report([_text(each.get("content")) for each in results], _known(prompt)))
    if isinstance(choice, dict):
        function = _object(cast("Object", choice).get("function"))
        return _Reply(call=(str(function.get("name")), {}))
    save = next((name for name in _SAVE if name in offered), None)
    recall = next((name for name in _RECALL if name in offered), None)
    told = _REMEMBER.match(said)
    if told and save and not said.endswith("?"):
        return _Reply(call=(save, {"content": retell(_sentence(told["what"]))}))
    if _QUESTION.search(said):
        if recall:
            return _Reply(call=(recall, {"query": said[:1_000]}))
        known = _known(prompt)
        return _Reply(_quoted(list(known.values())) if known else _NOTHING)
    return _Reply(_WHO_I_AM)


def _report(results: Sequence[str], known: Mapping[str, Object]) -> str:
    """What came of the tools."""
    said: list[str] = []
    for result in results:
        saved = re.match(r"(Saved|Already known) as (mem_\w+)\.", result)
        if saved:
            new = saved[1] == "Saved"
            said.append(
                f"I have saved that as {saved[2]}." if new else f"I knew that already: {saved[2]}."
            )
        elif result.startswith("#"):
            found = [
                {**known.get(entry["id"], {}), "id": entry["id"], "text": entry["text"].strip()}
                for entry in _ENTRY.finditer(result)
            ]
            said.append(_quoted(found) if found else _NOTHING)
        elif result.startswith("Error:"):
            said.append(f"That did not work. {result}")
        else:
            said.append(result)
    return "\n\n".join(said)


def _quoted(found: Sequence[Object]) -> str:
    lines = [
        f"- “{each['text']}” ({', '.join(filter(None, [each['id'], each.get('date')]))})"
        for each in found
    ]
    return "\n".join(["I was told:", *lines])


def _known(prompt: str) -> dict[str, Object]:
    """The memories that stand in the prompt, by id; or what somebody wrote that looks like one."""
    known: dict[str, Object] = {}
    for item in _ITEM.findall(prompt):
        with contextlib.suppress(ValueError, RecursionError):
            told = {name: str(value) for name, value in json.loads(item).items()}
            known[told["id"]] = {"text": "", **told}
    return known


def _own_words(text: str) -> str:
    """What the user said, without the memories that stand behind it."""
    kept: list[str] = []
    done = 0
    while begun := _FENCE.search(text, done):
        end = f"</{begun.group()[1:]}"
        closed = text.find(end, begun.end())
        if closed < 0:
            break
        kept.append(text[done : begun.start()])
        done = closed + len(end)
    return "".join([*kept, text[done:]]).strip()


def _sentence(text: str) -> str:
    text = text.strip().strip("\"“”'")
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?")) else text + "."


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = cast("list[Any]", content)
        texts = [cast("Object", part).get("text") for part in parts if isinstance(part, dict)]
        return "\n".join(text for text in texts if isinstance(text, str))
    return ""


def _messages(request: Any) -> list[Object]:
    found = request.get("messages")
    if not isinstance(found, list):
        return []
    return [cast("Object", each) for each in cast("list[Any]", found) if isinstance(each, dict)]


def _object(found: Any) -> Object:
    return cast("Object", found) if isinstance(found, dict) else {}


def _offered(request: Object) -> list[str]:
    if request.get("tool_choice") == "none":
        return []
    found = request.get("tools")
    tools = cast("list[Any]", found) if isinstance(found, list) else []
    functions = [_object(_object(tool).get("function")) for tool in tools]
    return [str(function.get("name")) for function in functions]


def _usage(messages: Sequence[Object], reply: _Reply) -> Object:
    """Words, since there are no tokens: it costs nothing."""
    asked = sum(len(_text(each.get("content")).split()) for each in messages)
    said = len(reply.text.split())
    return {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said}


def _tool_call(head: Object, call: tuple[str, Object]) -> Object:
    name, arguments = call
    told = json.dumps(arguments, ensure_ascii=False)
    return {
        "id": "call_" + str(head["id"])[-16:],
        "type": "function",
        "function": {"name": name, "arguments": told},
    }


def _whole(head: Object, reply: _Reply, usage: Object) -> Object:
    message: Object = {"role": "assistant", "content": reply.text or None, "refusal": None}
    if reply.call:
        message["tool_calls"] = [_tool_call(head, reply.call)]
    choice = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": "tool_calls" if reply.call else "stop",
    }
    return {**head, "object": "chat.completion", "choices": [choice], "usage": usage}


async def _stream(head: Object, reply: _Reply, usage: Object | None) -> AsyncIterator[bytes]:
    def event(choices: list[Object], **more: Any) -> bytes:
        chunk = {**head, "object": "chat.completion.chunk", "choices": choices, **more}
        return b"data: " + json.dumps(chunk, ensure_ascii=False).encode() + b"\n\n"

    def choice(delta: Object, finish: str | None = None) -> list[Object]:
        return [{"index": 0, "delta": delta, "finish_reason": finish}]

    yield event(choice({"role": "assistant", "content": ""}))
    for word in re.findall(r"\s*\S+|\s+$", reply.text):
        yield event(choice({"content": word}))
    if reply.call:
        yield event(choice({"tool_calls": [{"index": 0, **_tool_call(head, reply.call)}]}))
    yield event(choice({}, "tool_calls" if reply.call else "stop"))
    if usage:
        yield event([], usage=usage)
    yield b"data: [DONE]\n\n"


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body


def _refusal(message: str) -> Answer:
    error = {
        "message": message,
        "type": "invalid_request_error",
        "param": None,
        "code": "invalid_request",
    }
    body = json.dumps({"error": error}).encode()
    return Answer(400, {"content-type": "application/json"}, _once(body))
