"""The page for people, in Chromium: on a desktop and on a phone, with and without scripts."""

import json
import re
import shutil
import socket
import subprocess

import pytest
import requests
from browser import Browser, find
from conftest import FIXTURES

DESKTOP, PHONE = (1280, 800), (390, 844)
NASTY = "<img src=x onerror=\"document.title='taken'\">"
DRAWINGS = ["faces", "ocr", "streamer"]
# What needs somebody comes first.
SERVABLES = ["broken", "faces", NASTY, "dummy", "ocr", "ocr_det", "ocr_rec", "streamer", "vad"]

pytestmark = pytest.mark.skipif(find() is None, reason="no chromium here")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """A browser for all tests."""
    browser = Browser(tmp_path_factory.mktemp("chromium"))
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def server(running, tmp_path_factory):
    """A server with something of each kind, and with something that fails."""
    folder = tmp_path_factory.mktemp("dashboard")
    subprocess.run(["make", "--silent", "-C", str(FIXTURES / "pipelines/ocr")], check=True)
    text = (FIXTURES / "pipelines/ocr/config.json").read_text()
    config = json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))
    (library,) = config["custom_node_library_config_list"]
    library["base_path"] = str(FIXTURES / "pipelines/ocr/libocr_crops.so")
    models = {"dummy": "dummy", NASTY: "dummy", "broken": "broken", "vad": "vad_stateful"}
    models |= {"ocr_det": "ocr_det", "ocr_rec": "ocr_rec"}
    config["model_config_list"] = [
        {"config": {"name": name, "base_path": str(FIXTURES / "models" / folder)}}
        for name, folder in models.items()
    ]
    config["model_config_list"][3]["config"]["stateful"] = True
    # A second pipeline, which lacks a model.
    (ocr,) = config["pipeline_config_list"]
    lacks = json.loads(json.dumps(ocr)) | {"name": "faces"}
    lacks["nodes"][0]["model_name"] = "face_det"
    config["pipeline_config_list"].append(lacks)
    config["mediapipe_config_list"] = [{"name": "streamer", "base_path": "streamer"}]
    shutil.copytree(FIXTURES / "graphs/streamer", folder / "streamer")
    path = folder / "config.json"
    path.write_text(json.dumps(config))
    flags = ("--config_path", str(path), "--file_system_poll_wait_seconds", "0")
    return running.start("dashboard", *flags)


def infer(server, times=1):
    """Send requests to the model `dummy`."""
    tensor = {"name": "b", "shape": [1, 10], "datatype": "FP32", "data": [0] * 10}
    for _ in range(times):
        answer = requests.post(
            server.url("/v2/models/dummy/infer"), json={"inputs": [tensor]}, timeout=60
        )
        assert answer.status_code == 200


def names(page):
    """The names of the cards, as people read them."""
    return page.ask("[...document.querySelectorAll('.card h3')].map((it) => it.textContent)")


def live(page, name, key):
    """What a card shows at the moment."""
    cards = "[...document.querySelectorAll('.card')]"
    card = f"{cards}.find((it) => it.querySelector('h3').textContent === {json.dumps(name)})"
    return page.ask(f"{card}.querySelector('[data-live={key}]').textContent")


def see_drawings(page):
    """Scroll to each drawing, and wait for it."""
    diagrams = "document.querySelectorAll('.diagram')"
    for place in range(page.ask(f"{diagrams}.length")):
        page.ask(f"{diagrams}[{place}].scrollIntoView()")
        page.until(f"{diagrams}[{place}].querySelector('svg') !== null", "the drawing comes")


