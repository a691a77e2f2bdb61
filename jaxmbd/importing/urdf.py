"""Robots in URDF, the unified robot description format."""

from pathlib import Path
from typing import Any

import numpy as np

from ..system.building.model import Model
from ..system.contact.laws import LinearContact
from . import looks, xml
from .places import Place, fixed_angles
from .tree import Builder, Joint, Link

_KINDS = {"revolute": "hinge", "continuous": "hinge", "prismatic": "slide"}


def load_urdf(
    path: str | Path, *, floating_base: bool = False, gravity: Any = (0.0, 0.0, -9.81), stop: LinearContact | None = None
) -> Model:
    """A model from a URDF file (or its text), as it stands where all joints are zero.

    - Links become rigid bodies with their inertial frames; a link that is fixed to the ground, and one without a mass that is fixed to another,
      becomes a part of it. The root is the ground, unless `floating_base`.
    - Joints: revolute, continuous, prismatic, fixed, floating, planar, by their names. Damping becomes a `TorsionSpringDamper` or
      `SlideSpringDamper` "NAME_spring", limits a `JointStop` "NAME_stop" with the law `stop`: unless given, so stiff that the whole robot at its
      full length turns it by a thousandth, and half critically damped.
    - Visual geometry becomes shapes for pictures (meshes from STL and OBJ files); collision geometry does where a link has no other.
      There are no contacts: add them, `mbd.contacts(...)`.

    What is not supported is named in one warning. `gravity` [m/s^2] is not a matter of the format.
    """
    robot, folder = xml.read(path, "robot")
    robot.pass_over("name", "version")
    builder = Builder("load_urdf", gravity, stop)
    colors: dict[str, Any] = {}
    for node in robot.all("material"):
        _color(node, colors)
    links = {}
    for node in robot.all("link"):
        link = links[node.text("name")] = Link(node.text("name"), Place.origin())
        _read_link(link, node, folder, colors, builder)
    joined = [(node, *(node.only(end).text("link") for end in ("parent", "child"))) for node in robot.all("joint")]
    for node, parent, child in joined:
        for name in (parent, child):
            if name not in links:
                raise ValueError(f"load_urdf: {node.said} is between {parent!r} and {child!r}, but there is no link {name!r}.")
        if links[child].parent is not None:
            raise ValueError(f"load_urdf: link {child!r} is the child of two joints: URDF describes trees.")
        _read_joint(node, links[child], links[parent])
    ordered = _parents_first(list(links.values()))
    if floating_base:
        _float(ordered)
    return builder.build(ordered, robot.unread())


def _float(ordered: list[Link]) -> None:
    """The base is the root, or what a root without mass is fixed to, one after the other."""
    base = ordered[0]
    while base.mass == 0 and len(below := [link for link in ordered if link.parent is base]) == 1 and not below[0].joints:
        base = below[0]
    if base.mass == 0:
        raise ValueError(f"load_urdf: link {base.name!r} shall float, but has no mass: give it one, or leave floating_base out.")
    base.floating = True


def _parents_first(links: list[Link]) -> list[Link]:
    found: list[Link] = [link for link in links if link.parent is None]
    if len(found) != 1:
        told = ", ".join(repr(link.name) for link in found) or "none"
        raise ValueError(f"load_urdf: a robot has one root, a link that is nobody's child; here there is {told}.")
    for link in found:
        found += [child for child in links if child.parent is link]
    if len(found) < len(links):
        rest = ", ".join(repr(link.name) for link in links if link not in found)
        raise ValueError(f"load_urdf: the links {rest} are connected in a circle: URDF describes trees.")
    return found


def _origin(node: xml.Node) -> Place:
    origin = node.only("origin")
    return Place(fixed_angles(origin.numbers("rpy", np.zeros(3))), origin.numbers("xyz", np.zeros(3)))


