"""Five mechanisms in the formats of robots, imported and run beside MuJoCo: the same masses, the same accelerations, the same fall.

Run: `python benchmarks/robots.py`. Of every model it prints the largest difference of masses, inertias and places of bodies, of their
accelerations at the start, linear and angular, body by body, and of their places after a while: `HHT` at a tolerance of 1e-8 against MuJoCo's
Runge-Kutta method with steps of 0.1 ms. No limit of a joint is reached: MuJoCo's stops are other laws.
"""

import argparse
import warnings

import numpy as np

import jaxmbd as mbd
from jaxmbd.running.starting import consistent_start

DOUBLE_PENDULUM = """<robot name="double_pendulum">
  <link name="base"/>
  <link name="upper">
    <inertial><origin xyz="0.3 0 0" rpy="0.2 0 0"/><mass value="1.5"/>
      <inertia ixx="0.002" iyy="0.05" izz="0.051" ixy="0.001" ixz="0" iyz="0"/></inertial>
    <visual><origin xyz="0.3 0 0" rpy="0 1.5708 0"/><geometry><cylinder radius="0.03" length="0.6"/></geometry>
      <material name="blue"><color rgba="0.2 0.3 0.8 1"/></material></visual>
  </link>
  <link name="lower">
    <inertial><origin xyz="0.2 0.01 0"/><mass value="0.8"/><inertia ixx="0.001" iyy="0.02" izz="0.02" ixy="0" ixz="0" iyz="0"/></inertial>
    <visual><geometry><sphere radius="0.05"/></geometry><material name="blue"/></visual>
  </link>
  <joint name="shoulder" type="continuous"><parent link="base"/><child link="upper"/><origin xyz="0 0 1" rpy="0 0.3 0"/><axis xyz="0 1 0"/>
    <dynamics damping="0.1"/></joint>
  <joint name="elbow" type="revolute"><parent link="upper"/><child link="lower"/><origin xyz="0.6 0 0" rpy="0 0 0.4"/><axis xyz="0 1 0.2"/>
    <limit lower="-3" upper="3" effort="10" velocity="5"/></joint>
</robot>"""

CART_POLE = """<mujoco model="cart_pole">
  <compiler angle="radian"/>
  <default><geom rgba="0.8 0.4 0.1 1" density="500"/><default class="pole"><geom density="800"/><joint damping="0.02"/></default></default>
  <worldbody>
    <geom name="floor" type="plane" size="2 2 0.1" pos="0 0 -0.5"/>
    <body name="cart" pos="0 0 0">
      <joint name="slider" type="slide" axis="1 0 0" damping="0.5" stiffness="8" springref="0.2" range="-2 2"/>
      <geom type="box" size="0.2 0.1 0.05"/>
      <body name="pole" pos="0 0 0.05" euler="0 0.3 0" childclass="pole">
        <joint name="hinge" type="hinge" axis="0 1 0"/>
        <geom type="capsule" fromto="0 0 0 0 0 0.8" size="0.03"/>
        <geom type="sphere" pos="0 0 0.8" size="0.06" mass="0.3"/>
      </body>
    </body>
  </worldbody>
</mujoco>"""

