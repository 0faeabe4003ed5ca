import assert from "node:assert/strict";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { isAccessible } from "./browser";
import { call, whileItFails } from "./gateway";
import { site } from "./site";

const it = site();

/** The dialog that asks, with the call that it will make. */
async function asks(page: Page, title: string | RegExp, call: string): Promise<void> {
  const dialog = page.getByRole("dialog", { name: title });
  await dialog.waitFor();
  assert.equal(await dialog.getByLabel("The call", { exact: true }).textContent(), call);
}

const confirms = (page: Page, verb: string) => page.getByRole("dialog").getByRole("button", { name: verb, exact: true }).click();

test("an endpoint is drained and restored, and the log has who did it", async () => {
  await it.visit("#/upstreams/shop", async (page) => {
    const { address } = it.gateway.services[0]!;
    const endpoint = page.locator(".endpoints > li").filter({ hasText: address });
    await page.getByRole("button", { name: `Drain ${address}` }).click();
    await page.getByRole("combobox", { name: "For" }).selectOption("1h");
    await asks(
      page,
      `Drain ${address}?`,
      `POST /upstreams/shop\nContent-Type: application/json\n\n{"action":"drain","endpoint":"${address}","for":"1h"}`,
    );
    await isAccessible(page, "the dialog");
    await confirms(page, "Drain");
    await page.getByRole("status").filter({ hasText: "done" }).waitFor();
    await endpoint.getByText("draining: ").waitFor();
    await it.gateway.says(`POST /upstreams/shop: done (204): drain ${address} for 3600s`);
    await page.getByRole("button", { name: `Restore ${address}` }).click();
    await asks(
      page,
      `Restore ${address}?`,
      `POST /upstreams/shop\nContent-Type: application/json\n\n{"action":"restore","endpoint":"${address}"}`,
    );
    await confirms(page, "Restore");
    await endpoint.getByText("healthy").waitFor();
    await it.gateway.says(`restore ${address}`);
  });
});

test("nothing is done where the question is answered with no", async () => {
  await it.visit("#/upstreams/search", async (page) => {
    const { address } = it.gateway.services[2]!;
    const button = page.getByRole("button", { name: `Eject ${address}` });
    await button.click();
    // Until it is there, no key reaches it.
    await page.getByRole("dialog").waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    // It comes back after the dialog has gone.
    const focused = await button.elementHandle();
    await page.waitForFunction((it) => it === document.activeElement, focused);
    assert.ok(!it.gateway.lines.some((line) => line.includes(`eject ${address}`)));
  });
});

test("a breaker is opened, closed and released under traffic", async () => {
  await it.visit("#/upstreams/legacy", async (page) => {
    const breaker = page.getByRole("region", { name: "Circuit breaker" });
    await page.getByRole("button", { name: "Open breaker of the upstream" }).click();
    await asks(
      page,
      "Open the breaker of legacy?",
      'POST /upstreams/legacy\nContent-Type: application/json\n\n{"action":"open_breaker","for":"15m"}',
    );
    await confirms(page, "Open the breaker");
    await breaker.getByText("breaker open").waitFor();
    await breaker.getByText("because an operator wants it so").waitFor();
    await page.getByRole("button", { name: "Close breaker of the upstream" }).click();
    await confirms(page, "Close the breaker");
    await breaker.getByText("breaker closed").waitFor();
    await page.getByRole("button", { name: "Release breaker of the upstream" }).click();
    await confirms(page, "Release the breaker");
    await breaker.getByText("because an operator").waitFor({ state: "detached" });
  });
});

test("an endpoint that fails says why and since when", async () => {
  const service = it.gateway.services[1]!;
  await whileItFails(it.gateway, "shop", service, () =>
    it.visit("#/upstreams/shop", async (page) => {
      const endpoint = page.locator(".endpoints > li").filter({ hasText: service.address });
      await endpoint.getByText("ejected: ").waitFor();
      await endpoint.getByText(/\d responses in a row were errors, since \d\d:\d\d:\d\d/).waitFor();
    }),
  );
});

test("a refused order says why, and can be tried again", async () => {
  await it.visit("#/upstreams/shop", async (page) => {
    const { address } = it.gateway.services[0]!;
    await page.route("**/upstreams/shop", (route) =>
      route.request().method() === "POST"
        ? route.fulfill({
            status: 503,
            contentType: "application/problem+json",
            body: '{"detail":"too many orders wait <b>now</b>"}',
          })
        : route.continue(),
    );
    await page.getByRole("button", { name: `Eject ${address}` }).click();
    await confirms(page, "Eject");
    await page.getByRole("alert").getByText("too many orders wait <b>now</b>").waitFor();
    await page.getByRole("dialog").getByRole("button", { name: "Eject", exact: true, disabled: false }).waitFor();
  });
});

