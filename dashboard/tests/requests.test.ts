import assert from "node:assert/strict";
import { test } from "node:test";
import { fits, isAccessible } from "./browser";
import { site } from "./site";

const it = site(true);

test("a request has its phases and its decisions", async () => {
  await it.visit("#/requests", async (page) => {
    await page.getByLabel("Request id").fill("0198f3c2-d1");
    await page.getByRole("button", { name: "Find", exact: true }).click();
    await page.getByRole("heading", { name: "Request 0198f3c2-d1" }).waitFor();
    for (const phase of ["policies", "connecting", "waiting for the response"]) {
      await page.getByRole("list", { name: "Phases" }).getByText(phase, { exact: true }).waitFor();
    }
    assert.ok((await page.getByRole("list", { name: "Decisions" }).getByRole("listitem").count()) > 3);
    await isAccessible(page, "a request");
    await page.getByText(/^[0-9a-f]{32}$/).waitFor();
  });
});

for (const [width, scheme] of [
  [1280, "light"],
  [1280, "dark"],
  [375, "light"],
] as const) {
  test(`everybody can read what is recorded, ${width} px, ${scheme}`, async () => {
    await it.visit(
      "#/requests",
      async (page) => {
        await page.getByRole("table", { name: "Requests" }).waitFor();
        await isAccessible(page, "requests");
        await fits(page, "requests");
        await page.goto(`${it.base}/dashboard/#/requests/0198f3c2-d1`);
        await page.getByRole("list", { name: "Decisions" }).waitFor();
        await isAccessible(page, "a request");
        await fits(page, "a request");
      },
      { width, scheme },
    );
  });
}

test("one that is not recorded any more says so", async () => {
  await it.visit("#/requests/missing", async (page) => {
    await page.getByRole("alert").getByText("no request with the id").waitFor();
  });
});

test("what clients send is shown as text, never obeyed", async () => {
  await it.visit("#/requests/0198f3c2-d1", async (page) => {
    const value = page.locator("dl.head dd").filter({ hasText: "<img src=x onerror=alert(1)>" }).first();
    await value.waitFor();
    assert.equal(await value.textContent(), "<img src=x onerror=alert(1)>\\u{1b}[31mred\\u{202e}gnp.exe\\u{200b} \\u{0}end");
    assert.equal(await page.locator("#page img").count(), 0);
    assert.ok((await value.locator("bdi").count()) === 1, "it is isolated");
    assert.ok(!/[\u001b\u202e\u200b]/.test(await page.evaluate(() => document.documentElement.outerHTML)));
  });
});

test("filters are in the address, and a list is found by them", async () => {
  await it.visit("#/requests", async (page) => {
    await page.getByLabel("Status").fill("5xx");
    await page.getByLabel("Route").fill("shop");
    const asked = page.waitForRequest((request) => request.url().includes("/recorder?"));
    await page.getByRole("button", { name: "Filter", exact: true }).click();
    assert.match((await asked).url(), /route=shop&status=5xx&limit=100$/);
    assert.match(page.url(), /route=shop&status=5xx/);
    await page.reload();
    assert.equal(await page.getByLabel("Status").inputValue(), "5xx");
    const failed = page.waitForRequest((request) => request.url().includes("failed=true"));
    await page.getByLabel("Failed only").check();
    await failed;
    await page.getByRole("button", { name: "Clear", exact: true }).click();
    assert.ok(!page.url().includes("route"));
  });
});

test("the tap shows what ends now, waits during a pause, and keeps 500", async () => {
  await it.visit("#/requests", async (page) => {
    await page.getByRole("button", { name: "Live", exact: true }).click();
    const rows = page.locator("table.requests tbody tr");
    await page.waitForFunction(() => document.querySelectorAll("table.requests tbody tr").length > 20);
    await page.getByRole("button", { name: "Pause" }).click();
    const [count, first] = [await rows.count(), await rows.first().textContent()];
    await page.getByText(/paused; \d\d+ came since/).waitFor();
    assert.deepEqual([await rows.count(), await rows.first().textContent()], [count, first]);
    await isAccessible(page, "the tap");
    await page.getByRole("button", { name: "Pause" }).click();
    await page.waitForFunction(() => document.querySelectorAll("table.requests tbody tr").length === 500);
    assert.equal(await rows.count(), 500);
    await page.getByRole("button", { name: "Clear the list" }).click();
  });
});

test("a configuration is asked what it would do", async () => {
  await it.visit("#/configuration/explain", async (page) => {
    await page.getByLabel("Address").fill("http://a.example/shop/1");
    await page.getByLabel(/Header fields/).fill("no field");
    await page.getByRole("button", { name: "Explain" }).click();
    await page.getByRole("alert").getByText("“no field” is no header field").waitFor();
    await page.getByLabel(/Header fields/).fill("X-A: 1");
    const asked = page.waitForRequest("**/explain");
    await page.getByRole("button", { name: "Explain" }).click();
    const sent = (await asked).postDataJSON();
    assert.deepEqual(sent, { method: "GET", url: "http://a.example/shop/1", headers: [["X-A", "1"]] });
    await page
      .getByLabel("Explanation")
      .getByText(/route\s+shop, line \d+: \/shop\/…/)
      .waitFor();
    assert.ok(!page.url().includes("X-A"));
  });
});
