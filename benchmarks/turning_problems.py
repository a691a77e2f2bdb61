"""Bodies that turn and are held stiffly: a flyball governor with a reference of its own, a rattleback.

from turning_problems import governor  # in a benchmark
from benchmarks.turning_problems import governor  # in a test
"""

from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

import jaxmbd as mbd

GRAVITY = 9.81
SPEED = 2 * np.pi
"""rad/s, of the governor"""
STIFFNESS, DAMPING, LINK = 8e5, 4e4, 0.5
"""N/m, N s/m, m: of the governor's links"""
BALL, BAR, SLEEVE = 5.0, 0.3, 3.0
"""kg: a ball; a bar of 1 m x 0.01 m x 0.01 m, as shaft and rods are; a cube of 0.1 m"""
ROD = BALL + BAR
CENTRE = (0.5 * BAR + BALL) / ROD
"""m, from the hinge to the centre of mass of a rod with its ball"""
SLENDER = BAR * (1.0 + 1e-4) / 12
ACROSS, ALONG = SLENDER + BAR * (CENTRE - 0.5) ** 2 + BALL * (1 - CENTRE) ** 2, BAR * 2e-4 / 12
"""kg m^2, of such a rod about its centre of mass"""


def governor() -> mbd.Model:
    """The stiff flyball governor of the IFToMM library of multibody benchmarks (A05): on a shaft that turns freely hang two rods with balls;
    links between their middles and a sleeve on the shaft are very stiff spring-dampers. Names: shaft, sleeve, rod1, rod2; link1, link2."""
    up, turning = np.array([0.0, 0.0, 1.0]), np.array([0.0, 0.0, SPEED])
    shaft = mbd.RigidBody("shaft", BAR, (SLENDER, SLENDER, ALONG), 0.5 * up, angular_velocity=turning)
    sleeve = mbd.RigidBody("sleeve", SLEEVE, (SLEEVE * 0.02 / 12,) * 3, 0.5 * up, angular_velocity=turning)
    bodies, forces = [shaft, sleeve], [mbd.Gravity(-GRAVITY * up)]
    joints = [mbd.Revolute("bearing", mbd.ground, shaft, 0 * up, up), mbd.Translational("guide", shaft, sleeve, 0.5 * up, up)]
    for name, side in (("1", 1.0), ("2", -1.0)):
        below = np.pi / 6 if side > 0 else 5 * np.pi / 6
        hinge, along = np.array([0.05 * side, 0.0, 1.0]), np.array([np.cos(below), 0.0, -np.sin(below)])
        turn, centre = (np.cos(below / 2), 0.0, np.sin(below / 2), 0.0), hinge + CENTRE * along
        rod = mbd.RigidBody(f"rod{name}", ROD, (ALONG, ACROSS, ACROSS), centre, turn, np.cross(turning, centre), turning)
        bodies.append(rod)
        joints.append(mbd.Revolute(f"hinge{name}", shaft, rod, hinge, (0.0, 1.0, 0.0)))
        ends = np.array([0.05 * side, 0.0, 0.5]), hinge + 0.5 * along
        forces.append(mbd.SpringDamper(f"link{name}", sleeve, rod, *ends, STIFFNESS, DAMPING, free_length=LINK))
    return mbd.Model(bodies, joints, forces)


def governor_reference(t1: float, tolerance: float = 1e-10) -> Any:
    """Of times: (shaft's angle, angle b of both rods below the horizontal, sleeve's height s, and their rates), from

    T = J(b) a'^2 / 2 + (m c^2 + I) b'^2 + M s'^2 / 2,    J = J0 + 2 (m (0.05 + c cos b)^2 + I cos^2 b + I_along sin^2 b)
    """
    still = ALONG + SLEEVE * 0.02 / 12

    def rate(t, y):
        _, b, s, da, db, ds = y
        c, d = np.cos(b), np.sin(b)
        reach = 0.05 + CENTRE * c
        inertia = still + 2 * (ROD * reach**2 + ACROSS * c**2 + ALONG * d**2)
        slope = -4 * (ROD * reach * CENTRE * d + (ACROSS - ALONG) * c * d)
        x, z = 0.5 * c, 1.0 - 0.5 * d - s
        length = np.hypot(x, z)
        by_b, by_s = -0.5 * (x * d + z * c) / length, -z / length
        pull = STIFFNESS * (length - LINK) + DAMPING * (by_b * db + by_s * ds)
        ddb = (0.25 * slope * da**2 + ROD * GRAVITY * CENTRE * c - pull * by_b) / (ROD * CENTRE**2 + ACROSS)
        return [da, db, ds, -slope * db * da / inertia, ddb, -2 * pull * by_s / SLEEVE - GRAVITY]

    start = [0.0, np.pi / 6, 0.5, SPEED, 0.0, 0.0]
    run = solve_ivp(rate, (0.0, t1), start, "Radau", rtol=tolerance, atol=tolerance, dense_output=True)
    return run.sol


def rattleback() -> mbd.Model:
    """An ellipsoid whose axes of inertia are turned by 5 degrees, spun the wrong way on a stiff plane with friction. Names: stone, floor."""
    axes, turn, stiffness = np.array([0.2, 0.03, 0.02]), np.deg2rad(5), 1e5
    moments = np.diag((np.sum(axes**2) - axes**2) / 5)
    turned = np.array([[np.cos(turn), -np.sin(turn), 0.0], [np.sin(turn), np.cos(turn), 0.0], [0.0, 0.0, 1.0]])
    height = axes[2] - GRAVITY / stiffness
    stone = mbd.RigidBody("stone", 1.0, turned @ moments @ turned.T, (0.0, 0.0, height), angular_velocity=(0.1, 0.0, -5.0))
    law, up = mbd.LinearContact(stiffness, 50.0), (0.0, 0.0, 1.0)
    floor = mbd.EllipsoidPlane("floor", stone, mbd.ground, axes, (0.0, 0.0, 0.0), up, law, mbd.Coulomb(0.5))
    return mbd.Model([stone], [], [mbd.Gravity((0.0, 0.0, -GRAVITY)), floor])
