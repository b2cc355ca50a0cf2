"""Takes the two pictures of the README from a rendered site.

`python -m tests.leaderboard.screenshots leaderboard/site leaderboard` writes `front.png` and
`defenses.png` into the second folder.
"""

from __future__ import annotations

import base64
import sys
from pathlib import Path

from tests.leaderboard.browsing import resize, started

WIDTH = 1280
PICTURES = {
    "front": ("index.html", "body", 1350),
    "defenses": ("index.html", "#defenses", 1100),
}
"""Page of each picture, what it begins with, and its height."""
MARGIN = 24


def take(site: Path, out: Path) -> None:
    """Both pictures."""
    for browser in started():
        resize(browser, WIDTH)
        for name, (page, start, height) in PICTURES.items():
            browser.get((site / page).resolve().as_uri())
            script = "return document.querySelector(arguments[0]).getBoundingClientRect().top"
            top = max(0, browser.execute_script(script, start) - MARGIN)
            clip = {"x": 0, "y": top, "width": WIDTH, "height": height, "scale": 1}
            whole = {"clip": clip, "captureBeyondViewport": True}
            drawn = browser.execute_cdp_cmd("Page.captureScreenshot", whole)
            (out / f"{name}.png").write_bytes(base64.b64decode(drawn["data"]))


if __name__ == "__main__":
    take(Path(sys.argv[1]), Path(sys.argv[2]))
