"""Models in MJCF, the format of MuJoCo."""

from pathlib import Path

import numpy as np

from ..system.building.model import Model
from ..system.contact.laws import LinearContact
from . import looks, xml
from .places import Place, axis_angle, euler, quaternion, z_to
from .tree import Builder, Joint, Link

_ORIENTATIONS = ("quat", "axisangle", "euler", "xyaxes", "zaxis")


def load_mjcf(path: str | Path, *, stop: LinearContact | None = None) -> Model:
    """A model from an MJCF file (or its text), as it stands at MuJoCo's qpos0.

    - Bodies become rigid bodies with their inertial frames, or with masses and inertias of their geoms; one without joints, that rests on the
      ground or has no mass, becomes a part of its parent.
    - Joints: hinge, slide, ball, free by their names; of several joints of a body those that make a universal, cylindrical, planar or
      spherical joint. Stiffness and damping become a spring "NAME_spring", ranges of hinges and slides a `JointStop` "NAME_stop" with the law
      `stop`: unless given, so stiff that the whole mechanism at its full length turns it by a thousandth, and half critically damped.
      MuJoCo's own stops are other laws. The armature of a hinge on the ground is inertia about its axis.
    - Geoms become shapes for pictures (meshes from STL and OBJ files). There are no contacts: add them, `mbd.contacts(...)`.

    Actuators, tendons, equalities, sensors, frictionloss, other armatures and whatever else is not supported is named in one warning; an
    <include> is an error.
    """
    root, folder = xml.read(path, "mujoco")
    root.pass_over("model")
    if root.all("include"):
        raise ValueError("load_mjcf: the file has an <include>, which is not followed: put all into one file.")
    reader = _Reader(root, folder)
    builder = Builder("load_mjcf", root.only("option").numbers("gravity", [0.0, 0.0, -9.81]), stop)
    reader.read_world(root.only("worldbody"))
    builder.left_out += reader.left_out
    return builder.build(reader.links, root.unread() + reader.unread())


