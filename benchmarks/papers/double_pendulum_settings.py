"""Which settings of Negrut et al. (2003) explain the steps and the errors of the stiff double pendulum together: a search at random.

    python benchmarks/papers/double_pendulum_settings.py [--seconds 300] [--seed 1]

A separate program in numpy: the Rosenbrock method of Table 1 on the two angles, with a start of 0 or 10 rad/s, and everything that the text
leaves open drawn at random. Prints the best by the distance of steps (Table 5) and of errors (Tables 4 and 6, corrected) from print, as
geometric means of the ratios, over tolerances from 1e-2 to 1e-5; settings with more than twice or less than half of the steps are passed over.
"""

import argparse
import random
import time

import numpy as np
from scipy.integrate import solve_ivp

GAMMA = 0.57281606
ALPHA = np.array(
    [
        [0, 0, 0, 0],
        [1.14563212, 0, 0, 0],
        [0.520920789130629029328516, 0.134294186842504800149232, 0, 0],
        [0.520920789130629029328516, 0.134294186842504800149232, 0, 0],
    ]
)
COUPLING = np.array(
    [
        [GAMMA, 0, 0, 0],
        [-2.341993127112013949170520, GAMMA, 0, 0],
        [-0.027333746543489836196505, 0.213811650836699689867472, GAMMA, 0],
        [-0.259083837785510222112641, -0.190595807732311751616358, -0.228031035973133829477744, GAMMA],
    ]
)
WEIGHTS = np.array([0.324534707891734513474196, 0.049086544787523308684633, 0, 0.626378747320742177841171])
EMBEDDED = np.array([0.520920789130629029328516, 0.144549714665364599584681, 0.124559686414702049774897, 0.209969809789304321311906])
STEPS = {1e-2: 29, 1e-3: 49, 1e-4: 85, 1e-5: 148}
ERRORS = {
    1e-2: (5.223e-3, 3.234e-3, 4.061e-2, 2.348e-2),
    1e-3: (4.198e-4, 2.631e-4, 3.792e-3, 2.181e-3),
    1e-4: (4.916e-5, 2.946e-5, 8.652e-4, 3.445e-4),
    1e-5: (1.902e-5, 9.868e-6, 2.343e-4, 9.357e-5),
}
"""largest and average error of theta_1 [rad], of its rate [rad/s]"""
OPEN = {
    "rate": [0.0, 10.0],
    "safety": [0.7, 0.8, 0.85, 0.9, 0.95, 1.0],
    "growth": [1.5, 2.0, 5.0, 10.0],
    "shrink": [0.1, 0.2, 0.5],
    "first": [1e-6, 1e-4, 1e-3, 1e-2],
    "controlled": ["both", "positions", "velocities"],
    "norm": ["rms", "largest", "sum", "larger rms"],
    "exponent": [3, 4, 5],
    "result": ["order 4", "order 4", "embedded"],
    "angles": ["absolute", "relative"],
    "scaled": [False, True],
    "longest": [0.03, 0.05, 0.1, np.inf, np.inf],
    "relative_part": [1.0, 1.0, 0.1, 0.0],
    "absolute_part": [1.0, 1.0, 1e-9],
}


def rate(z: np.ndarray) -> np.ndarray:
    """Of (theta_1, theta_2, theta_1', theta_2')."""
    (one, two), (w1, w2) = z[:2], z[2:]
    tie, turn = 0.9 * np.cos(one - two), 0.9 * np.sin(one - two)
    spring, stiff = -400 * (one - 1.5 * np.pi) - 15 * w1, -3e5 * (two - one) - 5e4 * (w2 - w1)
    first = -turn * w2**2 - 9.81 * 3.6 * np.cos(one) + spring - stiff
    second = turn * w1**2 - 9.81 * 0.45 * np.cos(two) + stiff
    a, b = 1.0 + 3.0 + 1.2, 0.3 * 1.5**2 * 4 / 3
    determinant = a * b - tie**2
    return np.array([w1, w2, (b * first - tie * second) / determinant, (a * second - tie * first) / determinant])


def jacobian(z: np.ndarray) -> np.ndarray:
    return np.stack([rate(z + 1e-30j * row).imag / 1e-30 for row in np.eye(4)], axis=1)


