import { afterEach, expect, it, vi } from "vitest";
import { post } from "./control";
import { RequestError } from "./http";

afterEach(() => vi.unstubAllGlobals());

function answering(status: number, body: unknown): Request[] {
  const asked: Request[] = [];
  vi.stubGlobal("fetch", (path: string, request: RequestInit) => {
    asked.push(new Request(new URL(path, "http://localhost/data/plugin/netdebug/"), request));
    return Promise.resolve(new Response(JSON.stringify(body), { status }));
  });
  return asked;
}

it("sends what the server insists on", async () => {
  const asked = answering(200, { told: 1 });
  expect(await post("pause", { run: "é" }, "the token")).toEqual({ told: 1 });
  const [request] = asked;
  expect([request?.method, request?.url]).toEqual(["POST", "http://localhost/data/plugin/netdebug/pause"]);
  expect(request?.headers.get("Content-Type")).toBe("application/json");
  expect(request?.headers.get("X-NetDebug-Token")).toBe("the token");
  expect(request?.headers.get("X-NetDebug")).toBe("1");
  expect(await request?.json()).toEqual({ run: "é" });
});

it("says in the server's words what is refused", async () => {
  answering(403, { error: "Reload the page." });
  await expect(post("pause", {}, null)).rejects.toThrow(new RequestError("Reload the page.", 403));
});
