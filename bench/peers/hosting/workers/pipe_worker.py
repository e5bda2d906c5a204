"""The worker in Python: methods on the inherited socket."""
import os

import tidewire

app = tidewire.App()


@app.unary("hosting.v1.Greeter/Greet")
def greet(request, context):
    return {"text": "Hello, " + request["name"], "pid": os.getpid()}


@app.unary("hosting.v1.Greeter/Kept")
def kept(request, context):
    context.depends("names", request["name"])
    return greet(request, context)


app.serve()
