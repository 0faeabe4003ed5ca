// What each file of tests has: a gateway under traffic, a browser, and pages that must not complain.

import assert from "node:assert/strict";
import { after, before } from "node:test";
import type { Browser, Cookie, Page } from "playwright-core";
import { type Look, browser, open, signIn } from "./browser";
import { type Gateway, type Traffic, gateway, traffic } from "./gateway";

export interface Site {
  gateway: Gateway;
  traffic: Traffic;
  base: string;
  /** Opens a page as somebody, has it looked at, and closes it. */
  visit: (hash: string, look: (page: Page) => Promise<void>, how?: Look & { as?: "ops" | "viewer" }) => Promise<void>;
  /** Opens a page as nobody. */
  visitAsNobody: (hash: string, look: (page: Page) => Promise<void>) => Promise<void>;
}

export function site(): Site {
  const made = {} as Site;
  let chrome: Browser;
  before(async () => {
    made.gateway = await gateway();
    chrome = await browser();
    made.base = made.gateway.admin;
    made.traffic = traffic(made.gateway.listener, ["/shop/a", "/search/x", "/legacy/1", "/health"]);
  });
  after(async () => {
    await chrome?.close();
    await made.traffic?.stop();
    await made.gateway?.stop();
  });
  const with_page = async (how: Look, look: (page: Page) => Promise<void>) => {
    const { page, complaints, close } = await open(chrome, how);
    try {
      await look(page);
      assert.deepEqual(complaints.filter(isUnexpected), [], "the browser's console");
    } catch (error) {
      await page.screenshot({ path: "build/failed.png" }).catch(() => {});
      throw error;
    } finally {
      await close();
    }
  };
  /** Signing in has tests of its own: the others take the cookie of whoever has signed in before. */
  const cookies = new Map<string, Cookie[]>();
  made.visit = (hash, look, { as = "ops", ...how } = {}) =>
    with_page(how, async (page) => {
      const known = cookies.get(as);
      if (known) {
        await page.context().addCookies(known);
        await page.goto(`${made.base}/dashboard/${hash}`);
        await page.getByRole("navigation", { name: "Pages" }).waitFor();
      } else {
        await signIn(page, made.base, made.gateway.tokens[as], hash);
        cookies.set(as, await page.context().cookies());
      }
      await look(page);
    });
  made.visitAsNobody = (hash, look) =>
    with_page({}, async (page) => {
      await page.goto(`${made.base}/dashboard/${hash}`);
      await look(page);
    });
  return made;
}

/** A browser tells of every response that refuses something, and of calls that a test keeps from the gateway. */
const isUnexpected = (complaint: string) =>
  !/^Failed to load resource: (net::ERR_FAILED|the server responded with a status of (400|401|403|404|409|422|503))/.test(
    complaint,
  );
