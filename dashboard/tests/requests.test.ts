import assert from "node:assert/strict";
import { once } from "node:events";
import { get, type IncomingMessage } from "node:http";
import { test } from "node:test";
import { fits, isAccessible } from "./browser";
import { HOSTILE, isRecorded, request } from "./gateway";
import { site } from "./site";

const it = site();

/** What `HOSTILE` looks like. */
const SHOWN = "<img src=x onerror=alert(1)>\\u{202e}gnp.exe\\u{200b} end";

/** Makes a request, and returns its id once it is recorded. */
async function id(path: string, options: Parameters<typeof request>[2] = {}): Promise<string> {
  const { headers } = await request(it.gateway.listener, path, options);
  const id = String(headers["x-request-id"]);
  await isRecorded(it.gateway, id);
  return id;
}

test("a request is found by its id, with its phases and what was decided", async () => {
  const ids = [await id("/flaky/1?page=2&token=secret"), await id("/flaky/2"), await id("/flaky/3")];
  await it.visit("#/requests", async (page) => {
    let retried = false;
    for (const id of ids) {
      await page.goto(`${it.base}/dashboard/#/requests`);
      await page.getByLabel("Request id").fill(id);
      await page.getByRole("button", { name: "Find", exact: true }).click();
      await page.getByRole("heading", { name: `Request ${id}` }).waitFor();
      const phases = page.getByRole("list", { name: "Phases" });
      await phases.getByText("passing the response on").waitFor();
      retried ||= (await phases.getByText("attempt 2, retry, waiting").count()) === 1;
      await page.getByRole("list", { name: "Decisions" }).getByText("route `flaky` takes the request").waitFor();
    }
    assert.ok(retried, "one of three went to the endpoint that refuses connections first");
    await isAccessible(page, "a request");
  });
});

test("attempts are drawn as they began, also where the first one has decided", async () => {
  const found = await id("/search/x");
  await it.visit("#/requests", async (page) => {
    await page.route(`**/recorder/${found}`, async (route) => {
      const response = await route.fetch();
      const exchange = await response.json();
      const [first] = exchange.tried;
      const hedge = { ...first, kind: "hedge", began_ms: first.began_ms + 2, took_ms: 1, head_ms: undefined };
      await route.fulfill({ response, json: { ...exchange, tried: [hedge, first] } });
    });
    await page.goto(`${it.base}/dashboard/#/requests/${found}`);
    const phases = page.getByRole("list", { name: "Phases" });
    await phases.getByText("passing the response on").waitFor();
    const waiting = await phases.getByText(/, waiting$/).allTextContents();
    assert.deepEqual(waiting, ["attempt 1, waiting", "attempt 2, hedge, waiting"]);
  });
});

for (const [width, scheme] of [
  [375, "light"],
  [2560, "dark"],
] as const) {
  test(`what is recorded can be read at ${width} px, ${scheme}`, async () => {
    const found = await id("/flaky/1");
    await it.visit(
      `#/requests/${found}`,
      async (page) => {
        await page.getByRole("list", { name: "Decisions" }).waitFor();
        await isAccessible(page, "a request");
        await fits(page, "a request");
        await page.goto(`${it.base}/dashboard/#/requests`);
        await page.getByRole("table", { name: "Requests" }).waitFor();
        await isAccessible(page, "requests");
      },
      { width, scheme },
    );
  });
}

test("a request without a head that could be read says so", async () => {
  const { statusCode, headers } = await malformed();
  assert.equal(statusCode, 400);
  await it.visit(`#/requests/${String(headers["x-request-id"])}`, async (page) => {
    await page.locator("p.target").getByText("no request head").waitFor();
    await page.getByLabel("Request head").getByText("Not recorded.").waitFor();
    await page.goto(`${it.base}/dashboard/#/requests?status=400`);
    const row = page.getByRole("table", { name: "Requests" }).getByRole("rowheader", { name: "no request head" });
    await row.first().waitFor();
    await isAccessible(page, "a request without a head");
  });
});