ARM = """<robot name="arm">
  <link name="world"/>
  <link name="pedestal"><inertial><mass value="10"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
    <visual><geometry><box size="0.3 0.3 0.1"/></geometry></visual></link>
  <joint name="floor" type="fixed"><parent link="world"/><child link="pedestal"/><origin xyz="0.1 0.2 0" rpy="0 0 0.7"/></joint>
  {links}
  <link name="flange"/>
  <joint name="tool" type="fixed"><parent link="link6"/><child link="flange"/><origin xyz="0 0 0.1"/></joint>
</robot>""".format(
    links="\n  ".join(
        f"""<link name="link{i}"><inertial><origin xyz="{x} {y} {z}" rpy="0.1 0.2 {0.1 * i}"/><mass value="{m}"/>
    <inertia ixx="{0.02 * m}" iyy="{0.025 * m}" izz="{0.012 * m}" ixy="0.001" ixz="-0.001" iyz="0.0005"/></inertial></link>
  <joint name="axis{i}" type="revolute"><parent link="{parent}"/><child link="link{i}"/><origin xyz="{origin}" rpy="{turn}"/><axis xyz="{axis}"/>
    <limit lower="-2.9" upper="2.9" effort="100" velocity="3"/><dynamics damping="{0.2 * m}"/></joint>"""
        for i, parent, m, (x, y, z), origin, turn, axis in (
            (1, "pedestal", 4.0, (0, 0.02, 0.1), "0 0 0.3", "0 0 0", "0 0 1"),
            (2, "link1", 3.5, (0.15, 0, 0.05), "0.05 0 0.2", "0 0.4 0", "0 1 0"),
            (3, "link2", 2.5, (0.1, 0.03, 0), "0.4 0 0", "0 0.5 0", "0 1 0"),
            (4, "link3", 1.2, (0.05, 0, 0.02), "0.3 0 0.05", "0 0 0.3", "1 0 0"),
            (5, "link4", 0.8, (0.02, 0, 0.03), "0.15 0 0", "0.2 0 0", "0 1 0"),
            (6, "link5", 0.3, (0.02, 0.01, 0.02), "0.1 0 0", "0 0.1 0", "1 0 0"),
        )
    )
)

QUADRUPED = """<mujoco model="quadruped">
  <compiler angle="degree"/>
  <default><joint type="hinge" stiffness="6" damping="0.3"/><geom type="capsule" size="0.025"/></default>
  <worldbody>
    <body name="trunk" pos="0 0 0.6" quat="0.96 0.1 0.2 0.05">
      <freejoint name="root"/>
      <geom type="box" size="0.25 0.12 0.06" mass="6"/>
      {legs}
    </body>
  </worldbody>
</mujoco>""".format(
    legs="\n      ".join(
        f"""<body name="thigh_{name}" pos="{x} {y} 0"><joint name="hip_{name}" axis="0 1 0" springref="{20 + 10 * i}" range="-90 90"/>
        <geom fromto="0 0 0 0 {0.3 * y} -0.2"/>
        <body name="shank_{name}" pos="0 {0.3 * y} -0.2"><joint name="knee_{name}" axis="0 1 0.1" springref="-40" range="-120 120"/>
          <geom fromto="0 0 0 0.05 0 -0.2" size="0.018"/></body></body>"""
        for i, (name, x, y) in enumerate((("fl", 0.22, 0.14), ("fr", 0.22, -0.14), ("rl", -0.22, 0.14), ("rr", -0.22, -0.14)))
    )
)

BALL_CHAIN = """<mujoco model="ball_chain">
  <option gravity="0 0.5 -9.81"/>
  <worldbody>
    <body name="one" pos="0 0 2" axisangle="0 1 0 60"><joint name="top" type="ball" damping="0.02"/>
      <geom type="capsule" fromto="0 0 0 0 0 -0.4" size="0.03"/>
      <body name="two" pos="0 0 -0.4" xyaxes="1 0 0 0 1 0.5"><joint name="middle" type="ball"/>
        <geom type="ellipsoid" size="0.05 0.08 0.2" pos="0 0 -0.2"/>
        <body name="three" pos="0 0 -0.4"><joint name="cross" axis="1 0 0"/><joint name="cross2" axis="0 1 0"/>
          <inertial pos="0 0.02 -0.1" mass="0.7" fullinertia="0.003 0.004 0.002 0.0002 0 0.0001"/>
          <geom type="cylinder" fromto="0 0 0 0 0 -0.2" size="0.05"/></body></body></body>
  </worldbody>
</mujoco>"""

ROBOTS = {
    "double pendulum": (DOUBLE_PENDULUM, 0.5),
    "cart-pole": (CART_POLE, 0.5),
    "6R arm": (ARM, 0.3),
    "quadruped": (QUADRUPED, 0.3),
    "ball chain": (BALL_CHAIN, 0.4),
}
"""The description, and how many seconds are compared."""


def imported(text: str) -> mbd.Model:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return mbd.load_urdf(text) if text.startswith("<robot") else mbd.load_mjcf(text)


