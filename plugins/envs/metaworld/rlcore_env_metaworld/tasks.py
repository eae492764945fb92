"""List the 50 tasks of MetaWorld v3: instructions, benchmarks and difficulty.

MetaWorld ships no instructions, and projects number its tasks differently. So everything here is
keyed by the task's name. The difficulty follows the grouping of Seo et al., "Masked World Models
for Visual Control" (2022): 28 easy, 11 medium, 6 hard and 5 very hard tasks. This module holds data
only.
"""

from __future__ import annotations

SENTENCES: dict[str, str] = {
    "assembly-v3": "pick up the wrench and put its ring over the peg",
    "basketball-v3": "put the basketball through the hoop",
    "bin-picking-v3": "pick up the cube and place it in the other bin",
    "box-close-v3": "pick up the lid and close the box with it",
    "button-press-topdown-v3": "press the button down from above",
    "button-press-topdown-wall-v3": "reach over the wall and press the button down from above",
    "button-press-v3": "push the button in",
    "button-press-wall-v3": "go around the wall and push the button in",
    "coffee-button-v3": "press the button of the coffee machine",
    "coffee-pull-v3": "pull the mug away from the coffee machine",
    "coffee-push-v3": "push the mug under the coffee machine",
    "dial-turn-v3": "turn the dial",
    "disassemble-v3": "lift the wrench off the peg",
    "door-close-v3": "close the door",
    "door-lock-v3": "lock the door by turning the lock",
    "door-open-v3": "open the door",
    "door-unlock-v3": "unlock the door by turning the lock",
    "hand-insert-v3": "put the gripper into the hole",
    "drawer-close-v3": "push the drawer closed",
    "drawer-open-v3": "pull the drawer open",
    "faucet-open-v3": "open the faucet",
    "faucet-close-v3": "close the faucet",
    "hammer-v3": "pick up the hammer and drive in the nail",
    "handle-press-side-v3": "press the handle down from the side",
    "handle-press-v3": "press the handle down",
    "handle-pull-side-v3": "pull the handle up from the side",
    "handle-pull-v3": "pull the handle up",
    "lever-pull-v3": "pull the lever up",
    "pick-place-wall-v3": "pick up the puck and place it on the goal behind the wall",
    "pick-out-of-hole-v3": "pick the puck out of the hole",
    "pick-place-v3": "pick up the puck and place it on the goal",
    "plate-slide-v3": "slide the plate into the cabinet",
    "plate-slide-side-v3": "slide the plate sideways into the cabinet",
    "plate-slide-back-v3": "slide the plate out of the cabinet",
    "plate-slide-back-side-v3": "slide the plate sideways out of the cabinet",
    "peg-insert-side-v3": "pick up the peg and insert it into the hole from the side",
    "peg-unplug-side-v3": "pull the peg out sideways",
    "soccer-v3": "push the ball into the goal",
    "stick-push-v3": "pick up the stick and push the thermos with it",
    "stick-pull-v3": "pick up the stick and pull the thermos with it",
    "push-v3": "push the puck to the goal",
    "push-wall-v3": "push the puck around the wall to the goal",
    "push-back-v3": "pull the puck back to the goal",
    "reach-v3": "move the gripper to the goal",
    "reach-wall-v3": "move the gripper around the wall to the goal",
    "shelf-place-v3": "pick up the puck and place it on the shelf",
    "sweep-into-v3": "sweep the puck into the hole",
    "sweep-v3": "sweep the puck off the table",
    "window-open-v3": "slide the window open",
    "window-close-v3": "slide the window closed",
}

MEDIUM = (
    "basketball-v3",
    "bin-picking-v3",
    "box-close-v3",
    "coffee-pull-v3",
    "coffee-push-v3",
    "hammer-v3",
    "peg-insert-side-v3",
    "push-wall-v3",
    "soccer-v3",
    "sweep-v3",
    "sweep-into-v3",
)
HARD = (
    "assembly-v3",
    "hand-insert-v3",
    "pick-out-of-hole-v3",
    "pick-place-v3",
    "push-v3",
    "push-back-v3",
)
VERY_HARD = (
    "shelf-place-v3",
    "disassemble-v3",
    "stick-pull-v3",
    "stick-push-v3",
    "pick-place-wall-v3",
)
EASY = tuple(task for task in SENTENCES if task not in MEDIUM + HARD + VERY_HARD)

DIFFICULTY: dict[str, tuple[str, ...]] = {
    "easy": EASY,
    "medium": MEDIUM,
    "hard": HARD,
    "very_hard": VERY_HARD,
}

ML45_HELD_OUT = (
    "bin-picking-v3",
    "box-close-v3",
    "hand-insert-v3",
    "door-lock-v3",
    "door-unlock-v3",
)

# The ten tasks that Yu et al., "Meta-World" (2020), train together.
MT10 = (
    "reach-v3",
    "push-v3",
    "pick-place-v3",
    "door-open-v3",
    "drawer-open-v3",
    "drawer-close-v3",
    "button-press-topdown-v3",
    "peg-insert-side-v3",
    "window-open-v3",
    "window-close-v3",
)

BENCHMARKS: dict[str, tuple[str, ...]] = {
    "mt10": MT10,
    "mt50": tuple(SENTENCES),
    "ml45_train": tuple(task for task in SENTENCES if task not in ML45_HELD_OUT),
    "ml45_test": ML45_HELD_OUT,
}
