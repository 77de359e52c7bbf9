"""What a memory answers to addresses in different orders. A marimo notebook: marimo edit examples/latency.py"""

import marimo

app = marimo.App()


@app.cell
def _():
    import altair as alt
    import marimo as mo
    import nagori as ng
    import numpy as np

    return alt, mo, ng, np


@app.cell
def _(mo):
    mo.md("""
    # Latency and order

    Lines are read one after the other, and then in a random order, each access after the one before,
    in DRAM and in phase-change memory.
    """)
    return


@app.cell
def _(ng, np):
    lines = 64 * np.arange(20_000)
    orders = {"in order": lines, "at random": np.random.default_rng(1).permutation(lines)}
    rows = [
        {"memory": name, "order": order, "latency_ns": float(latency)}
        for name in ("ddr4", "pcm")
        for order, addresses in orders.items()
        for latency in np.percentile(ng.Memory(name).play(addresses, mode="dependent").latency_ns, range(1, 100))
    ]
    return (rows,)


@app.cell
def _(alt, rows):
    alt.Chart(alt.Data(values=rows)).mark_tick().encode(
        x=alt.X("latency_ns:Q", title="latency, ns (percentiles)"), y=alt.Y("order:N", title=None), row="memory:N"
    )
    return


if __name__ == "__main__":
    app.run()
