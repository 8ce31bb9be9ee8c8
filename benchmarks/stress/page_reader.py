"""A browser at the operator's page, for `benchmarks.pages`: what it takes, as JSON.

    python -m benchmarks.stress.page_reader URL LOADS SECONDS

Writes ``turns`` when turns should begin. Times are milliseconds.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from typing import Any

from playwright.sync_api import Browser, Page, Response, sync_playwright

# When the first event of each turn arrives at the page, and when its row is there; both
# since it was published.
HOOKS = """
const first = new Map();
window.seen = { arrived: [], shown: [] };
const now = () => performance.timeOrigin + performance.now();
window.WebSocket = class extends WebSocket {
  constructor(...given) {
    super(...given);
    this.addEventListener("message", ({ data }) => {
      if (typeof data !== "string" || !data.startsWith('{"type":"events"')) return;
      for (const event of JSON.parse(data).events) {
        if (!event.number || first.has(event.number)) continue;
        first.set(event.number, event.at_ms);
        window.seen.arrived.push(now() - event.at_ms);
      }
    });
  }
};
document.addEventListener("DOMContentLoaded", () => {
  new MutationObserver((changes) => {
    for (const change of changes) for (const row of change.addedNodes) {
      const at = first.get(Number(row.dataset?.number));
      if (at === undefined) continue;
      first.set(Number(row.dataset.number), undefined);
      window.seen.shown.push(now() - at);
    }
  }).observe(document.getElementById("turn-list"), { childList: true, subtree: true });
});
"""
PAINT = """() => new Promise((resolve) => {
  const told = (list) => list.filter((x) => x.name === "first-contentful-paint")
    .forEach((x) => resolve(x.startTime));
  new PerformanceObserver((list) => told(list.getEntries()))
    .observe({ type: "paint", buffered: true });
})"""
FRAMES = """() => {
  window.frames_drawn = 0;
  const count = () => { window.frames_drawn += 1; requestAnimationFrame(count); };
  requestAnimationFrame(count);
}"""


def paints(browser: Browser, url: str, loads: int) -> list[float]:
    """Return the times until the first paint."""
    found: list[float] = []
    for _ in range(loads):
        page = browser.new_page()
        page.goto(f"{url}/operator")
        found.append(page.evaluate(PAINT))
        page.close()
    return found


def size_of(browser: Browser, url: str) -> int:
    """Return the bytes of the page, and of all that it loads but data."""
    page = browser.new_page()
    responses: list[Response] = []
    page.on("response", lambda response: responses.append(response))
    page.goto(f"{url}/operator", wait_until="networkidle")
    size = sum(len(x.body()) for x in responses if "/api/" not in x.url)
    page.close()
    return size


def opened(browser: Browser, url: str, script: str = "") -> Page:
    page = browser.new_page()
    if script:
        page.add_init_script(script)
    page.goto(f"{url}/operator")
    page.get_by_text("connected", exact=True).wait_for()
    return page


def scripting(browser: Browser, url: str, seconds: float) -> tuple[float, int]:
    """Return the milliseconds of scripting, and the frames meanwhile."""
    page = opened(browser, url)
    tools = page.context.new_cdp_session(page)
    tools.send("Performance.enable")

    def spent() -> float:
        told: dict[str, Any] = tools.send("Performance.getMetrics")
        metrics = {x["name"]: x["value"] for x in told["metrics"]}
        return float(metrics["ScriptDuration"])

    page.evaluate(FRAMES)
    before = spent()
    page.wait_for_timeout(seconds * 1000)
    return (spent() - before) * 1000, int(page.evaluate("window.frames_drawn"))


def main(url: str, loads: int, seconds: float) -> None:
    """Measure, and print the result."""
    alone = ["--no-sandbox"] if os.getuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=alone
        )
        painted, size = paints(browser, url, loads), size_of(browser, url)
        sys.stdout.write("turns\n")
        sys.stdout.flush()
        page = opened(browser, url, HOOKS)
        page.wait_for_timeout(seconds * 1000)
        seen = page.evaluate("window.seen")
        page.close()
        script, frames = scripting(browser, url, seconds)
        browser.close()
    told = {"paint": painted, "bytes": size, "script": script, "frames": frames}
    sys.stdout.write(json.dumps({**told, **seen}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
