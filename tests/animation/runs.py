"""Runs that the tests of pictures look at, and a reader of the files that they become."""

import functools
import json
import struct

import numpy as np

import jaxmbd as mbd
from jaxmbd.animation.motion import matrices


@functools.cache
def pendulum():
    """Planar; its rows are where pictures are, 60 a second."""
    return mbd.simulate(mbd.problems.pendulum(spatial=False), t1=0.5, saveat=np.linspace(0.0, 0.5, 31))


@functools.cache
def ball():
    """In space: a ball that spins fast rolls off on a floor, past a weight on a spring; a wall of the scenery looks on."""
    rolling = mbd.RigidBody("ball", 0.5, (2e-4,) * 3, position=(0, 0, 0.0499), velocity=(0.4, 0, 0), angular_velocity=(0, 90.0, 5.0))
    weight = mbd.PointMass("weight[0]", 0.2, (0.3, 0.1, 0.5))
    spring = mbd.SpringDamper("spring", mbd.ground, weight, (0.3, 0.1, 0.9), (0.3, 0.1, 0.5), 50.0, 0.1, 0.35)
    law = mbd.LinearContact(49050.0, 50.0)  # 0.1 mm under the ball's weight
    floor = mbd.SpherePlane("floor", rolling, mbd.ground, 0.05, (0, 0, 0), (0, 0, 1), law, mbd.Coulomb(0.2, regularisation=1e-2))
    wall = mbd.shapes.Box((1.0, 0.02, 0.5), (0.2, 0.5, 0.25), color="#ccddee")
    model = mbd.Model([rolling, weight], forces=[spring, floor, mbd.Gravity((0, 0, -9.81))], scenery=[wall])
    return mbd.simulate(model, t1=0.4, integrator=mbd.Verlet(), step=5e-4)


class File:
    """A .glb, read by nothing but its standard."""

    def __init__(self, content: bytes):
        magic, version, length = struct.unpack_from("<4sII", content)
        assert (magic, version, length) == (b"glTF", 2, len(content))
        size, kind = struct.unpack_from("<I4s", content, 12)
        assert kind == b"JSON"
        self.json = json.loads(content[20 : 20 + size])
        binary, kind = struct.unpack_from("<I4s", content, 20 + size)
        assert kind == b"BIN\0"
        self.binary = content[28 + size :]
        assert len(self.binary) == binary == self.json["buffers"][0]["byteLength"]
        self.numbers = {node["name"]: i for i, node in enumerate(self.json["nodes"])}

    def array(self, number):
        accessor = self.json["accessors"][number]
        view = self.json["bufferViews"][accessor["bufferView"]]
        kind = {5121: "u1", 5122: "<i2", 5123: "<u2", 5125: "<u4", 5126: "<f4"}[accessor["componentType"]]
        width = {"SCALAR": 1, "VEC3": 3, "VEC4": 4}[accessor["type"]]
        assert view["byteOffset"] % 4 == 0
        assert view["byteLength"] == accessor["count"] * width * np.dtype(kind).itemsize
        values = np.frombuffer(self.binary, kind, accessor["count"] * width, view["byteOffset"]).reshape(-1, width).astype(float)
        if accessor.get("normalized"):
            values = values / {"u1": 255, "<i2": 32767}[kind]
        if "min" in accessor:
            np.testing.assert_array_equal([accessor["min"], accessor["max"]], [values.min(axis=0), values.max(axis=0)])
        return values

    def channel(self, name, path):
        """(times, values) of a node; of one that stands still, a single row."""
        number = self.numbers[name]
        animation = self.json["animations"][0]
        for channel in animation["channels"]:
            if channel["target"] == {"node": number, "path": path}:
                sampler = animation["samplers"][channel["sampler"]]
                return self.array(sampler["input"])[:, 0], self.array(sampler["output"])
        return np.zeros(1), np.array([self.json["nodes"][number][path]])

    def positions(self, name, times):
        ts, values = self.channel(name, "translation")
        return np.stack([np.interp(times, ts, column) for column in values.T], axis=1)

    def rotations(self, name, times):
        """As players do: along the shortest way between two unit quaternions."""
        ts, values = self.channel(name, "rotation")
        values = np.roll(values, 1, axis=1)
        i = np.clip(np.searchsorted(ts, times) - 1, 0, max(len(ts) - 2, 0))
        if len(ts) == 1:
            return matrices(np.repeat(values, len(times), axis=0))
        s = ((times - ts[i]) / (ts[i + 1] - ts[i]))[:, None]
        cosine = np.sum(values[i] * values[i + 1], axis=1, keepdims=True).clip(-1, 1)
        angle = np.maximum(np.arccos(cosine), 1e-9)
        found = (np.sin((1 - s) * angle) * values[i] + np.sin(s * angle) * values[i + 1]) / np.sin(angle)
        return matrices(found / np.linalg.norm(found, axis=1, keepdims=True))
