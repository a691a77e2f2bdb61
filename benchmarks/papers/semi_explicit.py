"""Semi-explicit splitting, Modin, Fritzson and Führer (2007): Figures 2 to 5 and Theorems 2, 3 and 6, beside what jaxmbd gives.

    python benchmarks/papers/semi_explicit.py [oscillators] [pendulum] [stability] [orders] [bearing] [--out DIR]

Without names, all parts run. Figures are written to DIR (the working directory). Evaluations of A are the cost that the paper counts.
"""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from scipy.integrate import solve_ivp
from scipy.linalg import expm

import jaxmbd as mbd
from jaxmbd.integrators.amplification import spectral_radius
from jaxmbd.problems.splitting import NonlinearSplit, SplitOscillator

sys.path.insert(0, str(Path(__file__).parents[1]))  # what papers and other benchmarks share
from parts import run_parts, save


def cost(run: mbd.Solution) -> str:
    stats = run.stats
    return f"{stats['a_evaluations']:6d} of A, {stats['b_evaluations']:6d} of B, {stats['jacobians']:4d} Jacobians"


# --- 6.1 ----------------------------------------------------------------------------------------------------------------------------------


def oscillators(out: Path) -> None:
    """Figure 3: steps of 1 s, far beyond the stiff spring."""
    system, end = mbd.problems.Oscillators(), 20.0
    weak, tie = np.diag([1.0, 0.0]), np.array([[1.0, -1.0], [-1.0, 1.0]])
    matrix = np.block([[np.zeros((2, 2)), np.eye(2)], [-weak - 1e3 * tie, -1e2 * tie]])
    start = np.array([1.0, 1.1, 0.0, 0.0])
    fine = np.linspace(0.0, end, 1001)
    exact = np.array([expm(matrix * t) @ start for t in fine])
    methods = {
        "scheme (5), alpha = 1/2, beta = 0.8": mbd.SemiExplicit(0.5, 0.8),
        "theta method, theta = 1/2": mbd.Theta(0.5),
        "theta method, theta = 0.8": mbd.Theta(0.8),
    }
    print("Oscillators (6.1), 20 s in steps of 1 s.                 largest error of q, of v from t = 2 s on | of q_1 - q_2 | evaluations")
    figure, axes = plt.subplots(4, 1, figsize=(8, 9), sharex=True, sharey=True, constrained_layout=True)
    _draw_oscillators(axes[0], "exact", fine, exact[:, :2], exact[:, 2:], marker="")
    for axis, (name, method) in zip(axes[1:], methods.items(), strict=True):
        run = mbd.simulate(system, end, integrator=method, step=1.0)
        q, v, rows = np.asarray(run.q), np.asarray(run.v), np.arange(21) * 50
        of_q, of_v = (np.max(np.abs(ours - theirs)[2:]) for ours, theirs in ((q, exact[rows, :2]), (v, exact[rows, 2:])))
        apart = np.max(np.abs((q - exact[rows, :2]) @ [1.0, -1.0])[2:])
        print(f"  {name:40s} {of_q:28.3f} {of_v:12.3f} {apart:14.4f}        {cost(run)}")
        _draw_oscillators(axis, name, np.asarray(run.ts), q, v, marker=".")
    axes[0].set_ylim(-1.6, 1.6)
    axes[-1].set_xlabel("time [s]")
    figure.suptitle("Two oscillators (Figure 3): positions full, velocities dashed")
    save(figure, out / "semi_explicit_figure_3.png")


def _draw_oscillators(axis, title, t, q, v, marker) -> None:
    for i, color in enumerate(("C0", "C1")):
        axis.plot(t, q[:, i], color=color, marker=marker)
        axis.plot(t, v[:, i], color=color, marker=marker, linestyle="--", linewidth=0.9)
    axis.set_title(title, fontsize=10)


# --- 6.2 ----------------------------------------------------------------------------------------------------------------------------------


