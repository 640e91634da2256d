"""Make the picture of docs/label.md.

    python docs/label_example.py FOLDER

Renders grains of three kinds to FOLDER, starts `gpimaging label` on them, answers eighty questions in
Chromium by keys, and takes a picture of the page at two widths. It needs Playwright's client and Chromium.
"""
# ruff: noqa: INP001, S603, T201 - a script, not a package; it starts the command; it prints what it did

import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import cv2
import numpy as np

IMAGES = Path(__file__).parent / "images"
KINDS = ("round", "ragged", "split")
SIDE, NUM_IMAGES, NUM_ANSWERS = 240, 300, 80


def grain(kind: str, rng: np.random.Generator) -> np.ndarray:
    """Render a grain of a kind on a grainy ground, uint8 `[SIDE, SIDE, 3]`."""
    angle = np.linspace(0, 2 * np.pi, 180, endpoint=False)
    radius = rng.uniform(50, 75) * (1 + 0.12 * np.sin(2 * angle + rng.uniform(0, 6)))
    if kind == "ragged":
        waves = np.arange(5, 14)[:, None]
        radius *= 1 + 0.05 * np.sin(waves * angle + rng.uniform(0, 6, (9, 1))).sum(0) * rng.uniform(0.25, 0.8)
    centre = SIDE / 2 + rng.normal(0, 8, 2)
    outline = centre + radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], 1)
    image = np.full((SIDE, SIDE, 3), rng.integers(90, 140), np.float32)
    colour = np.array([215, 180, 120]) + rng.normal(0, 14, 3)
    cv2.fillPoly(image, [outline.astype(np.int32)], colour.tolist())
    if kind == "split":
        turn = rng.uniform(0, np.pi)
        along = np.linspace(-45, 45, 9)[:, None] * np.array([np.cos(turn), np.sin(turn)])
        crack = (centre + along + rng.normal(0, 4, (9, 2))).astype(np.int32)
        cv2.polylines(image, [crack], False, (125, 100, 75), int(rng.integers(1, 4)))
    noise = cv2.GaussianBlur(rng.normal(0, 70, (SIDE, SIDE)).astype(np.float32), (0, 0), 1.5)
    return np.clip(cv2.GaussianBlur(image, (0, 0), 1.2) + noise[..., None], 0, 255).astype(np.uint8)


def answer(page: Any, count: int) -> None:
    """Answer questions by keys; the names of the files say what is right."""
    for _ in range(count):
        page.locator("body[aria-busy=false]").wait_for()
        kind = (page.text_content("#name") or "").partition(" ")[0]
        page.keyboard.press(str(1 + KINDS.index(kind)))
    page.locator("body[aria-busy=false]").wait_for()
    while "hidden" in (page.text_content("#note") or ""):
        answer(page, 1)


def take_pictures(address: str) -> None:
    """Answer, and take a picture of the page at 1400 and, to look at, at 400 pixels of width."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - it is needed for the pictures alone

    with sync_playwright() as client:
        browser = client.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        page.goto(address)
        page.locator("#encoding").wait_for(state="hidden", timeout=300_000)
        answer(page, NUM_ANSWERS)
        page.wait_for_timeout(5000)  # until the model is fitted anew
        answer(page, 1)
        page.wait_for_timeout(2000)
        page.screenshot(path=IMAGES / "label.jpg", type="jpeg", quality=82, full_page=True)
        page.set_viewport_size({"width": 400, "height": 900})
        page.screenshot(path="label_400.png", full_page=True)
        browser.close()


def main() -> None:
    """Render, label and take the pictures."""
    folder, rng = Path(sys.argv[1]), np.random.default_rng(0)
    (folder / "grains").mkdir(parents=True)
    for number in range(NUM_IMAGES):
        kind = KINDS[number % 3]
        picture = cv2.imencode(".png", grain(kind, rng)[..., ::-1])[1]
        (folder / "grains" / f"{kind} {number:03d}.png").write_bytes(picture.tobytes())
    options = ("--out", folder / "labels", "--classes", ",".join(KINDS), "--no-browser")
    command = [sys.executable, "-m", "pipelines", "label", folder / "grains", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        if process.stdout is not None:
            address = re.search(r"http://\S+", process.stdout.readline())
            take_pictures(address[0] if address else "")
            process.send_signal(signal.SIGINT)
            print(process.stdout.read())


if __name__ == "__main__":
    main()
