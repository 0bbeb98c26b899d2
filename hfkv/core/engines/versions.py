"""Say when a version that was given changes nothing, or is not one whose rules were read."""

from __future__ import annotations

from collections.abc import Iterator

from hfkv.core.engines.titles import engine_title
from hfkv.core.readings import Finding

__all__ = ["version_findings"]

# The oldest vLLM whose source and logs were read.
_FIRST = (0, 6)


def version_findings(engine: str, version: str | None) -> Iterator[Finding]:
    """Yield what is doubtful about a version; `engine` is a name of the registry."""
    if version is None:
        return
    if engine != "vllm":
        name = "the raw need" if engine == "none" else engine_title(engine)
        yield Finding(
            code="engine-version",
            message=f"--engine-version changes nothing for {name}",
            hint="only vLLM's rules are known by version",
        )
        return
    from hfkv.core.engines.vllm_options import LATEST, parse_version  # noqa: PLC0415  seldom asked

    asked = parse_version(version)
    if _FIRST <= asked <= LATEST:
        return
    near, how = (LATEST, "newest") if asked > LATEST else (_FIRST, "oldest")
    yield Finding(
        code="engine-version",
        message=f"the rules are those of vLLM {near[0]}.{near[1]}, the {how} that is known",
        hint="what changed between the two is not counted",
    )