class _Reader:
    def __init__(self, root: xml.Node, folder: Path):
        compiler = root.only("compiler")
        self.degrees = compiler.text("angle", "degree") == "degree"
        self.sequence = compiler.text("eulerseq", "xyz")
        self.auto_limits = compiler.flag("autolimits", True)
        self.from_geoms = compiler.text("inertiafromgeom", "auto")
        self.folder = folder / compiler.text("meshdir", compiler.text("assetdir"))
        self.links: list[Link] = []
        self.left_out: xml.Counter[str] = xml.Counter()
        self._defaults: dict[str, dict[str, dict[str, str]]] = {"main": {}}
        for node in root.all("default"):
            node.pass_over("class")
            self._read_defaults(node, "main", {})
        self._meshes = {node.text("name") or Path(node.text("file")).stem: node for node in root.only("asset").all("mesh")}
        self._merged: list[xml.Node] = []

    def unread(self) -> "xml.Counter[str]":
        return sum((node.unread() for node in self._merged), xml.Counter())

    # --- defaults -------------------------------------------------------------------------------------------------------------------------

    def _read_defaults(self, node: xml.Node, name: str, above: dict[str, dict[str, str]]) -> None:
        own = {tag: dict(values) for tag, values in above.items()}
        for child in node.children:
            if child.tag != "default":
                own.setdefault(child.tag, {}).update(child.attributes)
                child.pass_over(*child.attributes)
                node.all(child.tag)
        self._defaults[name] = own
        for child in node.all("default"):
            self._read_defaults(child, child.text("class"), own)

    def _with_defaults(self, node: xml.Node, inherited: str) -> xml.Node:
        name = node.text("class", inherited)
        if name not in self._defaults:
            raise ValueError(f"load_mjcf: {node.said} has the class {name!r}, which is not among the defaults.")
        # Of defaults only what was asked for is told, by the copy: the original counts as read.
        copy = node.with_defaults(self._defaults[name].get(node.tag, {}))
        copy.pass_over("class", "name", *(f"<{child.tag}>" for child in node.children))
        node.pass_over(*node.attributes)
        self._merged.append(copy)
        return copy

    # --- bodies ---------------------------------------------------------------------------------------------------------------------------

    def read_world(self, world: xml.Node) -> None:
        ground = Link("world", Place.origin())
        self.links.append(ground)
        self._read_geoms(world, ground, world.text("childclass", "main"))
        ground.mass = 0.0
        for child in world.all("body"):
            self._read_body(child, ground, "main")

    def _place(self, node: xml.Node) -> Place:
        return Place(self._rotation(node), node.numbers("pos", np.zeros(3)))

    def _rotation(self, node: xml.Node) -> np.ndarray:
        given = [name for name in _ORIENTATIONS if name in node]
        if len(given) > 1:
            raise ValueError(f"load_mjcf: {node.said} has more than one orientation: {', '.join(given)}.")
        if not given:
            return np.eye(3)
        u, unit = node.numbers(given[0]), np.pi / 180 if self.degrees else 1.0
        if given[0] == "quat":
            return quaternion(u)
        if given[0] == "axisangle":
            return axis_angle(u[:3], u[3] * unit)
        if given[0] == "euler":
            return euler(u * unit, self.sequence)
        if given[0] == "zaxis":
            return z_to(u)
        x = u[:3] / np.linalg.norm(u[:3])
        y = u[3:] - x * (x @ u[3:])
        y /= np.linalg.norm(y)
        return np.stack([x, y, np.cross(x, y)], axis=1)

    def _read_body(self, node: xml.Node, parent: Link, inherited: str) -> None:
        inherited = node.text("childclass", inherited)
        link = Link(node.text("name") or f"body_{len(self.links)}", self._place(node), parent)
        self.links.append(link)
        parts = self._read_geoms(node, link, inherited)
        inertial = node.one("inertial")
        if self.from_geoms == "true" or (self.from_geoms == "auto" and inertial is None):
            if inertial is not None:
                inertial.pass_over(*inertial.attributes)
            _add_up(link, parts)
        elif inertial is not None:
            self._read_inertial(link, inertial)
        link.floating = bool(node.all("freejoint"))
        for free in node.all("freejoint"):
            free.pass_over("name", "group")
        for one in map(lambda joint: self._with_defaults(joint, inherited), node.all("joint")):
            if one.text("type", "hinge") == "free":
                link.floating = True
                one.ignore_zero("damping", "armature", "stiffness", "frictionloss")
                one.pass_over("limited", "group")
            else:
                link.joints.append(self._read_joint(one, len(link.joints), link.name))
        for child in node.all("body"):
            self._read_body(child, link, inherited)

    def _read_inertial(self, link: Link, node: xml.Node) -> None:
        place, rotation = self._place(node), self._rotation(node)
        link.mass, link.centre = node.number("mass"), place.position
        if "fullinertia" in node:
            xx, yy, zz, xy, xz, yz = node.numbers("fullinertia")
            own = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        else:
            own = np.diag(node.numbers("diaginertia", np.zeros(3)))
        link.inertia = rotation @ own @ rotation.T

    def _read_joint(self, node: xml.Node, number: int, body: str) -> Joint:
        kind = node.text("type", "hinge")
        if kind not in ("hinge", "slide", "ball"):
            raise ValueError(f"load_mjcf: {node.said} has the type {kind!r}; there are hinge, slide, ball and free.")
        unit = np.pi / 180 if self.degrees and kind != "slide" else 1.0
        reference = unit * node.number("ref")
        joint = Joint(
            node.attributes.get("name", "") or f"{body}_joint{number or ''}",
            kind,
            node.numbers("axis", [0.0, 0.0, 1.0]),
            node.numbers("pos", np.zeros(3)),
            stiffness=node.number("stiffness"),
            damping=node.number("damping"),
            free=unit * node.number("springref") - reference,
            armature=node.number("armature"),
        )
        limited = node.text("limited", "auto")
        node.ignore_zero("frictionloss", "margin")
        node.pass_over("group")
        if "range" in node and (limited == "true" or (limited == "auto" and self.auto_limits)):
            lower, upper = unit * node.numbers("range") - reference
            joint.lower, joint.upper = float(lower), float(upper)
        elif "range" in node:
            node.numbers("range")
        return joint

    # --- geoms ----------------------------------------------------------------------------------------------------------------------------

    def _read_geoms(self, node: xml.Node, link: Link, inherited: str) -> list[tuple[float, np.ndarray, np.ndarray]]:
        """Shapes; and masses, centres and inertias in the link."""
        found = []
        for geom in map(lambda one: self._with_defaults(one, inherited), node.all("geom")):
            kind = geom.text("type", "mesh" if "mesh" in geom else "sphere")
            color = looks.color(geom.numbers("rgba")) if "rgba" in geom else {}
            geom.pass_over("group")
            if kind == "mesh":
                self._read_mesh(geom, link, color)
                if (
                    geom.number("mass", np.nan) != 0
                    and geom.number("density", 1000.0) != 0
                    and node.tag == "body"
                    and not node.all("inertial")
                ):
                    raise ValueError(
                        f"load_mjcf: {geom.said} of body {link.name!r} is a mesh, whose mass is not computed: give the body an <inertial>."
                    )
                continue
            sizes, place = self._sizes(geom, kind)
            link.looks.append(lambda p, k=kind, s=sizes, o=place, c=color: looks.shape(k, s, p.then(o), **c))
            if kind == "plane":
                continue
            volume, moments = _solid(kind, sizes)
            mass = geom.number("mass") if "mass" in geom else geom.number("density", 1000.0) * volume
            if "mass" in geom:
                geom.pass_over("density")
            found.append((mass, place.position, mass * place.rotation @ np.diag(moments) @ place.rotation.T))
        if node.all("geom"):
            self.left_out["contacts of geoms"] += len(node.all("geom"))
        return found

    def _sizes(self, geom: xml.Node, kind: str) -> tuple[np.ndarray, Place]:
        size, place = geom.numbers("size", np.zeros(3)), self._place(geom) if "fromto" not in geom else Place.origin()
        if "fromto" in geom:
            ends = geom.numbers("fromto")
            span = ends[3:] - ends[:3]
            place = Place(z_to(span), 0.5 * (ends[:3] + ends[3:]))
            half = 0.5 * float(np.linalg.norm(span))
            size = (
                np.array([size[0], half])
                if kind in ("capsule", "cylinder")
                else np.array([size[0], size[-1] if size.size > 2 else size[0], half])
            )
        if kind in ("capsule", "cylinder"):
            return np.array([size[0], 2 * size[1]]), place
        if kind == "box":
            return 2 * size[:3], place
        if kind == "plane":
            return 2 * size[:2], place
        if kind == "sphere":
            return size[:1], place
        if kind == "ellipsoid":
            return size[:3], place
        raise ValueError(
            f"load_mjcf: {geom.said} has the type {kind!r}; there are plane, sphere, capsule, ellipsoid, cylinder, box and mesh."
        )

    def _read_mesh(self, geom: xml.Node, link: Link, color: dict) -> None:
        asset, own = self._meshes.get(geom.text("mesh")), self._place(geom)
        file = asset.text("file") if asset is not None else ""
        found = looks.read_mesh(self.folder / file) if file else None
        if asset is None or found is None:
            self.left_out[f"mesh {geom.text('mesh')!r}, which is not there, or neither STL nor OBJ"] += 1
            return
        scale = asset.numbers("scale", np.ones(3))
        link.looks.append(lambda place: looks.mesh(found[0] * scale, found[1], place.then(own), **color))


