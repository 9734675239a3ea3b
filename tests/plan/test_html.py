"""The page of a plan: whole in one file, and in a browser it shows the plan's own numbers."""

from __future__ import annotations

import json
import pathlib
import re
import shutil
import subprocess

import pytest

import maquette as mq
from maquette import nn
from maquette.plan.html import WhatIf, page
from maquette.plan.plan import Plan, plan

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="module")
def made() -> Plan:
    net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 8))
    return plan(net, (mq.empty(32, 64),), train=True, optimizer="adamw")


def test_the_page_asks_nothing_of_a_network(made: Plan) -> None:
    text = page(made, "</script> & title")
    assert not re.findall(r'(?:src|href)="(?!#|https://github.com/leeoniya/uPlot")[^"]*"', text)
    assert "{{" not in text.partition('<script type="application/json"')[0].partition("<style>")[0]
    assert "<h1>&lt;/script&gt; &amp; title</h1>" in text


def test_the_pages_data_is_the_plans(made: Plan) -> None:
    found = re.search(r'id="data">(.*?)</script>', page(made), re.DOTALL)
    assert found is not None
    data = json.loads(found[1].replace("<\\/", "</"))
    assert len(data["operators"]["name"]) == len(made.operators)
    level = peak = 0
    for nbytes in data["events"]["bytes"]:
        level += nbytes
        peak = max(peak, level)
    assert peak == made.peak_bytes


def test_the_page_has_a_table_of_other_ways(made: Plan) -> None:
    text = page(
        made,
        what_if=WhatIf(["with", "saves"], [["--loss '<x>'", "1 B"]], ["not: <y>"], "of 2 steps"),
    )
    row = '<th scope="row">--loss &#x27;&lt;x&gt;&#x27;</th><td class="n">1 B</td>'
    assert row in text
    assert '<p class="hint">of 2 steps</p>' in text
    assert "<li>not: &lt;y&gt;</li>" in text
    assert 'id="ways"' not in page(made)


def test_printing_a_plan_prints_its_report(made: Plan) -> None:
    assert "peak memory" in str(made)
    assert max(map(len, str(made).splitlines())) <= 100


def test_a_notebook_shows_the_page(made: Plan) -> None:
    assert made._repr_html_().startswith("<iframe srcdoc=")


@pytest.mark.verify
@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_a_browser_draws_the_peak_and_what_is_alive_there(
    made: Plan, tmp_path: pathlib.Path
) -> None:
    file = tmp_path / "plan.html"
    made.to_html(file)
    quiet = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    command = [str(CHROMIUM), *quiet, f"--user-data-dir={tmp_path / 'profile'}"]
    dom = subprocess.run(
        [*command, "--virtual-time-budget=3000", "--dump-dom", f"file://{file}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    where = made.peak_operation
    assert where is not None
    assert f"{where.name} ({where.phase})" in dom
    assert f"{len(made.held)} storages" in dom
    assert 'class="u-over"' in dom
