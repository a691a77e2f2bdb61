"""Derivatives of whole runs: forward against reverse against differences of replayed runs, alone and in batches."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.running import derivatives

from .registry import CartesianPendulum, DrivenFilter, Sling

HHT, VERLET = mbd.HHT(tolerance=1e-5), mbd.Verlet()
ROOM = 1024


def differences(function, at, increment=1e-5):
    """Central differences. Prescribed steps solve Newton to 1e-12, so the noise is about 1e-12 / increment."""
    at = np.asarray(at, float)
    columns = []
    for i in range(at.size):
        shift = np.zeros_like(at)
        shift[i] = increment * max(1.0, abs(at[i]))
        columns.append((function(at + shift) - function(at - shift)) / (2 * shift[i]))
    return np.array(columns)


@pytest.fixture(scope="module")
def rod():
    """The ten lines of the quick tour, in the plane: a rod on a hinge with a torsion spring."""
    body = mbd.PlanarBody("rod", mass=3.0, inertia=1.0, position=(1.0, 0.0))
    return mbd.Model(
        [body],
        [mbd.Revolute("hinge", mbd.ground, body, point=(0.0, 0.0))],
        [
            mbd.Gravity((0.0, -9.81)),
            mbd.TorsionSpringDamper("spring", mbd.ground, body, stiffness=40.0, damping=1.5, free_angle=-1.57),
        ],
    ).build()


def changed(rod, p):
    return rod.set({"spring.stiffness": p[0], "rod.mass": p[1], "hinge.point": p[2:4]})


AT = jnp.array([40.0, 3.0, 0.05, -0.02])


@pytest.fixture(scope="module")
def adapted(rod):
    """The accepted steps at AT."""
    return mbd.simulate(changed(rod, AT), 1.0, integrator=HHT).steps


@pytest.fixture(scope="module")
def replayed_differences(rod, adapted):
    def end(p):
        return float(mbd.simulate(changed(rod, p), 1.0, integrator=HHT, step=adapted).final.q[1])

    return differences(end, AT)


def final_height(rod, p, **options):
    return mbd.simulate(changed(rod, p), 1.0, integrator=HHT, max_steps=ROOM, **options).final.q[1]


class TestMechanism:
    def test_reverse_mode_equals_differences_of_replayed_steps(self, rod, replayed_differences):
        """With respect to a stiffness, a mass and a joint's point."""
        gradient = jax.grad(lambda p: final_height(rod, p))(AT)
        np.testing.assert_allclose(gradient, replayed_differences, rtol=1e-5, atol=1e-7)

    def test_forward_mode_equals_reverse_mode(self, rod, replayed_differences):
        gradient = jax.jit(jax.jacfwd(lambda p: final_height(rod, p, adjoint="forward")))(AT)
        np.testing.assert_allclose(gradient, replayed_differences, rtol=1e-5, atol=1e-7)

    def test_gradients_of_a_batch_are_those_of_its_lanes(self, rod, replayed_differences):
        batch = AT + jnp.array([[0.0], [1.0]]) * jnp.array([4.0, 0.1, 0.0, 0.0])
        gradients = jax.jit(jax.vmap(jax.grad(lambda p: final_height(rod, p))))(batch)
        np.testing.assert_allclose(gradients[0], replayed_differences, rtol=1e-5, atol=1e-7)
        assert not np.allclose(gradients[1], gradients[0], rtol=1e-3)


