"""Photograph the page of a plan in headless Chromium, and have axe check that it is accessible.

    python tools/screenshots.py [--axe PATH/axe.min.js]

Writes ``docs/images/plan-WIDTH-SCHEME.png`` of GPT-2's training step, at three widths, light and
dark. With ``--axe`` (axe-core's script, from its own release) it prints each violation, and exits
with 1 if there is one. Needs ``chromium`` on the path.
"""

from __future__ import annotations

import argparse
import html
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from maquette.cli.main import main as maquette

ROOT = pathlib.Path(__file__).parent.parent
IMAGES = ROOT / "docs" / "images"
PLAN = [
    "plan", "examples/gpt2.py", "--model", "GPT2(GPT2Config.small())",
    "--args", "batch(8, 1024)", "--train", "--optimizer", "adamw", "--device", "cuda",
    "--advise",
]  # fmt: skip
NARROWEST = 500  # of Chromium's windows: a narrower page stands in a frame
WIDTHS = {320: 1400, 1024: 1300, 2560: 1300}  # and heights, in pixels
SCHEMES = ("light", "dark")
_CHECK = """<script>{axe}</script><script>
axe.run().then(found => {{
  const shown = found.violations.map(v => `${{v.id}}: ${{v.help}} (${{v.nodes.length}}) ` +
    v.nodes.slice(0, 3).map(n => n.target).join(" "));
  const told = document.createElement("pre");
  told.id = "axe";
  told.textContent = JSON.stringify(shown);
  document.body.append(told);
}});
</script></body>"""


def browser(folder: pathlib.Path, scheme: str, *options: str) -> str:
    """What Chromium prints."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        sys.exit("screenshots: there is no chromium on the path")
    command = [
        found, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
        f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=20000",
        f"--blink-settings=preferredColorScheme={int(scheme == 'light')}", *options,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout


def framed(page: pathlib.Path, width: int, height: int) -> pathlib.Path:
    """A page that shows another one as narrow as a window cannot be."""
    frame = page.with_name("frame.html")
    style = f"width:{width}px;height:{height}px;border:0"
    frame.write_text(f'<body style="margin:0"><iframe src="{page.name}" style="{style}"></iframe>')
    return frame


def violations(
    folder: pathlib.Path, page: pathlib.Path, axe: pathlib.Path, scheme: str
) -> list[str]:
    """What axe finds on a page, a line each."""
    checked = folder / "checked.html"
    script = _CHECK.format(axe=axe.read_text("utf-8").replace("</script>", "<\\/script>"))
    checked.write_text(page.read_text("utf-8").replace("</body>", script), "utf-8")
    dom = browser(folder, scheme, "--dump-dom", f"file://{checked}")
    found = re.search(r'<pre id="axe">(.*?)</pre>', dom, re.DOTALL)
    if found is None:
        return ["axe gave no answer"]
    told: list[str] = json.loads(html.unescape(found[1]))
    return told


def main() -> int:
    """Write the pictures; check."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--axe", type=pathlib.Path, metavar="FILE", help="axe.min.js of axe-core")
    options = parser.parse_args()
    IMAGES.mkdir(exist_ok=True)
    bad: list[str] = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = pathlib.Path(name)
        page = folder / "plan.html"
        maquette([*PLAN, "--html", str(page), "--json", str(folder / "plan.json")])
        for scheme in SCHEMES:
            for width, height in WIDTHS.items():
                shot = IMAGES / f"plan-{width}-{scheme}.png"
                shown = page if width >= NARROWEST else framed(page, width, height)
                size = f"--window-size={max(width, NARROWEST)},{height}"
                browser(folder, scheme, size, f"--screenshot={shot}", f"file://{shown}")
            if options.axe is not None:
                bad += [f"{scheme}: {v}" for v in violations(folder, page, options.axe, scheme)]
    for line in bad:
        print(line)
    if options.axe is not None:
        print(f"axe: {len(bad)} violations in {' and '.join(SCHEMES)}")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
