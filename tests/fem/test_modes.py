"""Finite elements and their reduction: frequencies of tubes against closed forms, loads at nodes, matrices of other programs, bad input."""

import jax
import numpy as np
import pytest
import scipy.io
import scipy.linalg
import scipy.sparse as sparse

from jaxmbd import fem

LENGTH, MODULUS, DENSITY = 1.0, 210e9, 7850.0
ENDS = {"a": 0, "c": 2}
TUBE = fem.Tube(0.02, 0.002)


def tube(elements=16, **changes):
    return fem.SpaceFrame(
        {"a": (0, 0, 0), "b": (LENGTH, 0, 0)}, [("a", "b", "t")], {"t": TUBE}, element_length=LENGTH / elements, **changes
    )


def angle(**changes):
    """Two tubes at an angle with a mass at the end."""
    nodes = {"a": (0, 0, 0), "b": (1, 0, 0), "c": (1, 0.6, 0.2)}
    tubes = [("a", "b", "t"), ("b", "c", "t")]
    return fem.SpaceFrame(nodes, tubes, {"t": changes.pop("section", TUBE)}, element_length=0.2, masses={"c": 0.3}, **changes)


def bending(roots):
    """Hz, by Euler and Bernoulli."""
    area, second = (float(part) for part in TUBE.measures())
    return np.array(roots) ** 2 / (2 * np.pi * LENGTH**2) * np.sqrt(MODULUS * second / (DENSITY * area))


@pytest.mark.parametrize(
    ("held", "roots"),
    [
        ((0, 1, 2, 3, 4, 5), (1.875104, 4.694091, 7.854757)),
        ((0, 1, 2, 3, 7, 8), (np.pi, 2 * np.pi, 3 * np.pi)),
        ((), (4.730041, 7.853205, 10.995608)),
    ],
    ids=["cantilever", "supported", "free"],
)
def test_frequencies_of_a_tube_are_those_of_beam_theory(held, roots):
    # A modulus of shear a hundred times too large takes the slenderness out, which the closed forms neglect.
    mass, stiffness = (matrix.toarray() for matrix in tube(shear_coefficient=50.0).matrices())
    free = np.setdiff1d(np.arange(len(mass)), held)
    squares = scipy.linalg.eigh(stiffness[np.ix_(free, free)], mass[np.ix_(free, free)], eigvals_only=True)
    found = np.sqrt(np.maximum(squares, 0)) / (2 * np.pi)
    for expected in bending(roots):
        assert np.abs(found / expected - 1).min() < 5e-3


def test_a_load_at_the_end_of_a_cantilever_bends_shears_stretches_and_twists_it():
    frame = tube(3)
    stiffness = frame.matrices()[1].toarray()
    area, second = (float(part) for part in TUBE.measures())
    shear = MODULUS / 2.6
    flexibility = np.linalg.inv(stiffness[6:, 6:])[:6, :6]  # named nodes come first: of the end
    deflection = LENGTH**3 / (3 * MODULUS * second) + LENGTH / (0.5 * shear * area)
    expected = (LENGTH / (MODULUS * area), deflection, deflection, LENGTH / (shear * 2 * second), *[LENGTH / (MODULUS * second)] * 2)
    np.testing.assert_allclose(np.diag(flexibility), expected, rtol=1e-9)
    np.testing.assert_allclose(flexibility[1, 5], LENGTH**2 / (2 * MODULUS * second), rtol=1e-9)
    np.testing.assert_allclose(flexibility[2, 4], -(LENGTH**2) / (2 * MODULUS * second), rtol=1e-9)
    # The same bending moment by stress recovery: 1 N across at the end makes M c / I at the wall.
    moved = np.zeros((stiffness.shape[0], 1))
    moved[6:] = np.linalg.solve(stiffness[6:, 6:], np.eye(len(stiffness) - 6)[:, 2:3])
    stresses = np.asarray(frame.recovery().matrix(moved))
    assert np.abs(stresses[:, 0]).max() == pytest.approx(LENGTH * 0.01 / second, rel=1e-9)
    assert np.abs(stresses[:, 1]).max() == pytest.approx(2 / area, rel=1e-9)


