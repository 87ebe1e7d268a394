"""The form of a servable's page, in Chromium: what it sends, what it shows, and whether its lines work when pasted."""

import base64
import json
import shutil
import subprocess
import sys
import wave

import numpy as np
import pytest
from browser import Browser, find
from conftest import FIXTURES

DESKTOP, PHONE = (1280, 800), (390, 844)
LIMIT = 120.0
MODELS = ["dummy", "image_fixed", "classifier", "passthrough_f16", "passthrough_string"]

pytestmark = pytest.mark.skipif(find() is None, reason="no chromium here")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """A browser for all tests, whose microphone hears a tone."""
    flags = ("--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream")
    browser = Browser(tmp_path_factory.mktemp("chromium"), *flags)
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def server(running, tmp_path_factory):
    """A server with something of each kind of input."""
    folder = tmp_path_factory.mktemp("try")
    models = [
        {"config": {"name": name, "base_path": str(FIXTURES / "models" / name)}} for name in MODELS
    ]
    vad = {"name": "vad", "base_path": str(FIXTURES / "models/vad_stateful"), "stateful": True}
    models.append({"config": vad})
    shutil.copytree(FIXTURES / "graphs/streamer", folder / "streamer")
    graphs = [{"name": "streamer", "base_path": "streamer"}]
    path = folder / "config.json"
    path.write_text(json.dumps({"model_config_list": models, "mediapipe_config_list": graphs}))
    return running.start("try", "--config_path", str(path))


def opened(server, browser, name, size=DESKTOP, **how):
    """The page of a servable, when its lines are there."""
    page = browser.page(*size, **how)
    page.open(server.url(f"/dashboard/servables/{name}"))
    page.until("document.getElementById('fields').childElementCount > 0", "the form")
    return page


def send(page, button="send"):
    """Send the form, and return how it went when the answer is there."""
    page.until("!document.getElementById('request').classList.contains('busy')", "the last one")
    page.ask(f"document.getElementById('{button}').click()")
    done = "!document.getElementById('request').classList.contains('busy')"
    page.until(f"{done} && document.getElementById('status').textContent !== ''", "the answer")
    return page.ask("document.getElementById('status').textContent")


def choose_mode(page, mode):
    """Choose how the first input is filled in."""
    page.ask(f"""(() => {{
      const mode = document.querySelector('.mode');
      mode.value = '{mode}';
      mode.dispatchEvent(new Event('change', {{ bubbles: true }}));
    }})()""")


def lines(page, of, having):
    """The lines for curl or for Python, when they have a text."""
    wanted = f"document.getElementById('{of}').textContent.includes({json.dumps(having)})"
    page.until(wanted, f"lines with {having}")
    return page.ask(f"document.getElementById('{of}').textContent")


def answer(page):
    """The text of the answer."""
    return page.ask("document.getElementById('answer').textContent")


def pasted(page, folder, *having):
    """What the lines for curl and for Python print."""
    curl, python = (lines(page, of, text) for of, text in zip(("curl", "python"), having))
    printed = []
    for command in (["sh", "-c", curl], [sys.executable, "-c", python]):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=LIMIT)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        printed.append(done.stdout)
    return printed


def test_values(server, browser, tmp_path):
    """JSON values are sent and answered, and the lines do the same."""
    page = opened(server, browser, "dummy")
    page.ask("""(() => {
      const values = document.querySelector('.values');
      values.value = '[1, 2, 3, 4, 5, 6, 7, 8, 9, 10.5]';
      values.dispatchEvent(new Event('input', { bubbles: true }));
    })()""")
    assert send(page).startswith("Answered in ")
    assert "2, 3, 4, 5, 6, 7, 8, 9, 10, 11.5" in answer(page) or "11.5" in answer(page)
    curl, python = pasted(page, tmp_path, "10.5", "10.5")
    assert json.loads(curl)["outputs"][0]["data"][9] == 11.5
    assert "11.5" in python
    page.ask("""(() => {
      const values = document.querySelector('.values');
      values.value = '[1, "x"';
      values.dispatchEvent(new Event('input', { bubbles: true }));
    })()""")
    assert "values are JSON" in send(page)
    assert page.errors() == []


