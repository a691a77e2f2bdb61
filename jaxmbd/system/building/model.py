"""What a person builds: named bodies, joints and forces."""

import dataclasses
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..blocks.structure import structure_of
from ..bodies.base import AbstractBody, point_name
from ..checking import check_dimension
from ..contact.base import AbstractContact
from ..describing import describe_model
from ..elements import AbstractElement, BodyName, ground
from ..files import model_files
from ..files.parts import Parts
from ..flexible.beam import Beam
from ..forces.base import AbstractField, AbstractForce
from ..joints.base import AbstractJoint
from ..parameters import is_traced, unknown
from ..shapes import read_shapes
from ..stacked.groups import BodyGroup, ElementGroup
from ..stacked.layout import Layout
from ..system import System
from .analysis import Analysis, analyse
from .laws import with_laws
from .overlap import check_overlaps


class Model:
    """A mechanism: bodies, the joints between them, the forces on them. All bodies are planar or all are spatial.

    A beam among the bodies stands for its nodes and segments: `bodies` and `forces` list these.
    """

    def __init__(
        self,
        bodies: Sequence[AbstractBody | Beam],
        joints: Sequence[AbstractJoint] = (),
        forces: Sequence[AbstractForce | AbstractField] = (),
        *,
        scenery: Any = None,
    ):
        """`scenery`: shapes that stand still in pictures, `mbd.shapes.Plane(...)`, in the ground's axes; the equations do not see them."""
        given, self.joints = _list("bodies", bodies), _list("joints", joints)
        beams = [item for item in given if isinstance(item, Beam)]
        self.bodies = tuple(body for item in given for body in (item.nodes if isinstance(item, Beam) else (item,)))
        self.forces = (*_list("forces", forces), *(segment for beam in beams for segment in beam.segments))
        self.scenery = read_shapes("scenery of the model", scenery)
        _check_types(self)
        _check_names(self, beams)
        self._built: dict[str, System] = {}

    def __repr__(self) -> str:
        return describe_model(self._parts, self.planar).text()

    def _repr_html_(self) -> str:
        return describe_model(self._parts, self.planar).html()

    @property
    def _parts(self) -> Parts:
        return Parts(self.bodies, self.joints, self.forces, self.scenery)

    @property
    def planar(self) -> bool:
        return self.bodies[0].dimension == 2

    def save(self, path: str | Path) -> Path:
        """Writes the model as a file of data, "x.json", for `mbd.load_model`. Functions are no data, and refused by name; an `mbd.Signal` or an
        equinox Module with numbers for fields is."""
        return model_files.write(self._parts, path)

    def build(self, algebra: str = "auto") -> System:
        """The system that integrators run. Everything that can be wrong with the model is reported here.

        `algebra` says how HHT, BDF and starts keep and solve linear equations: "dense", as matrices, or "block", as sparse matrices of one small
        block for each body, whose cost grows as the number of bodies does. "auto" takes blocks where that pays: for large mechanisms that are
        not coupled all to all. Forces that depend on reactions, joints that hold velocities, and points of
        bodies that deform take dense ones."""
        if algebra not in _ALGEBRAS:
            raise ValueError(f"algebra must be one of {', '.join(map(repr, _ALGEBRAS))}: got {algebra!r}.")
        if algebra in self._built:
            return self._built[algebra]
        planar = self.planar
        for body in self.bodies:
            if (body.dimension == 2) != planar:
                first = self.bodies[0].name
                raise ValueError(
                    f"body {body.name!r} and body {first!r} do not live in the same space: use either planar bodies (PlanarBody, "
                    "2-D PointMass) or spatial ones (RigidBody, 3-D PointMass)."
                )
        elements = [_complete(e, planar, self) for e in (*self.joints, *self.forces)]
        fields = [e for e in elements if isinstance(e, AbstractField)]
        _warn_of_loose_bodies(self, fields)

        body_groups = tuple(BodyGroup(_stack(members), tuple(b.name for b in members)) for members in _by_kind(self.bodies))
        points = [point_name(name, point) for group in body_groups for name in group.names for point in group.body.point_names()]
        order = {name: i for i, name in enumerate((*(name for group in body_groups for name in group.names), *points))}
        order[ground.name] = len(order)
        joint_groups = _groups([e for e in elements if isinstance(e, AbstractJoint)], order, planar)
        force_groups = _groups([e for e in elements if isinstance(e, AbstractForce)], order, planar, joint_groups)
        system = System(  # pyright: ignore[reportCallIssue] (q0 and v0 are properties)
            body_groups,
            joint_groups,
            force_groups,
            tuple(jax.tree.map(jnp.asarray, field) for field in fields),
            planar,
            Layout.of(body_groups, joint_groups, force_groups),
            looks=((ground.name, self.scenery), *((body.name, body.shape) for body in self.bodies)),
        )
        system = with_laws(system)
        system = _with_structure(system, algebra)
        penalties_only = all(group.element.penalty is not None for group in system.joint_groups)
        if is_traced(system):
            # Nothing concrete to analyse: keep watching for redundant rows at run time.
            return system if penalties_only else system.watching()
        check_overlaps(system, [e for e in elements if isinstance(e, AbstractContact)])
        if penalties_only:
            self._built[algebra] = system  # no row but the bodies' own: nothing can be redundant or contradict
            return system
        analysis = analyse(system)
        _report(system, analysis, self)
        if analysis.redundant_rows:
            system = system.watching(analysis.redundant_joints, analysis.redundant_rows)
            if system.structure is not None:
                system = dataclasses.replace(system, structure=dataclasses.replace(system.structure, kept=jnp.asarray(analysis.kept)))
        self._built[algebra] = system
        return system


