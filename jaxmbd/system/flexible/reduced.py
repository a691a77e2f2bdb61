"""How a body may deform, as numbers: shapes, their masses and stiffnesses, where things attach, what stresses they mean.

Shapes are reckoned from the body's own floating frame, which stands in the centre of mass and turns so that, to first order, shapes have
neither momentum nor angular momentum (mean axes): sum m phi = 0 and sum m s x phi = 0. A modal coordinate is the largest displacement [m] of its
shape, where turns count with a hundredth of the body's size.
"""

import dataclasses
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ..._numbers import Numbers
from ..parameters import is_traced


class Recovery(eqx.Module):
    """Stresses at some points of a body, linear in its modal coordinates."""

    matrix: Float[Numbers, "*stack points components modes"]
    """N/m^3; components are (axial, shear) of a tube's wall, or (xx, yy, zz, xy, yz, zx) of a solid"""
    positions: Float[Numbers, "*stack points 3"]
    """m, undeformed, from the centre of mass"""
    shapes: Float[Numbers, "*stack points 3 modes"]
    """displacements by modal coordinates"""
    labels: tuple[str, ...] = eqx.field(static=True)
    """what a person calls the points"""
    unnamed = True

    def von_mises(self, deflection: Float[Numbers, "*rows modes"]) -> Float[Numbers, "*rows points"]:
        """Pa, with derivative zero where there is no stress"""
        stress = jnp.einsum("pcm,...m->c...p", self.matrix, deflection)
        if stress.shape[0] == 2:
            square = stress[0] ** 2 + 3.0 * stress[1] ** 2
        else:
            x, y, z = stress[:3]
            square = 0.5 * ((x - y) ** 2 + (y - z) ** 2 + (z - x) ** 2) + 3.0 * jnp.sum(stress[3:] ** 2, axis=0)
        zero = square <= 0
        return jnp.where(zero, 0.0, jnp.sqrt(jnp.where(zero, 1.0, square)))


@dataclasses.dataclass(frozen=True, eq=False)
class Basis:
    """The shapes in all their coordinates, which stay as they are when the numbers of a structure change."""

    shapes: np.ndarray
    """(rows, modes), of all nodes"""
    interface: dict[str, np.ndarray]
    """nodes by the names of interface points"""


class ReducedBody(eqx.Module):
    """A body that deforms, reduced to some shapes. Made by `mbd.fem`; `print` shows its frequencies."""

    mass: Float[Numbers, "*stack"]
    """kg"""
    centre: Float[Numbers, "*stack 3"]
    """m, centre of mass, in the axes of the mesh and from its origin"""
    inertia: Float[Numbers, "*stack 3 3"]
    """kg m^2, undeformed, about the centre of mass"""
    modal_mass: Float[Numbers, "*stack modes modes"]
    """kg"""
    modal_stiffness: Float[Numbers, "*stack modes modes"]
    """N/m"""
    arms: Float[Numbers, "*stack lumps 3"]
    """kg^(1/2) m, of lumps: position from the centre of mass times the root of the mass. They tell how inertia changes with deformation."""
    bends: Float[Numbers, "*stack lumps 3 modes"]
    """kg^(1/2), displacement by modal coordinates times the root of the mass"""
    interface_positions: Float[Numbers, "*stack points 3"]
    """m, undeformed, from the centre of mass"""
    interface_shapes: Float[Numbers, "*stack points 6 modes"]
    """displacements [1] and turns [rad/m] of interface points by modal coordinates"""
    recovery: Recovery | None
    interface: tuple[str, ...] = eqx.field(static=True)
    """names of the points where something may attach"""
    basis: Basis | None = eqx.field(static=True, default=None)
    """what another design is projected on; bodies forget it"""
    unnamed = True

    @property
    def frequencies(self) -> Float[Numbers, "modes"]:
        """Hz, of the unsupported body, as the diagonals of its matrices tell them: exact for the design that the shapes were made for"""
        return jnp.sqrt(jnp.diagonal(self.modal_stiffness) / jnp.diagonal(self.modal_mass)) / (2 * np.pi)

    @property
    def count(self) -> int:
        return self.modal_mass.shape[-1]

    def compressed(self) -> "ReducedBody":
        """What a body needs: as few lumps as tell the same, for their second moments are all that equations look at; and no basis."""
        lean = dataclasses.replace(self, basis=None)
        lumps, width = self.arms.shape[0], 3 + 3 * self.count
        if lumps <= width or is_traced(self.arms, self.bends):
            return lean
        columns = np.concatenate([np.asarray(self.arms), np.asarray(self.bends).reshape(lumps, -1)], axis=1)
        kept: Any = np.linalg.qr(columns, mode="r")
        return dataclasses.replace(lean, arms=kept[:, :3], bends=kept[:, 3:].reshape(-1, 3, self.count))

    def __str__(self) -> str:
        listed = np.array2string(np.asarray(self.frequencies), precision=2, threshold=12, separator=", ")
        return (
            f"{self.count} modes, {listed} Hz\n{float(self.mass):.6g} kg, centre of mass at {np.asarray(self.centre)} m\n"
            f"interface: {', '.join(self.interface) or 'none'}"
        )
