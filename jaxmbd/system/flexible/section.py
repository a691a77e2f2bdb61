"""Cross sections of beams: what they resist deformation with, and what they weigh.

A section has two directions besides the beam's own: `up`, which the beam knows, and sideways. Bending and shear without further words are
towards `up`, which is all that a planar model asks for; what is `lateral` is sideways.
"""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ..._numbers import Numbers
from ..contact.hertz import Material
from ..parameters import Parameter, following, is_traced, positive, read_all, read_fields
from ..shapes import AbstractShape, Box, Cylinder

_TERMS = np.arange(1, 40, 2)
"""of the series for the torsion of a rectangle, odd ones; they fall off by their fifth power"""
_SOLID_SHEAR = 5 / 6 / 2.6
"""k G / E of a solid section with Poisson's ratio 0.3"""


class Section(eqx.Module):
    """A cross section by its stiffnesses; `tube`, `circle`, `rectangle` and `of` make one from material and geometry.

    What is not given: sideways as towards `up`; shear as of a solid section with Poisson's ratio 0.3, which slender beams hardly feel; torsion
    as of a round one.
    """

    axial_stiffness: Float[Numbers, "*stack"]
    """EA, N"""
    bending_stiffness: Float[Numbers, "*stack"]
    """EI, N m^2, against bending towards `up`"""
    mass_per_length: Float[Numbers, "*stack"]
    """kg/m"""
    lateral_bending_stiffness: Float[Numbers, "*stack"] | None
    """EI, N m^2, against bending sideways"""
    torsional_stiffness: Float[Numbers, "*stack"] | None
    """GJ, N m^2"""
    shear_stiffness: Float[Numbers, "*stack"] | None
    """k GA, N, against shearing towards `up`"""
    lateral_shear_stiffness: Float[Numbers, "*stack"] | None
    """k GA, N"""
    half_sizes: tuple[float, ...] = eqx.field(static=True)
    """m, for pictures: the radius of a round section, half its height and width of another; () shows a thin one"""
    parameters: ClassVar[dict[str, Parameter]] = {
        "axial_stiffness": positive("N"),
        "bending_stiffness": positive("N m^2"),
        "mass_per_length": positive("kg/m"),
        "lateral_bending_stiffness": following("bending_stiffness", positive("N m^2")),
        "torsional_stiffness": positive("N m^2")._replace(optional=True),
        "shear_stiffness": positive("N")._replace(optional=True),
        "lateral_shear_stiffness": following("shear_stiffness", positive("N")),
    }

    def __init__(
        self,
        axial_stiffness: Any,
        bending_stiffness: Any,
        mass_per_length: Any,
        *,
        lateral_bending_stiffness: Any = None,
        torsional_stiffness: Any = None,
        shear_stiffness: Any = None,
        lateral_shear_stiffness: Any = None,
        half_sizes: tuple[Any, ...] = (),
    ):
        read_fields(
            self,
            "the section",
            self.parameters,
            axial_stiffness=axial_stiffness,
            bending_stiffness=bending_stiffness,
            mass_per_length=mass_per_length,
            lateral_bending_stiffness=lateral_bending_stiffness,
            torsional_stiffness=torsional_stiffness,
            shear_stiffness=shear_stiffness,
            lateral_shear_stiffness=lateral_shear_stiffness,
        )
        self.half_sizes = () if is_traced(*half_sizes) else tuple(float(size) for size in half_sizes)

    @staticmethod
    def of(
        material: Material,
        area: Any,
        second_moment: Any,
        lateral_second_moment: Any = None,
        torsion_constant: Any = None,
        shear_area: Any = None,
        lateral_shear_area: Any = None,
        half_sizes: tuple[Any, ...] = (),
    ) -> "Section":
        """From areas [m^2] and moments of area [m^4]; shear areas are those that count, of a rectangle 5/6 of the whole."""
        E, G, density = _moduli(material)
        lateral = second_moment if lateral_second_moment is None else lateral_second_moment
        shear = 5 / 6 * area if shear_area is None else shear_area
        return Section(
            E * area,
            E * second_moment,
            density * area,
            lateral_bending_stiffness=E * lateral,
            torsional_stiffness=G * (second_moment + lateral if torsion_constant is None else torsion_constant),
            shear_stiffness=G * shear,
            lateral_shear_stiffness=G * (shear if lateral_shear_area is None else lateral_shear_area),
            half_sizes=half_sizes,
        )

    @staticmethod
    def tube(material: Material, radius: Any, thickness: Any) -> "Section":
        """A round tube by its outer radius [m] and the thickness of its wall [m]."""
        radius, thickness = _sizes("the tube", radius=radius, thickness=thickness)
        if not is_traced(radius, thickness) and thickness > radius:
            raise ValueError(f"the tube: thickness {thickness:.6g} m of its wall is larger than its radius {radius:.6g} m.")
        inner = radius - thickness
        # r^2 - i^2 and r^4 - i^4 without the differences of nearly equal numbers that a thin wall makes of them.
        area = np.pi * thickness * (radius + inner)
        second_moment = 0.25 * area * (radius**2 + inner**2)
        nu, hollow = material.poisson_ratio, (inner / radius) ** 2
        share = 6 * (1 + nu) * (1 + hollow) ** 2 / ((7 + 6 * nu) * (1 + hollow) ** 2 + (20 + 12 * nu) * hollow)  # Cowper 1966
        return Section.of(material, area, second_moment, None, 2 * second_moment, share * area, None, (radius,))

    @staticmethod
    def circle(material: Material, radius: Any) -> "Section":
        """A solid round bar [m]."""
        return Section.tube(material, radius, radius)

    @staticmethod
    def rectangle(material: Material, height: Any, width: Any) -> "Section":
        """A solid rectangle: its height [m] towards `up`, and its width [m]."""
        height, width = _sizes("the rectangle", height=height, width=width)
        area, nu = height * width, material.poisson_ratio
        np_ = jnp if is_traced(height, width) else np
        long, short = np_.maximum(height, width), np_.minimum(height, width)
        series = np_.sum(np_.tanh(0.5 * np.pi * _TERMS * long / short) / _TERMS**5)
        torsion = long * short**3 * (1 / 3 - 64 / np.pi**5 * short / long * series)  # Saint-Venant
        share = 10 * (1 + nu) / (12 + 11 * nu)  # Cowper 1966
        bending = area * height**2 / 12, area * width**2 / 12
        return Section.of(material, area, *bending, torsion, share * area, None, (0.5 * height, 0.5 * width))

    def complete(self) -> dict[str, Any]:
        """All stiffnesses, those that were not given too."""
        lateral = self.bending_stiffness if self.lateral_bending_stiffness is None else self.lateral_bending_stiffness
        shear = _SOLID_SHEAR * self.axial_stiffness if self.shear_stiffness is None else self.shear_stiffness
        round_one = (self.bending_stiffness + lateral) / 2.6
        return {
            "axial_stiffness": self.axial_stiffness,
            "bending_stiffness": self.bending_stiffness,
            "lateral_bending_stiffness": lateral,
            "torsional_stiffness": round_one if self.torsional_stiffness is None else self.torsional_stiffness,
            "shear_stiffness": shear,
            "lateral_shear_stiffness": shear if self.lateral_shear_stiffness is None else self.lateral_shear_stiffness,
        }

    def rotary_inertia(self) -> tuple[Numbers, Numbers]:
        """kg m, of a metre of beam that turns as it bends: towards `up`, and sideways. Mass is spread as stiffness is."""
        share = self.mass_per_length / self.axial_stiffness
        return share * self.bending_stiffness, share * self.complete()["lateral_bending_stiffness"]

    def shape(self, middle: np.ndarray, axes: np.ndarray, before: float, after: float) -> AbstractShape:
        """What a piece of beam looks like that reaches from `before` behind a point to `after` in front of it; axes are rows."""
        if len(self.half_sizes) == 2:
            sizes = (before + after, 2 * self.half_sizes[0], 2 * self.half_sizes[1])
            return Box(sizes, middle + 0.5 * (after - before) * axes[0], axes=axes.T)
        radius = self.half_sizes[0] if self.half_sizes else 0.05 * (before + after)
        return Cylinder(middle - before * axes[0], middle + after * axes[0], radius)


def _moduli(material: Material) -> tuple[Any, Any, Any]:
    if material.density is None:
        raise ValueError("the material of a beam needs its density: mbd.Material(elastic_modulus, poisson_ratio, density).")
    E = material.elastic_modulus
    return E, 0.5 * E / (1 + material.poisson_ratio), material.density


def _sizes(owner: str, **values: Any) -> tuple[Any, ...]:
    return tuple(read_all(owner, dict.fromkeys(values, positive("m")), **values).values())