_ALGEBRAS = ("auto", "dense", "block")
_LARGE = 300
"""Dense matrices are as fast up to about so many unknowns."""
_SPARSE = 0.25
"""What remains as a dense matrix must be below this part of the unknowns."""


def _with_structure(system: System, algebra: str) -> System:
    """The same, prepared for blocks if that is asked for or pays."""
    asking = [group for group in system.force_groups if group.element.asks_reactions and any(group.joints)]
    reasons = [f"force {group.names[0]!r} depends on reactions" for group in asking]
    reasons += ["there are joints that hold velocities"] * bool(system.velocity_rows())
    reasons += ["there are states whose equations see the whole mechanism"] * any(kind.sees_all for kind in system.layout.forces)
    reasons += ["elements attach to points of bodies that deform"] * (len(system.layout.frame_bodies) > len(system.layout.body_slices))
    reasons += ["redundant rows cannot be found under jit, grad or vmap"] * is_traced(system)
    if algebra == "block" and reasons:
        raise ValueError(
            f"algebra='block' does not serve this model: {reasons[0]}. Leave algebra out, or build the model outside and set parameters."
        )
    unknowns = len(system.coordinate_lengths()) + len(system.row_lengths())
    if algebra == "dense" or (algebra == "auto" and (reasons or unknowns < _LARGE)):
        return system
    structure, size = structure_of(system.layout, np.ones(len(system.row_lengths())))
    if algebra == "auto" and size.root > _SPARSE * size.unknowns:
        return system
    return dataclasses.replace(system, structure=jax.tree.map(jnp.asarray, structure))


def _list(kind: str, items: Any) -> tuple[Any, ...]:
    if not isinstance(items, Iterable):
        raise ValueError(f"{kind} of the model must be a list, got {type(items).__name__}.")
    return tuple(items)


def _check_types(model: Model) -> None:
    if not model.bodies:
        raise ValueError("a model needs at least one body.")
    for items, kind, types in (
        (model.bodies, "bodies", AbstractBody),
        (model.joints, "joints", AbstractJoint),
        (model.forces, "forces", AbstractForce | AbstractField),
    ):
        for item in items:
            if not isinstance(item, types):
                raise ValueError(f"{kind} of the model contains {item!r}, which does not belong there.")