test("a connection without HTTP says that it is one", async () => {
  const [host, port] = it.gateway.raw.split(":");
  // What is in it is nobody's business: a service may speak HTTP there as well.
  const { status } = await request(`${host}:${port}`, "/", { agent: false, headers: { Connection: "close" } });
  assert.equal(status, 200);
  await it.visit("#/requests?route=*", async (page) => {
    const row = page.getByRole("table", { name: "Requests" }).getByRole("row").filter({ hasText: "TCP connection" });
    await row.first().getByText("closed").waitFor();
    await isAccessible(page, "a connection without HTTP");
  });
});

/** The response to a request with two hosts. */
async function malformed(): Promise<IncomingMessage> {
  const [host, port] = it.gateway.listener.split(":");
  const headers = ["Host", "a", "Host", "b"];
  const [response] = (await once(get({ host, port, headers }), "response")) as [IncomingMessage];
  response.resume();
  return response;
}

test("one that is not recorded says so, and why", async () => {
  await it.visit("#/requests/missing", async (page) => {
    await page.getByRole("alert").getByText("no such exchange is recorded").waitFor();
  });
});

test("what clients and services send is shown as text, never obeyed", async () => {
  const found = await id("/shop/%3Cb%3E?q=%1b[31m", { headers: { "User-Agent": HOSTILE, Referer: HOSTILE } });
  await it.visit(`#/requests/${found}`, async (page) => {
    const values = page.locator("dl.head dd").filter({ hasText: "<img src=x" });
    await values.first().waitFor();
    assert.ok((await values.count()) >= 2, "in both heads");
    for (const value of await values.all()) {
      assert.equal(await value.textContent(), SHOWN);
      assert.equal(await value.locator("bdi").count(), 1, "it is isolated");
    }
    await page.goto(`${it.base}/dashboard/#/requests?path=/shop/%253Cb`);
    await page.getByRole("table", { name: "Requests" }).waitFor();
    assert.equal(await page.locator("#page img").count(), 0);
    assert.ok(!/[\u001b\u202e\u200b]/.test(await page.evaluate(() => document.documentElement.outerHTML)));
  });
});

test("a head that is too long to be kept says so", async () => {
  const found = await id("/health", { headers: { "X-Long": "x".repeat(13_000) } });
  await it.visit(`#/requests/${found}`, async (page) => {
    await page.getByLabel("Request head").getByText("… 1 field is cut off").waitFor();
    assert.equal(await page.getByLabel("Response head").getByText("cut off").count(), 0);
  });
});

test("the beginning of bodies is shown as text, line by line", async () => {
  const hostile = "<img src=x onerror=alert(1)>\u202e\u001b[31m";
  const body = `{\n\t"a": "${hostile}",\r\n${"b".repeat(100)}\n}\n`;
  await it.visit(`#/requests/${await id("/flaky/1", { method: "POST", body })}`, async (page) => {
    const sent = page.getByRole("region", { name: "Request body, its beginning" });
    await sent.waitFor();
    const start = '{\n    "a": "<img src=x onerror=alert(1)>\\u{202e}\\u{1b}[31m",\nb';
    assert.ok((await sent.textContent())!.startsWith(start), (await sent.textContent())!);
    await page.getByText(/the first 100 of \d+ bytes/).waitFor();
    const got = page.getByRole("region", { name: "Response body, its beginning" });
    assert.match((await got.textContent())!, /^127\.0\.0\.1:\d+\n$/);
    assert.equal(await page.locator("#page img").count(), 0);
    await isAccessible(page, "bodies");
  });
  await it.visit(
    `#/requests/${await id("/flaky/2", { method: "POST", body: "\0\u0001\u0002ab" })}`,
    async (page) => {
      await page.getByText("5 bytes, in base64").waitFor();
      await fits(page, "bodies");
    },
    { width: 375 },
  );
  await it.visit(`#/requests/${await id("/shop/1")}`, async (page) => {
    await page.getByRole("list", { name: "Decisions" }).waitFor();
    assert.equal(await page.locator("pre.body").count(), 0, "its route has none kept");
  });
});

