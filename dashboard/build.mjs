// Builds the page into a folder: `node build.mjs FOLDER`. The same sources give the same bytes, on every machine.

import { build } from "esbuild";
import { copyFile, mkdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));

/** What is embedded into the gateway. */
export const FILES = ["index.html", "app.js", "app.css", "icon.svg"];

export async function buildInto(folder) {
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  await build({
    absWorkingDir: here,
    entryPoints: { app: "src/main.tsx" },
    outdir: folder,
    bundle: true,
    minify: true,
    format: "iife",
    // What browsers of the last two years understand; the style sheet needs `light-dark()`.
    target: ["chrome123", "firefox120", "safari17.5"],
    jsx: "automatic",
    jsxImportSource: "preact",
    charset: "utf8",
    legalComments: "none",
    footer: { js: await licences() },
    logLevel: "warning",
  });
  await build({
    absWorkingDir: here,
    entryPoints: { app: "src/app.css" },
    outdir: folder,
    bundle: true,
    minify: true,
    target: ["chrome123", "firefox120", "safari17.5"],
    logLevel: "warning",
  });
  for (const name of ["index.html", "icon.svg"]) await copyFile(join(here, "src", name), join(folder, name));
}

/** What those whose work is in the bundle ask for. */
async function licences() {
  const texts = await Promise.all(
    ["preact", "uplot"].map((name) => readFile(join(here, "node_modules", name, "LICENSE"), "utf8")),
  );
  return `/*!\nPreact: ${texts[0].trim()}\n\nuPlot: ${texts[1].trim()}\n*/`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const folder = process.argv[2];
  if (!folder) throw new Error("usage: node build.mjs FOLDER");
  await buildInto(folder);
}
