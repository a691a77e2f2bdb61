"""A scene as an animated glTF 2.0 file: one binary, which Blender, browsers and most 3-D viewers open."""

import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..system.shapes import Skin, Surface
from .scene import COLORS, Node, Part, Scene, scene_of

if TYPE_CHECKING:
    from ..solution import Solution

_FLOAT, _BYTE, _SHORT, _USHORT, _UINT = 5126, 5121, 5122, 5123, 5125
_ARRAY, _ELEMENTS = 34962, 34963
_KINDS = {1: "SCALAR", 2: "VEC2", 3: "VEC3", 4: "VEC4", 16: "MAT4"}


def glb(scene: Scene) -> bytes:
    """The file. Below one node, "world", which turns the run's vertical into glTF's (y), nodes have the names of bodies, and stand and move in
    the run's own axes [m]. Time is that of the playback [s]: the run's less its beginning, over `scene.speed`."""
    writer = _Writer()
    time = writer.accessor(((scene.times - scene.times[0]) / scene.speed).astype(np.float32), bounds=True)
    world = {"name": "world", "rotation": _rounded(np.roll(upright(scene.up), -1)), "children": []}
    writer.nodes.append(world)
    for node in scene.nodes:
        world["children"].append(writer.node(node, time))
    for name, path in scene.traces.items():
        world["children"].append(writer.trace(name, path))
    extras = {"speed": scene.speed, "start": float(scene.times[0])}
    return writer.file(extras)


def save_gltf(solution: "Solution", path: str | Path, *, speed: float | None, traces: str | Sequence[str], arrows: bool) -> Path:
    """See `Solution.save_gltf`."""
    path = Path(path)
    if path.suffix != ".glb":
        raise ValueError(f"save_gltf writes binary glTF: give a path that ends in .glb, got {str(path)!r}.")
    names = [traces] if isinstance(traces, str) else list(traces)
    path.write_bytes(glb(scene_of(solution, speed=speed, traces=names, arrows=arrows)))
    return path


def upright(up: np.ndarray) -> np.ndarray:
    """The turn (scalar first) after which that direction is y."""
    half = np.array([1 + up[1], *np.cross(up, (0.0, 1.0, 0.0))])
    length = np.linalg.norm(half)
    return half / length if length > 1e-9 else np.array([0.0, 1.0, 0.0, 0.0])


