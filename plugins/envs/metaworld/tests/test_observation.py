"""The code of the page on the documents' observation: one camera of 480 x 480."""

import re
from pathlib import Path
from typing import Any


def test_the_code_of_the_page_runs() -> None:
    page = (Path(__file__).parents[4] / "docs/coming-from-rlinf.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    assert "# torch.Size([2, 480, 480, 3])\n" in code
    assert names["printed"]["images"].shape == (2, 480, 480, 3)
