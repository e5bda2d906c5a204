// The worker in JavaScript: node:http on the socket that is descriptor 3.
"use strict";

const text = JSON.stringify({ text: "Hello, Ada", pid: process.pid });

require("node:http")
  .createServer((request, response) => {
    response.setHeader("Content-Length", text.length);
    response.end(text);
  })
  .listen({ fd: 3 });