def overlapping(page):
    """Texts of the heads of the page and of its cards that stand on each other."""
    return page.ask("""(() => {
      const places = '.tile dt, .tile b, .tile svg, header p > span, h1, h3, .kind, .state, .figure, .live svg';
      const found = [];
      for (const part of document.querySelectorAll('header, .tile, summary')) {
        const boxes = [...part.querySelectorAll(places)].filter((it) => it.checkVisibility())
          .map((it) => [it, it.getBoundingClientRect()]);
        boxes.forEach(([one, a], index) => boxes.slice(index + 1).forEach(([other, b]) => {
          const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
          const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
          if (!one.contains(other) && wide > 1 && high > 4) found.push(one.textContent + ' | ' + other.textContent);
        }));
      }
      return found;
    })()""")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_page(server, browser, size, dark, tmp_path):
    """Everything is there and fits, nothing else is asked for, and the console stays empty."""
    page = browser.page(*size, dark=dark)
    page.open(server.url("/"))
    assert names(page) == SERVABLES
    assert "OpenVINO Model Server" in page.ask("document.title")
    assert socket.gethostname() in page.ask("document.title")
    page.until("document.querySelector('.card [data-live=rate]').textContent === '0'", "rates")
    page.ask("document.getElementById('all').click()")
    assert page.ask("document.querySelectorAll('.card[open]').length") == len(SERVABLES)
    see_drawings(page)
    drawn = "[...document.querySelectorAll('.diagram svg')].map((it) => it.ariaLabel)"
    kinds = ["Pipeline faces", "Pipeline ocr", "Graph streamer"]
    assert page.ask(drawn) == kinds
    boxes = page.ask("[...document.querySelectorAll('.node rect')].map((it) =>"
                     " it.getBoundingClientRect().width)")
    assert len(boxes) >= 10 and min(boxes) > 20
    # A drawing has the page's colours: the style of its own is not needed.
    paper = page.ask("getComputedStyle(document.querySelector('.diagram .paper')).fill")
    assert paper == ("rgb(13, 17, 23)" if dark else "rgb(255, 255, 255)")
    width = size[0]
    assert page.ask("document.documentElement.scrollWidth") == width
    wide = page.ask(
        "[...document.querySelectorAll('main *')].filter((it) =>"
        " !it.closest('.diagram, pre, .wide')"
        f" && it.getBoundingClientRect().right > {width} + .5).map((it) => it.outerHTML)"
    )
    assert wide == []
    assert overlapping(page) == []
    page.screenshot(tmp_path / "page.png")
    assert page.errors() == []
    own = server.url("/")
    outside = [url for url in page.requests() if not url.startswith((own, "data:", "about:"))]
    assert outside == []


def test_figures_follow_requests(server, browser):
    """Rates and counts rise while the page is looked at."""
    page = browser.page(*DESKTOP)
    page.open(server.url("/?q=dummy"))
    page.ask("for (const card of document.querySelectorAll('.card')) card.open = true")
    page.until("document.querySelector('#cards [data-live=rate]').textContent === '0'", "no rate")
    infer(server, 20)
    rate = "parseFloat(document.querySelector('#cards [data-live=rate]').textContent) > 0"
    page.until(rate, "the rate rises")
    count = int(live(page, "dummy", "requests"))
    assert count >= 20
    assert live(page, "dummy", "p50").endswith(("µs", "ms", " s"))
    infer(server)
    page.until(
        f"document.querySelector('.card [data-live=requests]').textContent === '{count + 1}'",
        "one more is counted",
    )
    assert page.ask("document.querySelector('#totals [data-live=rate]').textContent") != "–"
    assert page.errors() == []


def test_times_stand_within_the_boxes_of_nodes(server, browser, tmp_path):
    """Each node that runs has its usual time in a drawing, on a line where nothing else is."""
    answer = requests.post(
        server.url("/v2/models/streamer/generate"), json={"prompt": "the"}, timeout=60
    )
    assert answer.status_code == 200, answer.text
    page = browser.page(*DESKTOP)
    page.open(server.url("/?q=streamer"))
    page.ask("for (const card of document.querySelectorAll('.card')) card.open = true")
    see_drawings(page)
    page.until("/^≈ .*s$/.test(document.querySelector('.node .time')?.textContent)", "a time")
    boxes = page.ask("""[...document.querySelectorAll('.node')].map((node) => {
      const place = (it) => { const b = it.getBoundingClientRect(); return [b.left, b.top, b.right, b.bottom]; };
      const texts = [...node.querySelectorAll('text')];
      return [place(node.querySelector('rect')), texts.map((it) => [it.textContent, ...place(it)])];
    })""")
    page.screenshot(tmp_path / "drawing.png")
    timed = [texts for _, texts in boxes if any(text.startswith("≈") for text, *_ in texts)]
    assert len(timed) == 1, boxes
    for (left, top, right, bottom), texts in boxes:
        above = top
        for text, *place in texts:
            assert left < place[0] and place[2] < right, text
            # Lines of letters have blank above and below.
            assert above - 4 < place[1] and place[3] < bottom, text
            above = place[3]
    assert page.errors() == []


