"""Models in the formats of robots: the same mechanism as MuJoCo makes of them, nothing dropped without a word, nothing read that is not XML."""

import jax
import numpy as np
import pytest

import jaxmbd as mbd
from benchmarks import robots


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in ("double pendulum", "cart-pole") else []) for name in robots.ROBOTS]
)
def test_masses_and_accelerations_are_those_of_mujoco(name):
    """To rounding: both solve the same linear equations. Largest accelerations are some 100 rad/s^2."""
    pytest.importorskip("mujoco")
    text, _ = robots.ROBOTS[name]
    model = robots.imported(text)
    found = robots.differences(text, robots.Other(text), model)
    assert max(found[what] for what in ("mass", "inertia", "place")) < 1e-13
    assert found["acceleration"] < 1e-10
    assert found["angular"] < 1e-9


def test_it_falls_as_in_mujoco():
    """The cart's spring and damper, the pole's damper among them; HHT at 1e-6, of 0.1 m and more of motion."""
    pytest.importorskip("mujoco")
    assert robots.fall(robots.CART_POLE, 0.2, 1e-6) < 5e-6


def test_joints_springs_and_stops_have_their_names():
    arm = robots.imported(robots.ARM)
    assert [joint.name for joint in arm.joints] == [f"axis{i}" for i in range(1, 7)]
    assert {force.name for force in arm.forces} == {"gravity"} | {f"axis{i}_{part}" for i in range(1, 7) for part in ("spring", "stop")}
    assert len(arm.scenery) == 1  # the pedestal stands on the ground
    stop = next(force for force in arm.forces if force.name == "axis1_stop")
    assert (stop.lower, stop.upper) == (-2.9, 2.9)
    chain = robots.imported(robots.BALL_CHAIN)
    assert [type(joint).__name__ for joint in chain.joints] == ["Spherical", "Spherical", "Universal"]
    assert [type(shape).__name__ for body in chain.bodies for shape in body.shape] == ["Capsule", "Mesh", "Cylinder"]
    robot = robots.imported(robots.DOUBLE_PENDULUM)
    assert [shape.color for body in robot.bodies for shape in body.shape] == ["#334ccc", "#334ccc"]


def test_an_imported_model_is_data(tmp_path):
    model = robots.imported(robots.CART_POLE)
    loaded = mbd.load_model(model.save(tmp_path / "x.json"))
    assert repr(loaded) == repr(model)


ONE = '<body name="b"><joint name="j" axis="0 1 0"/><geom type="sphere" size="0.1" pos="0.3 0 0"/></body>'


def mjcf(world=ONE, rest=""):
    return f"<mujoco><worldbody>{world}</worldbody>{rest}</mujoco>"


def told(load, text):
    with pytest.warns(UserWarning, match="not supported, and left out") as seen:
        load(text)
    (one,) = seen
    return str(one.message)


def test_what_is_left_out_is_named():
    body = ONE.replace("<geom", '<site name="tip"/><geom friction="1 1 1"').replace("<joint", '<joint frictionloss="0.3"')
    message = told(mbd.load_mjcf, mjcf(body + '<light name="sun"/>', '<actuator><motor joint="j"/></actuator><option timestep="0.01"/>'))
    for word in ("joint frictionloss", "geom friction", "site 'tip'", "light 'sun'", "actuator", "option timestep", "contacts of geoms"):
        assert word in message
    assert "damping" not in message
    inner = ONE.replace(
        "</body>", '<body name="c"><joint name="k" type="ball" armature="0.1" range="0 30"/><geom size="0.1"/></body></body>'
    )
    message = told(mbd.load_mjcf, mjcf(inner))
    for word in ("armature of joint 'k'", "range of joint 'k', a ball"):
        assert word in message


def urdf(rest, mass=1, joint='type="revolute"'):
    inertial = f'<inertial><mass value="{mass}"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
    links = f'<link name="a"/><link name="b">{inertial}</link>'
    return f'<robot name="r">{links}<joint name="j" {joint}><parent link="a"/><child link="b"/>{rest}</joint></robot>'


def test_what_is_left_out_of_urdf_is_named():
    rest = '<limit lower="-1" upper="1" effort="3" velocity="2"/><dynamics damping="1" friction="0.2"/><mimic joint="k"/>'
    message = told(mbd.load_urdf, urdf(rest).replace("</robot>", '<transmission name="t"/></robot>'))
    for word in ("limit effort", "limit velocity", "dynamics friction", "mimic", "transmission 't'"):
        assert word in message


