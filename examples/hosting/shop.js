// The shop in JavaScript.
"use strict";

const { serve } = require("../../sdk/node/tidewire.js");

const counts = new Map();

serve({
  "shop.v1.NodeShop/GetItem": ({ id }, context) => {
    context.depends("node-items", id);
    return { id, count: counts.get(id) ?? 0, language: "JavaScript" };
  },
  "shop.v1.NodeShop/SetItem": (item, context) => {
    counts.set(item.id, item.count ?? 0);
    context.changed("node-items", item.id);
    return item;
  },
});