def test_history_is_there_whenever_the_page_is_loaded(server, browser):
    """Charts have what happened before anybody looked."""
    infer(server, 20)
    page = browser.page(*DESKTOP)
    page.open(server.url("/dashboard?q=dummy"))
    line = "document.querySelector('.card [data-chart=rate] .line').getAttribute('d')?.includes('L')"
    page.until(line, "the line of the last minutes")
    page.open(server.url("/dashboard?q=dummy"))
    page.until(line, "the line is there again")
    memory = "parseInt(document.querySelector('#totals [data-live=memory]').textContent) > 10"
    page.until(memory, "the memory of the server")
    assert page.errors() == []


def test_without_scripts(server, browser):
    """The page that the server writes has all but rates, and pages and choices work."""
    infer(server)
    page = browser.page(*PHONE, scripts=False)
    page.open(server.url("/"))
    # What looks at the page is run all the same.
    page.call("Emulation.setScriptExecutionDisabled", value=False)
    assert names(page) == SERVABLES
    assert int(live(page, "dummy", "requests")) >= 1
    assert "cannot read" in page.ask("document.querySelector('.card.failed .failure').textContent")
    assert page.ask("document.querySelector('.copy').checkVisibility()") is False
    assert page.ask("document.querySelectorAll('.diagram noscript').length") == len(DRAWINGS)
    assert page.ask("document.documentElement.scrollWidth") == PHONE[0]
    page.open(server.url("/?state=failed&limit=1"))
    assert names(page) == ["broken"]
    page.ask("document.querySelector('nav a[rel=next]').click()")
    page.until("document.querySelector('.card h3')?.textContent === 'faces'", "the next one")
    page.call("Emulation.setScriptExecutionDisabled", value=True)
    page.open(server.url("/dashboard/servables/dummy"))
    page.call("Emulation.setScriptExecutionDisabled", value=False)
    assert page.ask("document.getElementById('request').checkVisibility()") is False
    assert "ovms infer dummy" in page.ask("document.querySelector('#about code').textContent")


def test_keyboard(server, browser):
    """Cards open and close by keys, and what scrolls can have the focus."""
    page = browser.page(*DESKTOP)
    page.open(server.url("/?q=ocr_det"))
    summary = "document.querySelector('.card summary')"
    page.ask(f"{summary}.focus()")
    was = page.ask("document.querySelector('.card').open")
    for kind in ("keyDown", "keyUp"):
        page.call("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", text="\r",
                  windowsVirtualKeyCode=13)
    assert page.ask("document.querySelector('.card').open") is not was
    page.open(server.url("/?q=ocr"))
    scrolled = "[...document.querySelectorAll('.diagram, pre')]"
    assert page.ask(f"{scrolled}.every((it) => it.tabIndex === 0)")
    labels = "[...document.querySelectorAll('button, input, select')].every((it) =>"
    assert page.ask(f"{labels} it.textContent || it.labels.length)")


def test_another_state_is_shown(running, browser, tmp_path):
    """What is loaded or gone while the page is open comes and goes by itself."""
    model = {"name": "one", "base_path": str(FIXTURES / "models/dummy")}
    path = tmp_path / "config.json"

    def configure(*entries):
        models = [{"config": {**model, **entry}} for entry in entries]
        path.write_text(json.dumps({"model_config_list": models}))

    configure({})
    flags = ("--config_path", str(path), "--file_system_poll_wait_seconds", "0")
    server = running.start("changing", *flags)
    process = running.processes[-1]
    page = browser.page(*DESKTOP)
    page.open(server.url("/"))
    assert names(page) == ["one"]
    page.ask("document.querySelector('.card').open = false")
    configure({}, {"name": "another"})
    requests.post(server.url("/v1/config/reload"), timeout=60)
    page.until("document.querySelectorAll('.card.ready').length === 2", "the new one is there")
    assert names(page) == ["another", "one"]
    assert page.ask("document.querySelectorAll('.card')[1].open") is False, "as it was left"
    configure({"name": "another"})
    requests.post(server.url("/v1/config/reload"), timeout=60)
    page.until("document.querySelectorAll('.card.retired').length === 1", "one is gone")
    assert page.errors() == []
    process.terminate()
    assert process.wait(timeout=30) == 0
    page.until("document.body.classList.contains('stale')", "the server is gone")
    assert page.ask("document.getElementById('readiness').textContent") == "gone"
    notice = page.ask("document.getElementById('notice').textContent")
    assert notice.startswith("The server has not answered since")
