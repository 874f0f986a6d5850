"""The page, also in a real browser: no errors, no network, curves on hover, colours."""

import json
import re
import shutil

import jax.numpy as jnp
import numpy as np
import pytest

from dsf_jax import regions
from dsf_jax.bases import bernstein
from dsf_jax.explain.page import make_page
from dsf_jax.explain.palette import group_colours, hexadecimal
from dsf_jax.explain.reading import Filters, Representatives
from dsf_jax.explain.summary import (
    NodeQuantity,
    describe_graph,
    describe_model,
)
from dsf_jax.filters import response
from dsf_jax.graph.spectrum import RatioSpread

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


CLUSTER = np.arange(60) % 3
NUMBERS = {
    **{"nodes": 60, "edges": 170, "metric": "accuracy", "val": 80.0, "test": 75.0},
    **{"epochs": 9.0, "curve_spread": 0.3, "communities": 3, "variance_share": 0.5},
    **{"variance_share_by_chance": 0.03, "distance_correlation": float("nan")},
    "unevenness": {"spread": 0.3, "chance": 0.1, "unlike": 0.6, "twins": 0.0},
    "ratio_spread": dict.fromkeys(RatioSpread._fields, 0.25),
}


def page_of(filters, **changes):
    dataset, rng = regions(60), np.random.default_rng(1)
    centres = np.stack([filters.beta[:, i == CLUSTER].mean(axis=1) for i in range(3)])
    settings = {
        "points": rng.uniform(-1, 1, size=(60, 2)),
        "similar": rng.uniform(size=(60, 3)),
        "of_node": [
            NodeQuantity("class", dataset.labels, "The label."),
            NodeQuantity("odd", np.full(60, np.nan), "Not a number."),
        ],
        "of_model": describe_model(NUMBERS),
        "of_graph": describe_graph(NUMBERS),
        "title": "A <b>& B",
    }
    return make_page(
        dataset.graph,
        filters,
        values(np.eye(4), filters.lam),
        Representatives(CLUSTER, centres.T, np.bincount(CLUSTER)),
        values(centres.T, filters.lam),
        **settings | changes,
    )


def data_of(page):
    text = re.search(r'<script id="data" [^>]*>(.*?)</script>', page, re.S)[1]
    return json.loads(text)


def test_the_page_holds_the_model(filters):
    odd = [NodeQuantity("</script>", np.arange(60), "What?")]
    page = page_of(filters, of_node=odd)
    data = data_of(page)  # not ended by the name of a quantity
    np.testing.assert_allclose(data["theta"], filters.theta, rtol=1e-4)
    curves = np.asarray(data["beta"]).T @ np.asarray(data["basis"])
    np.testing.assert_allclose(curves, filters.curves, atol=1e-3)
    assert len(data["edges"]) == regions(60).graph.num_edges
    assert "<title>A &lt;b&gt;&amp; B</title>" in page
    assert data["ofNode"][0]["name"] == "</script>"
    assert data["ofNode"][0]["values"] == list(range(60))


def test_groups_are_those_of_the_figures(filters):
    groups = data_of(page_of(filters))["groups"]
    rgb = group_colours(3, spread=filters.spread)
    assert groups["of"] == CLUSTER.tolist()
    assert groups["colours"] == [hexadecimal(colour) for colour in rgb]
    for i, curve in enumerate(groups["curves"]):
        mean = filters.curves[i == CLUSTER].mean(axis=0)
        np.testing.assert_allclose(curve, mean, atol=1e-3)


def test_every_quantity_has_a_meaning(filters):
    data = data_of(page_of(filters))
    told = [*data["ofNode"], *data["ofModel"], *data["ofGraph"]]
    assert len(told) == 2 + 4 + 16
    for quantity in told:
        assert re.fullmatch(r"[A-Z].+\.", quantity["meaning"]), quantity["name"]


def test_a_title_may_hold_the_names_of_what_is_filled_in(filters):
    page = page_of(filters, title="__DATA__ of __PLOTLY__", notice="__PLOTLY__")
    assert "<title>__DATA__ of __PLOTLY__</title>" in page
    assert data_of(page)["notice"] == "__PLOTLY__"


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
        # software rendering of the first page takes minutes on a busy machine
        driver.command_executor.client_config.timeout = 600
        yield driver


@pytest.fixture(scope="module")
def drawn(browser, filters, tmp_path_factory):
    """The page, drawn once for all tests."""
    from selenium.webdriver.support.ui import WebDriverWait

    file = tmp_path_factory.mktemp("page") / "index.html"
    file.write_text(page_of(filters), encoding="utf-8")
    browser.get(f"file://{file}")
    script = "return document.documentElement.dataset.ready === 'true'"
    WebDriverWait(browser, 180).until(lambda driver: driver.execute_script(script))
    return browser


@pytest.fixture
def opened(drawn):
    """The page as it is at first; afterwards, no error may have been told."""
    drawn.execute_script(
        "byId('colour').value = 'group'; byId('order').value = 0; recolour();"
        "if (group !== null) chooseGroup(group); show(0, true);"
        "byId('search').value = ''; document.activeElement.blur()"
    )
    yield drawn
    severe = [line for line in drawn.get_log("browser") if line["level"] == "SEVERE"]
    assert [line for line in severe if "example.org" not in line["message"]] == []