class Other:
    """The same in MuJoCo, without contacts."""

    def __init__(self, text: str):
        import mujoco

        self._mujoco = mujoco
        spec = mujoco.MjSpec.from_string(text)
        spec.compiler.fusestatic = False
        self.model = spec.compile()
        self.model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
        self.model.opt.integrator = mujoco.mjtIntegrator.mjINT_RK4
        self.model.opt.timestep = 1e-4
        self.data = mujoco.MjData(self.model)
        mujoco.mj_forward(self.model, self.data)

    def number(self, body: str) -> int:
        return self._mujoco.mj_name2id(self.model, self._mujoco.mjtObj.mjOBJ_BODY, body)

    def place(self, body: str) -> np.ndarray:
        """m, of the centre of mass"""
        return self.data.xipos[self.number(body)].copy()

    def inertia(self, body: str) -> np.ndarray:
        """kg m^2, in the ground's axes"""
        i = self.number(body)
        axes = self.data.ximat[i].reshape(3, 3)
        return axes @ np.diag(self.model.body_inertia[i]) @ axes.T

    def accelerations(self, body: str) -> tuple[np.ndarray, np.ndarray]:
        """(of the centre of mass, angular), in the ground's axes"""
        found = np.zeros(6)
        self._mujoco.mj_rnePostConstraint(self.model, self.data)
        kind = self._mujoco.mjtObj.mjOBJ_BODY
        self._mujoco.mj_objectAcceleration(self.model, self.data, kind, self.number(body), found, 0)
        return found[3:] + self.model.opt.gravity, found[:3]

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds / self.model.opt.timestep)):
            self._mujoco.mj_step(self.model, self.data)


def accelerations(system: mbd.System, acceleration: np.ndarray, body: str) -> tuple[np.ndarray, np.ndarray]:
    """(of the centre of mass, angular) at rest: w' = 2 p'' p*."""
    _, _, where = system.body_slices()[body]
    a, p = np.asarray(acceleration)[where], np.asarray(system.q0)[where][3:]
    e0, e = a[3], a[4:]
    return a[:3], 2 * (-e0 * p[1:] + p[0] * e - np.cross(e, p[1:]))


def differences(text: str, other: Other, model: mbd.Model) -> dict[str, float]:
    """Of masses [kg], inertias [kg m^2], places [m], and accelerations at the start [m/s^2, rad/s^2]."""
    system = model.build()
    state = consistent_start(system)
    found = dict.fromkeys(("mass", "inertia", "place", "acceleration", "angular"), 0.0)
    for body in model.bodies:
        rotation = mbd.RigidBody.frame(body, *map(np.asarray, body.initial())).rotation
        linear, angular = accelerations(system, state.acceleration, body.name)
        theirs = other.accelerations(body.name)
        pairs = {
            "mass": (body.mass, other.model.body_mass[other.number(body.name)]),
            "inertia": (rotation @ body.inertia @ rotation.T, other.inertia(body.name)),
            "place": (body.position, other.place(body.name)),
            "acceleration": (linear, theirs[0]),
            "angular": (angular, theirs[1]),
        }
        for what, (mine, its) in pairs.items():
            found[what] = max(found[what], float(np.max(np.abs(np.asarray(mine) - its))))
    return found


def fall(text: str, seconds: float, tolerance: float) -> float:
    """m, the largest difference of places after a while."""
    model, other = imported(text), Other(text)
    run = mbd.simulate(model, seconds, integrator=mbd.HHT(tolerance), saveat=mbd.SaveAt(t1=True))
    other.run(seconds)
    return max(float(np.max(np.abs(run.position(body.name)[-1] - other.place(body.name)))) for body in model.bodies)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tolerance", type=float, default=1e-8)
    given = parser.parse_args()
    print(f"{'':16}  {'bodies':>6}  {'mass':>8}  {'inertia':>8}  {'place':>8}  {'accel.':>8}  {'angular':>8}  {'after':>6}  {'place':>8}")
    for name, (text, seconds) in ROBOTS.items():
        model = imported(text)
        parts = differences(text, Other(text), model)
        end = fall(text, seconds, given.tolerance)
        print(f"{name:16}  {len(model.bodies):6}  " + "  ".join(f"{part:8.1e}" for part in parts.values()) + f"  {seconds:4} s  {end:8.1e}")