def pendulum(out: Path) -> None:
    """Figures 4 and 5: steps of 0.01 s, a radial frequency of 141 rad/s."""
    system, end, h = mbd.problems.PenaltyPendulum(), 10.0, 0.01
    methods = {
        "scheme (5), alpha = 1/2, beta = 0.6": mbd.SemiExplicit(0.5, 0.6),
        "theta method, theta = 1/2": mbd.Theta(0.5),
        "theta method, theta = 0.6": mbd.Theta(0.6),
    }

    def rate(t, z):
        pull = 1e4 * (z[0] ** 2 + z[1] ** 2 - 1.0)
        return [z[2], z[3], -pull * z[0], -1.0 - pull * z[1]]

    grid = np.arange(1001) * h
    exact = solve_ivp(rate, (0.0, end), [1.01, 0.0, 0.0, 0.0], method="DOP853", rtol=1e-11, atol=1e-12, t_eval=grid).y
    # The exact solution oscillates about the motion of a rigid pendulum: error against both.
    angle = solve_ivp(lambda t, z: [z[1], -np.cos(z[0])], (0.0, end), [0.0, 0.0], rtol=1e-11, atol=1e-12, t_eval=grid).y[0]
    rigid = np.cos(angle)
    print(
        "\nPendulum held by a penalty (6.2), 10 s, h = 0.01 s.  largest |error of q_x|, against a rigid one, largest ||q| - 1| from 5 s on"
    )
    own = np.max(np.abs(exact[0] - rigid))
    print(f"  {'exact':40s} {'':20s} {own:18.4f} {np.max(np.abs(np.hypot(*exact[:2]) - 1)[500:]):27.1e}")
    errors, lengths = (plt.subplots(3, 1, figsize=(8, 7.5), sharex=True, constrained_layout=True) for _ in range(2))
    for i, (name, method) in enumerate(methods.items()):
        run = mbd.simulate(system, end, integrator=method, step=h)
        q = np.asarray(run.q)
        error, length = q[:, 0] - exact[0], np.hypot(q[:, 0], q[:, 1]) - 1.0
        against = q[:, 0] - rigid
        sizes = f"{np.max(np.abs(error)):20.4f} {np.max(np.abs(against)):18.4f} {np.max(np.abs(length[500:])):27.1e}"
        print(f"  {name:40s} {sizes}   {cost(run)}")
        errors[1][i].plot(grid, against, linewidth=0.9, color="C1", zorder=3, label="against a rigid pendulum")
        for (_, axes), values in ((errors, error), (lengths, length)):
            axes[i].plot(grid, values, linewidth=0.5, color="C0", label="against the exact solution")
            axes[i].set_title(name, fontsize=10)
    for number, (figure, axes), label in ((4, errors, "error of q_x"), (5, lengths, "|q| - 1")):
        axes[-1].set_xlabel("time [s]")
        for axis in axes:
            axis.set_ylabel(label)
        if number == 4:
            axes[0].legend(fontsize=8)
        figure.suptitle(f"Penalty pendulum (Figure {number})")
        save(figure, out / f"semi_explicit_figure_{number}.png")


# --- section 4 ----------------------------------------------------------------------------------------------------------------------------


@jax.jit
@jax.vmap
def radius_of_step(alpha, beta, k, c, stiff_k, stiff_c):
    """Of the map of one step with h = 1."""
    return spectral_radius(mbd.SemiExplicit(alpha, beta).precise(), SplitOscillator(k, c, stiff_k, stiff_c), jnp.ones(()))


