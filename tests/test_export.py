"""Programs for accelerators: everything a run does lowers for them, from a machine that has none, and nothing calls back to the host.

Exporting lowers a program and does not compile it. What is left of LAPACK and the like are custom calls, which are listed: none in small
systems, since these are eliminated by loops of our own (`solvers.linear.SIDE_BY_SIDE`).
"""

import re

import jax
import jax.export
import jax.numpy as jnp
import pytest

import jaxmbd as mbd

from .registry import EVERY_INTEGRATOR

LANES = jax.ShapeDtypeStruct((4,), float)
LU = {"cuda": {"cusolver_getrf_ffi", "cu_lu_pivots_to_permutation"}, "tpu": {"LuDecomposition"}}
"""What factorising larger matrices takes."""


def point_on_a_spring(rod: bool) -> mbd.System:
    """The smallest mechanism, with or without a constraint."""
    mass = mbd.PointMass("mass", 1.0, position=(1.0, 0.0))
    spring = mbd.SpringDamper("spring", mbd.ground, mass, (0.0, 1.0), (1.0, 0.0), 300.0, free_length=0.5)
    return mbd.Model([mass], [mbd.Distance("rod", mbd.ground, mass, (0.0, 0.0), (1.0, 0.0))] if rod else [], [spring]).build()


def custom_calls(platform: str, system: mbd.System, parameter: str, integrator: mbd.AbstractIntegrator, **options) -> dict[str, set[str]]:
    """Names of those in the programs of a batch of runs, and of their gradients."""

    def end(factor):
        changed = system.set({parameter: factor * system.get(parameter)})
        run = mbd.simulate(changed, 0.01, integrator=integrator, throw=False, **options)
        return jnp.sum(run.final.q), run.result

    programs = {"run": end, "gradient": jax.value_and_grad(end, has_aux=True)}
    exported = {name: jax.export.export(jax.jit(jax.vmap(program)), platforms=[platform])(LANES) for name, program in programs.items()}
    return {name: set(re.findall(r"custom_call @(\w+)", program.mlir_module())) for name, program in exported.items()}


def small(platform: str, integrator: mbd.AbstractIntegrator) -> dict[str, set[str]]:
    explicit = integrator.name in UNCONSTRAINED
    return custom_calls(
        platform, point_on_a_spring(rod=not explicit), "spring.stiffness", integrator, step=1e-3 if explicit else None, max_steps=16
    )


UNCONSTRAINED = ("verlet", "explicit-nystrom", "semi-explicit", "theta")


def test_every_integrator_is_listed():
    public = {kind for kind in vars(mbd).values() if isinstance(kind, type) and issubclass(kind, mbd.AbstractIntegrator)}
    assert public - {mbd.AbstractIntegrator} == {type(listed.method) for listed in EVERY_INTEGRATOR.values()}


@pytest.mark.parametrize("name", EVERY_INTEGRATOR)
def test_a_batch_of_runs_and_its_gradient_export_for_cuda_without_any_custom_call(name):
    assert small("cuda", EVERY_INTEGRATOR[name].method) == {"run": set(), "gradient": set()}


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY_INTEGRATOR)
def test_the_same_for_tpu(name):
    assert small("tpu", EVERY_INTEGRATOR[name].method) == {"run": set(), "gradient": set()}


@pytest.mark.slow
@pytest.mark.parametrize("platform", ["cuda", "tpu"])
@pytest.mark.parametrize("name", ["hht", "rosenbrock-nystrom"])
def test_a_vehicle_factorises_by_the_librarys_lu_and_calls_nothing_else(platform, name):
    vehicle = mbd.problems.hmmwv().build()
    calls = custom_calls(platform, vehicle, "chassis.mass", EVERY_INTEGRATOR[name].method, max_steps=16)
    assert calls == {"run": LU[platform], "gradient": LU[platform]}


@pytest.mark.slow
@pytest.mark.parametrize("platform", ["cuda", "tpu"])
def test_a_ball_bearing_factorises_by_the_librarys_lu_and_calls_nothing_else(platform):
    bearing = mbd.problems.ball_bearing().build()
    mass = next(name for name in bearing.parameter_names() if name.endswith(".mass"))
    calls = custom_calls(platform, bearing, mass, mbd.SemiExplicit(0.5, 0.8), step=1e-4)
    assert calls == {"run": LU[platform], "gradient": LU[platform]}
