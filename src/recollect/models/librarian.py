"""The built-in chat model. It is not a language model, but deterministic and always available.

It saves what the user asks it to remember, answers questions by quoting memories, and says so if it
finds none. It uses the same protocol and the same tools as any other model.
"""

import contextlib
import hashlib
import json
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from textwrap import dedent
from typing import Any, cast

from recollect.models.chat_model import CHAT, ModelAnswer

NAME = "recollect-librarian"
Object = dict[str, Any]
# Rewrites a text before it is saved: "I" could mean another person in the next chat.
Retell = Callable[[str], str]

_SAVE_TOOLS = ("x_save_memory", "save_memory")
_RECALL_TOOLS = ("x_recall_memory", "recall_memory")

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

_INTRODUCTION = (
    "I am recollect-librarian. I am not a language model. I save what you ask me to remember "
    "(“Remember that …”) and answer questions by quoting saved memories. To chat with a language "
    "model, set RECOLLECT_CHAT_URL."
)
_NOTHING_FOUND = "I have no memory of that. I only know what I was asked to remember."


@dataclass(frozen=True, slots=True)
class _Answer:
    text: str = ""
    call: tuple[str, Object] | None = None


class Librarian:
    """Answers chat completions, streamed or whole."""

    def __init__(self, now: Callable[[], float] = time.time, retell: Retell = str) -> None:
        self._now = now
        self._retell = retell

    @property
    def takes_tools(self) -> bool:
        """Always True: it answers with the memory tools."""
        return True

    @asynccontextmanager
    async def post(
        self, path: str, body: bytes, headers: Mapping[str, str]
    ) -> AsyncGenerator[ModelAnswer]:
        """Answer a request. Only chat completions are supported."""
        del headers
        request: Object = {}
        messages: list[Object] = []
        with contextlib.suppress(ValueError, TypeError, AttributeError):
            request = json.loads(body)
            messages = _messages(request)
        if path != CHAT or not messages:
            yield _refusal("`messages` must be a non-empty list of messages.")
            return
        format_type = _object(request.get("response_format")).get("type", "text")
        if format_type != "text":
            yield _refusal(f"{NAME} is not a language model and cannot write structured JSON.")
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
            yield ModelAnswer(
                200, {"content-type": "text/event-stream"}, _stream(head, reply, shown)
            )
        else:
            whole = json.dumps(_completion(head, reply, usage), ensure_ascii=False).encode()
            yield ModelAnswer(200, {"content-type": "application/json"}, _single_chunk(whole))

    async def get(self, path: str) -> Any:
        """Return an empty list; there is nothing to query."""
        del path
        return {"object": "list", "data": []}

    async def aclose(self) -> None:
        """Do nothing; there is nothing to close."""


def answer(
    messages: Sequence[Object],
    offered: Sequence[str],
    choice: Any = None,
    *,
    retell: Retell = str,
) -> _Answer:
    """Return the librarian's answer, or the tool call that must come first."""
    last_user = max(
        (i for i, each in enumerate(messages) if each.get("role") == "user"), default=-1
    )
    prompt = "\n".join(_text(each.get("content")) for each in messages)
    question = (
        _without_memories(_text(messages[last_user].get("content"))) if last_user >= 0 else ""
    )
    results = [each for each in messages[last_user + 1 :] if each.get("role") == "tool"]
    if results:
        return _Answer(
            _describe_results(
                [_text(each.get("content")) for each in results], _memories_in_prompt(prompt)
            )
        )
    if isinstance(choice, dict):
        function = _object(cast("Object", choice).get("function"))
        return _Answer(call=(str(function.get("name")), {}))
    save = next((name for name in _SAVE_TOOLS if name in offered), None)
    recall = next((name for name in _RECALL_TOOLS if name in offered), None)
    request = _REMEMBER.match(question)
    if request and save and not question.endswith("?"):
        return _Answer(call=(save, {"content": retell(_sentence(request["what"]))}))
    if _QUESTION.search(question):
        if recall:
            return _Answer(call=(recall, {"query": question[:1_000]}))
        known = _memories_in_prompt(prompt)
        return _Answer(_quote(list(known.values())) if known else _NOTHING_FOUND)
    return _Answer(_INTRODUCTION)


def _describe_results(results: Sequence[str], known: Mapping[str, Object]) -> str:
    """Describe the results of the tool calls."""
    lines: list[str] = []
    for result in results:
        saved = re.match(r"(Saved|Already known) as (mem_\w+)\.", result)
        if saved:
            new = saved[1] == "Saved"
            lines.append(
                f"I have saved that as {saved[2]}." if new else f"I already knew that: {saved[2]}."
            )
        elif result.startswith("#"):
            found = [
                {
                    **known.get(entry["id"], {}),
                    "id": entry["id"],
                    "text": dedent(entry["text"]).strip(),
                }
                for entry in _ENTRY.finditer(result)
            ]
            lines.append(_quote(found) if found else _NOTHING_FOUND)
        elif result.startswith("Error:"):
            lines.append(f"That failed. {result}")
        else:
            lines.append(result)
    return "\n\n".join(lines)


def _quote(found: Sequence[Object]) -> str:
    lines = [
        f"- “{each['text']}” ({', '.join(filter(None, [each['id'], each.get('date')]))})"
        for each in found
    ]
    return "\n".join(["I remember:", *lines])


def _memories_in_prompt(prompt: str) -> dict[str, Object]:
    """Return the memories in the prompt by id, including user text that looks like one."""
    known: dict[str, Object] = {}
    for item in _ITEM.findall(prompt):
        with contextlib.suppress(ValueError, RecursionError):
            fields = {name: str(value) for name, value in json.loads(item).items()}
            known[fields["id"]] = {"text": "", **fields}
    return known


def _without_memories(text: str) -> str:
    """Remove the injected memories from the user's text."""
    kept: list[str] = []
    done = 0
    while opening := _FENCE.search(text, done):
        end = f"</{opening.group()[1:]}"
        closed = text.find(end, opening.end())
        if closed < 0:
            break
        kept.append(text[done : opening.start()])
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


def _usage(messages: Sequence[Object], reply: _Answer) -> Object:
    """Count words, because there are no tokens."""
    asked = sum(len(_text(each.get("content")).split()) for each in messages)
    answered = len(reply.text.split())
    return {"prompt_tokens": asked, "completion_tokens": answered, "total_tokens": asked + answered}


def _tool_call(head: Object, call: tuple[str, Object]) -> Object:
    name, arguments = call
    encoded = json.dumps(arguments, ensure_ascii=False)
    return {
        "id": "call_" + str(head["id"])[-16:],
        "type": "function",
        "function": {"name": name, "arguments": encoded},
    }


def _completion(head: Object, reply: _Answer, usage: Object) -> Object:
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


async def _stream(head: Object, reply: _Answer, usage: Object | None) -> AsyncIterator[bytes]:
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


async def _single_chunk(body: bytes) -> AsyncIterator[bytes]:
    yield body


def _refusal(message: str) -> ModelAnswer:
    error = {
        "message": message,
        "type": "invalid_request_error",
        "param": None,
        "code": "invalid_request",
    }
    body = json.dumps({"error": error}).encode()
    return ModelAnswer(400, {"content-type": "application/json"}, _single_chunk(body))
