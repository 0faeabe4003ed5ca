import assert from "node:assert/strict";
import { test } from "node:test";
import { fits, hasFocus, isAccessible } from "./browser";
import { whileItFails } from "./gateway";
import { site } from "./site";

const it = site();

/** Every page, and what is there when it has loaded. */
const PAGES: [string, string, string][] = [
  ["now", "#/now", ".chart >> nth=2"],
  ["routes", "#/routes", "role=rowheader[name=shop]"],
  ["upstreams", "#/upstreams", "role=rowheader[name=shop]"],
  ["an upstream", "#/upstreams/shop", "role=button[name=/^Drain/] >> nth=1"],
  ["an upstream with a breaker", "#/upstreams/legacy", "role=region[name='Circuit breaker']"],
  ["requests", "#/requests?route=legacy&since=60", "role=table[name=Requests]"],
  ["the file", "#/configuration/file?find=endpoints&line=19", ".line.marked"],
  ["the history", "#/configuration/history", "role=table[name=History]"],
  ["certificates", "#/configuration/certificates", "role=table[name=Certificates]"],
  ["explain", "#/configuration/explain", "role=button[name=Explain]"],
  ["no page", "#/nothing", "text=There is no such page"],
];

for (const scheme of ["light", "dark"] as const) {
  test(`everybody can read and use every page, ${scheme}`, async () => {
    await it.visit(
      "",
      async (page) => {
        for (const [name, hash, there] of PAGES) {
          await page.goto(`${it.base}/dashboard/${hash}`);
          await page.locator(there).waitFor();
          await isAccessible(page, `${name}, ${scheme}`);
        }
      },
      { scheme },
    );
  });
}

for (const width of [375, 2560]) {
  test(`every page fits into ${width} px`, async () => {
    await it.visit(
      "",
      async (page) => {
        for (const [name, hash, there] of PAGES) {
          await page.goto(`${it.base}/dashboard/${hash}`);
          await page.locator(there).waitFor();
          await fits(page, name);
        }
        if (width === 375) await isAccessible(page, "narrow");
      },
      { width },
    );
  });
}

test("figures change by themselves, and nothing moves", async () => {
  await it.visit("#/now", async (page) => {
    await page.locator(".chart >> nth=2").waitFor();
    await page.locator(".link.live").waitFor();
    // Beside each other: what is wrong stands above all, and may come or go meanwhile.
    const places = () =>
      page.evaluate(() => {
        const boxes = [...document.querySelectorAll(".tile, .chart, .plot, .heading, table")].map((it) =>
          it.getBoundingClientRect(),
        );
        return boxes.map(({ x, y, width, height }) => [x, y - boxes[0]!.y, width, height]);
      });
    const rate = page.locator(".tile dd").first();
    const [before, text] = [await places(), await rate.textContent()];
    await page.waitForFunction((text) => document.querySelector(".tile dd")?.textContent !== text, text);
    assert.deepEqual(await places(), before);
  });
});

test("charts have a text, a table, and follow the arrow keys", async () => {
  await it.visit("#/now", async (page) => {
    const chart = page.getByRole("img", { name: /^Requests, requests a second\. requests: .*\/s now, between/ });
    await chart.focus();
    const time = page.locator(".chart time").first();
    await page.keyboard.press("Home");
    await page.keyboard.press("ArrowRight");
    const first = await time.textContent();
    await page.keyboard.press("PageDown");
    // All charts show the same moment.
    await page.waitForFunction((first) => {
      const moments = [...document.querySelectorAll(".chart time")].map((it) => it.textContent);
      return moments[0] !== first && moments.every((moment) => moment === moments[0]);
    }, first);
    await page.locator(".as-table summary").first().click();
    await page.getByRole("region", { name: "Requests as a table" }).getByRole("row").nth(11).waitFor();
  });
});

test("a window and a route are in the address, and a part can be looked at closely", async () => {
  await it.visit("#/now", async (page) => {
    await page.getByRole("button", { name: "1 h", exact: true }).click();
    await page.getByRole("combobox", { name: "Route" }).selectOption("shop");
    await page.waitForURL(/window=3600.*route=shop/);
    await page.reload();
    await page.locator(".chart >> nth=2").waitFor();
    assert.equal(await page.getByRole("button", { name: "1 h", exact: true }).getAttribute("aria-pressed"), "true");
    const box = (await page.locator(".u-over").first().boundingBox())!;
    await page.mouse.move(box.x + box.width * 0.4, box.y + 40);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.6, box.y + 40, { steps: 4 });
    await page.mouse.up();
    await page.getByRole("button", { name: "Whole window" }).click();
  });
});

test("what is wrong is a sentence with a way to more of it", async () => {
  const service = it.gateway.services[1]!;
  await whileItFails(it.gateway, "shop", service, () =>
    it.visit("#/now", async (page) => {
      const problem = page.getByRole("listitem").filter({ hasText: /shop.*1 of 2 endpoints/ });
      await problem.waitFor();
      const [one, none] = await page.evaluate(() => {
        const section = document.querySelector(".problems")!;
        const heightWith = (child: string) => {
          const copy = section.cloneNode() as Element;
          copy.innerHTML = child;
          section.after(copy);
          const { height } = copy.getBoundingClientRect();
          copy.remove();
          return height;
        };
        return [heightWith("<ul><li>It is.</li></ul>"), heightWith('<p class="calm">It is not.</p>')];
      });
      assert.equal(one, none, "one problem is as high as none");
      await problem.getByRole("link", { name: /^Look/ }).click();
      await page.getByRole("heading", { name: "shop", level: 1 }).waitFor();
      await page.getByText("1 of 2 healthy").waitFor();
    }),
  );
});

