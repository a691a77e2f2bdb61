"""A user's own equations: what a class declares by what it writes down."""

import jax.numpy as jnp
import pytest

import jaxmbd as mbd


class Free(mbd.AbstractSystem):
    q0 = property(lambda self: jnp.ones(2))
    v0 = property(lambda self: jnp.zeros(2))

    def mass(self, q):
        return jnp.eye(2)

    def force(self, q, v, t):
        return -q


class Sprung(Free):
    def stiff_force(self, q, v, t):
        return -1e4 * q


class Heavier(Sprung):
    def mass(self, q):
        return 2.0 * jnp.eye(2)


class Released(Sprung):
    has_stiff_force = False

    def stiff_force(self, q, v, t):
        return jnp.zeros_like(q)


class Touching(Free):
    def contact_power(self, q, v, t):
        return jnp.zeros(1)


def test_family_b_is_declared_by_its_method_and_inherited():
    assert [system.stiff_coordinates() for system in (Free(), Sprung(), Heavier(), Released())] == [(), (0, 1), (0, 1), ()]


def test_so_is_contact_power():
    assert not Free.has_contact_power
    assert Touching.has_contact_power
    assert mbd.System.has_contact_power


@pytest.mark.parametrize("missing", ["mass", "force"])
def test_equations_that_lack_a_part_are_refused_when_they_are_made(missing):
    methods = {"mass": lambda self, q: jnp.eye(1), "force": lambda self, q, v, t: -q}
    fields = {"q0": property(lambda self: jnp.ones(1)), "v0": property(lambda self: jnp.zeros(1))}
    kind = type("Incomplete", (mbd.AbstractSystem,), fields | {name: given for name, given in methods.items() if name != missing})
    with pytest.raises(TypeError, match=rf"Can't instantiate abstract class Incomplete .*{missing}"):
        kind()
