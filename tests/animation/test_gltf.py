"""The animated file: nodes stand and turn as the run says, and nothing in it is out of its place."""

import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.animation.gltf import glb, upright
from jaxmbd.animation.motion import Motion, continuous, matrices, picture_times, product, quaternions, resample, towards
from jaxmbd.animation.scene import CONTACTS, scene_of

from .runs import File, ball, pendulum


@pytest.fixture(scope="module")
def files():
    return {
        pendulum: File(glb(scene_of(pendulum(), speed=1.0, traces=["rod.point(1,0)"]))),
        ball: File(glb(scene_of(ball(), traces=["ball"]))),
    }


def test_nodes_are_where_the_run_has_bodies(files):
    run, file = pendulum(), files[pendulum]
    times = np.asarray(run.ts)
    planar = file.positions("rod", times)
    np.testing.assert_allclose(planar[:, :2], run.position("rod"), atol=1e-6)  # single precision
    np.testing.assert_array_equal(planar[:, 2], 0.0)
    np.testing.assert_allclose(file.rotations("rod", times)[:, :2, :2], run.rotation("rod"), atol=1e-4)  # sixteen bits


@pytest.mark.parametrize("body", ["ball", "weight[0]"])
def test_between_pictures_players_find_the_rows_of_the_run(files, body):
    run, file = ball(), files[ball]
    speed = file.json["scenes"][0]["extras"]["speed"]
    times = (np.asarray(run.ts) - run.ts[0]) / speed
    np.testing.assert_allclose(file.positions(body, times), run.position(body), atol=2e-4)
    if body == "ball":
        # Ninety radians a second: a film of sixty pictures a second in real time would show it turn by 86 degrees each.
        np.testing.assert_allclose(file.rotations(body, times), run.rotation(body), atol=5e-3)


def test_springs_reach_from_end_to_end(files):
    run, file = ball(), files[ball]
    _, begin = file.channel("spring", "translation")
    times, scale = file.channel("spring", "scale")
    turn = file.rotations("spring", times)
    np.testing.assert_allclose(begin, [[0.3, 0.1, 0.9]], atol=1e-6)
    np.testing.assert_allclose(begin + turn[:, :, 2] * scale[:, 2:], file.positions("weight[0]", times), atol=1e-4)
    np.testing.assert_allclose(scale[-1, 2], run.observe("spring.length")[-1], rtol=1e-4)


def test_arrows_of_contacts_push_with_the_force_of_the_run(files):
    scene = scene_of(ball())
    (arrow,) = [node for node in scene.nodes if node.group == CONTACTS]
    assert arrow.name == "contact forces: floor"
    force, length = scene.longest[CONTACTS]
    pushed = matrices(arrow.turn)[:, :, 2] * arrow.scale[:, 2:] * force / length
    loads = ball().contact("floor")
    expected = np.asarray(loads.normal_force[:, None] * loads.normal + loads.friction)
    np.testing.assert_allclose(pushed[-1], expected[-1], rtol=1e-3)
    np.testing.assert_allclose(arrow.position[-1], loads.point[-1], atol=1e-9)


def test_the_vertical_becomes_that_of_the_format(files):
    for run, up in ((pendulum, (0, 1, 0)), (ball, (0, 0, 1))):
        world = files[run].json["nodes"][0]
        assert world["name"] == "world"
        assert sorted(world["children"]) == list(range(1, len(files[run].json["nodes"])))
        np.testing.assert_allclose(matrices(np.roll(world["rotation"], 1)) @ up, (0, 1, 0), atol=1e-6)
    for up in np.concatenate([np.eye(3), -np.eye(3)]):
        np.testing.assert_allclose(matrices(upright(up)) @ up, (0, 1, 0), atol=1e-12)