def _solid(kind: str, sizes: np.ndarray) -> tuple[float, np.ndarray]:
    """(volume, principal moments of inertia of a unit mass)"""
    if kind == "box":
        a, b, c = sizes**2
        return float(np.prod(sizes)), np.array([b + c, a + c, a + b]) / 12
    if kind in ("sphere", "ellipsoid"):
        semi = np.broadcast_to(sizes, 3)
        a, b, c = semi**2
        return float(4 / 3 * np.pi * np.prod(semi)), np.array([b + c, a + c, a + b]) / 5
    r, h = sizes
    cylinder = np.pi * r**2 * h
    across, along = h**2 / 12 + r**2 / 4, r**2 / 2
    if kind == "cylinder":
        return float(cylinder), np.array([across, across, along])
    balls = 4 / 3 * np.pi * r**3
    volume = cylinder + balls
    # Two half balls, their centres of mass 3 r / 8 beyond the ends.
    ends = 2 * r**2 / 5 + h**2 / 4 + 3 * r * h / 8
    mixed = (cylinder * across + balls * ends) / volume
    return float(volume), np.array([mixed, mixed, (cylinder * along + balls * 2 * r**2 / 5) / volume])


def _add_up(link: Link, parts: list[tuple[float, np.ndarray, np.ndarray]]) -> None:
    link.mass = sum(mass for mass, _, _ in parts)
    if link.mass <= 0:
        return
    link.centre = np.sum([mass * centre for mass, centre, _ in parts], axis=0) / link.mass
    for mass, centre, inertia in parts:
        d = centre - link.centre
        link.inertia = link.inertia + inertia + mass * (d @ d * np.eye(3) - np.outer(d, d))