def _check_names(model: Model, beams: Sequence[Beam]) -> None:
    seen = {ground.name: "the ground", "energy": "the energy of the whole"}
    for kind, items in (("beam", beams), ("body", model.bodies), ("joint", model.joints), ("force", model.forces)):
        for item in items:
            if item.name in seen:
                raise ValueError(f"the name {item.name!r} is used twice: by {seen[item.name]} and by a {kind}. Rename one.")
            seen[item.name] = f"a {kind}"
    known = {body.name: body for body in model.bodies}
    known |= {point_name(body.name, point): body for body in model.bodies for point in body.point_names()}
    for element in (*model.joints, *model.forces):
        for position, name in enumerate(element.bodies):
            if name == ground.name:
                continue
            if name not in known:
                raise ValueError(f"{element.label} acts on an {unknown('body', name, known)}")
            if (body := known[name]).deforms and name == body.name and (points := body.point_names()):
                raise ValueError(
                    f"{element.label} attaches to body {name!r} itself, whose floating frame is no piece of material: give one of its "
                    f"interface points, such as {name}.at({points[0]!r})."
                )
            if isinstance(name, BodyName) and (differences := _differences(name.body, known[name])):
                raise ValueError(
                    f"{element.label} was made with another body of the name {name!r} than the model's: they differ in "
                    f"{', '.join(differences)}. Make both from one object, or give the joint or force the name alone."
                )
            if not (known[name].has_orientation or position in element.point_like):
                others = "PointForce, SpringDamper or ForceFunction"
                if isinstance(element, AbstractJoint):
                    others = "Spherical, Distance, Inline or Inplane joint"
                raise ValueError(
                    f"{element.label}: body {name!r} is a point mass and has no orientation, which this {type(element).__name__} "
                    f"needs. Use a rigid body, or a {others}."
                )
        for name in element.bodies:
            if element.bodies.count(name) > 1:
                raise ValueError(f"{element.label} connects body {name!r} to itself.")
    _check_reactions(model)


def _check_reactions(model: Model) -> None:
    """Forces that depend on reactions, and their joints."""
    joints = {joint.name: joint for joint in model.joints}
    for force in model.forces:
        for name in force.reaction_joints() if isinstance(force, AbstractForce) else ():
            if name not in joints:
                raise ValueError(f"{force.label} depends on the reaction of an {unknown('joint', name, joints)}")
            if not force.fits(joints[name]):
                raise ValueError(
                    f"{force.label} was made with another joint of the name {name!r} than the model's: they differ in kind or bodies."
                )


def _differences(one: AbstractBody, other: AbstractBody) -> list[str]:
    """Fields in which two bodies differ, as far as they are known."""
    if one is other:
        return []
    if type(one) is not type(other):
        return ["their kind"]
    pairs = [(field, value, vars(other)[field]) for field, value in vars(one).items()]
    return [field for field, a, b in pairs if not is_traced(a, b) and not np.array_equal(a, b)]


def _warn_of_loose_bodies(model: Model, fields: Sequence[AbstractField]) -> None:
    touched = {name for e in (*model.joints, *model.forces) for name in e.bodies}
    loose = [
        body.name for body in model.bodies if not touched & {body.name, *(point_name(body.name, point) for point in body.point_names())}
    ]
    if loose and not fields:
        names = ", ".join(map(repr, loose))
        warnings.warn(f"no joint or force acts on body {names}: its centre of mass will keep its velocity.", stacklevel=4)
    elif loose and (model.joints or any(set(e.bodies) - {ground.name} for e in model.forces)):
        names, acting = ", ".join(map(repr, loose)), ", ".join(field.name for field in fields)
        warnings.warn(
            f"no joint and no force but {acting} acts on body {names}: it will fall freely.",
            stacklevel=4,
        )


def _complete(element: AbstractElement, planar: bool, model: Model) -> AbstractElement:
    """The element with what the kind of model decides: default axes, dimensions, geometry that must make sense."""
    label = element.label
    if planar and isinstance(element, AbstractJoint) and element.planar_rows is None:
        raise ValueError(f"{label}: a {type(element).__name__} joint has no meaning in a planar model.")
    if isinstance(element, AbstractContact) and (element.dimension == 2) != planar:
        where, bodies = ("planar", "spatial") if planar else ("spatial", "planar")
        raise ValueError(f"{label}: a {type(element).__name__} contact has no meaning in a {where} model; it needs {bodies} bodies.")
    for field, value in vars(element).items():
        if field not in element.parameters or field in ("free_length", "value"):
            continue
        is_axis = field.startswith("axis")
        if value is None and is_axis:
            if not (planar and element.turns_about_z()):
                raise ValueError(f"{label}: give {field}=(x, y{'' if planar else ', z'}), a direction in the ground's frame.")
            value = np.array([0.0, 0.0, 1.0])
            element = eqx.tree_at(lambda e, f=field: getattr(e, f), element, value, is_leaf=lambda leaf: leaf is None)
        elif planar and is_axis and value is not None and element.turns_about_z():
            if value.shape != (3,) or (not is_traced(value) and np.any(np.abs(value[:2]) > 1e-12)):
                raise ValueError(f"{label}: in a planar model bodies turn about z; leave {field} out.")
        elif value is not None and not callable(value) and getattr(value, "shape", ()) in ((2,), (3,)):
            check_dimension(label, field, value, planar)
    element.check(planar)
    return element


