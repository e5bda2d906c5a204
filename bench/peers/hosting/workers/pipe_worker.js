// The worker in JavaScript: methods on the inherited socket.
"use strict";

const { serve } = require("../../../../sdk/node/tidewire.js");

const greet = ({ name }) => ({ text: "Hello, " + name, pid: process.pid });

serve({
  "hosting.v1.Greeter/Greet": greet,
  "hosting.v1.Greeter/Kept": (request, context) => {
    context.depends("names", request.name);
    return greet(request);
  },
});