test("without a stream figures are asked for, and without a gateway the page says so", async () => {
  await it.visit("", async (page) => {
    await page.locator(".link.live").waitFor();
    await page.route("**/figures/live", (route) => route.abort());
    await page.reload();
    await page.getByText("No stream: every 5 s").waitFor();
    await page.locator(".tile dd").filter({ hasText: "/s" }).waitFor();
    await page.route(/\/figures[/?]/, (route) => route.abort());
    await page.getByText(/No connection for \d+/).waitFor();
    await page.getByText("not up to date").waitFor();
    await isAccessible(page, "without a gateway");
    await page.unroute(/\/figures[/?]/);
    await page.unroute("**/figures/live");
    await page.locator(".link.live").waitFor();
  });
});

test("colours and the zone of times are the reader's choice, and are kept", async () => {
  await it.visit("#/configuration/history", async (page) => {
    const light = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const isDark = () => page.waitForFunction((light) => getComputedStyle(document.body).backgroundColor !== light, light);
    await page.getByLabel("Colours").selectOption("dark");
    await isDark();
    assert.match((await page.getByLabel("Times in").locator("option").first().textContent())!, /^Europe\/Berlin, UTC\+[12]$/);
    const time = page.locator("tbody time").first();
    const local = await time.textContent();
    await page.getByLabel("Times in").selectOption("utc");
    await page.waitForFunction((local) => document.querySelector("tbody time")?.textContent !== local, local);
    await page.reload();
    await time.waitFor();
    await isDark();
    assert.equal(await page.getByLabel("Times in").inputValue(), "utc");
  });
});

test("the keyboard reaches the content at once, and sees where it is", async () => {
  await it.visit("#/routes", async (page) => {
    await page.locator("role=rowheader[name=shop]").waitFor();
    await page.evaluate(() => (document.activeElement as HTMLElement | null)?.blur());
    await page.keyboard.press("Tab");
    assert.equal(await page.evaluate(() => document.activeElement?.textContent), "Skip to the content");
    await page.keyboard.press("Enter");
    await hasFocus(page, "content");
    await page.keyboard.press("Tab");
    assert.equal(await page.evaluate(() => getComputedStyle(document.activeElement!).outlineStyle), "solid");
  });
});

test("a link leads on where the content of its page begins", async () => {
  await it.visit("#/upstreams", async (page) => {
    await page.getByRole("link", { name: "shop" }).focus();
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "shop", level: 1 }).waitFor();
    await hasFocus(page, "content");
    await page.waitForFunction(() => document.title === "shop · Titan");
    await page.goBack();
    await page.getByRole("heading", { name: "Upstreams", level: 1 }).waitFor();
  });
});

test("tables are sorted by any column, which the address keeps", async () => {
  await it.visit("#/routes", async (page) => {
    const names = async () => (await page.locator("tbody th").allTextContents()).filter((name) => name !== "(none)");
    await page.getByRole("button", { name: "Route", exact: true }).click();
    await page.locator("th[aria-sort=ascending]").waitFor();
    assert.deepEqual(await names(), ["flaky", "health", "legacy", "search", "shop"]);
    await page.getByRole("button", { name: "Route", exact: true }).click();
    await page.locator("th[aria-sort=descending]").waitFor();
    assert.deepEqual(await names(), ["shop", "search", "legacy", "health", "flaky"]);
    await page.reload();
    await page.locator("th[aria-sort=descending]").waitFor();
    assert.deepEqual(await names(), ["shop", "search", "legacy", "health", "flaky"]);
  });
});

test("a page that stays open does not grow", async () => {
  await it.visit("#/now", async (page) => {
    await page.locator(".link.live").waitFor();
    const now = await page.evaluate(async () => (await (await fetch("/figures/now")).json()) as { at: number; rate: number });
    const events = (count: number) =>
      Array.from({ length: count }, (_, index) => `event: now\ndata: ${JSON.stringify({ ...now, rate: index })}\n\n`).join("");
    const devtools = await page.context().newCDPSession(page);
    await devtools.send("Performance.enable");
    const measure = async () => {
      await devtools.send("HeapProfiler.collectGarbage");
      const { metrics } = await devtools.send("Performance.getMetrics");
      const of = (name: string) => metrics.find((it) => it.name === name)!.value;
      return { nodes: of("Nodes"), listeners: of("JSEventListeners"), heap: of("JSHeapUsedSize") };
    };
    /** A stream that says so much at once, and ends. */
    const hears = async (count: number) => {
      await page.route("**/figures/live", (route) => route.fulfill({ contentType: "text/event-stream", body: events(count) }));
      await page.reload();
      // It ends behind all events.
      await page.locator(".link.polling").waitFor();
      await page.locator(".chart >> nth=2").waitFor();
      return measure();
    };
    const few = await hears(10);
    const many = await hears(3001);
    assert.ok(many.nodes <= few.nodes * 1.2 + 100, `${few.nodes} nodes became ${many.nodes}`);
    assert.ok(many.listeners <= few.listeners * 1.2 + 20, `${few.listeners} listeners became ${many.listeners}`);
    assert.ok(many.heap <= few.heap * 1.5 + 2e6, `${few.heap} bytes became ${many.heap}`);
  });
});