class TestEquations:
    """On the smallest index-3 problem, where compiling is cheap."""

    @pytest.fixture(scope="class")
    @staticmethod
    def system():
        return CartesianPendulum()

    def test_gradient_of_saved_times(self, system):
        """Cotangents enter at interpolated rows, not only at the end."""
        times = jnp.array([0.2, 0.5, 0.77])

        def loss(gravity, **options):
            changed = eqx.tree_at(lambda s: s.gravity, system, jnp.asarray(gravity, float).reshape(()))
            return jnp.sum(mbd.simulate(changed, 0.9, integrator=HHT, saveat=times, **options).q[:, 1] ** 2)

        steps = mbd.simulate(system, 0.9, integrator=HHT).steps
        gradient = jax.jit(jax.grad(lambda g: loss(g, max_steps=ROOM)))(9.81)
        expected = differences(lambda g: float(loss(g[0], step=steps)), [9.81])[0]
        assert gradient == pytest.approx(expected, rel=1e-6)

    def test_gradient_with_respect_to_the_initial_state(self, system):
        start = mbd.simulate(system, 0.1, integrator=HHT).final
        steps = mbd.simulate(system, 0.6, integrator=HHT, initial=start).steps

        def end(v, **options):
            pushed = eqx.tree_at(lambda s: s.v, start, v)
            return mbd.simulate(system, 0.6, integrator=HHT, initial=pushed, **options).final.q[0]

        gradient = jax.grad(lambda v: end(v, max_steps=ROOM))(start.v)
        expected = differences(lambda v: float(end(jnp.asarray(v), step=steps)), start.v)
        np.testing.assert_allclose(gradient, expected, rtol=1e-6, atol=1e-9)

    def test_gradient_with_respect_to_alpha(self, system):
        """Integrator parameters are leaves like any other."""

        def end(alpha, **options):
            return mbd.simulate(system, 0.5, integrator=mbd.HHT(1e-5, alpha=alpha), **options).final.v[0]

        # Steps so long that alpha has an effect. It is small, so the increment is large; its truncation error is of the order of its square.
        gradient = jax.grad(lambda a: end(a, step=0.01))(-0.3)
        expected = (end(-0.3 + 1e-4, step=0.01) - end(-0.3 - 1e-4, step=0.01)) / 2e-4
        assert gradient == pytest.approx(float(expected), rel=1e-4)

    def test_gradient_through_differential_states(self):
        def end(tau, **options):
            return mbd.simulate(DrivenFilter(tau), 1.0, integrator=HHT, **options).final.x[0]

        steps = mbd.simulate(DrivenFilter(0.5), 1.0, integrator=HHT).steps
        gradient = jax.grad(lambda tau: end(tau, step=steps))(0.5)
        expected = (end(0.5 + 1e-5, step=steps) - end(0.5 - 1e-5, step=steps)) / 2e-5
        assert gradient == pytest.approx(float(expected), rel=1e-6)

    def test_a_model_may_be_built_from_traced_numbers(self):
        def end(mass):
            body = mbd.PointMass("p", mass, position=(1.0, 0.0))
            force = mbd.PointForce("push", body, point=(1.0, 0.0), value_or_function=(2.0, 0.0))
            return mbd.simulate(mbd.Model([body], forces=[force]), 1.0, integrator=HHT, max_steps=ROOM).final.q[0]

        # x = 1 + F t^2 / (2 m)
        assert jax.grad(end)(4.0) == pytest.approx(-1.0 / 16.0, rel=1e-9)


class Chained(mbd.AbstractSystem):
    """Two masses on nonlinear springs: family A by gravity and drag, family B between them."""

    stiffness: jax.Array
    q0: jax.Array = eqx.field(default_factory=lambda: jnp.array([1.0, 0.5]))
    v0: jax.Array = eqx.field(default_factory=lambda: jnp.array([0.0, 1.0]))

    def mass(self, q):
        return 2.0 * jnp.eye(2)

    def force(self, q, v, t):
        return -self.stiffness[0] * jnp.sin(q) - 0.1 * v**3

    def stiff_force(self, q, v, t):
        pull = 200.0 * self.stiffness[1] * jnp.sinh(q[0] - q[1])
        return jnp.stack([-pull, pull])


def slow(*names):
    return [pytest.param(name, marks=pytest.mark.slow) for name in names]


