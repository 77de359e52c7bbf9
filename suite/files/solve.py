"""Solves a dense system of equations, and multiplies its matrix with itself."""
import sys

sys.path.insert(0, "/root")
import nagori_mark
import numpy

n = int(sys.argv[1])
x = numpy.arange(n * n, dtype=float).reshape(n, n)
a = (x * 7919) % 1009 / 1009 + n * numpy.eye(n)
b = numpy.ones(n)
with nagori_mark.region():
    solution = numpy.linalg.solve(a, b)
    square = a @ a
print(f"{float(solution.sum()):.9f} {float(square.sum()):.6e} {float(abs(a @ solution - b).max()) < 1e-9}")