def test_everything_that_is_referred_to_is_there(files):
    for file in files.values():
        document = file.json
        for mesh in document["meshes"]:
            for piece in mesh["primitives"]:
                assert 0 <= piece["material"] < len(document["materials"])
                points = file.array(piece["attributes"]["POSITION"])
                assert np.isfinite(points).all()
                if "indices" in piece:
                    assert file.array(piece["indices"]).max() < len(points)
                    np.testing.assert_allclose(np.linalg.norm(file.array(piece["attributes"]["NORMAL"]), axis=1), 1.0, atol=1e-5)
        for sampler in document["animations"][0]["samplers"]:
            times, values = file.array(sampler["input"])[:, 0], file.array(sampler["output"])
            assert len(times) == len(values)
            assert times[0] == 0
            assert (np.diff(times) > 0).all()
        for channel in document["animations"][0]["channels"]:
            if channel["target"]["path"] == "rotation":
                turns = file.array(document["animations"][0]["samplers"][channel["sampler"]]["output"])
                assert (np.sum(turns[1:] * turns[:-1], axis=1) > 0).all()  # never the long way round


class Beating(mbd.PointMass):
    """A square that grows with the height of its body: what a body that deforms shows."""

    def skin(self, q):
        square = np.array([[-0.1, -0.1, 0], [0.1, -0.1, 0], [0.1, 0.1, 0], [-0.1, 0.1, 0]])
        vertices = square * (1 + q[:, 2])[:, None, None]
        return mbd.shapes.Skin.snapshots(vertices, [[0, 1, 2], [0, 2, 3]], np.repeat(q[:, 2:], 4, axis=1), most=9)


