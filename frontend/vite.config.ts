import { defineConfig } from "vitest/config";

export default defineConfig({
  // Everything relative: TensorBoard may live under any path prefix or behind a proxy.
  base: "./",
  // All at once, else the dev server finds some late and serves two copies of Preact.
  optimizeDeps: {
    include: ["preact", "preact/hooks", "preact/jsx-runtime", "preact/jsx-dev-runtime", "@preact/signals", "uplot"],
  },
  esbuild: { jsx: "automatic", jsxImportSource: "preact", legalComments: "none" },
  worker: { format: "es", rollupOptions: { output: { entryFileNames: "assets/[name]-[hash].js" } } },
  build: {
    target: "es2022",
    outDir: "dist",
    // A data: URL would need more than 'self' in the content security policy.
    assetsInlineLimit: 0,
    modulePreload: false,
    reportCompressedSize: false,
    rollupOptions: {
      // index.js is what TensorBoard imports; its name and its export have to stay as they are.
      preserveEntrySignatures: "exports-only",
      input: { page: "index.html", index: "src/index.ts" },
      output: {
        entryFileNames: (chunk) => (chunk.name === "index" ? "index.js" : "assets/[name]-[hash].js"),
        chunkFileNames: "assets/[name]-[hash].js",
        assetFileNames: "assets/[name]-[hash][extname]",
      },
    },
  },
  test: {
    environment: "node",
    include: ["src/**/*.test.ts", "src/**/*.test.tsx"],
    reporters: ["dot"],
    // Only what hangs fails by the clock: a busy machine takes five seconds for the largest graphs.
    testTimeout: 60_000,
  },
});
