"""Run LeRobot's own SmolVLA, in an interpreter that has it: `python lerobots_own.py make FOLDER`.

make FOLDER         builds a policy of random weights on the VLM in FOLDER/vlm, and saves it in
                    FOLDER/policy as LeRobot does
act FOLDER POLICY   loads the folder POLICY

Then it writes what the policy gives for FOLDER/batch.safetensors to FOLDER/outputs.safetensors.

Only the processor of transformers is replaced: LeRobot takes two token ids from it, which this
policy does not use, and it needs torchvision.
"""

import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import lerobot
import torch
from safetensors.torch import load_file, save_file

# transformers looks for torchvision once, and must not find what stands in its place
stand_ins = {name: sys.modules.pop(name) for name in list(sys.modules) if "torchvision" in name}
import transformers  # noqa: E402
from transformers.utils import is_torchvision_available  # noqa: E402

assert not is_torchvision_available()
sys.modules.update(stand_ins)
functional = "torchvision.transforms.functional"
sys.modules[functional] = ModuleType(functional)

# without their __init__, which import the libraries of all other policies and robots
for part in ("policies", "teleoperators"):
    package = sys.modules[f"lerobot.{part}"] = ModuleType(f"lerobot.{part}")
    package.__path__ = [f"{lerobot.__path__[0]}/{part}"]
# it imports robots and simulators, and is only named in an annotation
train = sys.modules["lerobot.configs.train"] = ModuleType("lerobot.configs.train")
train.TrainPipelineConfig = object
from lerobot.configs.types import FeatureType, PolicyFeature  # noqa: E402
from lerobot.policies.smolvla.configuration_smolvla import SmolVLAConfig  # noqa: E402
from lerobot.policies.smolvla.modeling_smolvla import (  # noqa: E402
    SmolVLAPolicy,
    make_att_2d_masks,
)
from lerobot.policies.smolvla.processor_smolvla import (  # noqa: E402
    make_smolvla_pre_post_processors,
)
from lerobot.processor import PolicyProcessorPipeline  # noqa: E402
from lerobot.processor.converters import (  # noqa: E402
    policy_action_to_transition,
    transition_to_policy_action,
)

IDS = SimpleNamespace(fake_image_token_id=1, global_image_token_id=2)
transformers.AutoProcessor.from_pretrained = lambda name: SimpleNamespace(tokenizer=IDS)


def scales(first, last, least, most):
    return {"mean": torch.linspace(first, last, 4), "std": torch.linspace(least, most, 4)}


def make(folder: Path) -> SmolVLAPolicy:
    config = SmolVLAConfig(
        device="cpu",
        vlm_model_name=str(folder / "vlm"),
        num_vlm_layers=4,
        chunk_size=6,
        n_action_steps=3,
        num_steps=4,
        resize_imgs_with_padding=(64, 64),
        tokenizer_max_length=24,
        input_features={
            "observation.images.camera0": PolicyFeature(FeatureType.VISUAL, (3, 48, 64)),
            "observation.images.other": PolicyFeature(FeatureType.VISUAL, (3, 48, 64)),
            "observation.state": PolicyFeature(FeatureType.STATE, (4,)),
        },
        output_features={"action": PolicyFeature(FeatureType.ACTION, (4,))},
        push_to_hub=False,
    )
    torch.manual_seed(0)
    policy = SmolVLAPolicy(config)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    stats = {
        "observation.state": {
            "mean": torch.linspace(-0.3, 0.4, 4),
            "std": torch.linspace(0.5, 2, 4),
        },
        "action": {"mean": torch.linspace(0.1, -0.2, 4), "std": torch.linspace(0.3, 1.5, 4)},
    }
    before, after = make_smolvla_pre_post_processors(config, dataset_stats=stats)
    policy.save_pretrained(folder / "policy")
    before.save_pretrained(folder / "policy")
    after.save_pretrained(folder / "policy")
    return policy


def observation(folder: Path, batch: dict[str, torch.Tensor]) -> dict[str, object]:
    return {
        **{
            name: batch[name].permute(0, 3, 1, 2).float() / 255
            for name in batch
            if name.startswith("observation.images")
        },
        "observation.state": batch["observation.state"],
        "task": json.loads((folder / "tasks.json").read_text()),
    }


def write_outputs(folder: Path, policy: SmolVLAPolicy, place: Path) -> None:
    batch = load_file(folder / "batch.safetensors")
    before = PolicyProcessorPipeline.from_pretrained(
        place, config_filename="policy_preprocessor.json"
    )
    after = PolicyProcessorPipeline.from_pretrained(
        place,
        config_filename="policy_postprocessor.json",
        to_transition=policy_action_to_transition,
        to_output=transition_to_policy_action,
    )
    ready = before(observation(folder, batch))
    tokens = ready["observation.language.tokens"]
    token_mask = ready["observation.language.attention_mask"]
    policy.eval()
    noise, time = batch["noise"], batch["time"]
    model = policy.model
    with torch.no_grad():
        images, masks = policy.prepare_images(ready)
        state = policy.prepare_state(ready)
        prefix, pad, attends = model.embed_prefix(images, masks, tokens, token_mask, state=state)
        _, cache = model.vlm_with_expert.forward(
            attention_mask=make_att_2d_masks(pad, attends),
            position_ids=torch.cumsum(pad, dim=1) - 1,
            past_key_values=None,
            inputs_embeds=[prefix, None],
            use_cache=True,
            fill_kv_cache=True,
        )
        velocity = model.denoise_step(pad, cache, noise, time)
        actions = policy.predict_action_chunk(dict(ready), noise=noise)
    targets = before({**observation(folder, batch), "action": batch["action"]})
    policy.train()
    loss, _ = policy.forward(dict(targets), noise=noise, time=time, reduction="none")
    loss.sum().backward()
    gradients = {
        f"gradient/{name}": parameter.grad
        for name, parameter in policy.named_parameters()
        if parameter.grad is not None
    }
    outputs = {
        "images": torch.stack(images, dim=1),
        "state": state,
        "tokens": tokens,
        "token_mask": token_mask,
        "prefix": prefix,
        "velocity": velocity,
        "actions": actions,
        "env_actions": after(actions),
        "loss": loss,
    }
    outputs = {name: tensor.detach().contiguous() for name, tensor in (outputs | gradients).items()}
    save_file(outputs, folder / "outputs.safetensors")


if __name__ == "__main__":
    here = Path(sys.argv[2])
    if sys.argv[1] == "make":
        made = make(here)
        write_outputs(here, made, here / "policy")
    else:
        write_outputs(here, SmolVLAPolicy.from_pretrained(sys.argv[3]), Path(sys.argv[3]))
