"""Measure the speed of the web page in Chromium, with a real server and 10,000 memories.

    python -m bench.page [--memories 10000] [--rounds 9] [--data-dir DIR]

First paint on loopback, opening the list of memories, scrolling, typing, and the memory of the tab.
`bench/README.md` explains the rows.
"""

import argparse
import asyncio
import os
import signal
import statistics
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvloop
from playwright.async_api import Browser, BrowserContext, Page, ViewportSize, async_playwright

from bench import filled_workspaces, server_process
from bench.seed import fill
from bench.server_process import ServerProcess
from recollect.embedded import attach
from recollect.tenancy.orgs import reset_password
from tests.support.chromium import FLAGS, find

_LOGIN = "admin"
_WIDE: ViewportSize = {"width": 1280, "height": 800}
_LETTERS = "The quick brown fox jumps over the lazy dog, and then it does so again. " * 2
_KEY_PAUSE_MS = 25
_STEP_PIXELS = 300

# Marks when the message field is ready, and records tasks that block the main thread.
_WATCH = """
    localStorage.setItem('recollect.toured', 'yes');
    window.held = [];
    new PerformanceObserver((list) => held.push(...list.getEntries().map((each) => each.duration)))
      .observe({ type: 'longtask', buffered: true });
    new MutationObserver((_, watching) => {
      if (!document.getElementById('composer')) return;
      performance.mark('ready');
      watching.disconnect();
    }).observe(document, { childList: true, subtree: true });
"""
_PAINT = """() => ({
    paint: performance.getEntriesByName('first-contentful-paint')[0].startTime,
    ready: performance.getEntriesByName('ready')[0].startTime,
})"""
# From the click to the frame that shows the first rows.
_OPEN = """([target, rows]) => new Promise((resolve) => {
    const began = performance.now();
    const look = () => document.querySelector(rows)
      ? requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - began)))
      : requestAnimationFrame(look);
    document.querySelector(target).click();
    look();
})"""
_SCROLL = """([scroller, step, seconds]) => new Promise((resolve) => {
    const list = document.querySelector(scroller);
    const frames = [];
    held.length = 0;
    const began = performance.now();
    let last = began;
    const move = (now) => {
      frames.push(now - last);
      last = now;
      list.scrollTop += step;
      if (now - began < seconds * 1000) requestAnimationFrame(move);
      else resolve({ frames: frames.slice(1), held: [...held], pixels: list.scrollTop,
        rows: list.querySelectorAll('.memory').length });
    };
    requestAnimationFrame(move);
})"""
# From the key press to the end of the frame that shows the letter.
_TYPING = """() => {
    window.typed = [];
    document.getElementById('composer').addEventListener('keydown', (event) => {
      requestAnimationFrame(() => {
        const { port1, port2 } = new MessageChannel();
        port1.onmessage = () => typed.push(performance.now() - event.timeStamp);
        port2.postMessage(0);
      });
    });
}"""


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument(
        "--seconds", type=float, default=10, help="seconds of scrolling in each list"
    )
    parser.add_argument("--data-dir", type=Path, help="keep the filled database here")
    args = parser.parse_args()
    # On either signal, stop the server first.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {args.memories:,} memories")
    uvloop.run(_run(args))


async def _run(args: argparse.Namespace) -> None:
    with server_process.base(args.data_dir) as base:
        data_dir = base / f"page-{args.memories}"
        server = await server_process.start(data_dir)
        try:
            password = await _fill(data_dir, server, args.memories)
            async with _chromium() as browser:
                await _measure(browser, f"http://127.0.0.1:{server.port}", password, args)
        finally:
            await server_process.stop(server)


async def _fill(data_dir: Path, server: ServerProcess, size: int) -> str:
    """Fill the workspace, unless an earlier run did; return a password to sign in with."""
    with await asyncio.to_thread(attach, data_dir) as attached:
        async with server_process.engine(attached) as engine:
            if await filled_workspaces.count(attached.admin_url) < size:
                tenants = await filled_workspaces.create_workspaces(engine, server.port, 1)
                await fill(attached.admin_url, tenants, size - 1, engine.embedders.configured(None))
            await filled_workspaces.wait_until_idle(attached.admin_url)
            return await reset_password(engine, _LOGIN)


