"""Models as files: the same to the last bit, and nothing but data."""

import json
import struct

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.problems.registry import PROBLEMS

MODELS = {
    name: problem.function
    for name, problem in PROBLEMS.items()
    if name in ("double-pendulum", "slider-crank", "stiff-impact", "newton-cradle", "box-on-plane", "bouncing-ball")
}


def bits(tree):
    """Structure and numbers, these as bytes."""
    leaves, structure = jax.tree.flatten(tree)
    return str(structure), [(np.asarray(leaf).dtype, np.shape(leaf), np.asarray(leaf).tobytes()) for leaf in leaves]


def items(model):
    return [*model.bodies, *model.joints, *model.forces]


@pytest.mark.parametrize("name", MODELS)
def test_a_model_comes_back_to_the_last_bit(name, tmp_path):
    model = MODELS[name]()
    loaded = mbd.load_model(model.save(tmp_path / "x.json"))
    assert [bits(item) for item in items(loaded)] == [bits(item) for item in items(model)]
    assert loaded.scenery == model.scenery


def test_the_vehicle_is_data(tmp_path):
    system = mbd.problems.hmmwv()
    system = system.build() if isinstance(system, mbd.Model) else system
    parts = mbd.load_model(system.save(tmp_path / "x.json"))
    assert len(parts.bodies) == 14


def everything() -> mbd.Model:
    """Elements with shapes, signals, laws and friction of all kinds of fields."""
    steel = mbd.Material(206e9, 0.3)
    spot = mbd.HertzPoint.spheres(0.01, float("inf"), steel)
    a = mbd.RigidBody(
        "a", 0.1 + 0.2, (0.1, 0.2, 0.25), (0, 0, 1), orientation=(1, 1e-17, 0.3, 0), shape=mbd.shapes.Box((1, 2, 3), color="#112233")
    )
    b = mbd.RigidBody("b", 1.0, (1.0, 1.0, 1.0), (0, 0, 3), shape=[mbd.shapes.Disc(1.0, 0.1), mbd.shapes.Mesh(np.eye(3), [[0, 1, 2]])])
    slide = mbd.Translational("slide", mbd.ground, a, (0, 0, 0), (0, 0, 1), penalty=mbd.Penalty(1e5, 10.0))
    swing = mbd.Revolute("swing", a, b, (0, 0, 2), (1, 0, 0))
    return mbd.Model(
        [a, b],
        [slide, swing],
        [
            mbd.Gravity((0, 0, -9.81)),
            mbd.SpringDamper("spring", mbd.ground, b, (0, 0, 0), (0, 1, 3), 10.0, actuator=None),
            mbd.PointForce("push", b, (0, 0, 3), mbd.Signal([0.0, 1.0, 2.0], np.ones((3, 3)) / 3)),
            mbd.Torque("twist", b, (0.0, 1e-300, -0.0), axes="body"),
            mbd.JointFriction("pin", swing, mbd.LuGre(1e3, 0.3, 0.2), radius=0.01),
            mbd.SpherePlane(
                "floor", b, mbd.ground, 0.1, (0, 0, -5), (0, 0, 1), mbd.HuntCrossley(spot, 0.1), mbd.LubricatedTraction(0.1, 2e-8, 0.1)
            ),
        ],
        scenery=mbd.shapes.Plane(),
    )


def test_all_kinds_of_fields(tmp_path):
    model = everything()
    loaded = mbd.load_model(model.save(tmp_path / "x.json"))
    assert [bits(item) for item in items(loaded)] == [bits(item) for item in items(model)]
    assert [body.shape for body in loaded.bodies] == [body.shape for body in model.bodies]
    assert loaded.scenery == model.scenery
    text = (tmp_path / "x.json").read_text()
    assert json.loads(text)["version"] == 1
    assert struct.pack("d", loaded.bodies[0].mass) == struct.pack("d", 0.1 + 0.2)


def test_a_system_is_saved_with_the_numbers_that_it_has_now(tmp_path):
    system = mbd.problems.stiff_impact().build()
    name = next(name for name in system.parameter_names() if name.endswith(".mass"))
    changed = system.set({name: 3.25})
    loaded = mbd.load_model(changed.save(tmp_path / "x.json")).build()
    assert loaded.get(name) == 3.25
    assert loaded.parameter_names() == system.parameter_names()
    assert bits(loaded) == bits(changed)


class Rising(eqx.Module):
    slope: jax.Array

    def __call__(self, t):
        return jnp.array([0.0, self.slope * t])