class TestSecondDerivatives:
    """Forward and reverse mode over reverse mode, against differences of gradients: roots are differentiated with the Jacobian that moves
    along."""

    CONSTRAINED: ClassVar = {
        "hht": mbd.HHT(1e-5),
        "bdf": mbd.BDF(1e-5),
        "stabilised bdf": mbd.BDF(1e-5, order=3, form="three-field", index="stabilized-2"),
        "rosenbrock-nystrom": mbd.RosenbrockNystrom(),
        "dormand-prince": mbd.DormandPrince(),
    }
    FREE: ClassVar = {"semi-explicit": mbd.SemiExplicit(0.5, 0.6), "theta": mbd.Theta(), "verlet": mbd.Verlet()}

    @pytest.mark.parametrize("name", ["hht", "bdf", *slow("stabilised bdf", "rosenbrock-nystrom", "dormand-prince")])
    def test_constrained(self, name):
        """By length and gravity; constraints, mass and drive depend on position, time and a differential state."""
        self._check(self.CONSTRAINED[name], lambda p: Sling(p[1], 10.0 * p[0]), jnp.array([0.981, 1.0]), np.full(8, 0.05))

    @pytest.mark.parametrize("name", ["semi-explicit", *slow("theta", "verlet")])
    def test_free(self, name):
        self._check(self.FREE[name], Chained, jnp.array([9.81, 1.0]), np.full(20, 0.005))

    @staticmethod
    def _check(integrator, system, at, steps):
        end = lambda p: mbd.simulate(system(p), steps.sum(), integrator=integrator, step=steps).final.q[0]  # noqa: E731
        gradient, hessian = jax.jit(jax.grad(end)), np.asarray(jax.jit(jax.hessian(end))(at))
        expected, direction = differences(lambda p: np.asarray(gradient(jnp.asarray(p))), at), jnp.array([0.6, 0.8])
        # Rounding of gradients over the increment: 1e-15 / 1e-5.
        np.testing.assert_allclose(hessian, expected, atol=1e-7 * np.abs(expected).max())
        np.testing.assert_allclose(hessian, hessian.T, atol=1e-11 * np.abs(hessian).max())
        reverse = jax.jit(jax.grad(lambda p: jax.grad(end)(p) @ direction))(at)
        np.testing.assert_allclose(reverse, hessian @ direction, atol=1e-11 * np.abs(hessian).max())


class Hardening(mbd.AbstractSystem):
    """A unit mass on a spring that becomes stiffer: derivatives of all orders by two numbers."""

    q0: jax.Array
    v0: jax.Array
    stiffness: jax.Array

    def mass(self, q):
        return jnp.eye(1)

    def force(self, q, v, t):
        return -self.stiffness[0] * q - self.stiffness[1] * q**3


class TestEveryMode:
    """The default serves forward and reverse mode, over each other, and inside of what traces before it differentiates."""

    AT = jnp.array([3.0, 2.0])

    @staticmethod
    def end(p, integrator=VERLET, steps=20):
        system = Hardening(jnp.ones(1), jnp.zeros(1), p)
        return mbd.simulate(system, 1.0, integrator=integrator, step=np.full(steps, 1.0 / steps)).final.q[0]

    @pytest.fixture(scope="class")
    @classmethod
    def gradient(cls):
        return jax.jit(jax.grad(cls.end))

    @pytest.mark.parametrize(
        "first",
        [
            lambda f: jax.jacfwd(jax.jit(f)),
            lambda f: jax.grad(lambda p: jnp.sum(jax.lax.map(jax.checkpoint(f), p[None]))),
        ],
        ids=["forward of jit", "reverse of map and checkpoint"],
    )
    def test_first_derivatives(self, gradient, first):
        np.testing.assert_allclose(first(self.end)(self.AT), gradient(self.AT), rtol=1e-12)

    @pytest.mark.parametrize("inner", [jax.jacfwd, jax.jacrev])
    def test_reverse_over_either(self, gradient, inner):
        expected = differences(lambda p: np.asarray(gradient(jnp.asarray(p))), self.AT)
        np.testing.assert_allclose(jax.jacrev(inner(self.end))(self.AT), expected, rtol=1e-7)  # rounding over the increment

    def test_reverse_over_reverse_by_rosenbrock(self):
        gradient = jax.grad(lambda p: self.end(p, mbd.RosenbrockNystrom(), 5))
        compiled = jax.jit(gradient)
        expected = differences(lambda p: np.asarray(compiled(jnp.asarray(p))), self.AT)
        np.testing.assert_allclose(jax.jit(jax.jacrev(gradient))(self.AT), expected, rtol=1e-7)


class TestPlainFunctions:
    """A drive that is a plain function is a leaf without a derivative: gradients of the rest pass by it."""

    METHODS: ClassVar = {"hht": HHT, "bdf": mbd.BDF(1e-4)}

    @pytest.fixture(scope="class")
    @staticmethod
    def driven():
        cart = mbd.PlanarBody("cart", mass=2.0, inertia=1.0)
        bob = mbd.PlanarBody("bob", mass=1.0, inertia=0.1, position=(0.0, -1.0))
        return mbd.Model(
            [cart, bob],
            [
                mbd.Translational("rail", mbd.ground, cart, point=(0.0, 0.0), axis=(1.0, 0.0)),
                mbd.Motion("drive", mbd.ground, cart, point=(0.0, 0.0), axis=(1.0, 0.0), function=_sway, coordinate="travel"),
                mbd.Revolute("hinge", cart, bob, point=(0.0, 0.0)),
            ],
            [mbd.Gravity((0.0, -9.81))],
        ).build()

    @pytest.mark.parametrize("name", METHODS)
    def test_gradient_by_inertia(self, driven, name):
        def end(inertia):
            system = driven.set({"bob.inertia": inertia})
            return mbd.simulate(system, 0.2, integrator=self.METHODS[name], step=np.full(20, 0.01)).final.q[3]

        both = jax.jit(jax.value_and_grad(end))
        difference = float(both(0.1001)[0] - both(0.0999)[0]) / 0.0002
        assert both(0.1)[1] == pytest.approx(difference, rel=1e-5)


