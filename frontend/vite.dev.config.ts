/** Serves the page from its sources, with hot reload, over the data of a real TensorBoard.
 *
 * NETDEBUG_API is the address of our routes there: http://localhost:6006/data/plugin/netdebug/. Requests are passed on
 * with the headers that the page sends, so TensorBoard refuses here what it refuses everywhere.
 */

import { setDefaultResultOrder } from "node:dns";
import { mergeConfig, type Plugin, type UserConfig } from "vite";
import page from "./vite.config";

// TensorBoard listens on 127.0.0.1 alone, and Node 18 would take "localhost" for ::1 alone.
setDefaultResultOrder("ipv4first");

// What is served here: the page itself, its sources, what it imports, and what Vite's own client asks for.
const ELSEWHERE = "^/(?!$|\\?|index\\.html|src/|node_modules/|@|__)";
const TOKEN = /<meta name="netdebug-token" content="([\w-]*)"/;

/** The page may control trainings only with the token that TensorBoard puts into it. */
function withToken(api: URL): Plugin {
  return {
    name: "token-of-tensorboard",
    transformIndexHtml: async () => {
      const content = TOKEN.exec(await (await fetch(new URL("index.html", api))).text())?.[1];
      const attrs = { name: "netdebug-token", content };
      return content === undefined ? [] : [{ tag: "meta", attrs, injectTo: "head" }];
    },
  };
}

/** Whoever started it holds the other end of its standard input: however he ends, so does this. */
function tether(): Plugin {
  return {
    name: "tether",
    configureServer: () => void process.stdin.resume().once("end", () => process.exit()),
  };
}

const said = process.env["NETDEBUG_API"];
if (!said) throw new Error("NETDEBUG_API does not say where the data is. `make page-dev` sets it.");
const api = new URL(said);

const served: UserConfig = {
  plugins: [withToken(api), tether()],
  server: {
    // No page of another port reads the token.
    cors: false,
    proxy: { [ELSEWHERE]: { target: api.origin, rewrite: (path) => api.pathname + path.slice(1) } },
  },
};
export default mergeConfig(page, served);
