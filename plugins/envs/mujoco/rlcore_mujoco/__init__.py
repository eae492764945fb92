"""Shared code of the env plugins on MuJoCo. A library without entry points.

    gl       choice of the GL library before MuJoCo is imported, and its row in `rlcore doctor`
    view     cameras of an env, and the size, quality and detail of their frames
    settings keys of an env on MuJoCo: a plugin's dataclass derives from `MujocoEnvConfig`
    env      rlcore Env of simulators on MuJoCo: `make_env`
    render   frames: `prepare_model` before the first one, then one `Renderers` per process
    detail   meshes simplified to the resolution of the frames: `env.*.render_detail=pixel`
    textures textures reduced to it
    model    save and restore what an episode changes in a compiled model: `Kept`
    physics  partial forward passes

A plugin calls `env.make_env` with its spec, whose `render_settings` have `view.quality`, and its
pool of simulators, and `gl.doctor_checks` in its doctor hook. Its pool makes one `Renderers(view)`.
A simulator calls `prepare_model` on its model and `renderers.join(scene)`, draws with
`renderers.of(scene, model).draw(model, data, out)`, and ends with `renderers.leave(scene)`;
simulators of one scene share the geometry and textures on the GPU.

`gl`, `view`, `settings` and `env` do not import MuJoCo. The other modules do, and only the
simulator processes import those.
"""
