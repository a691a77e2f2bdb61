"""Bad input fails when the model is made, names the guilty element and says the fix."""

import copy
import math
import pickle
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.system.faults.validity import expectations, first_unusable

NAN = float("nan")
ORIGIN, X, Z = (0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (0.0, 0.0, 1.0)


def rod(**changes):
    return mbd.RigidBody(**{"name": "rod", "mass": 1.0, "inertia": (1.0, 1.0, 1.0)} | changes)


def plate(**changes):
    return mbd.PlanarBody(**{"name": "plate", "mass": 1.0, "inertia": 1.0} | changes)


ROD, PLATE, POINT = rod(), plate(), mbd.PointMass("bob", 1.0, ORIGIN)


def held(joint, body=ROD):
    """Builds a model of one body and one joint."""
    return mbd.Model([body], [joint]).build()


def pushed(force, body=ROD):
    return mbd.Model([body], forces=[force]).build()


def spring(**changes):
    given = {"point1": ORIGIN, "point2": X, "stiffness": 1.0} | changes
    return mbd.SpringDamper("spring", mbd.ground, ROD, **given)


def revolute(*geometry, body=ROD, **options):
    return mbd.Revolute("hinge", mbd.ground, body, *geometry, **options)


def motion(function, body=PLATE, **options):
    return mbd.Motion("drive", mbd.ground, body, function=function, **options)


def user_force(function, body=ROD, **options):
    return pushed(mbd.ForceFunction("law", mbd.ground, body, function, **options), body)


UNPHYSICAL = "inertia of body 'rod' is unphysical (it must be symmetric, positive definite, and no principal moment"

BODIES = {
    "negative mass": (lambda: rod(mass=-1.0), "mass of body 'rod' must be positive: got -1."),
    "no mass": (lambda: plate(mass=0.0), "mass of body 'plate' must be positive: got 0."),
    "negative point mass": (lambda: mbd.PointMass("bob", -2.0, X), "mass of body 'bob' must be positive: got -2."),
    "mass left out": (lambda: rod(mass=None), "mass of body 'rod': expected one number [kg], got None."),
    "mass in words": (lambda: rod(mass="heavy"), "mass of body 'rod': expected one number [kg], got 'heavy'."),
    "two masses": (lambda: rod(mass=(1.0, 2.0)), "mass of body 'rod': expected one number [kg], got an array of shape (2,)"),
    "negative moment": (lambda: rod(inertia=(1.0, 1.0, -1.0)), UNPHYSICAL),
    "moments against the triangle inequality": (lambda: rod(inertia=(1.0, 1.0, 2.1)), UNPHYSICAL),
    "inertia not symmetric": (lambda: rod(inertia=[[1, 0.1, 0], [0, 1, 0], [0, 0, 1]]), UNPHYSICAL),
    "negative planar inertia": (lambda: plate(inertia=-1.0), "inertia of body 'plate' must be positive"),
    "two moments": (
        lambda: rod(inertia=(1.0, 2.0)),
        "inertia of body 'rod': expected an array of shape (3,) or an array of shape (3, 3) [kg m^2]",
    ),
    "position nowhere": (lambda: rod(position=(0.0, NAN, 0.0)), "position of body 'rod' is not finite: got [ 0., nan,  0.]"),
    "infinite velocity": (lambda: plate(velocity=(np.inf, 0.0)), "velocity of body 'plate' is not finite"),
    "flat position": (lambda: rod(position=(0.0, 0.0)), "position of body 'rod': expected an array of shape (3,) [m]"),
    "high position": (lambda: plate(position=ORIGIN), "position of body 'plate': expected an array of shape (2,) [m]"),
    "velocity of other dimension": (
        lambda: mbd.PointMass("bob", 1.0, (0.0, 0.0), ORIGIN),
        "velocity of body 'bob' must have as many components as its position",
    ),
    "no orientation": (lambda: rod(orientation=(0, 0, 0, 0)), "orientation of body 'rod' is zero: give a quaternion"),
    "mirrored": (lambda: rod(orientation=np.diag([1, 1, -1])), "orientation of body 'rod' is not a rotation matrix"),
    "orientation in words": (lambda: rod(orientation="up"), "orientation of body 'rod': expected an array of shape (4,)"),
    "no name": (lambda: rod(name=""), "the name of a body must be a non-empty string, got ''"),
    "name with a dot": (lambda: rod(name="a.b"), "the name 'a.b' of a body must not contain a dot"),
}

MODELS = {
    "no bodies": (lambda: mbd.Model([]), "a model needs at least one body"),
    "one body instead of a list": (lambda: mbd.Model(ROD), "bodies of the model must be a list, got RigidBody"),
    "a force among joints": (lambda: mbd.Model([ROD], [spring()]), "joints of the model contains SpringDamper"),
    "two bodies of one name": (lambda: mbd.Model([ROD, rod()]), "the name 'rod' is used twice: by a body and by a body. Rename"),
    "joint named like a body": (
        lambda: mbd.Model([ROD], [mbd.Fixed("rod", mbd.ground, ROD)]),
        "the name 'rod' is used twice: by a body and by a joint",
    ),
    "a body named energy": (lambda: mbd.Model([rod(name="energy")]), "'energy' is used twice: by the energy of the whole and by a body"),
    "a body named ground": (lambda: mbd.Model([rod(name="ground")]), "'ground' is used twice: by the ground and by a body"),
    "a copy of a body, changed": (
        lambda: mbd.Model([ROD], [revolute(ORIGIN, Z, body=rod(mass=2.0, position=X))]),
        "joint 'hinge' was made with another body of the name 'rod' than the model's: they differ in mass, position. Make both from one",
    ),
    "a body of another kind, but of the same name": (
        lambda: mbd.Model([ROD], forces=[mbd.Torque("twist", plate(name="rod"), 1.0)]),
        "force 'twist' was made with another body of the name 'rod' than the model's: they differ in their kind",
    ),
    "unknown body": (
        lambda: mbd.Model([ROD], [mbd.Fixed("weld", mbd.ground, "rodd")]),
        "joint 'weld' acts on an unknown body 'rodd'. Did you mean 'rod'?",
    ),
    "not a body": (lambda: mbd.Fixed("weld", mbd.ground, 3), "joint 'weld': expected a body, mbd.ground or a body's name, got 3"),
    "a body and itself": (
        lambda: mbd.Model([ROD], [mbd.Fixed("weld", ROD, "rod")]),
        "joint 'weld' connects body 'rod' to itself",
    ),
    "a spring on one body": (
        lambda: mbd.Model([ROD], forces=[mbd.SpringDamper("spring", ROD, ROD, ORIGIN, X, 1.0)]),
        "force 'spring' connects body 'rod' to itself",
    ),
    "a wheel that carries itself": (
        lambda: mbd.Model([ROD, rod(name="wheel")], [mbd.Gear("gear", ROD, "wheel", Z, Z, carrier=ROD)]),
        "joint 'gear' connects body 'rod' to itself",
    ),
    "planar and spatial bodies": (
        lambda: mbd.Model([ROD, PLATE]).build(),
        "body 'plate' and body 'rod' do not live in the same space: use either planar bodies",
    ),
    "spatial joint in a planar model": (
        lambda: held(mbd.Cylindrical("tube", mbd.ground, PLATE, (0, 0), (1, 0)), PLATE),
        "joint 'tube': a Cylindrical joint has no meaning in a planar model",
    ),
    "point mass in a hinge": (
        lambda: held(revolute(ORIGIN, Z, body=POINT), POINT),
        "joint 'hinge': body 'bob' is a point mass and has no orientation, which this Revolute needs. Use a rigid body, or a "
        "Spherical, Distance",
    ),
    "point mass under a torque": (
        lambda: pushed(mbd.Torque("twist", POINT, Z), POINT),
        "force 'twist': body 'bob' is a point mass and has no orientation, which this Torque needs. Use a rigid body, or a PointForce",
    ),
}

JOINTS = {
    "no axis": (lambda: held(revolute(ORIGIN)), "joint 'hinge': give axis=(x, y, z), a direction in the ground's frame"),
    "no planar axis": (
        lambda: held(mbd.Translational("guide", mbd.ground, PLATE, (0, 0)), PLATE),
        "joint 'guide': give axis=(x, y), a direction in the ground's frame",
    ),
    "no gear axis": (
        lambda: mbd.Model([ROD, rod(name="wheel")], [mbd.Gear("gear", ROD, "wheel")]).build(),
        "joint 'gear': give axis_a=(x, y, z)",
    ),
    "zero axis": (lambda: revolute(ORIGIN, ORIGIN), "axis of joint 'hinge' has zero length: give a direction"),
    "axis not a number": (lambda: revolute(ORIGIN, (0, NAN, 1)), "axis of joint 'hinge' is not finite"),
    "no point": (lambda: revolute(None, Z), "point of joint 'hinge': expected an array of shape (2,) or an array of shape (3,)"),
    "flat point": (lambda: held(revolute((0, 0), Z)), "point of joint 'hinge': a spatial model needs 3 components, got 2"),
    "flat axis": (lambda: held(revolute(ORIGIN, (0, 1))), "axis of joint 'hinge': a spatial model needs 3 components, got 2"),
    "high point": (
        lambda: held(revolute(ORIGIN, body=PLATE), PLATE),
        "point of joint 'hinge': a planar model needs 2 components, got 3",
    ),
    "planar hinge out of the plane": (
        lambda: held(revolute((0, 0), X, body=PLATE), PLATE),
        "joint 'hinge': in a planar model bodies turn about z; leave axis out",
    ),
    "slanted universal joint": (
        lambda: held(mbd.Universal("cross", mbd.ground, ROD, ORIGIN, X, (1, 1, 0))),
        "joint 'cross': axis1 and axis2 must be perpendicular, their cosine is 0.707",
    ),
    "slanted right angle": (
        lambda: held(mbd.Perpendicular("square", mbd.ground, ROD, X, (1, 1, 0))),
        "joint 'square': axis1 and axis2 must be perpendicular",
    ),
    "rod without length": (
        lambda: held(mbd.Distance("link", mbd.ground, ROD, X, X)),
        "joint 'link' has zero length: its points coincide. Use a Spherical",
    ),
    "rod of length zero": (
        lambda: mbd.Distance("link", mbd.ground, ROD, ORIGIN, X, 0.0),
        "length of joint 'link' must be positive (points that coincide are a Spherical joint): got 0.",
    ),
    "thread without pitch": (
        lambda: held(mbd.Screw("thread", mbd.ground, ROD, ORIGIN, Z, 0.0)),
        "joint 'thread' has zero pitch: use a Revolute joint",
    ),
    "rack without radius": (lambda: mbd.RackAndPinion("teeth", ROD, PLATE, Z), "joint 'teeth': give the rack's direction and"),
    "motion of nothing": (lambda: motion(None), "joint 'drive': give function=..., a function of time [s], got None"),
    "motion of what": (lambda: motion(jnp.sin, coordinate="x"), "joint 'drive': coordinate must be 'angle' or 'travel'"),
    "motion of two": (
        lambda: held(motion(lambda t: jnp.stack([t, t])), PLATE),
        "joint 'drive': function(t) must be one number, got an array of shape (2,)",
    ),
    "motion by numpy": (lambda: held(motion(lambda t: math.sin(t)), PLATE), "joint 'drive': its function cannot be compiled; write"),
    "motion to nowhere": (
        lambda: held(motion(lambda t: jnp.sqrt(t - 1.0)), PLATE),
        "joint 'drive': its position or rate is not finite at t = 0. Check the function",
    ),
    "penalty as a number": (lambda: revolute(ORIGIN, Z, penalty=1e6), "joint 'hinge': penalty must be an mbd.Penalty, got 1"),
    "negative penalty": (lambda: mbd.Penalty(-1.0, 0.0), "stiffness of a joint's penalty must be positive: got -1."),
}

FORCES = {
    "stiffness not a number": (lambda: spring(stiffness=NAN), "stiffness of force 'spring' is not finite: got nan."),
    "negative stiffness": (lambda: spring(stiffness=-1.0), "stiffness of force 'spring' must not be negative: got -1."),
    "no stiffness": (lambda: spring(stiffness=None), "stiffness of force 'spring': expected one number [N/m], got None."),
    "negative length": (lambda: spring(free_length=-0.1), "free_length of force 'spring' must not be negative"),
    "actuator with two values": (
        lambda: pushed(spring(actuator=lambda length, rate, t: jnp.stack([length, rate]))),
        "force 'spring': actuator(length, rate, t) must be one number, got an array of shape (2,)",
    ),
    "lopsided bushing": (
        lambda: mbd.Bushing("mount", mbd.ground, ROD, ORIGIN, np.triu(np.ones((6, 6)))),
        "stiffness of force 'mount' must be symmetric",
    ),
    "bushing of three": (
        lambda: mbd.Bushing("mount", mbd.ground, ROD, ORIGIN, (1.0, 1.0, 1.0)),
        "stiffness of force 'mount': expected an array of shape (6,) or an array of shape (6, 6) [N/m, N m/rad], got an array of shape (3,)",
    ),
    "torsion spring without an axis": (
        lambda: pushed(mbd.TorsionSpringDamper("spiral", mbd.ground, ROD, stiffness=1.0)),
        "force 'spiral': give axis=(x, y, z)",
    ),
    "gravity of one number": (lambda: mbd.Gravity(9.81), "acceleration of force 'gravity': expected an array of shape (2,) or"),
    "flat gravity": (lambda: pushed(mbd.Gravity((0, -9.81))), "acceleration of force 'gravity': a spatial model needs 3"),
    "gravity not a number": (lambda: mbd.Gravity((0, NAN, 0)), "acceleration of force 'gravity' is not finite"),
    "push in what axes": (
        lambda: mbd.PointForce("push", ROD, ORIGIN, X, axes="mine"),
        "force 'push': axes must be 'ground' or 'body', got 'mine'",
    ),
    "flat push": (
        lambda: pushed(mbd.PointForce("push", ROD, ORIGIN, (1.0, 0.0))),
        "force 'push': the force must be a vector of 3 components, got an array of shape (2,)",
    ),
    "flat push by a function": (
        lambda: pushed(mbd.PointForce("push", ROD, ORIGIN, lambda t: jnp.stack([t, t]))),
        "force 'push': the force must be a vector of 3 components, got an array of shape (2,)",
    ),
    "push by a function of three": (
        lambda: mbd.PointForce("push", ROD, ORIGIN, lambda a, b, t: t),
        "force 'push': its function must be one of (t) or of (frame, t), this one asks for 3 arguments",
    ),
    "torque of one number in space": (
        lambda: pushed(mbd.Torque("twist", ROD, 1.0)),
        "force 'twist': the torque must be a vector of 3 components, got an array of shape ()",
    ),
    "torque vector in the plane": (
        lambda: pushed(mbd.Torque("twist", PLATE, Z), PLATE),
        "force 'twist': the torque must be one number (about z), got an array of shape (3,)",
    ),
    "law that is a number": (lambda: user_force(3.0), "force 'law': function must be callable, got 3.0"),
    "law without a torque": (
        lambda: user_force(lambda a, b, t: jnp.zeros(3)),
        "force 'law': its function must return the pair (force, torque)",
    ),
    "flat law": (
        lambda: user_force(lambda a, b, t: (jnp.zeros(2), 0.0), PLATE),
        "force 'law': the force must be a vector of 3 components (in a planar model too), got an array of shape (2,)",
    ),
    "state without a rate": (
        lambda: user_force(lambda a, b, t, x: (jnp.zeros(3), jnp.zeros(3)), state=1.0),
        "force 'law': state (initial values) and rate (their derivative) belong together",
    ),
    "rate of another size": (
        lambda: user_force(lambda a, b, t, x: (jnp.zeros(3), x), state=(0, 0, 0), rate=lambda a, b, t, x: x[:2]),
        "force 'law': rate(a, b, t, x) must be a vector of 3 components, as many as its state, got an array of shape (2,)",
    ),
    "state not a number": (
        lambda: mbd.ForceFunction("law", mbd.ground, ROD, lambda *_: None, state=NAN, rate=lambda *_: None),
        "state of force 'law' is not finite",
    ),
}


def run(**options):
    return mbd.simulate(mbd.Model([PLATE], [revolute((0, 0), body=PLATE)]), **{"t1": 1.0} | options)


RUNS = {
    "time backwards": (lambda: run(t0=2.0), "t1 = 1.0 lies before t0 = 2.0: time runs forward"),
    "no end": (lambda: run(t1=NAN), "t1 must be one finite number of seconds, got nan"),
    "no tolerance": (lambda: mbd.HHT(tolerance=0.0), "tolerance of HHT must be positive: got 0."),
    "negative tolerance": (lambda: mbd.HHT(tolerance=-1e-3), "tolerance of HHT must be positive: got -0.001."),
    "alpha above zero": (lambda: mbd.HHT(alpha=0.1), "alpha of HHT must lie in [-1/3, 0]: got 0.1."),
    "alpha too low": (lambda: mbd.HHT(alpha=-0.34), "alpha of HHT must lie in [-1/3, 0]: got -0.34."),
    "no length scale": (lambda: mbd.HHT(length_scale=0.0), "length_scale of HHT must be positive: the size of the motions"),
    "negative step": (lambda: run(step=-0.1), "step must be positive, got -0.1 s"),
    "negative steps": (lambda: run(step=np.array([0.1, -0.1])), "step must contain positive step sizes [s] only"),
    "negative first step": (lambda: run(first_step=-0.1), "first_step must be positive, got -0.1 s"),
    "saved too late": (lambda: run(saveat=[0.5, 1.5]), "saveat must lie between t0 = 0.0 and t1 = 1.0"),
    "saved too early": (lambda: run(saveat=[-0.5, 0.5]), "saveat must lie between t0 = 0.0 and t1 = 1.0"),
    "saved twice": (lambda: run(saveat=[0.0, 0.5, 0.5, 1.0]), "saveat has the time 0.5 s twice"),
    "saved in words": (lambda: run(saveat="all"), "increasing times [s], or None to save every accepted step, got 'all'"),
    "smallest step above the largest": (lambda: run(min_step=0.1, max_step=0.01), "min_step = 0.1 s exceeds max_step = 0.01 s: exchange"),
    "first step above the largest": (lambda: run(first_step=0.1, max_step=0.01), "first_step = 0.1 s exceeds max_step = 0.01 s"),
    "first step below the smallest": (lambda: run(first_step=1e-6, min_step=1e-3), "min_step = 0.001 s exceeds first_step = 1e-06 s"),
    "saved in disorder": (lambda: run(saveat=[0.5, 0.1]), "saveat must be a one-dimensional array of increasing times"),
    "unknown adjoint": (lambda: run(adjoint="sideways"), "adjoint must be 'reverse' or 'forward', got 'sideways'"),
    "not a model": (lambda: mbd.simulate(ROD, 1.0), "model must be an mbd.Model or an mbd.AbstractSystem, got RigidBody"),
}

CASES = BODIES | MODELS | JOINTS | FORCES | RUNS


@pytest.mark.parametrize("case", CASES)
@pytest.mark.usefixtures("annotations_unchecked")
def test_bad_input_is_refused_by_name(case):
    make, message = CASES[case]
    with pytest.raises(ValueError, match=re.escape(message)):
        make()


def test_a_body_that_nothing_acts_on_is_mentioned():
    with pytest.warns(UserWarning, match="no joint or force acts on body 'rod': its centre of mass will keep its velocity"):
        mbd.Model([ROD]).build()


def test_a_body_that_only_gravity_acts_on_is_mentioned_among_others_that_are_held():
    with pytest.warns(UserWarning, match="no joint and no force but gravity acts on body 'loose': it will fall freely"):
        mbd.Model([PLATE, plate(name="loose")], [revolute((0, 0), body=PLATE)], [mbd.Gravity((0, -9.81))]).build()


DOUBTS = {
    "rod of another length": (
        lambda: held(mbd.Distance("link", mbd.ground, POINT, X, ORIGIN, length=5.0), POINT),
        "joint 'link': its length is 5 m, but its points are 1 m apart at the initial configuration; assembling will move the bodies",
    ),
    "soft rod of another length": (
        lambda: held(mbd.Distance("link", mbd.ground, ROD, ORIGIN, X, length=5.0, penalty=mbd.Penalty(1e6, 1e3))),
        "its points are 1 m apart at the initial configuration; its penalty will begin with that deflection",
    ),
    "motion that begins elsewhere": (
        lambda: mbd.Model([PLATE], [revolute((0, 0), body=PLATE), motion(lambda t: 1.0 + t)]).build(),
        "joint 'drive': its function is 1 rad at t = 0, but its coordinate counts from the initial configuration and is zero there",
    ),
    "friction in percent": (lambda: mbd.Coulomb(30), "kinetic of the Coulomb friction law is 30: dry friction coefficients are about 1"),
    "bristles in percent": (lambda: mbd.LuGre(1e5, 30, 0.2), "static of the LuGre friction law is 30: dry friction"),
}


@pytest.mark.parametrize("case", DOUBTS)
def test_what_is_possible_but_hardly_meant_is_mentioned(case):
    make, message = DOUBTS[case]
    with pytest.warns(UserWarning, match=re.escape(message)):
        make()


def test_a_copy_of_an_element_fits_any_body_of_that_name():
    """As one that comes back from another process, where the body is not the same object any more."""
    hinge = pickle.loads(pickle.dumps(revolute(ORIGIN, Z)))
    mbd.Model([rod(mass=2.0)], [hinge])
    mbd.Model([rod(mass=2.0)], [copy.deepcopy(hinge)])


def test_what_may_be_meant_is_not_mentioned():
    """Warnings are errors here: a rod that is a little longer than drawn, a motion from zero, a body that was made twice alike."""
    held(mbd.Distance("link", mbd.ground, plate(position=(1.0, 0.0)), (0, 0), (1, 0), length=1.05), plate(position=(1.0, 0.0)))
    mbd.Model([PLATE], [revolute((0, 0), body=PLATE), motion(jnp.sin)]).build()
    mbd.Coulomb(1.2, 4.0)


def test_velocities_that_do_not_fit_a_joint_are_mentioned():
    moving = plate(velocity=(1.0, 0.0))
    with pytest.warns(UserWarning, match="the initial velocities do not fit the joints 'hinge'; the nearest that do"):
        held(revolute((0, 0), body=moving), moving)


# --- built systems ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def system() -> mbd.System:
    return mbd.Model([ROD], [revolute(ORIGIN, Z)], [spring()]).build()


SETTINGS = {
    "misspelt parameter": ("spring.stifness", 1.0, "unknown parameter 'spring.stifness'. Did you mean 'spring.stiffness'?"),
    "misspelt element": ("sprin.stiffness", 1.0, "unknown parameter 'sprin.stiffness'. Did you mean 'spring.stiffness'?"),
    "negative stiffness": ("spring.stiffness", -1.0, "stiffness of force 'spring' must not be negative: got -1."),
    "negative mass": ("rod.mass", -1.0, "mass of body 'rod' must be positive: got -1."),
    "unphysical inertia": ("rod.inertia", (1.0, 1.0, 5.0), UNPHYSICAL),
    "no number": ("spring.stiffness", NAN, "stiffness of force 'spring' is not finite: got nan."),
    "other shape": ("hinge.point", (0.0, 0.0), "point of joint 'hinge': expected an array of shape (3,) [m]"),
    "zero axis": ("hinge.axis", ORIGIN, "axis of joint 'hinge' has zero length: give a direction"),
}


@pytest.mark.parametrize("case", SETTINGS)
def test_a_bad_setting_is_refused_by_name(system, case):
    name, value, message = SETTINGS[case]
    with pytest.raises(ValueError, match=re.escape(message)):
        system.set({name: value})


def test_an_unknown_name_cannot_be_read(system):
    with pytest.raises(ValueError, match=r"unknown parameter 'rod.mas'. Did you mean 'rod.mass'\?"):
        system.get("rod.mas")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("rod.mass", -1.0, "mass of body 'rod' must be positive"),
        ("rod.inertia", np.diag([1.0, 1.0, 5.0]), "inertia of body 'rod' is unphysical"),
        ("spring.stiffness", NAN, "stiffness of force 'spring' must not be negative"),
        ("hinge.point", np.array([0.0, NAN, 0.0]), "point of joint 'hinge' must be finite"),
    ],
)
def test_a_bad_traced_setting_is_nan_and_known_by_name(system, name, value, message):
    """What a run makes of it, see `tests/test_bad_parameters.py`."""

    @jax.jit
    def setting(value):
        changed = system.set({name: value})
        return changed.get(name), first_unusable(changed)

    kept, number = setting(system.get(name))
    np.testing.assert_allclose(kept, system.get(name))
    assert int(number) == -1
    lost, number = setting(jnp.asarray(value))
    assert np.all(np.isnan(lost))
    assert expectations(system)[int(number)].startswith(message)


def test_a_bad_traced_body_has_no_mass():
    assert np.isnan(jax.jit(lambda mass: rod(mass=mass).mass)(-1.0))
