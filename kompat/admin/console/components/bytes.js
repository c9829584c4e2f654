/** Bytes of keys, values and headers as the REST interface tells them (text, or base64 where they are not UTF-8), and how to look at them. */

import { fromBase64 } from "../api.js";

const MOST_HEX = 16 << 10;

/** {text, encoding} → the bytes; null where there is nothing. */
export function bytesOf({ text, encoding }) {
  if (text === null || text === undefined) return null;
  return encoding === "base64" ? fromBase64(text) : new TextEncoder().encode(text);
}

export const keyOf = (message) => ({ text: message.key, encoding: message.keyEncoding });
export const valueOf = (message) => ({ text: message.value, encoding: message.encoding });
export const headerOf = (header) => ({ text: header.value, encoding: header.encoding });

/** On one line, for lists. */
export function preview(content, most = 200) {
  if (content.text === null || content.text === undefined) return "null";
  if (content.encoding === "base64") return `0x${hexOf(fromBase64(content.text.slice(0, 64)))}`;
  return content.text.slice(0, most).replace(/\s+/g, " ");
}

export const isJson = ({ text, encoding }) => {
  if (encoding === "base64" || !text || !/^\s*[[{"]/.test(text)) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
};

const hexOf = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

/** Sixteen to a line: where, the bytes, and what of them can be read. */
export function hexDump(bytes) {
  const lines = [];
  for (let at = 0; at < Math.min(bytes.length, MOST_HEX); at += 16) {
    const part = bytes.subarray(at, at + 16);
    const numbers = Array.from(part, (byte) => byte.toString(16).padStart(2, "0"));
    const letters = Array.from(part, (byte) => (byte > 31 && byte < 127 ? String.fromCharCode(byte) : "·")).join("");
    lines.push(
      `${at.toString(16).padStart(6, "0")}  ${numbers.slice(0, 8).join(" ").padEnd(23)}  ${numbers.slice(8).join(" ").padEnd(23)}  ${letters}`,
    );
  }
  if (bytes.length > MOST_HEX) lines.push(`… ${bytes.length - MOST_HEX} bytes more`);
  return lines.join("\n");
}

const TOKEN = /("(?:\\.|[^"\\])*")|([[\]{}:,])|([^\s[\]{}:,"]+)/g;

/**
 * JSON in lines, as [kind, text] pieces. The text is indented as it stands, and not read and written again: 12345678901234567890 stays that.
 */
export function prettyJson(text) {
  const pieces = [];
  let depth = 0;
  const line = () => pieces.push(["space", `\n${"  ".repeat(depth)}`]);
  const tokens = [...text.matchAll(TOKEN)];
  tokens.forEach(([token, string, mark], at) => {
    const next = tokens[at + 1]?.[0];
    if (string !== undefined) pieces.push([next === ":" ? "name" : "string", string]);
    else if (mark === undefined) pieces.push(["literal", token]);
    else if (mark === "{" || mark === "[") {
      pieces.push(["mark", mark]);
      depth += 1;
      if (next !== "}" && next !== "]") line();
    } else if (mark === "}" || mark === "]") {
      depth -= 1;
      if (tokens[at - 1][0] !== "{" && tokens[at - 1][0] !== "[") line();
      pieces.push(["mark", mark]);
    } else {
      pieces.push(["mark", mark === ":" ? ": " : ","]);
      if (mark === ",") line();
    }
  });
  return pieces;
}
