// A page of an application that knows nothing of Tidewire: node:http, at the port that PORT names.
"use strict";

const http = require("node:http");

http.createServer((request, response) => response.end(`${request.url} in JavaScript\n`)).listen(process.env.PORT, "127.0.0.1");
