"""Simplify a mesh for rendering at a given pixel size. Uses numpy only; knows no simulator.

An edge is collapsed onto one of its end points, so that all points of the result are points of the
mesh. Cheap collapses come first. The cost of a collapse is a sum of quadrics: the squared distance
to the planes of the old faces (Garland and Heckbert, Surface simplification using quadric error
metrics, 1997), and the squared difference to their linear functions of normal and texture
coordinates (Hoppe, New quadric metric for simplifying meshes with appearance attributes, 1999),
each integrated over the area of those faces. The cost is therefore an area in square pixels times a
squared difference in appearance: details smaller than a pixel are removed first, and large surfaces
keep their shading.

Normals and texture coordinates are stored per wedge: the corners of faces at one point that share a
normal and texture coordinates form a wedge.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

# Maximum cost of a collapse: square pixels whose normal is wrong by 1. A larger value changes
# frames more, a smaller one leaves more faces; docs/benchmarks.md has measurements of both.
COST = 0.0015
# maximum distance of a point from the old surface, in pixels (root mean square)
DISTANCE = 0.5
# cost limit of each stage, as a fraction of COST; it grows, so that cheap collapses come first
STAGES = (1 / 16, 1 / 4, 1.0)
# Fraction of the possible collapses that a round may apply before costs are computed again.
SHARE = 0.5
# weight of texture coordinates: a shift by one pixel counts as this difference between normals
TEXTURE = 0.15
# Normals that change by more than this per pixel count as constant, because a pixel shows their
# average.
STEEPEST = 1.0
# minimum cosine between the normals of a face before and after a collapse
TURN = 0.2


@dataclass(frozen=True)
class Mesh:
    """Triangle mesh with an index of point, normal and texture coordinates for each corner.

    Attributes:
        points: `[P, 3]`, metres.
        normals: `[N, 3]`, of length 1.
        texcoords: `[T, 2]`; None if the mesh has no texture.
        faces: index of each corner's point, int `[F, 3]`.
        face_normals: index of each corner's normal, int `[F, 3]`.
        face_texcoords: index of each corner's texture coordinates, int `[F, 3]`; zeros without
            texture.
    """

    points: np.ndarray
    normals: np.ndarray
    texcoords: np.ndarray | None
    faces: np.ndarray
    face_normals: np.ndarray
    face_texcoords: np.ndarray


def simplified(mesh: Mesh, pixel: float, seen: np.ndarray | None = None) -> Mesh:
    """Return the mesh with fewer faces. Its points are the old ones, its normals and texcoords new.

    Args:
        mesh: mesh to simplify.
        pixel: width of a pixel in metres where the mesh is nearest to a camera.
        seen: fraction of each face's area that is visible on average, `[F]`; None: all of it.
    """
    points, first, of_point = np.unique(
        mesh.points.astype(np.float64) / pixel + 0.0, axis=0, return_index=True, return_inverse=True
    )
    faces = of_point.reshape(-1)[mesh.faces]
    area = np.linalg.norm(_crosses(points[faces]), axis=1)
    whole = area > 1e-12
    faces, textured = faces[whole], mesh.texcoords is not None
    values = np.nan_to_num(mesh.normals[mesh.face_normals[whole]].astype(np.float64))
    scale, charts = 1.0, np.zeros_like(faces)
    if mesh.texcoords is not None:
        charts = mesh.face_texcoords[whole]
        coordinates = mesh.texcoords[charts].astype(np.float64)
        charts = np.unique(mesh.texcoords + np.float32(0.0), axis=0, return_inverse=True)[
            1
        ].reshape(-1)[charts]
        spread = np.abs(_crosses(np.pad(coordinates, ((0, 0), (0, 0), (0, 1))))[:, 2]).sum()
        # convert texture coordinates to pixels, and weight a pixel relative to normals
        scale = TEXTURE * np.sqrt(area[whole].sum() / max(spread, 1e-12))
        values = np.concatenate([values, coordinates * scale], axis=2)
    shown = np.ones(len(faces)) if seen is None else seen[whole].astype(np.float64)
    work = _Collapses(points, faces, values, charts, shown)
    work.run()
    used, corners = np.unique(work.wedges, return_inverse=True)
    corners, kept = corners.reshape(-1, 3), work.values[used]
    return replace(
        mesh,
        normals=kept[:, :3].astype(np.float32),
        texcoords=(kept[:, 3:] / scale).astype(np.float32) if textured else None,
        faces=first[work.faces].astype(np.int32),
        face_normals=corners.astype(np.int32),
        face_texcoords=(corners if textured else np.zeros_like(corners)).astype(np.int32),
    )


class _Collapses:
    """State of the simplification between rounds of collapses. Lengths are in pixels.

    Args:
        points: `[P, 3]`.
        faces: index of each corner's point, `[F, 3]`.
        values: values of each corner, `[F, 3, K]`: its normal, and scaled texture coordinates.
        charts: number of each corner's texture coordinates, `[F, 3]`; equal for equal coordinates.
        shown: visible fraction of each face's area, `[F]`.
    """

    def __init__(
        self,
        points: np.ndarray,
        faces: np.ndarray,
        values: np.ndarray,
        charts: np.ndarray,
        shown: np.ndarray,
    ) -> None:
        self.points, self.faces = points, faces
        self._random = np.random.default_rng(0)
        count, width = len(points), values.shape[2]
        corners = points[faces]
        normals = _crosses(corners)
        area = np.linalg.norm(normals, axis=1)
        normals /= area[:, None]
        area /= 2
        planes = np.concatenate([normals, -_dots(normals, corners[:, 0])[:, None]], axis=1)
        self.distance = np.zeros((count, 4, 4))
        self.area = np.zeros(count)
        self.shown = np.zeros(count)
        products = area[:, None, None] * planes[:, :, None] * planes[:, None, :]
        for corner in range(3):
            np.add.at(self.distance, faces[:, corner], products)
            np.add.at(self.area, faces[:, corner], area)
            np.add.at(self.shown, faces[:, corner], area * shown)
        self._hold_borders(normals)

        classes = [faces.ravel(), charts.ravel(), *_steps(values[:, :, :3])]
        _, wedges = np.unique(np.stack(classes, axis=1), axis=0, return_inverse=True)
        self.wedges = wedges.reshape(-1, 3)
        self.values = np.zeros((self.wedges.max() + 1, width))
        self.values[self.wedges.ravel()] = values.reshape(-1, width)
        _, charts_of = np.unique(
            faces.ravel().astype(np.int64) * (charts.max() + 1) + charts.ravel(),
            return_inverse=True,
        )
        self.chart = np.zeros(len(self.values), dtype=np.int64)
        self.chart[self.wedges.ravel()] = charts_of.ravel()
        # for each wedge, the integral of (function - value)^2: x'Mx - 2 value'B'x + C value'value
        functions = _functions(corners, values)
        area = area * shown
        self.squares = np.zeros((len(self.values), 4, 4))
        self.products = np.zeros((len(self.values), 4, width))
        self.wedge_area = np.zeros(len(self.values))
        squares = area[:, None, None] * np.einsum("fik,fjk->fij", functions, functions)
        functions *= area[:, None, None]
        for corner in range(3):
            np.add.at(self.squares, self.wedges[:, corner], squares)
            np.add.at(self.products, self.wedges[:, corner], functions)
            np.add.at(self.wedge_area, self.wedges[:, corner], area)

    def _hold_borders(self, normals: np.ndarray) -> None:
        """Add the distance to borders: to the plane through a border edge, normal to its face."""
        edges = np.concatenate([self.faces[:, pair] for pair in ([0, 1], [1, 2], [2, 0])])
        _, which, faces_of = np.unique(
            np.sort(edges, axis=1) @ np.array([len(self.points), 1]),
            return_inverse=True,
            return_counts=True,
        )
        border = np.nonzero(faces_of[which] != 2)[0]
        ends = self.points[edges[border]]
        along = ends[:, 1] - ends[:, 0]
        upright = np.cross(along, normals[border % len(self.faces)])
        length = np.maximum(np.linalg.norm(along, axis=1), 1e-12)
        upright /= length[:, None]
        planes = np.concatenate([upright, -_dots(upright, ends[:, 0])[:, None]], axis=1)
        products = (length**2)[:, None, None] * planes[:, :, None] * planes[:, None, :]
        for end in range(2):
            np.add.at(self.distance, edges[border, end], products)

    def run(self) -> None:
        """Collapse edges whose cost is less than :data:`COST`, in :data:`STAGES`."""
        for stage in STAGES:
            made = len(self.faces)
            while made > max(3, len(self.faces) // 100):
                made = self._round(stage * COST)

    def _round(self, most: float) -> int:
        """Apply collapses that cost less than `most`, and return their number.

        No two of them move points of the same face.
        """
        faces, count, total = self.faces, len(self.points), len(self.values)
        if len(faces) < 5:
            return 0
        ends = [(a, b) for a in range(3) for b in range(3) if a != b]
        key = np.concatenate([faces[:, a].astype(np.int64) * count + faces[:, b] for a, b in ends])
        edges, edge, faces_of = np.unique(key, return_inverse=True, return_counts=True)
        start, end = edges // count, edges % count
        on_border = np.zeros(count, dtype=bool)
        on_border[start[faces_of != 2]] = True
        place = np.concatenate([self.points[end], np.ones((len(end), 1))], axis=1)
        cost = np.maximum(np.einsum("ei,eij,ej->e", place, self.distance[start], place), 0.0)
        area = np.maximum(self.area[start], 1e-12)
        near = cost <= DISTANCE**2 * area
        cost *= self.shown[start] / area
        possible = (~on_border[start] | (faces_of != 2)) & near & (cost < most)
        chosen = np.nonzero(possible)[0]
        if not len(chosen):
            return 0

        # find the wedge of the other end onto which each wedge of the removed point collapses, from
        # the faces at the edge
        onto = np.concatenate([self.wedges[:, a].astype(np.int64) for a, _ in ends])
        onto = (edge.ravel() * total + onto) * total
        onto += np.concatenate([self.wedges[:, b] for _, b in ends])
        onto = np.unique(onto)
        pairs, pair_first, pair_count = np.unique(
            onto // total, return_index=True, return_counts=True
        )
        of_points = np.unique(faces.ravel().astype(np.int64) * total + self.wedges.ravel())
        wedge_count = np.bincount(of_points // total, minlength=count)
        wedge_first = np.cumsum(wedge_count) - wedge_count
        owner, at = _ranges(wedge_first[start[chosen]], wedge_count[start[chosen]])
        row_edge, row_wedge = chosen[owner], of_points[at] % total
        found = np.searchsorted(pairs, row_edge * total + row_wedge).clip(max=len(pairs) - 1)
        meets = (pairs[found] == row_edge * total + row_wedge) & (pair_count[found] == 1)
        target = np.where(meets, onto[pair_first[found]] % total, 0)

        x = place[row_edge]
        area = np.maximum(self.wedge_area[row_wedge], 1e-30)
        product = np.einsum("ri,rik->rk", x, self.products[row_wedge])
        value = product / area[:, None]
        value[:, :3] /= np.maximum(np.linalg.norm(value[:, :3], axis=1, keepdims=True), 1e-12)
        value[meets] = self.values[target[meets]]
        wrong = np.einsum("ri,rij,rj->r", x, self.squares[row_wedge], x)
        wrong += _dots(value, area[:, None] * value - 2 * product)
        cost += np.bincount(row_edge, np.maximum(wrong, 0.0), len(edges))
        possible &= cost < most
        if self.values.shape[1] > 3:  # a point on a texture seam may only collapse along the seam
            seam = np.zeros(count, dtype=bool)
            lowest, highest = np.full(count, total), np.full(count, -1)
            points, charts = of_points // total, self.chart[of_points % total]
            np.minimum.at(lowest, points, charts)
            np.maximum.at(highest, points, charts)
            seam = lowest != highest
            possible[row_edge[~meets & seam[start[row_edge]]]] = False
        chosen = np.nonzero(possible)[0]
        chosen = chosen[~self._turns(start[chosen], end[chosen])]
        if not len(chosen):
            return 0

        order = np.lexsort((end[chosen], cost[chosen], start[chosen]))
        chosen = chosen[order][np.unique(start[chosen][order], return_index=True)[1]]
        chosen = chosen[np.argsort(cost[chosen], kind="stable")]
        chosen = chosen[: max(8, int(len(chosen) * SHARE))]
        rank = np.full(count, count)
        # Ranks are random, because in an order such as by cost few collapses would rank before all
        # their neighbours.
        rank[start[chosen]] = self._random.permutation(len(chosen))
        ranks = rank[faces]
        beaten = faces[ranks != ranks.min(axis=1, keepdims=True)]
        alone = np.ones(count, dtype=bool)
        alone[beaten] = False
        chosen = chosen[alone[start[chosen]]]

        goes = np.zeros(len(edges), dtype=bool)
        goes[chosen] = True
        rows = goes[row_edge]
        self._apply(
            start[chosen], end[chosen],
            row_wedge[rows & meets], target[rows & meets],
            row_wedge[rows & ~meets], value[rows & ~meets],
        )  # fmt: skip
        return len(chosen)

    def _turns(self, start: np.ndarray, end: np.ndarray) -> np.ndarray:
        """Check for each collapse whether it would flip a face, bool `[E]` (see :data:`TURN`)."""
        count = np.bincount(self.faces.ravel(), minlength=len(self.points))
        first = np.cumsum(count) - count
        corners = np.argsort(self.faces.ravel(), kind="stable")
        owner, at = _ranges(first[start], count[start])
        face, corner = corners[at] // 3, corners[at] % 3
        to = end[owner]
        stays = (self.faces[face] != to[:, None]).all(axis=1)
        owner, face, corner, to = owner[stays], face[stays], corner[stays], to[stays]
        triangle = self.points[self.faces[face]]
        before = _crosses(triangle)
        triangle[np.arange(len(face)), corner] = self.points[to]
        after = _crosses(triangle)
        least = TURN * np.linalg.norm(before, axis=1) * np.linalg.norm(after, axis=1)
        return np.bincount(owner, _dots(before, after) <= least, len(start)) > 0

    def _apply(
        self,
        start: np.ndarray,
        end: np.ndarray,
        joined: np.ndarray,
        target: np.ndarray,
        moved: np.ndarray,
        value: np.ndarray,
    ) -> None:
        """Collapse edges.

        Args:
            start: points that are removed, `[E]`.
            end: points onto which they collapse, `[E]`.
            joined: wedges that merge into `target`.
            target: wedges into which those in `joined` merge.
            moved: wedges that move with their corners.
            value: new values of those in `moved`, `[M, K]`.
        """
        np.add.at(self.distance, end, self.distance[start])
        np.add.at(self.area, end, self.area[start])
        np.add.at(self.shown, end, self.shown[start])
        for sums in (self.squares, self.products, self.wedge_area):
            np.add.at(sums, target, sums[joined])
        self.values[moved] = value
        to, wedge_to = np.arange(len(self.points)), np.arange(len(self.values))
        to[start], wedge_to[joined] = end, target
        faces = to[self.faces]
        wedges = np.where(faces != self.faces, wedge_to[self.wedges], self.wedges)
        whole = (faces != np.roll(faces, 1, axis=1)).all(axis=1)
        self.faces, self.wedges = faces[whole], wedges[whole]


def _functions(corners: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the linear functions that interpolate values of corners.

    Returns:
        coefficients `[F, 4, K]` for (x, y, z, 1); constant where normals change by more than
        :data:`STEEPEST` per pixel.
    """
    one, two = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    a, b, c = _dots(one, one), _dots(one, two), _dots(two, two)
    scale = 1 / np.maximum(a * c - b * b, 1e-30)
    towards_one = scale[:, None] * (c[:, None] * one - b[:, None] * two)
    towards_two = scale[:, None] * (a[:, None] * two - b[:, None] * one)
    by_one, by_two = values[:, 1] - values[:, 0], values[:, 2] - values[:, 0]
    slope = towards_one[:, :, None] * by_one[:, None] + towards_two[:, :, None] * by_two[:, None]
    slope[np.sqrt((slope[:, :, :3] ** 2).sum(axis=(1, 2))) > STEEPEST] = 0.0
    at_zero = values.mean(axis=1) - np.einsum("fik,fi->fk", slope, corners.mean(axis=1))
    return np.concatenate([slope, at_zero[:, None]], axis=1)


def _steps(normals: np.ndarray) -> np.ndarray:
    """Quantize normals to 1/64, int `[3, 3F]`, so that nearly equal ones become equal."""
    return np.round(normals.reshape(-1, 3) * 64).astype(np.int64).T


def _ranges(first: np.ndarray, count: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Concatenate ranges, each of `count` numbers from `first` on.

    Returns:
        (index of the range, number) of each element.
    """
    owner = np.repeat(np.arange(len(count)), count)
    return owner, np.arange(len(owner)) - (np.cumsum(count) - count)[owner] + first[owner]


def _crosses(triangles: np.ndarray) -> np.ndarray:
    """Return the normals `[F, 3]` of triangles `[F, 3, 3]`; their length is twice the area."""
    one, two = triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0]
    return np.stack(
        [
            one[:, 1] * two[:, 2] - one[:, 2] * two[:, 1],
            one[:, 2] * two[:, 0] - one[:, 0] * two[:, 2],
            one[:, 0] * two[:, 1] - one[:, 1] * two[:, 0],
        ],
        axis=1,
    )


def _dots(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.einsum("ij,ij->i", one, other)
