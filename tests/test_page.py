"""The page, also in a real browser: no errors, no network, curves on hover, colours."""

import json
import re
import shutil

import jax.numpy as jnp
import numpy as np
import pytest

from dsf_jax import regions, response
from dsf_jax.bases import bernstein
from dsf_jax.explain.page import make_page
from dsf_jax.explain.reading import Filters

BROWSER, DRIVER = (shutil.which(name) for name in ("chromium", "chromedriver"))
OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"),
    *("--no-first-run", "--disable-background-networking", "--disable-sync"),
    *("--disable-component-update", "--enable-unsafe-swiftshader"),
    "--window-size=1300,900",
)


def values(weights, lam):
    return np.asarray(response(jnp.asarray(weights), jnp.asarray(lam), bernstein))


@pytest.fixture(scope="module")
def filters():
    rng = np.random.default_rng(0)
    gamma, theta = rng.uniform(1, 2, size=4), rng.uniform(size=(4, 60))
    beta, lam = gamma[:, None] * theta, np.linspace(0, 2, 21)
    curves = values(beta, lam)
    return Filters(gamma, theta, beta, lam, curves, curves.mean(axis=0))


def page_of(filters, **changes):
    dataset, rng = regions(60), np.random.default_rng(1)
    settings = {
        "points": rng.uniform(-1, 1, size=(60, 2)),
        "rgb": rng.uniform(size=(60, 3)),
        "statistics": {"class": dataset.labels, "odd": np.full(60, np.nan)},
        "title": "A <b>& B",
    }
    basis_values = values(np.eye(4), filters.lam)
    return make_page(dataset.graph, filters, basis_values, **settings | changes)


def data_of(page):
    text = re.search(r'<script id="data" [^>]*>(.*?)</script>', page, re.S)[1]
    return json.loads(text)


def test_the_page_holds_the_model(filters):
    page = page_of(filters, statistics={"</script>": np.arange(60)})
    data = data_of(page)  # not ended by the name of a statistic
    np.testing.assert_allclose(data["theta"], filters.theta, rtol=1e-4)
    curves = np.asarray(data["beta"]).T @ np.asarray(data["basis"])
    np.testing.assert_allclose(curves, filters.curves, atol=1e-3)
    assert len(data["edges"]) == regions(60).graph.num_edges
    assert "<title>A &lt;b&gt;&amp; B</title>" in page
    assert data["statistics"]["</script>"] == list(range(60))


def test_nothing_is_loaded_from_elsewhere(filters):
    page = page_of(filters)
    assert not re.findall(r"<(?:script|link|img|iframe)[^>]*(?:src|href)=", page)
    assert "default-src 'none'" in page
    assert len(page) < 6e6


def test_large_graphs_are_drawn_in_part(filters, monkeypatch):
    monkeypatch.setattr("dsf_jax.explain.page.MAX_DRAWN", 20)
    assert len(data_of(page_of(filters))["drawn"]) == 20


@pytest.mark.parametrize("node", [-1, 60])
def test_unknown_nodes_are_refused(filters, node):
    with pytest.raises(ValueError, match=rf"node must lie in \[0, 59\], got {node}"):
        page_of(filters, node=node)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if BROWSER is None or DRIVER is None:
        pytest.skip("chromium or chromedriver is not installed")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for option in OPTIONS:
        options.add_argument(option)
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('profile')}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(DRIVER)
    with webdriver.Chrome(options=options, service=service) as driver:
        yield driver


@pytest.fixture
def opened(browser, filters, tmp_path):
    """The page, drawn."""
    from selenium.webdriver.support.ui import WebDriverWait

    (tmp_path / "index.html").write_text(page_of(filters), encoding="utf-8")
    browser.get(f"file://{tmp_path / 'index.html'}")
    script = "return document.documentElement.dataset.ready === 'true'"
    WebDriverWait(browser, 60).until(lambda driver: driver.execute_script(script))
    return browser


def shown(driver):
    """Title, drawn curve and statistics of the node that is shown."""
    return driver.execute_script(
        "return [byId('node-title').textContent,"
        " Array.from(byId('curve').data[1].y), byId('statistics').innerText]"
    )


@pytest.mark.slow
def test_hovering_a_node_shows_its_curve(opened, filters):
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.support.ui import WebDriverWait

    graph = opened.find_element("id", "graph")
    x, y = opened.execute_script(
        "const at = byId('graph')._fullLayout;"
        "return [at.xaxis.d2p(data.x[17]) + at._size.l,"
        " at.yaxis.d2p(data.y[17]) + at._size.t]"
    )
    left, top = x - graph.size["width"] / 2, y - graph.size["height"] / 2
    ActionChains(opened).move_to_element_with_offset(graph, left, top).perform()
    WebDriverWait(opened, 20).until(lambda driver: shown(driver)[0] == "Node 17")
    _, curve, statistics = shown(opened)
    np.testing.assert_allclose(curve, filters.curves[17], atol=1e-3)
    assert "class" in statistics
    assert "none" in statistics  # a NaN


@pytest.mark.slow
def test_the_page_is_quiet_and_offline(opened):
    resources = "return performance.getEntriesByType('resource').map((e) => e.name)"
    assert [
        name for name in opened.execute_script(resources) if "file:" not in name
    ] == []
    severe = [line for line in opened.get_log("browser") if line["level"] == "SEVERE"]
    assert severe == []
    blocked = "return fetch('https://example.org').then(() => 'open', () => 'blocked')"
    assert opened.execute_script(blocked) == "blocked"


@pytest.mark.slow
def test_the_slider_recolours_and_keys_work(opened, filters):
    from selenium.webdriver.common.keys import Keys

    colours = "return Array.from(byId('graph').data[1].marker.color)"
    assert str(opened.execute_script(colours)[0]).startswith("#")
    slider = opened.find_element("id", "order")
    for order in (1, 2):
        slider.send_keys(Keys.ARROW_RIGHT)
        drawn = opened.execute_script(colours)
        np.testing.assert_allclose(drawn, filters.theta[order], rtol=1e-4)
    search = opened.find_element("id", "search")
    search.send_keys("42", Keys.ENTER)
    assert shown(opened)[0] == "Node 42"
    opened.find_element("id", "graph").send_keys(Keys.ARROW_RIGHT)
    assert shown(opened)[0] == "Node 43"
    search.send_keys("0", Keys.ENTER)  # now 420
    message = opened.find_element("id", "message").text
    assert message == 'Node must be a number from 0 to 59, got "420".'
    assert shown(opened)[0] == "Node 43"


@pytest.mark.slow
def test_light_and_dark(opened):
    ground = "return getComputedStyle(document.body).backgroundColor"
    before = opened.execute_script(ground)
    opened.find_element("id", "theme").click()
    assert opened.execute_script(ground) != before
    assert opened.execute_script("return byId('curve').layout.font.color") == (
        opened.execute_script("return css('--text')")
    )
