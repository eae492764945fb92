"""What envs on MuJoCo share. A library without entry points.

    gl       which GL library renders, found before MuJoCo is imported; its row in `rlcore doctor`
    view     which cameras a frame shows, in what size, quality and detail
    settings the keys of an env on MuJoCo: a plugin's dataclass derives from `MujocoEnvConfig`
    env      simulators on MuJoCo as an rlcore Env: `make_env`
    render   frames: `prepare_model` before the first one, then `Renderers`, one set per process
    detail   as much geometry as pixels can show: `env.*.render_detail=pixel`
    model    what an episode changes in a compiled model: `Kept` puts it back
    physics  forward passes that need not be made in full

A plugin calls `env.make_env` with its spec, whose `render_settings` have `view.quality`, and its
pool of simulators, and `gl.doctor_checks` in its doctor hook. Its pool makes one `Renderers(view)`.
A simulator calls `prepare_model` on its model and `renderers.join(scene)`, draws with
`renderers.of(scene, model).draw(model, data, out)`, and ends with `renderers.leave(scene)`;
simulators of one scene share what was uploaded.

`gl`, `view`, `settings` and `env` are light. The others import MuJoCo, and only the process that
simulates imports them.
"""