def test_kinds_of_joints_of_urdf():
    kinds = {"prismatic": "Translational", "planar": "Planar", "continuous": "Revolute"}
    for kind, wanted in kinds.items():
        assert [type(joint).__name__ for joint in mbd.load_urdf(urdf("", joint=f'type="{kind}"')).joints] == [wanted]
    assert mbd.load_urdf(urdf("", joint='type="floating"')).joints == ()
    inertial = '<inertial><mass value="2"/><inertia ixx="1" iyy="1" izz="1"/></inertial>'
    root = urdf("").replace('<link name="a"/>', f'<link name="a">{inertial}</link>')
    assert [body.mass for body in mbd.load_urdf(root, floating_base=True).bodies] == [2.0, 1.0]
    assert [body.name for body in mbd.load_urdf(root).bodies] == ["b"]


@pytest.mark.parametrize(
    ("load", "text", "message"),
    [
        (mbd.load_urdf, '<!DOCTYPE x [<!ENTITY a "b">]><robot/>', "declares a document type or entities"),
        (mbd.load_urdf, "<robot><link>", "is no XML"),
        (mbd.load_urdf, "<mujoco/>", "begins with <mujoco>, expected <robot>"),
        (mbd.load_urdf, urdf("", mass=0), "link 'b' moves, but has no mass"),
        (mbd.load_urdf, urdf("", joint='type="rotary"'), "has the type 'rotary'; there are revolute"),
        (mbd.load_urdf, urdf("").replace('child link="b"', 'child link="c"'), "there is no link 'c'"),
        (mbd.load_urdf, urdf("").replace("<link", '<link name="z"/><link', 1), "one root.*here there is 'z', 'a'"),
        (mbd.load_urdf, urdf('<limit lower="1" upper="-1"/>'), "there must be room"),
        (mbd.load_urdf, urdf('<axis xyz="0 0 0"/>'), "axis of zero length"),
        (mbd.load_urdf, urdf('<axis xyz="0 a 0"/>'), "which are no numbers"),
        (mbd.load_urdf, urdf("", joint='type="fixed"'), "nothing moves in it"),
        (mbd.load_mjcf, mjcf(rest='<include file="x.xml"/>'), "<include>, which is not followed"),
        (mbd.load_mjcf, mjcf(ONE.replace("<joint", '<joint type="slide" axis="1 1 0"/><joint')), "none of the joints there are"),
        (mbd.load_mjcf, mjcf(ONE.replace('type="sphere"', 'type="mesh" mesh="m"')), "a mesh, whose mass is not computed"),
        (mbd.load_mjcf, mjcf(ONE.replace("<joint", '<joint class="big"')), "class 'big', which is not among the defaults"),
        (mbd.load_mjcf, mjcf(ONE.replace('name="b"', 'name="b" quat="1 0 0 0" euler="0 0 0"')), "more than one orientation"),
    ],
)
def test_what_cannot_be_is_an_error(load, text, message):
    with pytest.raises(ValueError, match=message):
        load(text)