def shown(driver):
    """Title, drawn curve and statistics of the node that is shown."""
    return driver.execute_script(
        "return [byId('node-title').textContent,"
        " Array.from(byId('curve').data.at(-1).y), byId('statistics').innerText]"
    )


def colours_of(driver, name="color"):
    value = driver.execute_script(f"return byId('graph').data[1].marker.{name}")
    return value if isinstance(value, list) else [value] * 60


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
def test_the_page_is_offline(opened):
    resources = "return performance.getEntriesByType('resource').map((e) => e.name)"
    assert [
        name for name in opened.execute_script(resources) if "file:" not in name
    ] == []
    blocked = "return fetch('https://example.org').then(() => 'open', () => 'blocked')"
    assert opened.execute_script(blocked) == "blocked"


@pytest.mark.slow
def test_a_curve_leads_to_its_nodes(opened):
    """Node and curve of a group have one colour; its button leaves its nodes alone."""
    curves = opened.execute_script(
        "return byId('curve').data.slice(0, 3).map((trace) => trace.line.color)"
    )
    assert colours_of(opened) == [curves[group] for group in CLUSTER]
    buttons = opened.find_elements("css selector", "#legend button")
    assert [button.text for button in buttons] == [
        f"group {i}: 20 nodes" for i in range(3)
    ]
    buttons[1].click()
    assert [value == 1 for value in colours_of(opened, "opacity")] == list(CLUSTER == 1)
    widths = "return byId('curve').data.slice(0, 3).map((trace) => trace.line.width)"
    assert np.argmax(opened.execute_script(widths)) == 1
    assert buttons[1].get_attribute("aria-pressed") == "true"
    buttons[1].click()
    assert set(colours_of(opened, "opacity")) == {1}


@pytest.mark.slow
def test_every_number_is_explained_on_hover_and_focus(opened):
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import WebDriverWait

    # every cell, fact, curve and label that is not a control or a node
    unexplained = opened.execute_script(
        "return [...document.querySelectorAll("
        "'tr, #model > *, #legend > *, label > span, h2 > span, .term')]"
        ".filter((element) => !element.closest('[data-tip]')?.dataset.tip)"
        ".map((element) => element.textContent)"
    )
    assert unexplained == []
    assert len(opened.find_elements("css selector", "tr")) == 3 + 16
    tip = opened.find_element("id", "tip")
    row = opened.find_element("css selector", "#whole tr")
    ActionChains(opened).move_to_element(row).perform()
    WebDriverWait(opened, 60).until(lambda _: tip.text == "Nodes of the graph.")
    opened.execute_script("window.scrollBy(0, 1)")  # it moves along, and stays
    opened.execute_async_script("requestAnimationFrame(() => setTimeout(arguments[0]))")
    assert tip.text == "Nodes of the graph."
    ActionChains(opened).send_keys(Keys.ESCAPE).perform()
    WebDriverWait(opened, 20).until(lambda _: not tip.is_displayed())
    term = opened.find_element("css selector", "#model .term")
    opened.execute_script("arguments[0].focus()", term)
    meaning = "Share of the validation nodes"
    WebDriverWait(opened, 20).until(lambda _: tip.text.startswith(meaning))
    assert term.get_attribute("aria-describedby") == "tip"


@pytest.mark.slow
def test_the_slider_recolours_and_keys_work(opened, filters):
    from selenium.webdriver.common.keys import Keys

    assert colours_of(opened)[0].startswith("#")
    slider = opened.find_element("id", "order")
    for order in (1, 2):
        slider.send_keys(Keys.ARROW_RIGHT)
        np.testing.assert_allclose(colours_of(opened), filters.theta[order], rtol=1e-4)
        assert f"order {order}" in opened.find_element("id", "caption").text
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
def test_a_phone_has_no_sideways_scroll_and_legible_text(opened):
    from selenium.webdriver.support.ui import WebDriverWait

    narrow = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    command = "Emulation.setDeviceMetricsOverride"
    opened.execute_cdp_cmd(command, narrow)
    try:
        width = "return document.documentElement.scrollWidth"
        assert opened.execute_script(width) <= 390
        drawn = (
            "return Math.max(byId('graph')._fullLayout.width,"
            " byId('curve')._fullLayout.width)"
        )
        WebDriverWait(opened, 20).until(lambda page: page.execute_script(drawn) <= 390)
        sizes = opened.execute_script(
            "return [...document.querySelectorAll('body *')]"
            ".filter((element) => element.getClientRects().length"
            " && !element.closest('svg') && element.textContent.trim())"
            ".map((element) => parseFloat(getComputedStyle(element).fontSize))"
        )
        assert min(sizes) >= 12
    finally:
        opened.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.slow
def test_light_and_dark(opened):
    ground = "return getComputedStyle(document.body).backgroundColor"
    before = opened.execute_script(ground)
    opened.find_element("id", "theme").click()
    assert opened.execute_script(ground) != before
    assert opened.execute_script("return byId('curve').layout.font.color") == (
        opened.execute_script("return css('--text')")
    )
    opened.find_element("id", "theme").click()
    assert opened.execute_script(ground) == before
