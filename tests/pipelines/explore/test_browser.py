"""The page in a real browser, Chromium without a window: its script runs and answers to pointer and keys."""

import html
import json
import re
import shutil
import subprocess

import pytest

from pipelines.command.folders import EXPLORE_PAGE

from .conftest import WRONG

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

pytestmark = pytest.mark.skipif(BROWSER is None, reason="Chromium is not installed")

OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1200,900",
    "--virtual-time-budget=5000",
)

HELPERS = """
const canvas = document.getElementById("plot"), tip = document.getElementById("tip");
const frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
const inked = () => {
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  let count = 0;
  for (let i = 3; i < pixels.length; i += 4) count += pixels[i] > 200;
  return count;
};
const key = async (name) => {
  canvas.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true }));
  await frame();
  return tip.hidden ? null : tip.querySelector("strong").textContent;
};
const point = async (type, x, y) => {
  const box = canvas.getBoundingClientRect();
  canvas.dispatchEvent(new PointerEvent(type, { clientX: box.left + x, clientY: box.top + y }));
  await frame();
};
"""


def results(explored, tmp_path, script: str, fragment: str = "") -> dict:
    """Run a script in a copy of the page; return what it put into `out`, with errors of the page."""
    page = (explored / EXPLORE_PAGE).read_text(encoding="utf-8")
    # Next to no frames are painted without a window: what waits for one is called in its own time.
    catcher = (
        "<script>window.problems = [];"
        "window.requestAnimationFrame = (call) => setTimeout(() => call(performance.now()), 0);"
        "addEventListener('error', (event) => problems.push(event.message));</script>"
    )
    program = (
        f"<script>(async () => {{ const out = {{}}; {HELPERS} await frame(); await frame(); {script};"
        "out.problems = window.problems;"
        "const shown = document.createElement('pre'); shown.id = 'results';"
        "shown.textContent = JSON.stringify(out); document.body.append(shown); })();</script>"
    )
    changed = page.replace("<head>", f"<head>{catcher}", 1).replace("</body>", f"{program}</body>", 1)
    path = tmp_path / "page.html"
    path.write_text(changed, encoding="utf-8")
    command = [BROWSER, *OPTIONS, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom"]
    done = subprocess.run(
        [*command, f"{path.as_uri()}{fragment}"], check=True, capture_output=True, text=True, timeout=120
    )
    found = re.search(r'<pre id="results">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, done.stdout[-2000:] + done.stderr[-2000:]
    read = json.loads(html.unescape(found[1]))
    assert read["problems"] == []
    return read


def test_points_are_drawn_and_keys_name_them(explored, tmp_path):
    found = results(
        explored,
        tmp_path,
        """
        out.inked = inked();
        out.status = document.getElementById("status").textContent;
        out.legend = [...document.querySelectorAll("#legend button")].map((b) => b.textContent);
        out.oddest = await key("o");
        out.second = await key("i");
        out.back = await key("o");
        out.arrow = await key("ArrowRight");
        out.facts = tip.textContent;
        out.left = await key("Escape");
        document.querySelector("#legend button").click(); await frame();
        out.pressed = document.querySelector("#legend button").getAttribute("aria-pressed");
        out.fewer = inked();
        """,
    )
    metrics = json.loads((explored / "metrics.json").read_text(encoding="utf-8"))
    assert found["inked"] > 5000
    assert found["status"] == "60 of 60 examples are in view."
    assert found["legend"] == ["three (30)", "zero (30)"]
    assert found["oddest"] == found["back"] == metrics["oddest"][0]
    assert found["second"] == metrics["oddest"][1]
    assert found["arrow"] not in {None, found["back"]}
    assert "nats" in found["facts"]
    assert found["left"] is None
    assert found["pressed"] == "true"
    assert found["fewer"] < found["inked"]


def test_pointing_shows_the_file_and_zooming_and_colouring_redraw(explored, tmp_path):
    found = results(
        explored,
        tmp_path,
        """
        out.hovered = null;
        const area = canvas.getBoundingClientRect();
        for (let y = 20; y < area.height && !out.hovered; y += 20) for (let x = 20; x < area.width; x += 8) {
          canvas.dispatchEvent(
            new PointerEvent("pointermove", { clientX: area.left + x, clientY: area.top + y }));
          if (x % 80 === 20) await frame();
          if (!tip.hidden) { out.hovered = tip.querySelector("strong").textContent; break; }
        }
        await point("pointerleave", 0, 0);
        out.gone = tip.hidden;
        for (let i = 0; i < 6; i++) await key("+");
        out.zoomed = document.getElementById("status").textContent;
        await key("0");
        out.whole = document.getElementById("status").textContent;
        const buttons = [...document.querySelectorAll("[data-colour]")];
        out.ways = buttons.map((b) => b.textContent.trim());
        buttons[2].click(); await frame();
        out.pressed = buttons.map((b) => b.getAttribute("aria-pressed"));
        out.legend = document.getElementById("legend").textContent;
        """,
    )
    assert found["hovered"]
    assert found["gone"]
    assert found["ways"] == ["Class", "Model error", "Oddness"]
    assert found["pressed"] == ["false", "false", "true"]
    assert "oddest" in found["legend"]
    assert int(found["zoomed"].split()[0]) < 60
    assert found["whole"].startswith("60 of 60")


def test_an_address_and_a_search_lead_to_an_example(explored, tmp_path):
    found = results(
        explored,
        tmp_path,
        """
        out.named = tip.hidden ? null : tip.querySelector("strong").textContent;
        const find = document.getElementById("find");
        find.value = "BOLD"; find.dispatchEvent(new Event("input")); await frame();
        out.found = tip.querySelector("strong").textContent;
        out.markup = tip.querySelectorAll("b").length;
        """,
        "#file=zero/wrong.png",
    )
    assert found["named"] == WRONG[1]
    assert found["found"] == WRONG[0]
    assert found["markup"] == 0


def test_an_address_that_is_no_name_is_passed_over(explored, tmp_path):
    found = results(explored, tmp_path, "out.hidden = tip.hidden;", "#file=%")
    assert found["hidden"]
