// Debian's chromium, and what every page has to keep.

import axe from "axe-core";
import assert from "node:assert/strict";
import { type Browser, type Page, chromium } from "playwright-core";

export async function browser(): Promise<Browser> {
  const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
  // Its sandbox needs what containers and root do not have; it only sees this page.
  return chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"] });
}

export interface Opened {
  page: Page;
  /** What the page has complained about. */
  complaints: string[];
  close: () => Promise<void>;
}

export interface Look {
  width?: number;
  height?: number;
  scheme?: "light" | "dark";
}

export async function open(browser: Browser, { width = 1280, height = 900, scheme = "light" }: Look = {}): Promise<Opened> {
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme: scheme,
    timezoneId: "Europe/Berlin",
    locale: "en-GB",
  });
  context.setDefaultTimeout(15_000);
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("dialog", (dialog) => {
    complaints.push(`a dialog of the browser: ${dialog.message()}`);
    void dialog.dismiss();
  });
  return { page, complaints, close: () => context.close() };
}

export async function signIn(page: Page, base: string, token: string, hash = ""): Promise<void> {
  await page.goto(`${base}/dashboard/${hash}`);
  await page.getByLabel("Token", { exact: true }).fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("navigation", { name: "Pages" }).waitFor();
}

/** Waits until the focus is on what has that id: it goes there after the page is drawn. */
export async function hasFocus(page: Page, id: string): Promise<void> {
  await page.waitForFunction((id) => document.activeElement?.id === id, id);
}

/** Nothing that keeps anybody from reading or using it, as far as axe-core finds. */
export async function isAccessible(page: Page, what: string): Promise<void> {
  await page.evaluate(axe.source);
  const violations = await page.evaluate(async () => {
    const run = (
      globalThis as unknown as {
        axe: {
          run: (
            options: object,
          ) => Promise<{ violations: { id: string; help: string; nodes: { html: string; failureSummary: string }[] }[] }>;
        };
      }
    ).axe;
    const { violations } = await run.run({ resultTypes: ["violations"] });
    return violations.map(
      ({ id, help, nodes }) =>
        `${id}: ${help}\n${nodes
          .slice(0, 3)
          .map((it) => `  ${it.html.slice(0, 200)}\n  ${it.failureSummary}`)
          .join("\n")}`,
    );
  });
  assert.deepEqual(violations, [], `axe-core, ${what}`);
}

/** The page is no wider than the window. */
export async function fits(page: Page, what: string): Promise<void> {
  const wide = await page.evaluate(() => {
    const most = document.documentElement.clientWidth;
    const beyond = [...document.querySelectorAll("body *")].filter(
      (it) => it.getBoundingClientRect().right > most + 1 && !it.closest(".file, .scroll, pre, .unseen, .uplot"),
    );
    return {
      scroll: document.documentElement.scrollWidth - most,
      beyond: beyond.slice(0, 5).map((it) => it.outerHTML.slice(0, 150)),
    };
  });
  assert.ok(wide.scroll <= 0, `${what} is ${wide.scroll} px too wide: ${wide.beyond.join("\n")}`);
}
