"""All of these against all of those."""

import numpy as np
import pytest

import jaxmbd as mbd

LAW = mbd.LinearContact(1e4, 5.0)


@pytest.fixture(scope="module")
def solution():
    """Three discs that overlap a little with each other or the floor, over two short steps."""
    places = [(0.0, 0.0999), (0.1998, 0.0999), (0.1, 0.29)]
    discs = [mbd.PlanarBody(f"disc[{i}]", 1.0, 0.005, at) for i, at in enumerate(places[:2])]
    discs.append(mbd.PointMass("drop", 1.0, places[2]))  # a point mass has no orientation, and needs none here
    shapes = [mbd.Disc(body, at, 0.1) for body, at in zip(discs, places, strict=True)]
    floor = [mbd.Line(mbd.ground, (0.0, 0.0), (0.0, 1.0)), mbd.Line(mbd.ground, (-5.0, 0.0), (1.0, 0.0))]
    forces = [
        *mbd.contacts("pile", shapes, law=LAW, friction=mbd.Coulomb(0.3)),
        *mbd.contacts("walls", floor, shapes, law=lambda disc, line: mbd.LinearContact(1e3 / np.asarray(disc.radius))),
    ]
    model = mbd.Model(discs, forces=forces)
    return mbd.simulate(model, 2e-5, integrator=mbd.DormandPrince(), step=1e-5)


def test_a_group_has_one_column_a_pair_in_the_order_of_the_lists(solution):
    pile, walls = solution.contact("pile"), solution.contact("walls")
    assert pile.gap.shape == (3, 3)
    assert pile.power.shape == (3, 3, 2)
    assert walls.normal_force.shape == (3, 6)
    apart = np.hypot(0.1, 0.29 - 0.0999) - 0.2
    np.testing.assert_allclose(pile.gap[0], [-2e-4, apart, np.hypot(0.0998, 0.1901) - 0.2], atol=1e-12)
    # Floor first, then the wall, each against all discs.
    np.testing.assert_allclose(walls.gap[0], [-1e-4, -1e-4, 0.19, 4.9, 5.0998, 5.0], atol=1e-12)
    np.testing.assert_allclose(walls.normal_force[0], [1.0, 1.0, 0, 0, 0, 0], rtol=1e-9)
    for i in range(3):
        one = solution.contact(f"pile[{i}]")
        np.testing.assert_allclose(one.normal_force, pile.normal_force[:, i])
        np.testing.assert_allclose(one.power, pile.power[:, i])


def test_pairs_of_one_kind_are_one_element(solution):
    names = [group.names for group in solution.system.force_groups]
    assert [len(group) for group in names] == [3, 6]
    assert float(solution.system.get("walls[2].stiffness")) == 1e4


def test_sixty_four_spheres_in_a_box_are_two_elements():
    system = mbd.problems.spheres_in_box(64).build()
    assert [len(group.names) for group in system.force_groups] == [64 * 63 // 2, 64 * 5]


def test_a_pair_that_both_lists_have_is_taken_once():
    spheres = [mbd.Sphere(name, 0.1) for name in "abc"]
    floor = mbd.Plane(mbd.ground, (0.0, 0.0, 0.0), (0.0, 0.0, 1.0))
    found = mbd.contacts("all", spheres, [floor, *spheres], law=LAW)
    assert [contact.bodies for contact in found] == [
        ("a", "ground"),
        *(("a", b) for b in "bc"),
        ("b", "ground"),
        ("b", "c"),
        ("c", "ground"),
    ]
    assert [contact.name for contact in found] == [f"all[{i}]" for i in range(6)]


def test_balls_in_both_races_of_a_bearing_are_one_element():
    """As single pairs are."""
    balls = [mbd.RigidBody(f"ball[{i}]", 0.01, (1e-7,) * 3, at) for i, at in enumerate(((0.0325, 0, 0), (0, 0.0325, 0)))]
    axis, law = (0.0, 0.0, 1.0), mbd.Hertz(3e10)
    races = [
        mbd.Groove(mbd.ground, 6.604e-3, 32.746e-3, axis, "outside"),
        mbd.Groove(mbd.ground, 6.604e-3, 32.254e-3, axis, "inside"),
    ]
    group = mbd.contacts("race", races, [mbd.Sphere(ball, 6.35e-3) for ball in balls], law=law)
    single = mbd.SphereGroove("one", balls[1], mbd.ground, 6.35e-3, 6.604e-3, 32.254e-3, axis, law, side="inside")
    system = mbd.Model(balls, forces=[*group, single]).build()
    assert [found.names for found in system.force_groups] == [("race[0]", "race[1]", "race[2]", "race[3]", "one")]
    assert [contact.bodies[0] for contact in group] == ["ball[0]", "ball[1]"] * 2
    for field in ("radius", "groove_radius", "pitch_radius", "towards"):
        np.testing.assert_array_equal(getattr(group[3], field), getattr(single, field))


@pytest.mark.usefixtures("annotations_unchecked")
def test_unknown_groups_and_impossible_pairs_are_named(solution):
    with pytest.raises(ValueError, match=r"unknown contact 'pill'. Did you mean 'pile'"):
        solution.contact("pill")
    disc, sphere = mbd.Disc("a", (0.0, 0.0), 0.1), mbd.Sphere("b", 0.1)
    with pytest.raises(ValueError, match="'odd': there is no contact of a Sphere and a Disc; there are Sphere-Plane, "):
        mbd.contacts("odd", [disc], [sphere], law=LAW)
    with pytest.raises(ValueError, match="'lonely' has no pairs"):
        mbd.contacts("lonely", [sphere], law=LAW)
    with pytest.raises(ValueError, match=r"expected a shape such as mbd.Sphere"):
        mbd.contacts("bodies", ["a", "b"], law=LAW)
    with pytest.raises(ValueError, match=r"'soft\[0\]': law must be a contact law such as .* got 10000.0"):
        mbd.contacts("soft", [sphere, sphere._replace(body="a")], law=1e4)  # pyright: ignore[reportArgumentType]