@asynccontextmanager
async def _chromium() -> AsyncGenerator[Browser]:
    flags = [*FLAGS, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    async with async_playwright() as playwright:
        running = await playwright.chromium.launch(executable_path=find(), args=flags)
        print(f"Chromium {running.version}, headless, {_WIDE['width']} x {_WIDE['height']}\n")
        yield running
        await running.close()


async def _measure(browser: Browser, url: str, password: str, args: argparse.Namespace) -> None:
    state: Any = await _sign_in(browser, url, password)

    async def context() -> BrowserContext:
        made = await browser.new_context(base_url=url, storage_state=state, viewport=_WIDE)
        await made.add_init_script(_WATCH)
        return made

    print("| | median | worst |\n|---|---|---|")
    firsts = [await _visit(await context()) for _ in range(args.rounds)]
    for number, visit in enumerate(("first visit", "again, from the cache")):
        for name, label in (("paint", "first contentful paint"), ("ready", "the field is there")):
            _line(f"{label}, {visit}, ms", [each[number][name] for each in firsts])
    page = await (await context()).new_page()
    await _measure_opening(page, args.rounds)
    await page.close()
    for address, target, scroller in (
        ("/#/memories", "", ".main"),
        ("/", "#memories-toggle", ".panel-scroll"),
    ):
        page = await (await context()).new_page()
        await _measure_scrolling(page, address, target, scroller, args.seconds)
        await page.close()
    page = await (await context()).new_page()
    await _measure_typing(page)


async def _sign_in(browser: Browser, url: str, password: str) -> Any:
    context = await browser.new_context(base_url=url)
    page = await context.new_page()
    await page.goto("/login")
    await page.get_by_label("Username").fill(_LOGIN)
    await page.get_by_label("Password").fill(password)
    await page.keyboard.press("Enter")
    await page.locator("#composer").wait_for()
    state = await context.storage_state()
    await context.close()
    return state


async def _visit(context: BrowserContext) -> tuple[dict[str, float], dict[str, float]]:
    """Measure the first paint of a new browser, and of the same browser a moment later."""
    page = await context.new_page()
    found: list[dict[str, float]] = []
    for _ in range(2):
        await page.goto("/")
        await page.wait_for_function("() => performance.getEntriesByName('ready')[0]")
        await page.wait_for_function(
            "() => performance.getEntriesByName('first-contentful-paint')[0]"
        )
        found.append(await page.evaluate(_PAINT))
    await context.close()
    return found[0], found[1]


async def _measure_opening(page: Page, rounds: int) -> None:
    """Measure from the click to the first rows, for the page and for the panel next to a chat."""
    ways = {
        "Memories": ("/#/usage", "#rail a[data-page=memories]", ".main .rows .memory"),
        "the panel": ("/#/", "#memories-toggle", "#memories-panel .memory"),
    }
    for name, (address, target, rows) in ways.items():
        times: list[float] = []
        for _ in range(rounds):
            await page.goto("about:blank")
            await page.goto(address)
            await page.evaluate("localStorage.removeItem('recollect.panel')")
            await page.locator(target).wait_for()
            await page.wait_for_load_state("networkidle")
            times.append(await page.evaluate(_OPEN, [target, rows]))
            await page.evaluate("localStorage.removeItem('recollect.panel')")
        _line(f"from the click on {name} to its first rows, ms", times)


async def _measure_scrolling(
    page: Page, address: str, target: str, scroller: str, seconds: float
) -> None:
    await page.goto(address)
    if target:
        await page.locator(target).click()
    await page.locator(f"{scroller} .memory").first.wait_for()
    await page.wait_for_load_state("networkidle")
    line = await page.context.new_cdp_session(page)
    before = await _heap(line)
    result = await page.evaluate(_SCROLL, [scroller, _STEP_PIXELS, seconds])
    name = "Memories" if scroller == ".main" else "the panel"
    frames: Sequence[float] = result["frames"]
    late = sum(each > 25 for each in frames) / len(frames)
    _line(f"a frame while scrolling through {name}, ms", frames)
    print(
        f"| late frames (over 25 ms), of {len(frames):,} over "
        f"{result['pixels']:,.0f} pixels | {late:.1%} | |"
    )
    _line("tasks over 50 ms, ms", result["held"] or [0.0])
    after = await _heap(line)
    print(f"| rows in the document at the end | {result['rows']} | |")
    print(f"| JavaScript heap before and after, MB | {before:.1f} | {after:.1f} |", flush=True)


async def _heap(line: Any) -> float:
    await line.send("HeapProfiler.collectGarbage")
    used = await line.send("Runtime.getHeapUsage")
    return used["usedSize"] / 1e6


async def _measure_typing(page: Page) -> None:
    await page.goto("/")
    await page.locator("#memories-toggle").click()
    await page.locator("#memories-panel .memory").first.wait_for()
    await page.wait_for_load_state("networkidle")
    await page.locator("#composer").focus()
    await page.evaluate(_TYPING)
    await page.keyboard.type(_LETTERS, delay=_KEY_PAUSE_MS)
    _line("from a key to the frame with its letter, ms", await page.evaluate("typed"))


def _line(name: str, values: Sequence[float]) -> None:
    print(f"| {name} | {statistics.median(values):.0f} | {max(values):.0f} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
