import assert from "node:assert/strict";
import { test } from "node:test";
import { bytes, count, duration, rate, share, span } from "../src/format";
import { pieces, traceAddress, visible, withoutSince } from "../src/text";

test("what cannot be seen is written out", () => {
  for (const [text, shown] of [
    ["plain", "plain"],
    ["grün 東京 🙂 עברית", "grün 東京 🙂 עברית"],
    ["\u001b[31mred", "\\u{1b}[31mred"],
    ["a\nb\tc\0", "a\\u{a}b\\u{9}c\\u{0}"],
    ["photo\u202egnp.exe", "photo\\u{202e}gnp.exe"],
    ["\u2066x\u2069", "\\u{2066}x\\u{2069}"],
    ["a\u200bb\u200d\ufeff", "a\\u{200b}b\\u{200d}\\u{feff}"],
    ["a\u00a0b\u2028", "a\\u{a0}b\\u{2028}"],
    ["\ud800", "\\u{d800}"],
    ["\u{e0041}", "\\u{e0041}"],
    ["\u009b31m", "\\u{9b}31m"],
    ["<img src=x onerror=alert(1)>", "<img src=x onerror=alert(1)>"],
  ] as const) {
    assert.equal(visible(text), shown);
    assert.equal(
      pieces(text)
        .map((piece) => piece.text)
        .join(""),
      shown,
    );
  }
});

test("a problem says once since when it is there", () => {
  for (const since of ["", " since 03:12 UTC", " since 2026-11-26 23:58 UTC"]) {
    assert.equal(withoutSince(`upstream \`api\`: 2 of 3 ejected${since}, 5 failed`), "upstream `api`: 2 of 3 ejected, 5 failed");
  }
});

test("marks that are piled up on a character are cut", () => {
  assert.equal(visible(`a${"\u0301".repeat(100)}b`), `a${"\u0301".repeat(4)}…b`);
});

test("each escaped character is told apart from those that spell the same", () => {
  assert.deepEqual(pieces("\\u{1b}\u001b"), [
    { text: "\\u{1b}", escaped: false },
    { text: "\\u{1b}", escaped: true },
  ]);
});

test("only web pages are addresses of traces", () => {
  const trace = "4bf92f3577b34da6a3ce929d0e0e4736";
  assert.equal(traceAddress("https://t.example/{trace_id}", trace), `https://t.example/${trace}`);
  assert.equal(traceAddress("javascript:alert('{trace_id}')", trace), null);
  assert.equal(traceAddress("https://t.example/{trace_id}", "x"), null);
  assert.equal(traceAddress(null, trace), null);
});

test("figures have three digits that matter, and their unit", () => {
  const plain = (text: string) => text.replaceAll("\u00a0", " ");
  assert.equal(rate(812.49), "812/s");
  assert.equal(rate(1240), "1.24k/s");
  assert.equal(rate(0.5), "0.50/s");
  assert.equal(rate(null), "–");
  assert.equal(count(9999), "9999");
  assert.equal(count(12_345), "12.3k");
  assert.equal(plain(duration(0.000_2)), "200 µs");
  assert.equal(plain(duration(0.031_2)), "31.2 ms");
  assert.equal(plain(duration(0.999_96)), "1.00 s");
  assert.equal(plain(duration(75)), "1 min 15 s");
  assert.equal(plain(share(0.002)), "0.20 %");
  assert.equal(plain(share(0.000_001)), "<0.01 %");
  assert.equal(plain(share(0.999_99)), ">99.9 %");
  assert.equal(plain(bytes(1536)), "1.50 KiB");
  assert.equal(plain(bytes(1023.9)), "1.00 KiB");
  assert.equal(plain(span(93_784)), "1 d 2 h");
});