def test_zeros_of_any_size_and_halves(server, browser, tmp_path):
    """A tensor that is too large for a line is saved; FP16 goes as binary data both ways."""
    page = opened(server, browser, "classifier")
    choose_mode(page, "zeros")
    assert send(page).startswith("Answered in ")
    curl = lines(page, "curl", "classifier.request")
    assert "--data-binary @classifier.request" in curl
    body = page.ask("""(async () => {
      const request = { model: 'classifier', outputs: [],
        inputs: [{ name: 'image', datatype: 'FP32', shape: [1, 3, 224, 224], values: filled('FP32', [1, 3, 224, 224], 'zeros') }] };
      const bytes = new Uint8Array(await inferBody(request).blob.arrayBuffer());
      return base64(bytes);
    })()""")
    (tmp_path / "classifier.request").write_bytes(base64.b64decode(body))
    printed, python = pasted(page, tmp_path, "classifier.request", "np.zeros")
    scores = json.loads(printed)["outputs"][0]["data"]
    assert abs(sum(scores) - 1) < 1e-3 and "scores" in python
    page = opened(server, browser, "passthrough_f16")
    assert send(page).startswith("Answered in "), page.ask("document.body.textContent")
    assert page.errors() == []


def test_an_image_decoded_by_the_server(server, browser, tmp_path):
    """An image is sent as it is where the model takes that."""
    shutil.copy(FIXTURES / "images/star.png", tmp_path / "my star.png")
    page = opened(server, browser, "image_fixed")
    page.choose(".file", tmp_path / "my star.png")
    lines(page, "curl", "my star.png")
    assert send(page).startswith("Answered in ")
    assert "(1,4,6,3)" in answer(page) and "234" in answer(page)
    curl, python = pasted(page, tmp_path, "base64", "my star.png")
    assert 234 in json.loads(curl)["out"]
    assert "234" in python
    assert page.errors() == []


def test_an_image_decoded_by_the_browser(server, browser, tmp_path):
    """Pixels are in the order of the tensor, so that the classifier sees what there is."""
    shutil.copy(FIXTURES / "images/star.png", tmp_path / "star.png")
    page = opened(server, browser, "classifier")
    page.choose(".file", tmp_path / "star.png")
    page.until("!document.querySelector('.preview').hidden", "the image is shown")
    assert send(page).startswith("Answered in ")
    first = page.ask("document.querySelector('.scores th').textContent")
    assert first == "star"
    python = lines(page, "python", "star.png")
    done = subprocess.run([sys.executable, "-c", python], cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    assert "scores" in done.stdout
    assert page.errors() == []


def test_a_text(server, browser, tmp_path):
    """BYTES are texts, also those with quotes."""
    page = opened(server, browser, "passthrough_string")
    page.ask("""(() => {
      const values = document.querySelector('.values');
      values.value = 'it\\'s "größe"';
      values.dispatchEvent(new Event('input', { bubbles: true }));
    })()""")
    assert send(page).startswith("Answered in ")
    assert 'it\'s "größe"' in answer(page)
    curl, python = pasted(page, tmp_path, "größe", "größe")
    assert json.loads(curl)["outputs"][0]["data"] == ['it\'s "größe"']
    assert "gr" in python


def test_a_stream(server, browser, tmp_path):
    """Events of a graph are shown as they come."""
    page = opened(server, browser, "streamer")
    page.ask("""(() => {
      const values = document.querySelector('.values');
      values.value = 'the model';
      values.dispatchEvent(new Event('input', { bubbles: true }));
    })()""")
    assert "events in" in send(page)
    events = page.ask("[...document.querySelectorAll('#events li')].map((it) => it.textContent)")
    assert len(events) > 3 and events[0].startswith("token: waits"), events
    curl, python = pasted(page, tmp_path, "the model", "the model")
    assert curl.count("data: ") == len(events)
    assert "waits" in python and "picture" in python
    assert page.errors() == []


def sound(path):
    """Write speech as a WAV file."""
    samples = np.load(FIXTURES / "expected/vad_clip_16k.npy")
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16000)
        file.writeframes(samples.astype("<i2").tobytes())
    return path


