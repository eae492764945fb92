"""Instruction templates: the one of training and the 16 held-out ones of RL4VLA's Instruct.

They are the benchmark's data, typography included: a policy reads exactly these characters.
"""

TEMPLATES: tuple[str, ...] = (
    "put {object} on {plate}",
    "Place the {object} on the {plate}",
    "set {object} on {plate}",
    "move the {object} to the {plate}",
    "Take the {object} and put it on the {plate}",
    "pick up {object} and set it down on {plate}",
    "please put the {object} on the {plate}",
    "Put {object} onto {plate}.",
    "place the {object} onto the {plate} surface",
    "Make sure {object} is on {plate}.",
    "on the {plate}, put the {object}",
    "put the {object} where the {plate} is",
    "Move the {object} from the table to the {plate}",
    "Move {object} so it’s on {plate}.",
    "Can you put {object} on {plate}?",
    "{object} on the {plate}, please.",
    "the {object} should be placed on the {plate}.",
)
