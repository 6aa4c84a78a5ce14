"""How much of a vector's energy its greatest elements have, and its greatest Fourier coefficients."""
import math

import numpy as np

SHARES = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7)  # of what is kept
CHUNK = 4096  # elements of one transform of codec fft


def chunks(vector, length):
    """The whole chunks of a vector, as rows."""
    return vector[:len(vector) // length * length].reshape(-1, length)


def elements(rows):
    """The energy of each element."""
    return np.square(rows.astype(np.float64))


def coefficients(rows):
    """The energy of each Fourier coefficient, so that those of a row add up to that of its elements (Parseval). All but the first
    and the last stand for two: themselves and their conjugates."""
    energy = np.square(np.abs(np.fft.rfft(rows.astype(np.float64), axis=1))) / rows.shape[1]
    energy[:, 1:-1] *= 2
    return energy


def kept(energy, share):
    """The share of the energy of all rows that is kept if every row keeps this share of its entries, the greatest."""
    count = max(1, round(share * energy.shape[1]))
    return float(np.sort(energy, axis=1)[:, -count:].sum() / energy.sum())


def of_noise(share):
    """What the coefficients of independent elements of any distribution keep: their energies are exponentially distributed."""
    return share * (1 + math.log(1 / share))


def table(name, vectors):
    """A row for each share: the energy that elements keep, and that coefficients keep, of chunks and of whole vectors."""
    vectors = [v for v in vectors if np.any(v)]
    parts = np.concatenate([chunks(v, CHUNK) for v in vectors])
    parts = parts[np.any(parts, axis=1)]
    whole = np.stack([v[:len(v) // 2 * 2] for v in vectors])
    in_time, in_chunks, in_whole = elements(parts), coefficients(parts), coefficients(whole)
    return [{"data": name, "elements": whole.shape[1], "vectors": len(vectors), "kept_share": share,
             "energy_elements": kept(in_time, share), "energy_fft_chunks": kept(in_chunks, share),
             "energy_fft_whole": kept(in_whole, share), "energy_fft_noise_theory": of_noise(share)} for share in SHARES]