class _Writer:
    def __init__(self):
        self.nodes: list[dict[str, Any]] = []
        self._meshes: list[dict[str, Any]] = []
        self._materials: list[dict[str, Any]] = []
        self._accessors: list[dict[str, Any]] = []
        self._views: list[dict[str, Any]] = []
        self._channels: list[dict[str, Any]] = []
        self._samplers: list[dict[str, Any]] = []
        self._known: dict[Any, int] = {}
        self._binary = bytearray()

    def node(self, node: Node, time: int) -> int:
        number = len(self.nodes)
        made: dict[str, Any] = {"name": node.name}
        self.nodes.append(made)
        if node.parts:
            made["mesh"] = self._once(("mesh", tuple(map(id, node.parts))), self._meshes, lambda: self._mesh(node.parts))
        if node.skin is not None:
            made["mesh"] = len(self._meshes)
            self._meshes.append(self._deforming(node.skin))
            self._channels.append({"sampler": len(self._samplers), "target": {"node": number, "path": "weights"}})
            self._samplers.append({"input": time, "output": self.accessor(node.skin.weights.astype(np.float32).ravel())})
        if node.group:
            made["extras"] = {"group": node.group}
        turn = np.roll(node.turn, -1, axis=1)  # glTF has the scalar last
        for path, values in (("translation", node.position), ("rotation", turn), ("scale", node.scale)):
            if values is not None:
                made[path] = _rounded(values[0])
                if np.ptp(values, axis=0).max() > 1e-9 * np.abs(values).max():
                    self._channels.append({"sampler": len(self._samplers), "target": {"node": number, "path": path}})
                    self._samplers.append({"input": time, "output": self.accessor(_packed(path, values), normalized=path == "rotation")})
        return number

    def trace(self, name: str, path: np.ndarray) -> int:
        material = self._material("#20242a", 1.0, 0.0)
        place = self.accessor(path.astype(np.float32), _ARRAY, bounds=True)
        self._meshes.append({"primitives": [{"attributes": {"POSITION": place}, "material": material, "mode": 3}]})
        self.nodes.append({"name": f"trace: {name}", "mesh": len(self._meshes) - 1, "extras": {"group": "traces"}})
        return len(self.nodes) - 1

    def _mesh(self, parts: tuple[Part, ...]) -> dict[str, Any]:
        """Parts of one material are one piece."""
        pieces: dict[tuple[str, float, float], list[Surface]] = {}
        for part in parts:
            pieces.setdefault((part.color, part.opacity, part.metallic), []).append(part.surface)
        return {"primitives": [self._primitive(Surface.joined(surfaces), *look) for look, surfaces in pieces.items()]}

    def _deforming(self, skin: Skin) -> dict[str, Any]:
        """A surface with morph targets, one for each pattern, of places and of colours."""
        piece = self._primitive(skin.surface, "#ffffff" if skin.colors is not None else COLORS[0], 1.0, 0.0)
        piece["targets"] = [{"POSITION": self.accessor(own.astype(np.float32), _ARRAY, bounds=True)} for own in skin.patterns]
        if skin.colors is not None and skin.color_patterns is not None:
            piece["attributes"]["COLOR_0"] = self.accessor(skin.colors.astype(np.float32), _ARRAY)
            for target, own in zip(piece["targets"], skin.color_patterns, strict=True):
                target["COLOR_0"] = self.accessor(own.astype(np.float32), _ARRAY)
        return {"primitives": [piece], "weights": _rounded(skin.weights[0])}

    def _primitive(self, surface: Surface, color: str, opacity: float, metallic: float) -> dict[str, Any]:
        attributes = {
            "POSITION": self.accessor(surface.vertices.astype(np.float32), _ARRAY, bounds=True),
            "NORMAL": self.accessor(surface.normals.astype(np.float32), _ARRAY),
        }
        if np.ptp(surface.shades) > 0:
            shades = np.repeat(np.round(255 * surface.shades)[:, None], 4, axis=1).astype(np.uint8)
            shades[:, 3] = 255
            attributes["COLOR_0"] = self.accessor(shades, _ARRAY, normalized=True)
        triangles = surface.triangles.astype(np.uint16 if len(surface.vertices) < 65535 else np.uint32).ravel()
        return {
            "attributes": attributes,
            "indices": self.accessor(triangles, _ELEMENTS),
            "material": self._material(color, opacity, metallic),
        }

    def _material(self, color: str, opacity: float, metallic: float) -> int:
        def made() -> dict[str, Any]:
            channels = np.array([int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)])
            linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
            roughness = 0.65 - 0.3 * metallic
            look: dict[str, Any] = {
                "baseColorFactor": [*_rounded(linear), opacity],
                "metallicFactor": metallic,
                "roughnessFactor": roughness,
            }
            found: dict[str, Any] = {"pbrMetallicRoughness": look, "doubleSided": True}
            return found | ({"alphaMode": "BLEND"} if opacity < 1 else {})

        return self._once((color, opacity, metallic), self._materials, made)

    def accessor(self, values: np.ndarray, target: int | None = None, *, bounds: bool = False, normalized: bool = False) -> int:
        """An array as a view of its own, from a multiple of four bytes on."""
        self._binary.extend(b"\0" * (-len(self._binary) % 4))
        view: dict[str, Any] = {"buffer": 0, "byteOffset": len(self._binary), "byteLength": values.nbytes}
        self._views.append(view | ({"target": target} if target else {}))
        self._binary.extend(np.ascontiguousarray(values).tobytes())
        code = {"float32": _FLOAT, "uint8": _BYTE, "int16": _SHORT, "uint16": _USHORT, "uint32": _UINT}[values.dtype.name]
        width = values.shape[1] if values.ndim > 1 else 1
        made = {"bufferView": len(self._views) - 1, "componentType": code, "count": len(values), "type": _KINDS[width]}
        if bounds:
            flat = values.reshape(len(values), -1)
            made |= {"min": flat.min(axis=0).tolist(), "max": flat.max(axis=0).tolist()}
        self._accessors.append(made | ({"normalized": True} if normalized else {}))
        return len(self._accessors) - 1

    def _once(self, key: Any, table: list[dict[str, Any]], make: Any) -> int:
        if key not in self._known:
            table.append(make())
            self._known[key] = len(table) - 1
        return self._known[key]

    def file(self, extras: dict[str, Any]) -> bytes:
        document: dict[str, Any] = {
            "asset": {"version": "2.0", "generator": "jaxmbd"},
            "scene": 0,
            "scenes": [{"nodes": [0], "extras": extras}],
            "nodes": self.nodes,
            "meshes": self._meshes,
            "materials": self._materials,
            "accessors": self._accessors,
            "bufferViews": self._views,
        }
        if self._channels:
            document["animations"] = [{"name": "run", "channels": self._channels, "samplers": self._samplers}]
        self._binary.extend(b"\0" * (-len(self._binary) % 4))
        document["buffers"] = [{"byteLength": len(self._binary)}]
        text = json.dumps(document, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 4)
        chunks = struct.pack("<I4s", len(text), b"JSON") + text + struct.pack("<I4s", len(self._binary), b"BIN\0") + bytes(self._binary)
        return struct.pack("<4sII", b"glTF", 2, 12 + len(chunks)) + chunks


def _packed(path: str, values: np.ndarray) -> np.ndarray:
    """Turns as sixteen-bit fractions, 3e-5 rad apart; the rest as float32."""
    return np.round(32767 * values).astype(np.int16) if path == "rotation" else values.astype(np.float32)


def _rounded(values: np.ndarray) -> list[float]:
    return [float(np.float32(value)) for value in values]
