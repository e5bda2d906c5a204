"""An application of Flask that knows nothing of Tidewire."""
from flask import Flask

app = Flask(__name__)


@app.get("/tea/<kind>")
def tea(kind):
    return f"{kind} tea by Flask\n"