def test_a_sound_in_steps(server, browser, tmp_path):
    """A WAV file becomes the steps of a sequence, whose probabilities are those that are expected."""
    sound(tmp_path / "speech.wav")
    page = opened(server, browser, "vad")
    page.choose("#sound-file", tmp_path / "speech.wav")
    page.until("document.getElementById('status').textContent.includes('steps were answered')", "all steps")
    expected = np.load(FIXTURES / "expected/vad_prob.npy").ravel()
    caption = page.ask("document.querySelector('#steps figcaption').textContent")
    assert caption.startswith("153 steps") or caption.startswith("154 steps"), caption
    most = float(caption.split(" to ")[1].split(";")[0])
    assert abs(most - expected.max()) < 0.02, caption
    python = lines(page, "python", "speech.wav")
    done = subprocess.run([sys.executable, "-c", python], cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    assert 153 <= done.stdout.count("prob") <= 154
    # Nothing is left behind.
    state = page.ask("fetch('/dashboard/state?name=vad').then((it) => it.json())")
    assert state["servables"][0]["sequences"] == 0
    assert page.errors() == []


def test_the_microphone(server, browser):
    """Steps are sent as the sound comes, until it is stopped."""
    page = opened(server, browser, "vad")
    page.ask("document.getElementById('microphone').click()")
    steps = "parseInt(document.querySelector('#steps figcaption').textContent)"
    page.until(f"{steps} >= 5", "steps of what is heard")
    page.ask("document.getElementById('microphone').click()")
    page.until("document.getElementById('status').textContent.includes('steps were answered')", "the end")
    state = page.ask("fetch('/dashboard/state?name=vad').then((it) => it.json())")
    assert state["servables"][0]["sequences"] == 0
    # Its successor needs a script of its own, which the policy of the page does not allow.
    assert all("ScriptProcessorNode is deprecated" in error for error in page.errors())


def test_steps_by_hand(server, browser):
    """A sequence goes on until its last step."""
    page = opened(server, browser, "vad")
    send(page)
    send(page)
    count = "document.querySelector('#steps figcaption').textContent"
    page.until(f"{count}.startsWith('2 steps')", "two steps")
    assert "last step was answered" in send(page, "end")
    assert page.ask(count).startswith("3 steps")
    send(page)
    page.until(f"{count}.startsWith('1 step,')", "a new sequence")
    send(page, "end")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("name", ["classifier", "streamer", "vad"])
def test_it_fits(server, browser, name, size, dark, tmp_path):
    """Nothing is wider than the screen, and fields have names."""
    page = opened(server, browser, name, size, dark=dark)
    width = size[0]
    assert page.ask("document.documentElement.scrollWidth") == width
    wide = page.ask(
        "[...document.querySelectorAll('main *')].filter((it) =>"
        " !it.closest('.diagram, pre, .wide, [hidden]')"
        f" && it.getBoundingClientRect().right > {width} + .5).map((it) => it.outerHTML)"
    )
    assert wide == []
    labelled = "[...document.querySelectorAll('main button, main input, main select, main textarea')]"
    assert page.ask(f"{labelled}.every((it) => it.textContent || it.labels.length || it.ariaLabel)")
    page.screenshot(tmp_path / "page.png")
    assert page.errors() == []


def test_functions(server, browser):
    """The parts that compute: halves, bytes, shapes, quotes, and events."""
    page = opened(server, browser, "dummy")
    halves = {0: 0, 1: 0x3C00, -2: 0xC000, 65504: 0x7BFF, 65520: 0x7C00, 2**-14: 0x400, 2**-24: 1, 1 / 3: 0x3555}
    for value, bits in halves.items():
        assert page.ask(f"halfBits({value!r}, 'FP16')") == bits, value
        with np.errstate(over="ignore"):
            assert bits == np.float16(value).view(np.uint16)
    assert page.ask("halfBits(3.14159, 'BF16')") == 0x4049
    assert page.ask("halfValue(0x3555, 'FP16')") == float(np.float16(1 / 3))
    assert page.ask("fromBytes('INT64', toBytes('INT64', [1, -2]))") == [1, -2]
    assert page.ask("fromBytes('BYTES', toBytes('BYTES', ['a', 'ü']))") == ["a", "ü"]
    assert page.ask("shapeFor([-1, 3], 6)") == [2, 3]
    assert page.ask("quoted(\"it's\")") == "'it'\\''s'"
    assert page.ask("quoted('-a/b:c.d')") == "-a/b:c.d"
    events = page.ask("takeEvents('data: {\"a\":1}\\n\\n:\\n\\ndata: {\"b')")
    assert events == {"events": [{"a": 1}], "rest": 'data: {"b'}
    assert page.ask("best([1, 5, 3], 2)") == [1, 2]
    pixels = "pixelsToValues([1, 2, 3, 255, 4, 5, 6, 255], 2, { channels: 3, first: true, order: 'BGR', range: 'plain' })"
    assert page.ask(f"Array.from({pixels})") == [3, 6, 2, 5, 1, 4]