def test_craig_bampton_keeps_frequencies_statics_and_rigid_properties():
    frame = angle()
    reduced = fem.craig_bampton(frame, ("a", "c"), 12)
    mass, stiffness = (matrix.toarray() for matrix in frame.matrices())
    exact = np.sqrt(scipy.linalg.eigh(stiffness, mass, eigvals_only=True)[6:12]) / (2 * np.pi)
    assert reduced.count == 2 * 6 + 12 - 6
    np.testing.assert_allclose(reduced.frequencies[:6], exact, rtol=1e-3)
    np.testing.assert_allclose(reduced.modal_mass, np.diag(np.diag(reduced.modal_mass)), atol=1e-10 * reduced.mass)
    # Statics between interface points are exact: a pair of opposite forces along a line opens it as the whole mesh does.
    line = (np.array([1, 0.6, 0.2])) / np.linalg.norm([1, 0.6, 0.2])
    load = np.zeros(len(mass))
    load[:3], load[12:15] = -line, line
    opening = load @ np.linalg.lstsq(stiffness, load, rcond=1e-12)[0]
    modal = np.einsum("pim,pi->m", reduced.interface_shapes[:, :3], np.stack([-line, line]))
    assert modal @ np.linalg.solve(reduced.modal_stiffness, modal) == pytest.approx(opening, rel=1e-7)
    area = float(TUBE.measures()[0])
    first, second = DENSITY * area, DENSITY * area * np.sqrt(0.4)
    assert reduced.mass == pytest.approx(first + second + 0.3)
    centre = (first * np.array([0.5, 0, 0]) + second * np.array([1, 0.3, 0.1]) + 0.3 * np.array([1, 0.6, 0.2])) / reduced.mass
    np.testing.assert_allclose(reduced.centre, centre, atol=1e-12)
    # Lumps tell the inertia of the line of masses up to what elements hold within themselves.
    lumped = np.sum(reduced.arms**2) * np.eye(3) - reduced.arms.T @ reduced.arms
    np.testing.assert_allclose(lumped, reduced.inertia, atol=0.02 * np.trace(reduced.inertia))


def test_matrices_of_another_program_by_file_or_as_arrays_tell_the_same(tmp_path):
    frame = angle()
    mass, stiffness = frame.matrices()
    scipy.io.mmwrite(tmp_path / "M.mtx", mass, symmetry="general", precision=17)
    one = fem.craig_bampton(frame, ("a", "c"), 4)
    for given in ((tmp_path / "M.mtx", stiffness), (mass.toarray(), stiffness.toarray())):
        other = fem.craig_bampton(fem.Structure(*given, frame.positions, ENDS), ("a", "c"), 4)
        np.testing.assert_allclose(other.frequencies, one.frequencies, rtol=1e-6)
        np.testing.assert_allclose(other.inertia, one.inertia, rtol=1e-9)
    assert other.recovery is None
    assert "Hz" in str(one)


def test_a_solid_is_tied_to_a_piece_of_several_nodes():
    """A lattice of masses and springs, 3 displacements a node: one end is a rigid piece that turns."""
    places = np.array([(x, y, z) for x in np.arange(4) * 0.1 for y in (0, 0.1) for z in (0, 0.1)])
    stiffness = np.zeros((48, 48))
    for i in range(16):
        for j in range(i):
            apart = places[i] - places[j]
            if np.linalg.norm(apart) < 0.18:
                along = np.concatenate([np.zeros(3 * j), -apart, np.zeros(3 * (i - j - 1)), apart, np.zeros(45 - 3 * i)]) / np.linalg.norm(
                    apart
                )
                stiffness += 1e6 * np.outer(along, along)
    structure = fem.Structure(0.1 * np.eye(48), stiffness, places, {"left": [0, 1, 2, 3], "right": [12, 13, 14, 15]})
    reduced = fem.craig_bampton(structure, ("left", "right"), 2)
    assert reduced.count == 8
    assert reduced.mass == pytest.approx(1.6)
    np.testing.assert_allclose(reduced.interface_positions[:, 0], (-0.15, 0.15), atol=1e-12)
    # Turns of a piece are those of its nodes.
    turn = np.abs(reduced.interface_shapes[:, 3:]).max(axis=(0, 1))
    assert (turn > 0.1).any()


