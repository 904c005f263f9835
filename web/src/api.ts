// Questions and requests to the server.  All addresses are relative to <base href>.

/** What the server says when it cannot do what it was asked. */
export class ApiError extends Error {
  constructor(
    readonly status: number, // 0: the server was not reached
    readonly code: string,
    message: string,
    readonly fix: string = "",
    readonly body: Record<string, unknown> = {},
  ) {
    super(message);
  }
}

const API = "api/v1/";

export function apiUrl(path: string): string {
  return new URL(API + path, document.baseURI).href;
}

async function send(path: string, options: RequestInit): Promise<Response> {
  try {
    return await fetch(apiUrl(path), { credentials: "same-origin", redirect: "error", ...options });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(0, "unreachable", "The dashboard's server does not answer.", "Is it running, and is the network up?");
  }
}

async function refused(response: Response): Promise<ApiError> {
  const body = (await response.json().catch(() => ({}))) as Record<string, unknown>;
  return new ApiError(
    response.status,
    String(body.error ?? response.status),
    String(body.message ?? `The server answered ${response.status}.`),
    String(body.fix ?? ""),
    body,
  );
}

export type Answer<T> = { changed: true; data: T; etag: string } | { changed: false };

/** Ask for data.  With the ETag of the last answer, an unchanged one costs nothing. */
export async function ask<T>(path: string, etag = "", signal?: AbortSignal): Promise<Answer<T>> {
  const headers: Record<string, string> = { accept: "application/json" };
  if (etag) headers["if-none-match"] = etag;
  const response = await send(path, { headers, signal, cache: "no-store" });
  if (response.status === 304) return { changed: false };
  if (!response.ok) throw await refused(response);
  return { changed: true, data: (await response.json()) as T, etag: response.headers.get("etag") ?? "" };
}

function post(path: string, body: object, signal?: AbortSignal): Promise<Response> {
  return send(path, {
    method: "POST",
    headers: { "content-type": "application/json", accept: "application/json, application/x-ndjson" },
    body: JSON.stringify(body),
    signal,
  });
}

/** Ask the server to change something. */
export async function act<T>(path: string, body: object = {}): Promise<T> {
  const response = await post(path, body);
  if (!response.ok) throw await refused(response);
  return (response.status === 204 ? undefined : await response.json()) as T;
}

/** Run long work: the answer is one line of JSON per batch.  Aborting the signal stops it after the batch. */
export async function stream<T>(path: string, body: object, onLine: (line: T) => void, signal: AbortSignal): Promise<void> {
  const response = await post(path, body, signal);
  if (!response.ok) throw await refused(response);
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    const lines = (rest + (value ?? "")).split("\n");
    rest = done ? "" : lines.pop()!;
    for (const line of lines) if (line.trim()) onLine(JSON.parse(line) as T);
    if (done) return;
  }
}

/** The query part of an address.  What is empty is left out. */
export function query(values: Record<string, string | number | boolean | null | undefined>): string {
  const parts = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (value !== undefined && value !== null && value !== "" && value !== false) parts.set(name, String(value));
  }
  const text = parts.toString();
  return text ? `?${text}` : "";
}