def test_a_body_that_deforms_shows_its_own_surface():
    falling = mbd.Model([Beating("heart", 1.0, (0, 0, 1.0))], forces=[mbd.Gravity((0, 0, -9.81))])
    run = mbd.simulate(falling, t1=0.4, integrator=mbd.Verlet(), step=0.01)
    file = File(glb(scene_of(run, speed=0.1)))
    (piece,) = file.json["meshes"][file.json["nodes"][file.numbers["heart"]]["mesh"]]["primitives"]
    assert len(piece["targets"]) == 8
    rest, grown = file.array(piece["attributes"]["POSITION"]), [file.array(target["POSITION"]) for target in piece["targets"]]
    times, weights = file.channel("heart", "weights")
    weights = weights.reshape(len(times), 8)
    height = file.positions("heart", times)[:, 2]
    for i in (0, len(times) // 3, -1):
        shown = rest + np.tensordot(weights[i], grown, axes=1)
        np.testing.assert_allclose(shown[2, 0], 0.1 * (1 + height[i]), atol=1e-3)  # straight from snapshot to snapshot
    colors = file.array(piece["attributes"]["COLOR_0"])[0], *(file.array(target["COLOR_0"])[0] for target in piece["targets"])
    np.testing.assert_allclose(colors[0], [0.75, 0.03, 0.03], atol=1e-6)  # red at the top
    np.testing.assert_allclose(colors[0] + colors[-1], [0.03, 0.1, 0.6], atol=1e-6)


def test_ten_seconds_of_a_run_stay_small():
    run = pendulum()
    slow = scene_of(run, speed=0.05)
    assert len(slow.times) == 601
    rod = [node for node in slow.nodes if node.name == "rod"]
    sixty = slow._replace(nodes=tuple(node._replace(name=f"rod[{i}]") for i in range(60) for node in rod))
    assert len(glb(sixty)) < 1e6
    # And if more things move, or faster, there are fewer pictures of each.
    assert picture_times(np.array([0.0, 10.0]), np.full((2, 1000, 3), 300.0), 10.0, 60.0, 500).size == 501


def test_resampling_knows_how_far_a_body_turns_between_rows():
    times, spin = np.array([0.0, 0.5, 1.0]), np.array([0.0, 30.0, 0.0])  # fifteen radians from row to row
    turns = np.stack([np.cos(15 * times), 0 * times, np.sin(15 * times), 0 * times], axis=1)[:, None]
    position = np.stack([times**3, times, 0 * times], axis=1)[:, None]  # a cubic is met exactly
    velocity = np.stack([3 * times**2, 1 + 0 * times, 0 * times], axis=1)[:, None]
    fine = np.linspace(0, 1, 41)
    seen = resample(Motion(times, position, velocity, turns, np.broadcast_to(spin, (3, 1, 3))), fine)
    np.testing.assert_allclose(seen.positions[:, 0], np.stack([fine**3, fine, 0 * fine], axis=1), atol=1e-14)
    angle = 30 * fine
    expected = np.stack([np.stack([np.cos(angle), np.sin(angle)], 1), np.stack([-np.sin(angle), np.cos(angle)], 1)], 1)
    np.testing.assert_allclose(seen.rotations()[:, 0][:, [0, 2]][:, :, [0, 2]], expected, atol=1e-12)


def test_quaternions():
    turns = np.random.default_rng(1).normal(size=(200, 4))
    turns /= np.linalg.norm(turns, axis=1, keepdims=True)
    np.testing.assert_allclose(matrices(quaternions(matrices(turns))), matrices(turns), atol=1e-12)
    np.testing.assert_allclose(matrices(product(turns[:100], turns[100:])), matrices(turns[:100]) @ matrices(turns[100:]), atol=1e-12)
    assert (np.sum(continuous(turns)[1:] * continuous(turns)[:-1], axis=1) >= 0).all()
    directions = np.concatenate([turns[:, :3], [[0, 0, 1], [0, 0, -1]]])
    expected = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    np.testing.assert_allclose(matrices(towards(directions))[:, :, 2], expected, atol=1e-9)


def test_it_is_written_where_it_is_said(tmp_path):
    path = pendulum().save_gltf(tmp_path / "run.glb", speed=0.5, traces="rod")
    file = File(path.read_bytes())
    assert file.json["scenes"][0]["extras"] == {"speed": 0.5, "start": 0.0}
    assert file.channel("rod", "translation")[0][-1] == 1.0  # half a second at half the speed
    assert "trace: rod" in file.numbers
    assert not any(name.startswith("joint reactions") for name in file.numbers)
    with pytest.raises(ValueError, match=r"give a path that ends in .glb, got 'run.gltf'"):
        pendulum().save_gltf("run.gltf")


@pytest.mark.parametrize(
    ("path", "options", "message"),
    [
        ("run.avi", {}, r"save_video writes .mp4, .webm, .gif, .webp: give a path that ends so, got 'run.avi'"),
        ("run.gif", {"size": (161, 120)}, r"size of a video must be two even numbers of pixels, got \(161, 120\)"),
        ("run.gif", {"rate": 0.0}, r"rate of a video must lie above 0 and at most at 100 pictures a second, got 0.0"),
        ("run.gif", {}, r"^no browser was found: install chromium or Google Chrome \(Linux, macOS\), or name one in JAXMBD_BROWSER.$"),
    ],
)
def test_films_that_cannot_be_made_are_refused_before_anything_is_drawn(path, options, message, monkeypatch):
    monkeypatch.setenv("JAXMBD_BROWSER", "no-such-browser")
    with pytest.raises((ValueError, RuntimeError), match=message):
        pendulum().save_video(path, **options)


def test_without_ffmpeg_a_film_says_what_to_install(monkeypatch):
    monkeypatch.setattr("jaxmbd.animation.video.require_browser", lambda: "a browser")
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(RuntimeError, match=r"^save_video needs ffmpeg, which writes the file: install it"):
        pendulum().save_video("run.mp4")


def test_what_cannot_be_shown_is_refused():
    equations = mbd.problems.pendulums.DoublePendulumInAngles()
    with pytest.raises(ValueError, match="needs a Model"):
        mbd.simulate(equations, t1=0.01, saveat=np.array([0.0, 0.01])).animate()
    with pytest.raises(ValueError, match=r"camera must be a direction \(x, y, z\), from the scene towards the camera, got \(0, 0, 0\)"):
        pendulum().animate(camera=(0, 0, 0))
    with pytest.raises(ValueError, match="show takes 'contact forces' and 'joint reactions', got 'forces'"):
        pendulum().animate(show="forces")
    with pytest.raises(ValueError, match="is one number for the whole run, not a curve"):
        pendulum().animate("peak:rod.x")
    with pytest.raises(ValueError, match="speed must be positive, seconds of the run in a second of playback, got 0"):
        scene_of(pendulum(), speed=0.0)
    with pytest.raises(ValueError, match=r"follow must be the name of a body, or '' for none, got 'rode'\. Known: rod"):
        scene_of(pendulum(), follow="rode")