def _sway(t):
    return 0.1 * jnp.sin(3.0 * t)


class TestWhatHasNoDerivative:
    """Says so, instead of being zero."""

    @staticmethod
    def end(system, t1=0.2, **options):
        return mbd.simulate(system, t1, integrator=mbd.Verlet(), throw=False, max_steps=64, **options).final.q[0]

    @pytest.mark.parametrize(
        ("name", "options"),
        [
            ("t1", lambda p: {"t1": 0.2 * p}),
            ("saveat", lambda p: {"saveat": 0.1 * p[None]}),
            ("step", lambda p: {"step": jnp.full(4, 0.05) * p}),
            ("first_step", lambda p: {"first_step": 0.01 * p}),
            ("max_step", lambda p: {"max_step": 0.01 * p}),
        ],
    )
    @pytest.mark.parametrize("derivative", [jax.grad, jax.jacfwd])
    def test_times_and_step_sizes(self, name, options, derivative):
        system = Hardening(jnp.ones(1), jnp.zeros(1), jnp.ones(2))
        with pytest.raises(RuntimeError, match=rf"simulate has no derivative by {name}: times and step sizes count as constants"):
            derivative(lambda p: self.end(system, **options(p)))(jnp.ones(()))

    def test_times_that_are_traced_and_not_differentiated(self):
        gradient = jax.grad(lambda p, t1: self.end(Hardening(jnp.ones(1), jnp.zeros(1), p), t1=t1))
        assert np.all(jax.jit(gradient)(jnp.ones(2), 0.2) != 0)

    def test_reverse_mode_with_a_forward_adjoint(self):
        system = Hardening(jnp.ones(1), jnp.zeros(1), jnp.ones(2))
        with pytest.raises(RuntimeError, match=r"adjoint='forward' has no reverse mode: take adjoint='reverse'"):
            jax.grad(lambda v: self.end(eqx.tree_at(lambda s: s.v0, system, v), adjoint="forward"))(jnp.ones(1))


class TestStartTime:
    """A start that moves in time stretches the last step, whose end is t1: the sling is driven by time."""

    STEPS = np.full(10, 0.04)

    @pytest.mark.parametrize(("derivative", "adjoint"), [(jax.grad, "reverse"), (jax.jacfwd, "forward")])
    def test_against_differences(self, derivative, adjoint):
        def end(t0, steps=self.STEPS, **options):
            return mbd.simulate(Sling(), self.STEPS.sum(), t0=t0, integrator=HHT, step=steps, **options).final.q[0]

        def stretched(t0):
            return float(end(t0, np.append(self.STEPS[:-1], self.STEPS[-1] - t0)))

        found = jax.jit(derivative(lambda t0: end(t0, adjoint=adjoint, throw=False)))(0.0)
        assert found == pytest.approx((stretched(1e-6) - stretched(-1e-6)) / 2e-6, rel=1e-7)


def test_backward_walk_carries_only_what_is_differentiated(rod, monkeypatch):
    """One number of a model: of the model one cotangent; of a state none for time and what it remembers."""
    carried = []

    def spy(walked, static, right):
        carried.append(right)
        return backward(walked, static, right)

    backward = derivatives._backward
    monkeypatch.setattr(derivatives, "_backward", spy)
    height = lambda k: mbd.simulate(rod.set({"spring.stiffness": k}), 0.1, integrator=HHT, step=np.full(4, 0.025), throw=False).final.q[1]  # noqa: E731
    jax.jit(jax.grad(height)).lower(40.0)
    (((of_parameters, of_states)),) = carried
    assert [leaf.shape for leaf in jax.tree.leaves(of_parameters)] == [(1,)]
    assert of_states.t is None
    assert not jax.tree.leaves(of_states.memory)
