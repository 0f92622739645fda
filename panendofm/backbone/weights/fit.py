"""Whether tensors of a file are those of a network: what does not fit would leave random weights, or be left out."""

from __future__ import annotations

from collections.abc import Collection

from panendofm.runtime.errors import UserError


def refuse_misfit(
    source: str, missing: Collection[str], misshapen: Collection[str] = (), unexpected: Collection[str] = ()
) -> None:
    """One sentence that names the first tensor of each kind; nothing when there is none."""
    found = {"are missing": missing, "have another shape": misshapen, "are too many": unexpected}
    said = [f"{len(names)} tensors {what} ({min(names)}, …)" for what, names in found.items() if names]
    if said:
        raise UserError(f"{source} does not fit its network: {', '.join(said)}; get the weights of this very network.")


def beside_the_head(names: Collection[str], wanted: Collection[str], heads: Collection[str] = ()) -> list[str]:
    """Those of `names` that a network lacks and that belong to a part that it has: a block too many, a norm.

    What is left are heads, which lie beside a network and stay behind. `heads` are names of heads inside such a part.
    """
    parts = {name.partition(".")[0] for name in wanted}
    own = [name for name in names if name not in wanted and name.partition(".")[0] in parts]
    return [name for name in own if not any(name.startswith(f"{head}.") for head in heads)]