def test_a_design_is_projected_on_frozen_shapes_with_derivatives():
    reduced = fem.craig_bampton(angle(), ("a", "c"), 4)

    def numbers(wall, modulus):
        other = fem.project(angle(section=fem.Tube(0.02, wall), elastic_modulus=modulus), reduced)
        return (
            other.mass,
            other.inertia[0, 0],
            other.frequencies[0],
            other.modal_mass[0, 0],
            other.modal_stiffness[1, 1],
            jax.numpy.sqrt((other.recovery.matrix**2).sum()),
        )

    same = fem.project(angle(), reduced)
    np.testing.assert_allclose(same.frequencies, reduced.frequencies, rtol=1e-9)
    slopes = jax.jit(jax.jacfwd(numbers, argnums=(0, 1)))(0.002, MODULUS)
    values = jax.jit(numbers)
    for slope, argument, step in ((0, 0, 1e-6), (1, 1, 1e8)):
        point = [0.002, MODULUS]
        high, low = list(point), list(point)
        high[argument] += step
        low[argument] -= step
        for derivative, above, below in zip([s[slope] for s in slopes], values(*high), values(*low), strict=True):
            expected = float(above - below) / (2 * step)
            assert float(derivative) == pytest.approx(expected, rel=2e-4, abs=1e-6 * abs(float(above)) / point[argument])
    by_modulus = slopes[2][1]
    assert float(by_modulus) == pytest.approx(0.5 * float(reduced.frequencies[0]) / MODULUS, rel=1e-6)


def lopsided():
    mass, stiffness = (matrix.toarray() for matrix in angle().matrices())
    stiffness[0, 1] += 1e-3 * stiffness.max()
    return mass, stiffness


def negative():
    mass, stiffness = (matrix.toarray() for matrix in angle().matrices())
    return mass, stiffness - 0.01 * np.diag(np.diag(stiffness))


def grounded():
    mass, stiffness = angle().matrices()
    return mass, stiffness + sparse.diags([1e6] * 3 + [0.0] * (mass.shape[0] - 3))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fem.Structure(*lopsided(), angle().positions), "not symmetric"),
        (lambda: fem.craig_bampton(fem.Structure(*negative(), angle().positions, {"a": 0}), ("a",)), "negative eigenvalues"),
        (
            lambda: fem.craig_bampton(fem.Structure(*grounded(), angle().positions, {"a": 0, "c": 2}), ("a", "c"), 4),
            "has six: free its supports",
        ),
        (lambda: fem.Structure(*angle().matrices(), angle().positions, {"mount": 900}), "'mount' is outside of the mesh"),
        (lambda: fem.craig_bampton(angle(), ("a", "d")), "outside of its mesh: unknown point 'd'"),
        (lambda: fem.craig_bampton(angle(), ("a",), 10_000), "modes must be between 0 and"),
        (lambda: fem.Structure(np.eye(5), np.eye(5), angle().positions), "nodes need matrices of"),
        (lambda: fem.Structure(np.eye(6), np.eye(7), np.zeros((2, 3))), "they must agree"),
        (lambda: fem.SpaceFrame({"a": (0, 0, 0), "b": (0, 0, 0)}, [("a", "b", "t")], {"t": TUBE}), "has no length"),
        (lambda: fem.SpaceFrame({"a": (0, 0, 0), "b": (1, 0, 0)}, [("a", "c", "t")], {"t": TUBE}), "unknown node 'c'"),
        (lambda: fem.SpaceFrame({"a": (0, 0, 0), "b": (1, 0, 0)}, [("a", "b", "s")], {"t": TUBE}), "unknown section 's'"),
        (lambda: fem.Tube(0.02, 0.02), "cannot have a wall"),
        (lambda: fem.Tube(0.02, -1.0), "must be positive"),
    ],
)
def test_bad_structures_are_refused_with_a_reason(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("modulus", [210.0, 210e9 * 1e9])
def test_frequencies_that_no_machine_has_warn_of_units(modulus):
    with pytest.warns(UserWarning, match="Are modulus, density and lengths"):
        fem.craig_bampton(angle(elastic_modulus=modulus), ("a", "c"), 2)
