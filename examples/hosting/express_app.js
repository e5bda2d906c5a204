// An application of Express that knows nothing of Tidewire.
"use strict";

const express = require("express");

const app = express();
app.get("/tea/:kind", (request, response) => response.send(`${request.params.kind} tea by Express\n`));
app.listen(process.env.PORT, "127.0.0.1");
