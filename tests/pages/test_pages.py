"""Pages of plans and profiles: what stands in them, and what they do in a browser."""

import html
import json
import os
import pathlib
import re
import shutil
import subprocess
from dataclasses import replace

import pytest

import byoc
from byoc.cli.report.executed_graph import executed_graph
from byoc.partition.show.report_page import fragment, to_html
from byoc.runtime.core.function_work import OperatorWork
from byoc.runtime.page.parts import Mark, TableCell, table, time_line
from byoc.runtime.profile.record import CompileTimes, FunctionRecord, PartRecord, names_of_functions
from byoc.runtime.profile.run_profile import RunProfile

DIGITS = pathlib.Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
BROWSER = os.environ.get("BYOC_BROWSER") or next(filter(None, map(shutil.which, BROWSERS)), None)
in_browser = pytest.mark.skipif(
    BROWSER is None, reason="no browser: install chromium, or name one in BYOC_BROWSER, to open the pages"
)
EVIL = "</script><script>document.title='evil'</script>"

HOST = FunctionRecord(
    "tvmgen_default_fused_conv",
    "c",
    (((0.0, 0.002),), ((0.0, 0.004),)),
    operators=(OperatorWork("nn.conv2d", ("Conv_0",), "float32", 10, 1000, 100),),
    nodes=("Conv_0", EVIL),
    bytes=100,
)
REGION = FunctionRecord(
    "tvmgen_default_acme_0",
    "acme",
    (((0.001, 0.003),), ((0.001, 0.004),)),
    True,
    nodes=("Relu_1",),
    parts=(PartRecord("kernel_relu", (((0.001, 0.002),), ((0.001, 0.002),))),),
)
PROFILE = RunProfile(
    "face & co", "graph executor", (0.003, 0.005), (HOST, REGION), compiling=CompileTimes((("planning", 0.5),))
)


@pytest.fixture(scope="module")
def planned():
    """The digit classifier planned by typical costs, with regions."""
    plan = byoc.plan(DIGITS, targets=["json", "c"], policy="cost", costs="typical", force={"json": ["nn.conv2d"]})
    return plan.origin.mod, plan


def in_text(page):
    return html.unescape(re.sub(r"<[^>]+>", " ", page))


def test_the_page_of_a_plan_has_model_and_targets_in_its_title(planned):
    page = to_html(*planned, "digits")
    assert "<title>Plan of digits on json, host</title>" in page
    text = in_text(page)
    for words in ("nn.conv2d", "node_Conv_26", "What is moved", "Costs", "estimate", "why not elsewhere"):
        assert words in text
    assert page.count('data-place="json"') >= 6  # boxes, marks, rows: what the legend switches
    assert len(re.findall(r"<g data-place", page)) >= 18 + 3  # a box for the input and each call, marks where time goes


def test_the_page_of_a_profile_has_every_level():
    page = PROFILE.to_html()
    assert "<title>Profile of face &amp; co on c, acme</title>" in page
    for words in (
        "Regions",
        "Kernels",
        "Operators",
        "ONNX nodes",
        "The last run",
        "kernel_relu",
        "planning",
        "0.500 s",
    ):
        assert words in in_text(page)


def pages(planned):
    return {"plan": to_html(*planned, "digits"), "profile": PROFILE.to_html()}


def test_nothing_is_fetched(planned):
    for page in pages(planned).values():
        assert not re.findall(r"(?:src|href)\s*=|url\((?!#)|@import|fetch\(|XMLHttpRequest|<link|<img|<iframe", page)
        assert "default-src 'none'" in page


def test_text_from_a_model_is_escaped():
    assert EVIL not in PROFILE.to_html() and html.escape(EVIL) in PROFILE.to_html()
    assert "<b>" not in table(("<b>",), [[TableCell("<b>")]], 1)
    marks = [Mark("<b>", 0, 1, '"><b>', "<b>", '"><b>')]
    assert "<b>" not in time_line(marks, ("host", '"><b>'))


