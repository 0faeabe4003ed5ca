// Text from the network: shown as what it is, never obeyed.

/**
 * Characters that a reader cannot see, or that change how others are shown: controls (C0, C1, escape sequences), marks
 * and overrides of direction, joiners, spaces that look like others or have no width, ends of lines, tags, halves of
 * pairs, and what means nothing to anybody but its sender.
 */
const INVISIBLE = /[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]|(?! )\p{Zs}/gu;

/** More marks than this on one character are no writing. */
const PILED = /(\p{M}{4})\p{M}+/gu;

/** What stands in place of such a character, as the gateway's own commands write it: `\u{202e}`. */
function code(character: string): string {
  return `\\u{${character.codePointAt(0)!.toString(16)}}`;
}

/** A piece of text; `escaped` if it stands in place of a character that cannot be shown. */
export interface Piece {
  text: string;
  escaped: boolean;
}

/** The text in pieces, with each character visible. */
export function pieces(text: string): Piece[] {
  const found: Piece[] = [];
  let end = 0;
  for (const match of text.matchAll(INVISIBLE)) {
    if (match.index > end) found.push({ text: plain(text.slice(end, match.index)), escaped: false });
    found.push({ text: code(match[0]), escaped: true });
    end = match.index + match[0].length;
  }
  if (end < text.length) found.push({ text: plain(text.slice(end)), escaped: false });
  return found;
}

/** The same as one text, for titles and labels. */
export function visible(text: string): string {
  return plain(text.replace(INVISIBLE, code));
}

function plain(text: string): string {
  return text.replace(PILED, "$1…");
}

/** A sentence about a problem without its moment, for where that stands beside it. */
export function withoutSince(sentence: string): string {
  return sentence.replace(/ since (\d{4}-\d\d-\d\d )?\d\d:\d\d UTC/, "");
}

/** The address of a trace, if the gateway names a place for traces and that is a web page. */
export function traceAddress(template: string | null | undefined, trace: string): string | null {
  if (!template || !/^[0-9a-f]{32}$/.test(trace)) return null;
  const address = template.replaceAll("{trace_id}", trace);
  try {
    const { protocol } = new URL(address);
    return protocol === "https:" || protocol === "http:" ? address : null;
  } catch {
    return null;
  }
}