def loaded_from(tmp_path, change, **options):
    ball = mbd.PointMass("ball", 1.0, (0.0, 0.0))
    path = mbd.Model([ball], forces=[mbd.PointForce("push", ball, (0, 0), Rising(jnp.array(2.0)))]).save(tmp_path / "x.json")
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
    return mbd.load_model(path, classes=[Rising], **options)


def test_classes_of_ones_own(tmp_path):
    model = loaded_from(tmp_path, lambda data: None)
    assert model.forces[0].value(0.5)[1] == 1.0
    with pytest.raises(ValueError, match=r"value of force 'push': unknown kind 'Rising'.*classes=\[Rising\]"):
        mbd.load_model(tmp_path / "x.json")


def test_what_is_left_out_has_the_default(tmp_path):
    model = loaded_from(tmp_path, lambda data: data["bodies"].append({"kind": "PlanarBody", "name": "disc", "mass": 1, "inertia": 2}))
    assert model.bodies[1].angle == 0.0
    np.testing.assert_array_equal(model.bodies[1].position, [0.0, 0.0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data["bodies"][0].update(masss=1), r"body 'ball': unknown field 'masss'. Did you mean 'mass'\?"),
        (lambda data: data["bodies"][0].update(kind="PontMass"), r"bodies\[0\]: unknown kind 'PontMass'. Did you mean 'PointMass'\?"),
        (lambda data: data["bodies"][0].update(kind="Gravity"), "a Gravity, which does not belong there"),
        (lambda data: data["bodies"][0].update(mass=-1), "mass of body 'ball' must be positive: got -1"),
        (lambda data: data["bodies"][0].update(mass="heavy"), "mass of body 'ball': expected one number"),
        (lambda data: data["bodies"][0].pop("mass"), "mass of body 'ball': expected one number"),
        (lambda data: data["forces"][0].update(stiff=1), "stiff of force 'push': expected true or false, got 1"),
        (lambda data: data["forces"][0].update(bodies="ball"), "bodies of force 'push': expected a list of names"),
        (lambda data: data["forces"][0].update(bodies=["bal"]), "force 'push' acts on an unknown body 'bal'. Did you mean 'ball'"),
        (
            lambda data: data["forces"][0].update(value={"kind": "Material", "elastic_modulus": 1, "poisson_ratio": 0.3}),
            "a Material is no function",
        ),
        (lambda data: data.update(version=2), "version 2 of the format; this jaxmbd reads version 1"),
        (lambda data: data.update(joint=[]), r"unknown field 'joint'. Did you mean 'joints'\?"),
        (lambda data: data.update(format="other"), 'no model: it must be an object with "format": "jaxmbd model"'),
        (lambda data: data.update(joints={}), "joints must be a list"),
        (lambda data: data["bodies"].append(3), r'bodies\[1\] must be an object with a "kind", got 3'),
        (lambda data: data["bodies"][0].update(shape=[{"kind": "Ball"}]), "unknown kind 'Ball'"),
        (lambda data: data["bodies"][0].update(shape=[{"kind": "Sphere", "size": 1}]), "unknown field 'size'"),
        (lambda data: data["bodies"][0].update(shape=[{"kind": "Sphere"}]), "missing .* required"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(tmp_path, change, message):
    with pytest.raises(ValueError, match=message):
        loaded_from(tmp_path, change)


def test_a_file_that_is_none(tmp_path):
    (tmp_path / "x.json").write_text("import os")
    with pytest.raises(ValueError, match="is no JSON"):
        mbd.load_model(tmp_path / "x.json")
    with pytest.raises(ValueError, match=r"models are saved as \.json"):
        everything().save(tmp_path / "x.yaml")


def test_functions_are_refused_by_name_and_nothing_is_written(tmp_path):
    ball = mbd.PointMass("ball", 1.0, (0.0, 0.0))
    forces = [
        mbd.PointForce("wind", ball, (0, 0), lambda t: jnp.zeros(2)),
        mbd.SpringDamper("spring", mbd.ground, ball, (0, 0), (0, 1), 1.0, actuator=lambda length, rate, t: 0.0 * t),
    ]
    with pytest.raises(ValueError, match=r"value of force 'wind' is a function.*mbd\.Signal.*actuator of force 'spring' is a function"):
        mbd.Model([ball], forces=forces).save(tmp_path / "x.json")
    assert not (tmp_path / "x.json").exists()