def test_meshes_for_the_picture(tmp_path):
    corners = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], "<f4")
    faces = [(0, 2, 1), (0, 1, 3), (0, 3, 2), (1, 2, 3)]
    record = np.zeros(4, [("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])
    record["corners"] = corners[np.array(faces)]
    (tmp_path / "t.stl").write_bytes(b"\0" * 80 + (4).to_bytes(4, "little") + record.tobytes())
    lines = [f"v {x} {y} {z}" for x, y, z in corners] + [f"f {a + 1}/1 {b + 1}/1 {c + 1}/1" for a, b, c in faces]
    (tmp_path / "t.obj").write_text("\n".join(lines))
    for name in ("t.stl", "t.obj"):
        look = f'<visual><origin xyz="0 0 1"/><geometry><mesh filename="package://{name}" scale="2 2 2"/></geometry></visual></link><joint'
        (tmp_path / "r.urdf").write_text(urdf("").replace("</link><joint", look, 1))
        (body,) = mbd.load_urdf(tmp_path / "r.urdf").bodies
        vertices = np.array(body.shape[0].vertices)
        assert {tuple(v) for v in vertices} == {(0, 0, 1), (2, 0, 1), (0, 2, 1), (0, 0, 3)}
        assert len(body.shape[0].triangles) == 4
    assert "mesh 'package://no.stl', which is not there" in told(
        mbd.load_urdf, urdf("").replace("</link><joint", look.replace(name, "no.stl"), 1)
    )


# --- stops --------------------------------------------------------------------------------------------------------------------------------


def test_a_stop_catches_a_fall_as_the_closed_form_says():
    """From a height h onto a stop k without damper: m g (h + d) = k d^2 / 2. And it comes back to where it started."""
    m, g, h, k = 2.0, 9.81, 0.1, 5e3
    weight = mbd.RigidBody("weight", m, (1, 1, 1))
    slide = mbd.Translational("slide", mbd.ground, weight, (0, 0, 0), (0, 0, 1))
    stop = mbd.JointStop("stop", mbd.ground, weight, (0, 0, 0), (0, 0, 1), -h, None, mbd.LinearContact(k), coordinate="travel")
    run = mbd.simulate(mbd.Model([weight], [slide], [mbd.Gravity((0, 0, -g)), stop]), 0.32, integrator=mbd.HHT(1e-7))
    depth = (m * g + np.sqrt((m * g) ** 2 + 2 * k * m * g * h)) / k
    lowest, travel, error = (run.observe(name) for name in ("trough:weight.z", "stop.travel", "energy.error"))
    assert float(lowest) == pytest.approx(-h - depth, abs=2e-5)
    assert np.max(np.abs(error)) < 1e-3 * m * g * h
    np.testing.assert_allclose(travel, run.position("weight")[:, 2], atol=1e-9)
    assert np.max(run.observe("stop.force")) == pytest.approx(k * depth, rel=1e-3)


def test_a_stop_has_finite_derivatives_at_its_limit():
    rod = mbd.RigidBody("rod", 1.0, (1, 1, 1), (1, 0, 0), angular_velocity=(0, 0, 1), velocity=(0, 1, 0))
    hinge = mbd.Revolute("hinge", mbd.ground, rod, (0, 0, 0), (0, 0, 1))
    stop = mbd.JointStop("stop", mbd.ground, rod, (0, 0, 0), (0, 0, 1), 0.0, 1.0, mbd.LinearContact(1e3, 10.0))
    system = mbd.Model([rod], [hinge], [stop]).build()
    slopes = jax.jacobian(lambda q, v: system.force(q, v, 0.0), argnums=(0, 1))(system.q0, system.v0)
    assert all(np.all(np.isfinite(slope)) for slope in slopes)


def test_bad_stops_are_named():
    law = mbd.LinearContact(1.0)
    with pytest.raises(ValueError, match="force 'stop': upper = -1 must be larger than lower = 1; there must be room between the stops"):
        mbd.JointStop("stop", mbd.ground, "rod", (0, 0, 0), (0, 0, 1), 1.0, -1.0, law)
    with pytest.raises(ValueError, match="force 'stop': law must be a contact law"):
        mbd.JointStop("stop", mbd.ground, "rod", (0, 0, 0), (0, 0, 1), 1.0)
    with pytest.raises(ValueError, match="coordinate must be 'angle' or 'travel'"):
        mbd.JointStop("stop", mbd.ground, "rod", (0, 0, 0), (0, 0, 1), 0.0, 1.0, law, coordinate="way")


def walker(*parts):
    mass = '<inertial><mass value="{}"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
    links = {"base": "", "trunk": mass.format(2), "leg": mass.format(1)}
    told = "".join(f'<link name="{name}">{inside}</link>' for name, inside in links.items())
    return (
        f'<robot name="r">{told}<joint name="weld" type="fixed"><parent link="base"/><child link="trunk"/></joint>{"".join(parts)}</robot>'
    )


def hip(limits=""):
    kind = "revolute" if limits else "continuous"
    return f'<joint name="hip" type="{kind}"><parent link="trunk"/><child link="leg"/><axis xyz="0 1 0"/>{limits}</joint>'


def test_a_base_without_mass_floats_with_what_is_fixed_to_it(tmp_path):
    path = tmp_path / "r.urdf"
    path.write_text(walker(hip()))
    model = mbd.load_urdf(path, floating_base=True)
    assert {body.name for body in model.bodies} == {"trunk", "leg"}
    assert [joint.name for joint in model.joints] == ["hip"]
    path.write_text(walker(hip()).replace('<mass value="2"/>', '<mass value="0"/>').replace('type="fixed"', 'type="continuous"'))
    with pytest.raises(ValueError, match="'base' shall float, but has no mass"):
        mbd.load_urdf(path, floating_base=True)


def test_a_range_without_the_start_is_told(tmp_path):
    path = tmp_path / "r.urdf"
    path.write_text(walker(hip('<limit lower="-3" upper="-0.1"/>')))
    with pytest.warns(UserWarning, match=r"joint 'hip' starts at 0, outside of its range -3 \.\.\. -0\.1"):
        mbd.load_urdf(path)