test("the file is reloaded, compared and rolled back", async () => {
  await it.visit("#/configuration/history", async (page) => {
    await page.getByRole("rowheader", { name: "What entry 1 changed" }).waitFor();
    it.gateway.write((text) => text.replace("path: /health,", "path: /healthy,").replace("rights: read", "rights: full"));
    await page.getByRole("button", { name: "Reload the file" }).click();
    await asks(page, /Read the configuration file again/, "POST /reload");
    await confirms(page, "Reload");
    await page.getByText("Entry 2 is in force").waitFor();
    await page.getByRole("heading", { name: "What entry 2 changed" }).waitFor();
    await page.getByRole("heading", { name: "routes.health" }).waitFor();
    await page.getByText("One thing becomes weaker").waitFor();
    await page.locator(".fields .weaker").getByText("weaker").waitFor();
    await isAccessible(page, "differences");
    await page.getByRole("button", { name: "Roll back to entry 1" }).click();
    await asks(page, "Roll back to entry 1?", "POST /rollback?id=1");
    await isAccessible(page, "the dialog of a way back");
    await confirms(page, "Roll back");
    await page.getByText("Entry 3 is in force").waitFor();
    await page.getByRole("row").filter({ hasText: "as entry 1" }).waitFor();
    await it.gateway.says("POST /rollback?id=1: done (200)");
  });
});

test("a line of the file can be found and sent to somebody", async () => {
  await it.visit("#/configuration/file", async (page) => {
    const find = page.getByLabel("Find in the configuration");
    await find.fill("endpoints:");
    await page.getByText("4 lines").waitFor();
    await find.press("Enter");
    await page.getByText("1 of 4").waitFor();
    await find.press("Enter");
    await page.getByText("2 of 4").waitFor();
    const line = await page.locator(".line.marked").textContent();
    assert.match(line!, /endpoints:/);
    await page.waitForURL(/find=endpoints%3A&line=\d+/);
    await page.reload();
    await page.getByText("2 of 4").waitFor();
    assert.equal(await page.locator(".line.marked").textContent(), line);
    await find.press("Shift+Enter");
    await page.getByText("1 of 4").waitFor();
    assert.ok(!(await page.locator(".file").textContent())!.includes(it.gateway.tokens.ops));
  });
});

test("certificates are listed with what is left of them", async () => {
  await it.visit("#/configuration/certificates", async (page) => {
    const row = page.getByRole("row").filter({ hasText: "localhost" });
    assert.match((await row.textContent())!, /127\.0\.0\.1.*secure.*39[56] days.*20\d\d-\d\d-\d\d \d\d:/);
  });
});

test("who may only read sees no buttons that change anything", async () => {
  await it.visit(
    "#/upstreams/shop",
    async (page) => {
      const words = /Drain|Eject|Restore|breaker…|Roll back|Reload|Confirm/;
      await page.locator(".endpoints > li").first().waitFor();
      assert.equal(await page.getByRole("button", { name: words }).count(), 0);
      await page.goto(`${it.base}/dashboard/#/configuration/history`);
      await page.getByRole("table", { name: "History" }).waitFor();
      assert.equal(await page.getByRole("button", { name: words }).count(), 0);
      await page.getByText("who may only read").waitFor();
      const refused = await page.evaluate(async () => {
        const { csrf } = (await (await fetch("/session")).json()) as { csrf: string };
        return (await fetch("/reload", { method: "POST", headers: { "X-CSRF-Token": csrf } })).status;
      });
      assert.equal(refused, 403);
    },
    { as: "viewer" },
  );
});

test("a wrong token is refused, a right one opens the page that was asked for", async () => {
  await it.visitAsNobody("#/upstreams/search", async (page) => {
    await page.getByLabel("Token", { exact: true }).fill("wrong");
    await isAccessible(page, "signing in");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("alert").getByText("not one that the gateway knows").waitFor();
    await page.getByLabel("Token", { exact: true }).fill(it.gateway.tokens.ops);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("heading", { name: "search", level: 1 }).waitFor();
    const [cookie] = await page.context().cookies();
    assert.deepEqual([cookie?.name, cookie?.httpOnly, cookie?.sameSite], ["titan_session", true, "Strict"]);
    assert.equal(await page.evaluate(() => document.cookie + JSON.stringify({ ...localStorage, ...sessionStorage })), "{}");
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByLabel("Token", { exact: true }).waitFor();
    assert.equal(await page.evaluate(async () => (await fetch("/session")).status), 401);
  });
});

test("a session without its CSRF token changes nothing", async () => {
  await it.visit("#/now", async (page) => {
    const refused = await page.evaluate(async () => (await fetch("/reload", { method: "POST" })).status);
    assert.equal(refused, 403);
  });
});

test("a session that has ended leads back to signing in", async () => {
  await it.visit("#/upstreams", async (page) => {
    await page.locator("role=rowheader[name=shop]").waitFor();
    await page.context().clearCookies();
    await page.getByLabel("Token", { exact: true }).waitFor();
  });
});

test("a trial is confirmed from any page", async () => {
  const { status, body } = await call(it.gateway, "PUT", "/config?confirm=5m&name=trial", it.gateway.text());
  assert.equal(status, 200, body);
  await it.visit("#/routes", async (page) => {
    const trial = page.getByRole("region", { name: "Trial" });
    await trial.getByText(/is taken back at \d\d:\d\d:\d\d, in \d\smin/).waitFor();
    await isAccessible(page, "a trial");
    await trial.getByRole("button", { name: "Confirm" }).click();
    await asks(page, /Confirm the configuration/, "POST /confirm");
    await confirms(page, "Confirm");
    await it.gateway.says("POST /confirm: done (200)");
    await trial.waitFor({ state: "detached" });
  });
});