test("no secret is on the page", async () => {
  const headers = { Authorization: "Bearer s3cret-a", Cookie: "session=s3cret-b" };
  const found = await id("/shop/a?token=s3cret-c", { headers });
  await it.visit(`#/requests/${found}`, async (page) => {
    await page.getByRole("list", { name: "Decisions" }).waitFor();
    assert.ok(!(await page.content()).includes("s3cret"));
  });
});

test("filters are in the address, and a list is found by them", async () => {
  await it.visit("#/requests", async (page) => {
    await page.getByLabel("Route").fill("search");
    await page.getByLabel("Status").fill("2xx");
    await page.getByRole("button", { name: "Filter", exact: true }).click();
    await page.waitForURL(/route=search&status=2xx/);
    const routes = page.locator("table.requests td[data-label=Route]");
    await routes.first().waitFor();
    await page.waitForFunction(() =>
      [...document.querySelectorAll("td[data-label=Route]")].every((it) => it.textContent === "search"),
    );
    await page.reload();
    assert.equal(await page.getByLabel("Status").inputValue(), "2xx");
    await page.getByLabel("Status").fill("7xx!");
    await page.getByRole("button", { name: "Filter", exact: true }).click();
    await page.getByRole("alert").getByText("`status`").waitFor();
    await page.getByRole("button", { name: "Clear", exact: true }).click();
    await page.getByLabel("Slower than").fill("3600");
    await page.getByRole("button", { name: "Filter", exact: true }).click();
    await page.getByText("No request that is recorded fits").waitFor();
  });
});

test("the tap shows what ends now, waits during a pause, and keeps 500", async () => {
  await it.visit("#/requests", async (page) => {
    await page.getByRole("button", { name: "Live", exact: true }).click();
    const rows = page.locator("table.requests tbody tr");
    await page.waitForFunction(() => document.querySelectorAll("table.requests tbody tr").length > 20);
    await page.getByRole("button", { name: "Pause" }).click();
    // Rows are drawn until it says so.
    await page.getByText(/paused; \d+ came since/).waitFor();
    const [count, first] = [await rows.count(), await rows.first().textContent()];
    await page.getByText(/paused; \d\d+ came since/).waitFor();
    assert.deepEqual([await rows.count(), await rows.first().textContent()], [count, first]);
    await isAccessible(page, "the tap");
    await page.getByRole("button", { name: "Pause" }).click();
    await page.waitForFunction(() => document.querySelectorAll("table.requests tbody tr").length === 500);
    // The next ones push others out.
    const newest = await rows.first().textContent();
    await page.waitForFunction((newest) => document.querySelector("table.requests tbody tr")?.textContent !== newest, newest);
    assert.equal(await rows.count(), 500);
    await page.getByRole("button", { name: "Clear the list" }).click();
  });
});

test("the configuration in force is asked what it would do", async () => {
  await it.visit("#/configuration/explain", async (page) => {
    await page.getByLabel("Address").fill("http://a.example/shop/1");
    await page.getByLabel(/Header fields/).fill("no field");
    await page.getByRole("button", { name: "Explain" }).click();
    await page.getByRole("alert").getByText("“no field” is no header field").waitFor();
    await page.getByLabel(/Header fields/).fill("X-A: 1");
    await page.getByRole("button", { name: "Explain" }).click();
    await page
      .getByLabel("Explanation")
      .getByText(/route\s+shop, line \d+: \/shop\/…/)
      .waitFor();
    assert.ok(!page.url().includes("X-A"));
    await page.getByLabel("Address").fill("nowhere");
    await page.getByRole("button", { name: "Explain" }).click();
    await page.getByRole("alert").getByText("`nowhere` is neither an absolute URL").waitFor();
  });
});