def test_a_notebook_shows_the_same_without_the_document(planned):
    mod, plan = planned
    assert plan._repr_html_().startswith('<div class="byoc">') and "<html" not in plan._repr_html_()
    assert "<svg" in fragment(plan, mod) and PROFILE._repr_html_() in PROFILE.to_html()


def test_a_time_line_of_nothing_is_nothing_and_a_long_one_is_cut():
    assert time_line([], ("host",)) == ""
    marks = [Mark("host", k, k + 1, "f", "f", "host") for k in range(5000)]
    assert time_line(marks, ("host",)).count("<g ") == 4000


PROBE = """
<script>
const seen = {errors: window.problems, live: !!document.querySelector(".byoc.live")};
const picture = document.querySelector(".picture"), svg = picture.querySelector("svg");
const view = () => svg.getAttribute("viewBox").split(" ").map(Number);
const kinds = {keydown: KeyboardEvent, input: Event, change: Event};
const press = (e, type, more) => e.dispatchEvent(new kinds[type](type, {bubbles: true, ...more}));
seen.whole = view();
const rect = svg.getBoundingClientRect();
const place = {clientX: rect.x + 50, clientY: rect.y + 50};
svg.dispatchEvent(new WheelEvent("wheel", {deltaY: -300, cancelable: true, ...place}));
seen.wheel = view();
picture.querySelector("[data-act=out]").click(); seen.out = view();
picture.querySelector("[data-act=fit]").click(); seen.fit = view();
const field = picture.querySelector("input[type=search]");
field.value = "WORDS"; press(field, "input");
seen.found = picture.querySelector(".found").textContent;
seen.hits = picture.querySelectorAll("g.hit").length;
press(field, "keydown", {key: "Enter"});
seen.next = picture.querySelector(".found").textContent; seen.moved = view();
press(field, "keydown", {key: "Escape"}); seen.escaped = view();
const group = svg.querySelector("g[data-tip] rect");
group.dispatchEvent(new PointerEvent("pointermove", {bubbles: true, clientX: 20, clientY: 20}));
const tip = document.querySelector(".tip");
seen.tip = tip.style.display + ": " + tip.textContent;
const box = document.querySelectorAll(".legend input")[1];
box.checked = false; press(box, "change");
seen.dim = document.querySelectorAll("g.dim").length;
seen.hidden = Array.from(document.querySelectorAll("tr")).filter((r) => r.style.display === "none").length;
const grid = document.querySelector("table"), heads = Array.from(grid.querySelectorAll("th"));
const column = heads.findIndex((h) => h.textContent === "SORTED");
const numbers = () => Array.from(grid.tBodies[0].rows).map((r) => Number(r.cells[column].dataset.value));
heads[column].click(); seen.down = numbers();
heads[column].click(); seen.up = numbers();
const filter = grid.previousElementSibling.querySelector("input");
filter.value = "nothing has these words"; press(filter, "input");
seen.left = Array.from(grid.tBodies[0].rows).filter((r) => !r.hidden).length;
seen.bars = Array.from(grid.querySelectorAll("td.bar i")).map((i) => i.getBoundingClientRect().width);
seen.title = document.title;
const out = document.createElement("pre"); out.id = "seen"; out.textContent = JSON.stringify(seen);
document.body.appendChild(out);
</script></body>"""
TRAP = (
    "<script>window.problems = []; addEventListener('error', (e) => problems.push(String(e.message)));</script></head>"
)