def start(speed: float) -> np.ndarray:
    return np.array([2 * np.pi, 23 * np.pi / 12, 0.0, speed])


def integrate(tolerance: float, o: dict) -> tuple[np.ndarray, np.ndarray]:
    """Accepted times and states."""
    z, t, h, ts, zs = start(o["rate"]), 0.0, o["first"], [0.0], [start(o["rate"])]
    to_angles = np.array([[1, 0], [-1, 1]]) if o["angles"] == "relative" else np.eye(2)
    read, attempts = np.kron(np.eye(2), to_angles), 0
    while t < 2 - 1e-12 and attempts < 1500:
        attempts += 1
        h = min(h, 2 - t, o["longest"])
        matrix = jacobian(z)
        inverse, k, f = np.linalg.inv(np.eye(4) - h * GAMMA * matrix), np.zeros((4, 4)), np.zeros(4)
        for i in range(4):
            f = rate(z + ALPHA[i] @ k) if i < 3 else f
            k[i] = inverse @ (h * f + h * (matrix @ (COUPLING[i, :i] @ k[:i])))
        new, low = z + WEIGHTS @ k, z + EMBEDDED @ k
        error = new - low
        error = read @ (inverse @ error if o["scaled"] else error)
        new = low if o["result"] == "embedded" else new
        scale = tolerance * (o["absolute_part"] + o["relative_part"] * np.maximum(np.abs(read @ z), np.abs(read @ new)))
        parts = {"both": slice(None), "positions": slice(2), "velocities": slice(2, 4)}
        size = _norm((error / scale)[parts[o["controlled"]]], o["norm"])
        if size <= 1:
            t, z = t + h, new
            ts.append(t)
            zs.append(z)
        h *= min(o["growth"], max(o["shrink"], o["safety"] * max(size, 1e-12) ** (-1 / o["exponent"])))
    return np.array(ts), np.array(zs)


def _norm(r: np.ndarray, kind: str) -> float:
    if kind == "largest":
        return float(np.max(np.abs(r)))
    if kind == "sum":
        return float(np.sqrt(np.sum(r**2)))
    halves = [r[:2], r[2:]] if kind == "larger rms" and r.size == 4 else [r]
    return max(float(np.sqrt(np.mean(half**2))) for half in halves)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    exact = {
        speed: solve_ivp(
            lambda t, z: rate(z), (0, 2), start(speed), "Radau", jac=lambda t, z: jacobian(z), rtol=1e-11, atol=1e-12, dense_output=True
        ).sol
        for speed in OPEN["rate"]
    }
    chosen, found, tried, end = random.Random(options.seed), [], 0, time.monotonic() + options.seconds
    while time.monotonic() < end:
        o, steps, errors, when = {name: chosen.choice(values) for name, values in OPEN.items()}, [], [], []
        tried += 1
        for tolerance in (1e-3, 1e-2, 1e-4, 1e-5):
            ts, zs = integrate(tolerance, o)
            steps.append((len(ts) - 1) / STEPS[tolerance])
            if not 0.5 < steps[-1] < 2:
                break
            apart = np.abs(zs - exact[o["rate"]](ts).T)[:, (0, 2)]
            ours = np.stack([np.max(apart, axis=0), np.sqrt(np.mean(apart[1:] ** 2, axis=0))], axis=1).ravel()
            errors.append(ours / ERRORS[tolerance])
            when.append(ts[np.argmax(apart[:, 0])])
        else:
            mean = [float(np.exp(np.mean(np.abs(np.log(ratios))))) for ratios in (steps, errors)]
            found.append((*mean, steps, np.array(errors), when, o))
    print(f"{tried} settings, {len(found)} with half to twice the steps. Geometric means of ratios to print:")
    for title, good in (("steps within 10 %", 1.1), ("steps within 25 %", 1.25)):
        best = sorted((f for f in found if f[0] <= good), key=lambda f: f[1])[:5]
        print(f"{title}: {sum(f[0] <= good for f in found)} settings")
        for steps, errors, each, ratios, when, o in best:
            largest, when = ratios[:, 0].round(1), np.round(when, 2)
            print(f"  steps {steps:.2f} {np.round(each, 2)}, errors {errors:.2f}, of theta_1 {largest}, t* {when}\n    {o}")


if __name__ == "__main__":
    main()
