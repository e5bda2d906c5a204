"""The shop in Python."""
import tidewire

app = tidewire.App()
counts = {}


@app.unary("shop.v1.PythonShop/GetItem")
def get_item(request, context):
    context.depends("python-items", request["id"])
    return {"id": request["id"], "count": counts.get(request["id"], 0), "language": "Python"}


@app.unary("shop.v1.PythonShop/SetItem")
def set_item(request, context):
    counts[request["id"]] = request.get("count", 0)
    context.changed("python-items", request["id"])
    return request


app.serve()