def stability(out: Path) -> None:
    """Theorem 3's region (Figure 2) by experiment, without B and with a stiff B (Theorem 6)."""
    print("\nStability regions: spectral radius of the step map on a grid of (h c, h^2 k), against (7)")
    figure, axes = plt.subplots(2, 3, figsize=(12, 7.5), sharey=True, constrained_layout=True)
    c, k = np.meshgrid(np.linspace(-2.5, 4.5, 281), np.linspace(-0.5, 9.0, 191))
    stiffest = 4.0  # beyond the limit of an explicit B; with much more, all of the picture is stable
    for row, stiff in enumerate((0.0, stiffest)):
        for axis, alpha in zip(axes[row], (0.0, 0.5, 1.0), strict=True):
            flat = [np.full(c.size, value) for value in (alpha, 0.8)]
            rest = [np.full(c.size, value) for value in (stiff, np.sqrt(stiff))]
            radius = np.asarray(radius_of_step(*flat, k.ravel(), c.ravel(), *rest)).reshape(c.shape)
            edge = np.minimum.reduce([k, 2 - alpha * k - c, c - (0.5 - alpha) * k])
            clear = np.abs(edge) > 1e-6
            wrong = int(np.sum(clear & (edge > 0) & (radius > 1 + 1e-9)))
            outside = int(np.sum(clear & (edge < 0) & (radius <= 1 + 1e-9)))
            say = f"of {int(np.sum(edge > 0))} points inside (7), {wrong} unstable; of {int(np.sum(edge < 0))} outside, {outside} stable"
            print(f"  alpha = {alpha:3.1f}, h^2 k_B = {stiff:.0f}: {say}")
            axis.contourf(c, k, np.where(radius <= 1 + 1e-9, radius, np.nan), levels=np.linspace(0, 1, 11), cmap="Blues_r")
            corners = np.array([(0, 0), (2, 0), (2 - 4 * alpha, 4), (0, 0)])  # (7): hc = 2 - alpha h^2 k meets (1/2 - alpha) h^2 k
            axis.plot(*corners.T, color="C3", linewidth=1.2)
            axis.set_title(
                f"alpha = {alpha}, {'B = 0' if stiff == 0 else f'k_B h^2 = {stiff:.0f}, c_B h = {np.sqrt(stiff):.0f}'}", fontsize=10
            )
            axis.set_xlabel("h c")
    for axis in axes[:, 0]:
        axis.set_ylabel("h^2 k")
    figure.suptitle("Stable steps by experiment (shaded by spectral radius) and Theorem 3 (red); second row: with a stiff B (Theorem 6)")
    save(figure, out / "semi_explicit_stability.png")


def orders() -> None:
    """Theorem 2: order of consistency (local error over h), and of the global error."""
    print("\nOrders (Theorem 2): p in error = O(h^p) after 1 s, and consistency (local error = O(h^(p + 1))), for q and v")
    print("  alpha  beta  A depends on v  velocity predicted |  global q     v | consistency q     v | Theorem 2, consistency")
    for alpha, beta, drag, predict, claim in (
        (0.5, 0.5, 0.0, False, "2, 2"),
        (0.5, 0.5, 0.3, False, "2, 1"),
        (0.5, 0.5, 0.3, True, "(not in the paper)"),
        (0.5, 0.8, 0.0, False, "2, 1"),
        (0.0, 0.5, 0.0, False, "2, 1"),
        (1.0, 1.0, 0.0, False, "2, 1"),
    ):
        system, method = NonlinearSplit(jnp.asarray(drag)), mbd.SemiExplicit(alpha, beta, predict_velocity=predict)

        def rate(t, z, drag=drag):
            a = -2 * z[0] ** 3 - drag * z[1] ** 2 + np.sin(2 * t)
            return [z[1], a - 4 * np.sin(z[0]) - 0.5 * z[1] + 0.2 * np.cos(3 * t)]

        found = []
        for span, sizes in ((1.0, (0.01, 0.005)), (None, (0.01, 0.005))):
            errors = []
            for h in sizes:
                end = h if span is None else span
                exact = solve_ivp(rate, (0.0, end), [0.7, -0.4], method="DOP853", rtol=1e-13, atol=1e-14).y[:, -1]
                final = mbd.simulate(system, end, integrator=method, step=h).final
                errors.append(np.abs(np.array([float(final.q[0]), float(final.v[0])]) - exact))
            found.append(np.log2(errors[0] / errors[1]))
        (gq, gv), (lq, lv) = found[0], found[1] - 1
        print(f"  {alpha:5.1f} {beta:5.1f} {drag > 0!s:>15} {predict!s:>19} | {gq:9.2f} {gv:5.2f} | {lq:13.2f} {lv:5.2f} | {claim}")


# --- 6.3 ----------------------------------------------------------------------------------------------------------------------------------


def bearing(out: Path) -> None:
    """Needs scikit-sundae, which the other parts do not."""
    from semi_explicit_bearing import run

    run(out)


def main() -> None:
    mbd.fuse_loops()
    parts = {
        "oscillators": lambda given: oscillators(given.out),
        "pendulum": lambda given: pendulum(given.out),
        "stability": lambda given: stability(given.out),
        "orders": lambda _: orders(),
        "bearing": lambda given: bearing(given.out),
    }
    run_parts(__doc__, parts)


if __name__ == "__main__":
    main()
