"""The page in a real browser: it loads, shows something, and shows it where the run says."""

import io
import shutil

import numpy as np
import pytest

from jaxmbd.animation.browser import Browser, BrowserError, find_browser

from .runs import ball, pendulum

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(find_browser() is None, reason="no Chromium here: apt-get install chromium, or name one in JAXMBD_BROWSER"),
]


@pytest.fixture(scope="module")
def browser():
    with Browser(640, 400) as browser:
        yield browser


def opened(browser, tmp_path, run, *names, **options):
    browser.errors.clear()
    browser.open(run.animate(*names, autoplay=False, **options).save(tmp_path / "run.html"))
    assert browser.evaluate("jaxmbdReady") is True
    assert browser.errors == []
    return browser


def pixels(browser):
    image = pytest.importorskip("PIL.Image")
    return np.asarray(image.open(io.BytesIO(browser.picture())).convert("RGB")).astype(int)


@pytest.mark.parametrize(("run", "body"), [(pendulum, "rod"), (ball, "ball"), (ball, "weight[0]")])
def test_scrubbing_moves_a_body_to_where_the_run_says(browser, tmp_path, run, body):
    page, solution = opened(browser, tmp_path, run()), run()
    for i in (0, len(solution.ts) // 3, -1):
        page.evaluate(f"jaxmbd.seek({float(solution.ts[i])})")
        expected = np.zeros(3)
        expected[: solution.position(body).shape[1]] = solution.position(body)[i]
        np.testing.assert_allclose(page.evaluate(f"jaxmbd.position({body!r})"), expected, atol=3e-4)
    # As a person does, by the slider.
    page.evaluate("{ const s = document.getElementById('slider'); s.value = 0; s.dispatchEvent(new Event('input')) }")
    np.testing.assert_allclose(page.evaluate("jaxmbd.time"), solution.ts[0], atol=1e-9)


def test_the_picture_is_not_blank_and_changes_with_time(browser, tmp_path):
    page = opened(browser, tmp_path, pendulum(), ["hinge.angle", "spring.torque"], title="a pendulum", show="joint reactions", traces="rod")
    first = pixels(page)
    stage, chart = first[40:340, :380], first[40:340, 400:]
    for part in (stage, chart):
        assert np.mean(np.any(part != part[0, 0], axis=-1)) > 0.01
    blue = (stage[..., 2] > stage[..., 0] + 60).sum()
    assert blue > 500  # the rod
    page.evaluate("jaxmbd.seek(0.3)")
    assert np.mean(np.any(pixels(page)[40:340, :380] != stage, axis=-1)) > 0.01


def test_time_runs_when_it_is_played_and_stands_when_paused(browser, tmp_path):
    page = opened(browser, tmp_path, pendulum())
    page.evaluate("jaxmbd.play()")
    moved = page.evaluate(
        "new Promise((done) => { const look = () => (jaxmbd.time > 0.02 ? done(jaxmbd.time) : setTimeout(look, 20)); look() })"
    )
    assert 0.02 < moved <= 0.5
    page.evaluate("jaxmbd.pause()")
    before = page.evaluate("jaxmbd.time")
    assert page.evaluate("new Promise((done) => setTimeout(() => done(jaxmbd.time), 100))") == before


def test_it_plays_by_itself_and_asks_the_network_for_nothing(browser, tmp_path):
    page = run = ball().animate(title="<ball> & floor").save(tmp_path / "run.html")
    text = run.read_text(encoding="utf-8")
    assert "&lt;ball&gt; &amp; floor" in text
    assert text.count("<script") == 4
    assert "<link" not in text
    assert "<img" not in text
    browser.open(page)
    assert browser.evaluate("jaxmbdReady") is True
    assert browser.evaluate("jaxmbd.playing") is True
    assert browser.evaluate("performance.getEntriesByType('resource').filter((e) => /^https?:/.test(e.name)).length") == 0


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="no ffmpeg here")
def test_a_film_has_the_pictures_of_the_run(tmp_path):
    path = pendulum().save_video(tmp_path / "run.gif", size=(160, 120), rate=8.0, speed=1.0)
    with pytest.importorskip("PIL.Image").open(path) as image:
        assert image.size == (160, 120)
        assert image.n_frames == 5  # half a second at eight a second, first and last among them
        first = np.asarray(image.convert("RGB")).astype(int)
        image.seek(4)
        assert np.mean(np.any(first != np.asarray(image.convert("RGB")), axis=-1)) > 0.01


def test_a_page_that_fails_says_so(browser, tmp_path):
    (tmp_path / "wrong.html").write_text("<script>window.jaxmbdReady = Promise.reject(new Error('nothing to see'))</script>")
    browser.open(tmp_path / "wrong.html")
    with pytest.raises(BrowserError, match="nothing to see"):
        browser.evaluate("jaxmbdReady")
