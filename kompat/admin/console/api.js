/** The broker's REST interface: calls, problems (RFC 9457), lists in pages, streams of server-sent events, signing in. */

const BASE = new URL("../", import.meta.url); // wherever the console is served from
const CREDENTIALS = "kompat.credentials"; // for this tab only

export class Problem extends Error {
  constructor({ title, detail, status = 0, code = null }) {
    super(detail || title);
    this.title = title;
    this.detail = detail;
    this.status = status;
    this.code = code;
  }
}

/** Is asked for credentials when the broker wants some: (wereRefused) => Promise<{user, password} | null>. */
let askForCredentials = async () => null;
let asking = null;

export function onUnauthorized(ask) {
  askForCredentials = ask;
}

export function signedInAs() {
  const token = sessionStorage.getItem(CREDENTIALS);
  return token === null ? null : new TextDecoder().decode(fromBase64(token)).split(":")[0];
}

export function signOut() {
  sessionStorage.removeItem(CREDENTIALS);
}

export const get = (path, query, options) => call("GET", path, { query, ...options });
export const post = (path, body, options) => call("POST", path, { body: body ?? {}, ...options });
export const put = (path, body, options) => call("PUT", path, { body, ...options });
export const patch = (path, body, options) => call("PATCH", path, { body, ...options });
export const del = (path, body, options) => call("DELETE", path, { body, ...options });

/** A path of names: each is escaped, whatever it holds. */
export function path(strings, ...names) {
  return strings.reduce((all, part, at) => all + encodeURIComponent(names[at - 1]) + part);
}

/** All items of a list, page after page; `onPage` sees what there is so far. */
export async function all(address, query, { signal, most = 20_000, onPage } = {}) {
  const items = [];
  let cursor = null;
  do {
    const page = await get(address, { ...query, cursor }, { signal });
    items.push(...page.items);
    cursor = page.nextCursor ?? null;
    onPage?.(items, cursor !== null);
  } while (cursor !== null && items.length < most);
  return items;
}

async function call(method, address, { query, body, signal } = {}) {
  const response = await send(method, address, { query, body, signal });
  if (response.status === 204) return null;
  const text = await response.text();
  return text === "" ? null : JSON.parse(text);
}

async function send(method, address, { query, body, signal, headers = {} }) {
  const url = new URL(address.replace(/^\//, ""), BASE);
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== undefined && value !== null && value !== "") url.searchParams.set(name, value);
  }
  const options = {
    method,
    signal,
    headers: { accept: "application/json", ...headers },
    credentials: "omit",
    cache: "no-store",
  };
  if (body !== undefined) {
    options.headers["content-type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  for (;;) {
    const token = sessionStorage.getItem(CREDENTIALS);
    if (token !== null) options.headers.authorization = `Basic ${token}`;
    const response = await reach(url, options);
    if (response.ok) return response;
    if (response.status !== 401 || !(await signIn(token))) throw await problemOf(response);
  }
}

async function reach(url, options) {
  try {
    return await fetch(url, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem({
      title: "The broker cannot be reached",
      detail: `There is no response from ${url.host}. Check that the broker is running.`,
    });
  }
}

/** Ask once, however many calls wait for it. False: nobody wants to sign in. */
async function signIn(refused) {
  if (sessionStorage.getItem(CREDENTIALS) !== refused) return true; // done meanwhile
  signOut();
  asking ??= askForCredentials(refused !== null).finally(() => (asking = null));
  const given = await asking;
  if (given === null) return false;
  sessionStorage.setItem(CREDENTIALS, toBase64(new TextEncoder().encode(`${given.user}:${given.password}`)));
  return true;
}

async function problemOf(response) {
  const { status } = response;
  try {
    const told = await response.json();
    return new Problem({
      title: told.title ?? response.statusText,
      detail: told.detail,
      code: told.code ?? null,
      status,
    });
  } catch {
    return new Problem({
      title: response.statusText || `Status ${status}`,
      detail: `The broker returned ${status} without a reason.`,
      status,
    });
  }
}

/**
 * Server-sent events, as they come, until the signal says so. EventSource cannot sign in, so this reads the stream itself.
 * A stream that breaks is taken up again after the last event that came.
 */
export async function stream(address, { query, signal, onEvent, onState = () => {} }) {
  let last = null;
  let wait = 500;
  while (!signal.aborted) {
    try {
      const headers = { accept: "text/event-stream", ...(last === null ? {} : { "last-event-id": last }) };
      const response = await send("GET", address, { query, signal, headers });
      onState("open");
      wait = 500;
      for await (const event of events(response.body)) {
        if (event.id !== null) last = event.id;
        onEvent(event);
      }
    } catch (error) {
      if (error.name === "AbortError" || signal.aborted) return;
      if (error.status >= 400 && error.status < 500) throw error; // it will not get better
      onState("waiting");
    }
    await new Promise((resolve) => setTimeout(resolve, wait));
    wait = Math.min(wait * 2, 10_000);
  }
}

async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split(/\r?\n\r?\n/);
    rest = blocks.pop();
    for (const block of blocks) {
      const event = eventOf(block);
      if (event.data !== "") yield event;
    }
  }
}

function eventOf(block) {
  const event = { id: null, name: "message", data: "" };
  for (const line of block.split(/\r?\n/)) {
    const [, field, value] = /^(\w*): ?(.*)$/.exec(line) ?? [];
    if (field === "id") event.id = value;
    else if (field === "event") event.name = value;
    else if (field === "data") event.data += (event.data && "\n") + value;
  }
  return event;
}

export function toBase64(bytes) {
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}

export function fromBase64(text) {
  return Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
}
