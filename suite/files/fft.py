"""A signal is transformed, filtered, transformed back."""
import sys

sys.path.insert(0, "/root")
import nagori_mark
import numpy

n, rounds = int(sys.argv[1]), int(sys.argv[2])
x = numpy.arange(n * n, dtype=float).reshape(n, n)
signal = (x * 7919) % 1009 / 1009
with nagori_mark.region():
    for _ in range(rounds):
        spectrum = numpy.fft.rfft2(signal)
        spectrum[n // 4:-n // 4, :] *= 0.5
        signal = numpy.fft.irfft2(spectrum, s=(n, n))
print(f"{float(signal.sum()):.6e} {float(abs(signal).max()):.6f} {float(signal[3, 5]):.6f}")
