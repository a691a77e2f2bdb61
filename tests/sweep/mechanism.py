"""The mechanism of these tests: a mass on a spring. Explicit steps of one size compile fast, and explode if the spring is too stiff for them."""

import numpy as np

import jaxmbd as mbd
from jaxmbd.sweep.designs import read_design
from jaxmbd.sweep.program import read_job

T1, STEP = 0.5, 0.01
STIFFNESSES = np.linspace(50.0, 400.0, 10)
OBSERVE = ("peak:mass.x", "final:mass.vx")
OPTIONS = {"integrator": mbd.Verlet(), "step": STEP}
TOO_STIFF = 1e6
"""N/m: Verlet's limit at 1 kg is 4 / STEP^2"""


def system():
    mass = mbd.PointMass("mass", 1.0, position=(1.0, 0.0))
    spring = mbd.SpringDamper("spring", mbd.ground, mass, (0, 0), (1, 0), stiffness=100.0, damping=0.1, free_length=0.9)
    return mbd.Model([mass], [], [spring]).build()


def job():
    return read_job(system(), T1, OBSERVE, None, OPTIONS)


def columns(stiffnesses=STIFFNESSES):
    return read_design(system(), {"spring.stiffness": stiffnesses}, "zip").columns
