import { defineConfig } from "vite";

// In development the page is Vite's and the server is beside it; the socket is passed on.
const server = "http://127.0.0.1:8080";

export default defineConfig({
  // The packages are linked from this repository, and share the page's copies.
  resolve: { dedupe: ["react", "react-dom", "@bufbuild/protobuf", "@connectrpc/connect"] },
  server: { proxy: { "/tidewire.live.v1": { target: server, ws: true }, "/board.v1.Board": server } },
});
