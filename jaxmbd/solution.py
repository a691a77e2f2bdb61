"""What a run gives back."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from . import archive, results, rows, summary, tables, view
from ._raising import raise_if
from .animation import gltf, page, video
from .answers import ElementWork, Energy, JointMotion, Load, PointMotion, Reaction
from .results import RESULTS
from .stresses import HotSpot, hottest, recovery_of
from .system.contact.base import ContactLoads
from .system.elements import ground
from .system.equations import AbstractSystem
from .system.faults.blame import not_finite, overturned
from .system.faults.validity import expectations
from .system.flexible.modal import ModalBody
from .system.frames import Frame
from .system.observing.reactions import contact_places
from .system.parameters import is_traced, read, unknown, vector
from .system.state import State
from .system.system import System

if TYPE_CHECKING:
    import pandas
    import xarray
    from matplotlib.figure import Figure


class SimulationError(RuntimeError):
    """A run that did not reach its end; `solution` holds what there is."""

    def __init__(self, message: str, solution: "Solution"):
        super().__init__(message)
        self.solution = solution


class Solution(eqx.Module):
    """Saved states and what it cost to get them. Rows are saved times; row 0 is t0.

    Under jit, grad or vmap the number of rows is fixed, and rows beyond the last step repeat it: row -1 is the end in any case.
    """

    system: AbstractSystem
    states: State
    """one row a saved time"""
    final: State
    stats: dict[str, Any]
    """steps, rejected, newton_failures, newton_iterations, jacobians, factorizations, force_evaluations, a_evaluations, b_evaluations;
    of variable-order integrators also steps_of_order_1, ..., steps_of_order_6"""
    result: RESULTS
    blame: Int[Array, ""]
    """the number of the unknown, or of the parameter, that a failure is due to"""
    steps: Float[Array, "steps"] | None
    """s, the accepted step sizes: `simulate(..., step=solution.steps)` replays them. Under jit, zeros follow them, and where only the end or
    given times are saved, there is None: nothing is recorded that is not asked for."""
    orders: Int[Array, "steps"] | None = None
    """of the accepted steps, if they vary; `BDF(orders=solution.orders)` replays them"""
    tried: Float[Array, ""] | None = None
    """s, the last step that was tried, accepted or not"""
    event: Int[Array, ""] = eqx.field(default_factory=lambda: jnp.full((), -1, jnp.int32))
    """the number of the event that ended the run, -1 if none did"""
    events: tuple[str, ...] = eqx.field(static=True, default=())
    """the names of those that could have"""
    settings: tuple[str, ...] = eqx.field(static=True, default=())
    """a sentence for each number of the integrator, of its controller and of time that was traced: what a bad one is told with"""

    def __repr__(self) -> str:
        return summary.describe(self).text()

    def _repr_html_(self) -> str:
        return summary.describe(self).html()

    @property
    def ts(self) -> Float[Array, "rows"]:
        """s"""
        return self.states.t

    @property
    def q(self) -> Float[Array, "rows q"]:
        return self.states.q

    @property
    def v(self) -> Float[Array, "rows q"]:
        return self.states.v

    @property
    def x(self) -> Float[Array, "rows x"]:
        """differential states"""
        return self.states.x

    @property
    def acceleration(self) -> Float[Array, "rows q"]:
        return self.states.acceleration

    @property
    def multipliers(self) -> Float[Array, "rows m"]:
        return self.states.multipliers

    @property
    def message(self) -> str:
        """How the run ended, in a sentence, with time and worst element if it failed."""
        text = RESULTS[self.result]
        if is_traced(self.result, self.final) or self.final.t.ndim > 0:
            return text
        when = f"t = {float(self.final.t):.6g} s"
        for code, place in ((RESULTS.not_finite, "after"), (RESULTS.not_finite_at_start, "at")):
            if bool(self.result == code):
                guilty = not_finite(self.system, self.final, 0.0 if self.tried is None else self.tried)
                return f"{guilty or 'something'} is not finite {place} {when}; {overturned(self.system, self.final) or text}"
        headline = _headline(self.result)
        if headline:
            if turn := overturned(self.system, self.final):
                text = f"{turn} {text}"
            return f"{headline} at {when}, worst element: {self.system.describe_unknown(int(self.blame))}; {text}"
        if bool(self.result == RESULTS.event_occurred):
            return f"the run ended at {when}, by the event {self.event_name!r}."
        if bool(self.result == RESULTS.bad_parameter):
            return f"{expectations(self.system, self.settings)[int(self.blame)]}; {text}"
        if bool(self.result == RESULTS.max_steps_reached):
            return f"{text} It reached {when}."
        return text

    @property
    def succeeded(self) -> Bool[Array, "..."]:
        """Whether the run came to its end, t1 or an event; of a batch, lane by lane."""
        return (self.result == RESULTS.successful) | (self.result == RESULTS.event_occurred)

    @property
    def event_name(self) -> str:
        """Of the event that ended the run; empty if none did."""
        if is_traced(self.event) or self.event.ndim > 0:
            raise ValueError("solution.event_name is for a single run outside jit: solution.event has numbers, for solution.events.")
        return self.events[int(self.event)] if int(self.event) >= 0 else ""

    def raise_if_failed(self) -> "Solution":
        """Raises (when it runs, under jit) if the run did not reach its end."""
        failed = ~self.succeeded
        if not is_traced(self):
            if bool(jnp.any(failed)):
                raise SimulationError(self.message, self)
            return self
        told = results.sentences()
        which = jnp.where(self.result == RESULTS.bad_parameter, len(told) + self.blame, results.number(self.result))
        told += [f"{each}; {RESULTS[RESULTS.bad_parameter]}" for each in expectations(self.system, self.settings)]
        states, final = raise_if((self.states, self.final), failed, which, told)
        return eqx.tree_at(lambda s: (s.states, s.final), self, (states, final))

    # --- motion by name -----------------------------------------------------------------------------------------------------------------

    def position(self, body: str) -> Float[Array, "rows d"]:
        """m, of the centre of mass"""
        frame = self._frame(body)
        return frame.position[:, : self._dimension()]

    def velocity(self, body: str) -> Float[Array, "rows d"]:
        """m/s, of the centre of mass"""
        frame = self._frame(body)
        return frame.velocity[:, : self._dimension()]

    def orientation(self, body: str) -> Float[Array, "rows ..."]:
        """Euler parameters, scalar first; the angle [rad] of a planar body or of a rotor"""
        where = self._oriented(body)
        group, _, _ = self._body(body)
        turns = [where.start + i for i, name in enumerate(group.body.coordinate_names()) if name == "angle" or name[0] == "e"]
        found = self.q[:, np.array(turns)]
        return found[:, 0] if len(turns) == 1 else found

    def rotation(self, body: str) -> Float[Array, "rows d d"]:
        """Matrices that turn the body's axes into the ground's: 3 x 3, in a planar model 2 x 2."""
        self._oriented(body)
        d = self._dimension()
        return self._frame(body).rotation[:, :d, :d]

    def angular_velocity(self, body: str, axes: str = "ground") -> Float[Array, "rows ..."]:
        """rad/s, in the ground's or in the body's axes; about z for a planar body"""
        if axes not in ("ground", "body"):
            raise ValueError(f"axes must be 'ground' or 'body', got {axes!r}.")
        frame = self._frame(body)
        if self._dimension() == 2:
            return frame.angular_velocity[:, 2]
        return frame.angular_velocity if axes == "ground" else jnp.einsum("tij,ti->tj", frame.rotation, frame.angular_velocity)

    def point(self, body: str, local: Any) -> PointMotion:
        """Motion of a body-fixed point, given in the body's axes from its centre of mass [m]."""
        self._oriented(body)
        d = self._dimension()
        local = read(f"body {body!r}", "point", vector("m", d), local)
        return PointMotion(*(part[:, :d] for part in self._rowwise(eqx.Partial(rows.point, body=body, local=jnp.asarray(local)))))

    # --- deformation ---------------------------------------------------------------------------------------------------------------------

    def deflection(self, body: str) -> Float[Array, "rows modes"]:
        """m, modal coordinates of a body that deforms"""
        group, _, where = self._body(body)
        if not isinstance(group.body, ModalBody):
            raise ValueError(f"body {body!r} has no modes: it is a {type(group.body).__name__}.")
        return self.q[..., where.start + 7 : where.stop]

    def stress(self, body: str) -> Float[Array, "rows points"]:
        """Pa, von Mises' stress at the recovery points of a `ModalBody`."""
        return recovery_of(self._mechanism("stress"), body).von_mises(self.deflection(body))

    def hot_spots(self, body: str, count: int = 10, radius: float | None = None) -> list[HotSpot]:
        """The places of a `ModalBody` where stresses were largest, the worst first. Points within `radius` [m] of a worse one count as one
        with it; None: a fiftieth of the body's size."""
        return hottest(recovery_of(self._mechanism("stress"), body), self.deflection(body), self.ts, count, radius)

    # --- loads by name ------------------------------------------------------------------------------------------------------------------

    def reaction(self, joint: str) -> Reaction:
        """Force and torque of a joint on its second body, about the joint's point, in the ground's axes."""
        system = self._mechanism("reaction")
        if joint not in system.row_slices():
            raise ValueError(unknown("joint", joint, system.row_slices()))
        force, torque = self._rowwise(eqx.Partial(rows.reaction, joint=joint))
        # A model that was built from traced numbers could not be analysed: nothing is known to be unique then.
        known = bool(system.redundant_joints)
        unique = not system.redundant or (known and joint not in system.redundant_joints)
        return Reaction(force[:, :2], torque[:, 2], unique) if system.planar else Reaction(force, torque, unique)

    def contact(self, name: str) -> ContactLoads:
        """Gap, normal force, slip, friction and power of a contact; of a group of contacts "name[0]", "name[1]", ... for "name".

        After the rows, arrays of a group have an axis of pairs, and those of pairs with several spots (a box's corners) one of spots.
        """
        system = self._mechanism("contact")
        if name not in contact_places(system):
            raise ValueError(unknown("contact", name, contact_places(system)))
        return self._rowwise(eqx.Partial(rows.contact, name=name))

    def force(self, element: str) -> Load:
        """Forces and torques of a force element or contact on each of its bodies; of springs also tension, length or angle, and rate."""
        system = self._mechanism("force")
        bodies = {name: own for group in system.force_groups for name, own in zip(group.names, group.bodies, strict=True)}
        if element not in bodies:
            raise ValueError(unknown("force", element, bodies))
        force, torque, stretch = self._over_rows(eqx.Partial(rows.load, element=element))
        if system.planar:
            force, torque = force[..., :2], torque[..., 2]
        names = (*system.frame_names, ground.name)
        return Load(force, torque, **stretch, bodies=tuple(names[body] for body in bodies[element]))

    def joint(self, joint: str) -> JointMotion:
        """Angle and travel of a joint, with their rates."""
        system = self._mechanism("joint")
        if joint not in system.row_slices():
            raise ValueError(unknown("joint", joint, system.row_slices()))
        return JointMotion(**self._over_rows(eqx.Partial(rows.joint, joint=joint)))

    # --- anything by name ---------------------------------------------------------------------------------------------------------------

    @overload
    def observe(self, names: str) -> Float[Array, "..."]: ...

    @overload
    def observe(self, names: Sequence[str]) -> dict[str, Float[Array, "..."]]: ...

    def observe(self, names):
        """What has a name such as "rod.x", "spring.force", "hinge.angle", "energy.total": a number for every row.

        With a reducer, "peak:rod.x", "mean:spring.force", ..., one number for the run. Several names give a dictionary, and compile together.
        `system.observable_names()` lists the names. For what is integrated over time ("spring.work") rows should be steps, or as dense.
        """
        wanted = (names,) if isinstance(names, str) else tuple(names)
        found = self._over_rows(eqx.Partial(rows.observe, names=wanted)) if wanted else {}
        return found[names] if isinstance(names, str) else {name: found[name] for name in wanted}  # jit sorts them

    def observable_names(self) -> list[str]:
        """All names that `observe` understands, without reducers and points of bodies."""
        return self.system.observable_names()

    # --- energy and constraints ---------------------------------------------------------------------------------------------------------

    def energy(self) -> Energy:
        """Kinetic and potential energy [J] of every row."""
        kinetic, potential = self._rowwise(rows.energies)
        return Energy(kinetic, potential, kinetic + potential)

    def work(self) -> dict[str, ElementWork]:
        """By name, what has worked since the first row: force elements, contacts, joints that are driven or held by penalties, gravity, the
        drives of rotors.

        Kinetic and potential energy change by the sum of what is supplied; what remains, "energy.error", is numerical. The integrals over
        time have fourth order in the distance of rows: save steps (`saveat=None`), or times as dense.
        """
        columns = (part.T for part in self._over_rows(rows.work))
        return {name: ElementWork(*parts) for name, parts in zip(self.system.workers(), zip(*columns, strict=True), strict=True)}

    def constraint_violation(self) -> Float[Array, "rows"]:
        """Largest |Phi| of every row (lengths in m, others in rad)."""
        return self._rowwise(rows.violation)

    # --- pictures and tables ---------------------------------------------------------------------------------------------------------------

    def plot(self, *names: str, path: str | Path | None = None) -> "Figure":
        """Over time, with units: observables, "hinge.angle", or of a body, joint or force its chief ones, "rod"; no name: where bodies are.

        "energy" is the balance with the work of every element, "steps" step sizes, orders and constraint violation, the name of a contact its
        forces, slip and power. Written to the path, if there is one.
        """
        return view.plot_named(self, names, path)

    def to_xarray(self, observe: str | Sequence[str] | None = None) -> "xarray.Dataset":
        """A dataset with the coordinates time [s], body and axis: position, velocity, orientation and angular velocity of every body, and the
        energies; or what `observe` names, one variable each. Units are attributes; so are the result and what the run cost."""
        return tables.to_xarray(self, observe)

    def to_dataframe(self, observe: str | Sequence[str] | None = None) -> "pandas.DataFrame":
        """A table over time [s], one column for each observable that is named; by default where bodies are, how joints stand, and the total
        energy. `frame.attrs["units"]` has the units."""
        return tables.to_dataframe(self, observe)

    def save(self, path: str | Path) -> Path:
        """Writes "x.npz" or "x.nc" (netCDF) for `mbd.load`, with the model, if that is data; other programs read the arrays."""
        return archive.write(self, path)

    # --- moving pictures ----------------------------------------------------------------------------------------------------------------

    def animate(
        self,
        observe: str | Sequence[str] = (),
        *,
        traces: str | Sequence[str] = (),
        show: str | Sequence[str] = (),
        speed: float | None = None,
        camera: Any = None,
        follow: str | None = None,
        title: str = "",
        height: int = 480,
        autoplay: bool = True,
    ) -> page.Animation:
        """The mechanism moving, in a notebook's cell or, `.save("run.html")`, in one file for any browser, which asks the network for nothing.

        `observe`: what a strip chart beside the picture shows, names as in `solution.observe`. `traces`: paths to draw, of bodies ("rod") or
        of their points ("rod.point(1,0,0)"). `show`: arrows that are switched on at first, of "contact forces" and "joint reactions".
        `speed`: seconds of the run in a second of playback; None: 1, or what makes a short or a long run last some seconds. `camera`: direction
        (x, y, z) from the scene to the camera. `follow`: a body that the camera goes along with; "": none; None: the heaviest, if the
        mechanism travels far. `height`: pixels.

        Bodies look as their `shape` says, or like something that fits their contacts, joints and inertia.
        """
        return page.animate(
            self,
            observe,
            traces=traces,
            show=show,
            speed=speed,
            camera=camera,
            follow=follow,
            title=title,
            height=height,
            autoplay=autoplay,
        )

    def save_gltf(self, path: str | Path, *, speed: float | None = None, traces: str | Sequence[str] = (), arrows: bool = False) -> Path:
        """The mechanism moving, as a binary glTF 2.0 file (.glb), which Blender and other 3-D programs open.

        Nodes have the names of bodies. `arrows`: of contact forces and joint reactions, too. Others as in `animate`.
        """
        return gltf.save_gltf(self, path, speed=speed, traces=traces, arrows=arrows)

    def save_video(
        self,
        path: str | Path,
        observe: str | Sequence[str] = (),
        *,
        size: tuple[int, int] = (960, 540),
        rate: float = 30.0,
        **look: Any,
    ) -> Path:
        """The page of `animate` as a film, .mp4, .webm, .gif or .webp, of `size` pixels and `rate` pictures a second; takes its other arguments
        (`traces`, `show`, `speed`, `camera`, `follow`, `title`). Needs Chromium or Chrome, which draws the pictures, and ffmpeg."""
        return video.save_video(self, path, observe=observe, size=size, rate=rate, **look)

    # --- helpers ------------------------------------------------------------------------------------------------------------------------

    def _mechanism(self, what: str) -> System:
        if not isinstance(self.system, System):
            raise ValueError(f"{what} by name needs a Model; these are equations without bodies.")
        return self.system

    def _dimension(self) -> int:
        return 2 if self._mechanism("position").planar else 3

    def _body(self, name: str):
        slices = self._mechanism("a body").body_slices()
        if name not in slices:
            raise ValueError(unknown("body", name, slices))
        return slices[name]

    def _oriented(self, name: str) -> slice:
        """Coordinates of a body that has an orientation."""
        group, _, where = self._body(name)
        if not group.body.has_orientation:
            raise ValueError(f"body {name!r} is a point mass: it has no orientation.")
        return where

    def _frame(self, name: str) -> Frame:
        names = self._mechanism("a body").frame_names
        if name not in names:
            raise ValueError(unknown("body", name, names))
        place = names.index(name)
        frames = self._rowwise(rows.frames)
        return jax.tree.map(lambda leaf: leaf[:, place], frames)

    def _rowwise(self, function: Callable[[Any, State], Any]) -> Any:
        """function(system, state) of every row."""
        return self._over_rows(eqx.Partial(rows.each_row, function))

    def _over_rows(self, function: Callable[[Any, State], Any]) -> Any:
        """function(system, states) of all rows, compiled once a function and a power of two of rows. It sees the last row repeated, and what it
        returns has numbers for each row, or some that do not depend on repeated rows."""
        if is_traced(self, function):
            return function(self.system.prepare(), self.states)
        if self.ts.ndim != 1:
            raise ValueError(
                "this is a batch of runs: ask inside jax.vmap, or take one lane, jax.tree.map(lambda leaf: leaf[i], solution)."
            )
        count = self.ts.shape[0]
        full = 1 << (count - 1).bit_length()
        pad = lambda leaf: np.concatenate([leaf, np.repeat(leaf[-1:], full - count, axis=0)])  # noqa: E731
        padded = jax.tree.map(lambda leaf: pad(np.asarray(leaf)), self.states)  # numpy: each slice of a JAX array is a program
        values = rows.compiled(self.system, padded, function)
        return jax.tree.map(lambda leaf: jax.device_put(np.asarray(leaf)[:count]) if leaf.ndim else leaf, values)


def _headline(result: RESULTS) -> str:
    """What happened at a time and to an element; empty if neither is to be named."""
    for code, text in (
        (RESULTS.step_too_small, "step too small"),
        (RESULTS.newton_failed, "Newton's method failed"),
        (RESULTS.constraints_not_met, "the step is too long for the constraints to be met"),
        (RESULTS.singular_configuration, "singular configuration"),
        (RESULTS.diverged, "the motion exploded"),
    ):
        if bool(result == code):
            return text
    return ""
