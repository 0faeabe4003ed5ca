// Checks the page: types, form, that `dist` is what the sources give, its size, and then its tests in a browser.
//
// `node check.mjs`, or `node check.mjs NAME` for the tests of tests/NAME.test.ts alone. TITAN_PROGRAM names the gateway.

import { build } from "esbuild";
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { FILES, buildInto } from "./build.mjs";

const here = fileURLToPath(new URL(".", import.meta.url));
/** Bytes of all files, each compressed. */
const MOST = 80 << 10;
/** What Prettier forms. */
const FORMED = ["src", "tests", "build.mjs", "check.mjs", "package.json", "tsconfig.json"];

process.chdir(here);
const only = process.argv.slice(2);
if (only.length === 0) {
  run("types", "node_modules/.bin/tsc", "--noEmit");
  run("form (npm run format)", "node_modules/.bin/prettier", "--check", "--log-level", "warn", ...FORMED);
  await isWhatSourcesGive();
  await isSmall();
}
await tests(only);

function run(what, program, ...args) {
  const { status, error } = spawnSync(program, args, { stdio: "inherit" });
  if (status !== 0) fail(`${what}: ${error ?? `exit code ${status}`}`);
}

function fail(why) {
  console.error(`dashboard: ${why}`);
  process.exit(1);
}

async function isWhatSourcesGive() {
  const folder = await mkdtemp(join(tmpdir(), "titan-page-"));
  await buildInto(folder);
  const names = (await readdir("dist")).sort().join();
  if (names !== [...FILES].sort().join()) fail(`dist has ${names}`);
  for (const name of FILES) {
    const [built, kept] = await Promise.all([readFile(join(folder, name)), readFile(join("dist", name))]);
    if (!built.equals(kept)) fail(`dist/${name} is not what the sources give: make dashboard`);
  }
  await rm(folder, { recursive: true });
}

async function isSmall() {
  const files = await Promise.all(FILES.map((name) => readFile(join("dist", name))));
  const size = files.reduce((sum, file) => sum + gzipSync(file, { level: 9 }).length, 0);
  if (size > MOST) fail(`${size} bytes compressed, more than ${MOST}`);
  console.log(`${size} bytes compressed`);
}

async function tests(only) {
  const all = (await readdir("tests")).filter((name) => name.endsWith(".test.ts"));
  const names = only.length === 0 ? all : only.map((name) => `${name}.test.ts`);
  for (const name of names) if (!existsSync(join("tests", name))) fail(`there is no tests/${name}`);
  await rm("build", { recursive: true, force: true });
  await build({
    entryPoints: names.map((name) => join("tests", name)),
    outdir: "build",
    bundle: true,
    platform: "node",
    format: "esm",
    packages: "external",
    target: "node18",
    outExtension: { ".js": ".mjs" },
    jsx: "automatic",
    jsxImportSource: "preact",
    sourcemap: "inline",
    logLevel: "warning",
  });
  const built = names.map((name) => join("build", name.replace(/\.ts$/, ".mjs")));
  run(
    "tests",
    process.execPath,
    "--enable-source-maps",
    "--test",
    "--test-reporter",
    "spec",
    "--test-concurrency",
    "3",
    ...built,
  );
}