def _anonymous(item: Any) -> Any:
    """The item without what differs between elements of one kind: its name and its bodies."""
    copy = object.__new__(type(item))
    for field, value in vars(item).items():
        if field == "name":
            value = ""
        elif field in ("bodies", "joints"):
            value = ("",) * len(value)
        elif field == "allow_overlap":
            value = False  # asked for once, at build
        elif field == "shape":
            value = ()  # the system's `looks` have them
        object.__setattr__(copy, field, value)
    return copy


def _by_kind(items: Sequence[Any]) -> list[list[Any]]:
    """Items that can be stacked, together: same class, same structure, same shapes, same functions."""
    kinds: dict[Any, list[Any]] = {}
    for item in items:
        leaves, structure = jax.tree.flatten(_anonymous(item))
        shapes = tuple(np.shape(leaf) if _is_number(leaf) else id(leaf) for leaf in leaves)
        kinds.setdefault((structure, shapes), []).append(item)
    return list(kinds.values())


def _is_number(leaf: Any) -> bool:
    """A parameter (floats and arrays), not a function or a flag that belongs to the structure."""
    return isinstance(leaf, float) or hasattr(leaf, "shape")


def _stack(items: Sequence[Any]) -> Any:
    def join(*leaves):
        if not _is_number(leaves[0]):
            return leaves[0]
        # Whole numbers in a user's Module (an index, a power) stay what they are.
        kind = float if jnp.issubdtype(jnp.result_type(leaves[0]), jnp.floating) else None
        if is_traced(leaves):
            return jnp.stack([jnp.asarray(leaf, kind) for leaf in leaves])
        return jax.device_put(np.stack([np.asarray(leaf, kind) for leaf in leaves]))

    return jax.tree.map(join, *(_anonymous(item) for item in items))


def _groups(
    elements: Sequence[AbstractElement], order: dict[str, int], planar: bool, joints: tuple[ElementGroup, ...] = ()
) -> tuple[ElementGroup, ...]:
    places = {name: (number, i) for number, group in enumerate(joints) for i, name in enumerate(group.names)}
    return tuple(
        ElementGroup(
            _stack(members),
            tuple(e.name for e in members),
            tuple(tuple(order[name] for name in e.bodies) for e in members),
            members[0].planar_rows if planar and isinstance(members[0], AbstractJoint) else None,
            tuple(asked for e in members if isinstance(e, AbstractForce) and (asked := tuple(places[j] for j in e.reaction_joints()))),
        )
        for members in _by_kind(elements)
    )


def _report(system: System, analysis: Analysis, model: Model) -> None:
    """Errors and warnings that need the assembled equations."""
    if analysis.conflicting:
        names = ", ".join(map(repr, analysis.conflicting))
        raise ValueError(
            f"the joints {names} contradict each other: no configuration near the initial one satisfies them all "
            f"(they remain violated by {analysis.violation:.2g}). Remove one, or make their points, lengths and motions agree."
        )
    if analysis.redundant_joints:
        names = ", ".join(map(repr, analysis.redundant_joints))
        loaded = [
            force.label
            for force in model.forces
            if isinstance(force, AbstractForce) and set(force.reaction_joints()) & set(analysis.redundant_joints)
        ]
        consequence = f"; through {', '.join(loaded)} the motion depends on their choice" if loaded else ""
        warnings.warn(
            f"redundant constraints: {analysis.redundant_rows} row(s) of the joints {names} follow from the others. "
            f"{'' if loaded else 'The motion is exact; '}reactions of the joints in that loop are not unique{consequence}.",
            stacklevel=4,
        )
    if analysis.unfit_velocities:
        names = ", ".join(map(repr, analysis.unfit_velocities))
        warnings.warn(f"the initial velocities do not fit the joints {names}; the nearest that do will be used.", stacklevel=4)
