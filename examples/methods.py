"""What four ways of slowing memory down say about one program. A marimo notebook: marimo edit examples/methods.py"""

import marimo

app = marimo.App()


@app.cell
def _():
    import marimo as mo
    import nagori as ng

    return mo, ng


@app.cell
def _(mo):
    mo.md("""
    # Four delay methods and one program

    Debian's xz with all of its memory in NVMM, under each method with two seeds:
    addresses, entropy and starting time differ as between runs on a real machine.
    """)
    return


@app.cell
def _(ng):
    found = ng.compare(["sh", "-c", "seq 3000 | xz -0 | wc -c"], repeats=2)
    found
    return (found,)


@app.cell
def _(found):
    found.plot()
    return


if __name__ == "__main__":
    app.run()