def _read_link(link: Link, node: xml.Node, folder: Path, colors: dict[str, Any], builder: Builder) -> None:
    inertial = node.one("inertial")
    if inertial is not None:
        place, terms = _origin(inertial), inertial.only("inertia")
        i = {term: terms.number(term) for term in ("ixx", "iyy", "izz", "ixy", "ixz", "iyz")}
        own = np.array([[i["ixx"], i["ixy"], i["ixz"]], [i["ixy"], i["iyy"], i["iyz"]], [i["ixz"], i["iyz"], i["izz"]]])
        link.mass, link.centre = inertial.only("mass").number("value"), place.position
        link.inertia = place.rotation @ own @ place.rotation.T
    visuals, collisions = node.all("visual"), node.all("collision")
    for one in visuals or collisions:
        one.pass_over("name")
        _read_look(link, one, folder, colors, builder)
    if collisions:
        for one in collisions if visuals else ():
            one.pass_over("name", "<geometry>", "<origin>", *(f"<{child.tag}>" for child in one.children))
        builder.left_out["contacts of collision geometry"] += len(collisions)


def _color(node: xml.Node, known: dict[str, Any]) -> dict[str, Any]:
    """Of a material; by its name it is known from then on."""
    color, name = node.one("color"), node.text("name")
    if color is None:
        return known.get(name, {})
    found = looks.color(color.numbers("rgba", [0.5, 0.5, 0.5, 1]))
    if name:
        known[name] = found
    return found


def _read_look(link: Link, node: xml.Node, folder: Path, colors: dict[str, Any], builder: Builder) -> None:
    own, geometry = _origin(node), node.only("geometry")
    color = _color(node.only("material"), colors)
    for child in geometry.children:
        if child.tag == "mesh":
            name = child.text("filename")
            found = looks.read_mesh(_mesh_file(folder, name))
            scale = child.numbers("scale", np.ones(3))
            geometry.all("mesh")
            if found is None:
                builder.left_out[f"mesh {name!r}, which is not there, or neither STL nor OBJ"] += 1
            else:
                link.looks.append(lambda place, f=found, o=own, s=scale, c=color: looks.mesh(f[0] * s, f[1], place.then(o), **c))
        elif child.tag in ("box", "sphere", "cylinder", "capsule"):
            geometry.all(child.tag)
            if child.tag == "box":
                sizes = child.numbers("size", [])
            else:
                sizes = np.array([child.number("radius"), *([] if child.tag == "sphere" else [child.number("length")])])
            link.looks.append(lambda place, k=child.tag, s=sizes, o=own, c=color: looks.shape(k, s, place.then(o), **c))


def _mesh_file(folder: Path, name: str) -> Path:
    """Beside the file, or in a package: a folder above it that has the package's name."""
    inside = Path(name.removeprefix("file://").removeprefix("package://"))
    bases = (folder, *folder.parents) if name.startswith("package://") else ()
    return next((base / inside for base in bases if (base / inside).is_file()), folder / inside)


def _read_joint(node: xml.Node, link: Link, parent: Link) -> None:
    name, kind = node.text("name"), node.text("type")
    link.parent, link.place = parent, _origin(node)
    node.only("parent").text("link")
    axis, limit, dynamics = node.only("axis").numbers("xyz", [1.0, 0.0, 0.0]), node.only("limit"), node.only("dynamics")
    link.floating = kind == "floating"
    if kind == "planar":
        normal = axis / np.linalg.norm(axis)
        first = np.cross(normal, np.eye(3)[np.argmin(np.abs(normal))])
        first /= np.linalg.norm(first)
        joints = (("x", "slide", first), ("y", "slide", np.cross(normal, first)), ("", "hinge", normal))
        link.joints = [Joint(name if part == "" else f"{name}_{part}", what, along, np.zeros(3)) for part, what, along in joints]
        link.joints.insert(0, link.joints.pop())
        return
    if kind in ("fixed", "floating"):
        return
    if kind not in _KINDS:
        known = ", ".join((*_KINDS, "fixed", "floating", "planar"))
        raise ValueError(f"load_urdf: {node.said} has the type {kind!r}; there are {known}.")
    if not np.any(axis):
        raise ValueError(f"load_urdf: {node.said} has an axis of zero length.")
    joint = Joint(name, _KINDS[kind], axis, np.zeros(3), damping=dynamics.number("damping"))
    dynamics.ignore_zero("friction")
    if kind != "continuous" and ("lower" in limit or "upper" in limit):
        joint.lower, joint.upper = limit.number("lower"), limit.number("upper")
        if joint.lower >= joint.upper:
            raise ValueError(
                f"load_urdf: {node.said} has the lower limit {joint.lower:g} and the upper limit {joint.upper:g}: there must be room."
            )
    link.joints = [joint]