def opened(page, folder, words, column):
    """What the page does when a reader zooms, searches, points, sorts, filters."""
    probe = PROBE.replace("WORDS", words).replace("SORTED", column)
    path = folder / "page.html"
    path.write_text(page.replace("</head>", TRAP, 1).replace("</body>", probe, 1))
    command = [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'browser'}"]
    command += ["--window-size=1200,900", "--virtual-time-budget=2000", "--dump-dom", path.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    found = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, done.stderr[-2000:]
    return json.loads(html.unescape(found[1]))


@pytest.fixture(scope="module")
def profiled():
    """The digit classifier on a backend and the host, and its page with the graph that ran."""
    library = byoc.compile(DIGITS, targets=["json", "c"], exclude=["nn.relu"])
    profile = replace(library.profile(repeat=2), model="digits")
    return library, profile, profile.to_html(executed_graph(library, profile))


@pytest.mark.needs_cc
def test_the_page_of_a_profile_has_the_graph_that_ran(profiled):
    library, profile, page = profiled
    (drawn,) = re.findall(r'class="picture graph".*?</svg>', page, re.DOTALL)
    boxes = re.findall(r'<g data-place="(\w+)"><title>([^<]*)</title>', drawn)
    regions = [title for place, title in boxes if place == "json"]
    assert len(regions) == len(library.plan.regions) > 1
    for record in profile.functions:
        (title,) = [title for _, title in boxes if record.symbol in title.split("\n")]
        assert " ms" in title and ", ".join(record.nodes) in title
    assert drawn.count("<path d=") >= len(boxes) - 1  # what reads what, views drawn through
    assert next(title for place, title in boxes if place == "host").startswith("image")


@pytest.mark.needs_cc
def test_the_graph_and_the_tables_of_a_profile_have_one_name_for_a_function(profiled):
    library, profile, _ = profiled
    unknown = replace(profile, functions=tuple(replace(f, operators=()) for f in profile.functions))
    drawn = executed_graph(library, unknown)
    tables = unknown.to_html().split("<script")[0]
    for record, name in zip(unknown.functions, names_of_functions(unknown.functions), strict=True):
        assert record.symbol.endswith(name) and name != record.symbol
        assert re.search(rf"<text[^>]*>{re.escape(name)}</text>", drawn), name
        assert re.search(rf"(?<!\w){re.escape(name)}(?!\w)", tables), name


@pytest.mark.needs_cc
@in_browser
def test_a_browser_searches_the_graph_of_a_profile(profiled, tmp_path):
    seen = opened(profiled[2], tmp_path, "node_conv_27", "median")
    assert seen["errors"] == [] and seen["live"] and seen["title"] == "Profile of digits on json, c"
    assert (seen["found"], seen["hits"]) == ("1 found", 1) and seen["moved"] != seen["whole"]
    assert seen["wheel"][2] < seen["whole"][2] and seen["fit"] == seen["whole"]
    assert " ms" in seen["tip"] or "image" in seen["tip"]
    assert seen["dim"] > 0 and seen["down"] == sorted(seen["down"], reverse=True)


@in_browser
@pytest.mark.parametrize(
    ("kind", "words", "hits", "column", "title"),
    [
        ("plan", "conv2d node_conv_27", 1, "estimate", "Plan of digits on json, host"),
        ("profile", "acme", 2, "median", "Profile of face & co on c, acme"),
    ],
)
def test_a_browser_opens_the_page_and_it_is_live(planned, tmp_path, kind, words, hits, column, title):
    seen = opened(pages(planned)[kind], tmp_path, words, column)
    assert seen["errors"] == [] and seen["live"] and seen["title"] == title
    assert seen["wheel"][2] < seen["whole"][2] < seen["whole"][2] * 1.4
    assert seen["out"][2] > seen["wheel"][2] and seen["fit"] == seen["whole"] == seen["escaped"]
    assert (seen["found"], seen["hits"]) == (f"{hits} found", hits)
    assert seen["next"] == f"1 of {hits}" and seen["moved"] != seen["whole"]
    assert seen["tip"].startswith("block: ") and len(seen["tip"]) > 10
    assert seen["dim"] > 0 and seen["hidden"] > 0
    assert seen["down"] == sorted(seen["down"], reverse=True) and seen["up"] == sorted(seen["up"])
    assert len(set(seen["up"])) > 1 and seen["left"] == 0
