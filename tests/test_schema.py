"""The JSON Schemas in the package accept everything hfkv writes, and refuse what it must not."""

from __future__ import annotations

import copy
import json
import re
import shlex
from collections.abc import Callable, Iterator
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from hand_made import REPORTS
from jsonschema import Draft202012Validator

from hfkv.api.schemas import SCHEMAS, json_schema
from hfkv.cli import main
from hfkv.core.engines.registry import ENGINES
from hfkv.core.families.catalogue import catalogue
from hfkv.core.files import ModelFiles
from hfkv.core.gpus import parse_gpu, table
from hfkv.core.readings import Confidence
from hfkv.core.report import analyze
from hfkv.core.snapshots import loads, to_json
from hfkv.core.stores import LayerKind
from hfkv.core.workload import Deployment, Workload
from hfkv.errors import UnsupportedError, UsageError
from hfkv.render.documents import error_document
from hfkv.render.gpus import gpus_document
from hfkv.render.json import inspect_document

ROOT = Path(__file__).parent.parent
MODELS = sorted((ROOT / "fixtures" / "models").glob("*.hfkv.json"))
LLAMA = str(ROOT / "fixtures" / "models" / "meta-llama--Llama-3.1-8B.hfkv.json")
GOLDEN = sorted((ROOT / "tests" / "golden").glob("*.json"))


@cache
def _validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(json_schema(name))


def complaints(document: Any) -> list[str]:
    """Return what the schema that a document names has against it."""
    kind = document["schema"].removeprefix("hfkv.").removesuffix("/1")
    errors = _validator(kind).iter_errors(document)
    return [f"{'.'.join(map(str, error.absolute_path))}: {error.message[:200]}" for error in errors]


def _files(path: Path) -> ModelFiles:
    return loads(path.read_bytes(), where=path.name)


WORKLOADS = {
    "as it is": Workload(),
    "on GPUs": Workload(
        context=9000,
        sequences=3,
        deployment=Deployment(gpus=(*parse_gpu("rtx4090"), *parse_gpu("24gb"))),
    ),
    "real lengths": Workload(
        seq_lens=(1, 700, 8192), kv_dtype="fp8", deployment=Deployment(gpus=parse_gpu("h100-80"))
    ),
    "no share of the memory": Workload(
        engine="sglang",
        deployment=Deployment(gpus=parse_gpu("t4"), max_num_batched_tokens=1_000_000),
    ),
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_schema_is_a_schema(name: str) -> None:
    """Each file is valid draft 2020-12, named after the documents it describes."""
    schema = json_schema(name)
    Draft202012Validator.check_schema(schema)
    assert schema["title"] == f"hfkv.{name}/1"
    assert schema["properties"]["schema"] == {"const": f"hfkv.{name}/1"}
    assert {"schema"} < set(schema["required"])


def test_every_schema_is_in_the_package() -> None:
    """The folder holds these schemas and nothing else."""
    found = {place.name for place in resources.files("hfkv").joinpath("schema").iterdir()}
    assert found == {f"{name}-1.json" for name in SCHEMAS}


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=WORKLOADS)
def test_every_report_of_a_fixture_validates(workload: Workload) -> None:
    """What inspect says of 44 real models is what the schema promises."""
    assert len(MODELS) >= 44
    for path in MODELS:
        try:
            document = inspect_document(analyze(_files(path), workload))
        except UnsupportedError:  # by the engine, in a sentence
            assert workload.engine != "none"
            continue
        assert complaints(json.loads(json.dumps(document))) == [], path.name


@pytest.mark.parametrize("name", REPORTS)
def test_reports_of_every_shape_validate(name: str) -> None:
    """So do reports without weights, without a cache, and of models nobody can size."""
    assert complaints(json.loads(json.dumps(inspect_document(REPORTS[name])))) == []


def test_every_fixture_is_a_valid_snapshot() -> None:
    """The stored snapshots validate, and so does what hfkv writes of them."""
    for path in MODELS:
        assert complaints(json.loads(path.read_text(encoding="utf-8"))) == [], path.name
        assert complaints(json.loads(json.dumps(to_json(_files(path))))) == [], path.name


def _golden() -> Iterator[tuple[str, Any]]:
    for path in GOLDEN:
        case = json.loads(path.read_text(encoding="utf-8"))
        told = "\n".join(case["stdout"])
        if told.startswith("{"):
            yield path.stem, json.loads(told)


def test_every_golden_document_validates() -> None:
    """Whatever a golden command line wrote as JSON is what its schema promises."""
    found = dict(_golden())
    assert len(found) >= 3
    for name, document in found.items():
        assert complaints(document) == [], name


def test_the_other_documents_validate() -> None:
    """GPUs, families and errors as the program makes them; comparisons of what it makes."""
    families = [
        {"model_types": list(e.model_types), "kinds": list(e.kinds), "source": e.source}
        for e in catalogue()
    ]
    error = error_document("not-found", "no such model", None)
    failed = {"id": "a/b", "error": error["error"]}
    report = json.loads(json.dumps(inspect_document(REPORTS["dense"])))
    for document in (
        json.loads(json.dumps(gpus_document(table()))),
        {"schema": "hfkv.families/1", "families": families},
        error,
        {"schema": "hfkv.compare/1", "models": [report, failed]},
        _CHECK | {"report": report},
        _KV | {"kv_cache": report["kv_cache"]},
    ):
        assert complaints(document) == [], document["schema"]


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_whole(name: str) -> None:
    """Nothing that it refers to is outside it, so a validator needs no registry."""
    text = json.dumps(json_schema(name))
    for other in re.findall(r'"\$ref": "(urn:hfkv:\w+:1)', text):
        assert f'"$id": "{other}"' in text


def test_a_schema_that_does_not_exist() -> None:
    """The sentence names those that do."""
    with pytest.raises(UsageError) as caught:
        json_schema("scan")
    assert caught.value.message == "there is no schema 'scan'"
    assert caught.value.hint == f"known: {', '.join(SCHEMAS)}"


def test_a_schema_is_the_callers_own() -> None:
    """Changing one changes no other."""
    json_schema("inspect")["properties"].clear()
    assert json_schema("inspect")["properties"]


# One command line a kind of document, and what its answers name themselves.
SAID = {
    "inspect": ["inspect", LLAMA, "-g", "a100-80", "-g", "24gib", "--json"],
    "compare": ["compare", LLAMA, "./none", "--json"],
    "check": ["check", LLAMA, "-g", "a100-80", "--json"],
    "kv": ["kv", "--layers", "32", "--kv-heads", "8", "--head-dim", "128", "-c", "4k,8k", "--json"],
    "gpus": ["gpus", "--json"],
    "families": ["families", "--json"],
    "cache": ["cache", "info", "--json"],
    "error": ["inspect", "./none", "--json"],
    "snapshot": ["snapshot", LLAMA, "-o", "-"],
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_command_says_what_its_schema_promises(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Run as it is, whatever it exits with: each kind of document there is."""
    main(SAID[name])
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == f"hfkv.{name}/1"
    assert complaints(document) == []


def closed(schema: Any) -> Any:
    """Return a schema that accepts no key that it does not describe."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: closed(part) for key, part in schema.items()}
    if isinstance(schema.get("properties"), dict) and "type" in schema:
        inner.setdefault("unevaluatedProperties", False)
    return inner


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_key_is_described(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Schemas leave room for later keys; those of now they name, each and all."""
    main(MORE.get(name, SAID[name]))
    document = json.loads(capsys.readouterr().out)
    for fit in document["fit"] if name == "kv" else ():  # described beside a fit, not as part of it
        del fit["tokens"], fit["sequences"]
    errors = Draft202012Validator(closed(json_schema(name))).iter_errors(document)
    assert [error.message for error in errors] == []
    document["later"] = 1
    assert not Draft202012Validator(closed(json_schema(name))).is_valid(document)


# Command lines whose answers have all there is.
GEMMA = str(ROOT / "fixtures" / "models" / "google--gemma-3-27b-it.hfkv.json")
INSPECT = "-g h100:4 -g 24gib -c 16k --engine vllm --weights-dtype int4 --json"
KV = """kv --layers 62 --kv-heads 16 --head-dim 128 --window 1k:5/6 -c 8k,128k -b 1,8
    -g 24gib --parameters 7b --in-use 80% --json"""
MORE = {"inspect": ["inspect", GEMMA, *shlex.split(INSPECT)], "kv": shlex.split(KV)}


def test_lines_of_a_scan_validate(capsys: pytest.CaptureFixture[str]) -> None:
    """Each is an inspect or an error document that also says which model it answers for."""
    assert main(["scan", LLAMA, "./none", "-g", "a100-80"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {line["id"] for line in lines} == {LLAMA, "./none"}
    assert {line["schema"] for line in lines} == {"hfkv.inspect/1", "hfkv.error/1"}
    assert [complaints(line) for line in lines] == [[], []]


def test_the_enumerations_are_those_of_the_program() -> None:
    """Every kind of layer, grade of confidence and engine that exists has a place."""
    parts = json_schema("inspect")["$defs"]
    assert parts["layers"]["properties"]["kind"]["enum"] == [str(kind) for kind in LayerKind]
    grades = {grade.name.lower() for grade in Confidence}
    assert set(parts["architecture"]["properties"]["confidence"]["enum"]) == grades
    assert set(ENGINES) <= set(parts["kv_cache"]["properties"]["engine"]["enum"])


_CHECK: dict[str, Any] = {
    "schema": "hfkv.check/1",
    "passed": True,
    "checks": [{"id": "index", "status": "pass", "message": "it agrees", "hint": None}],
}
_KV: dict[str, Any] = {
    "schema": "hfkv.kv/1",
    "grid": [{"tokens": 1024, "sequences": 1, "bytes": 134217728}],
    "ladder": [{"step": "8 of 32 KV heads", "bytes": 134217728, "factor": 4.0}],
}


def _put(path: str, value: Any) -> Callable[[Any], None]:
    def change(document: Any) -> None:
        *steps, last = [int(s) if s.isdecimal() else s for s in path.split(".")]
        for step in steps:
            document = document[step]
        document[last] = value

    return change


def _drop(path: str) -> Callable[[Any], None]:
    def change(document: Any) -> None:
        *steps, last = [int(s) if s.isdecimal() else s for s in path.split(".")]
        for step in steps:
            document = document[step]
        del document[last]

    return change


# One change a line to the report of Llama-3.1-8B on an A100, each of which breaks the contract.
BROKEN = {
    "a float for bytes": _put("kv_cache.bytes", 17179869184.5),
    "a text for bytes": _put("weights.bytes", "16060522496"),
    "a negative size": _put("fit.0.short_by_bytes", -1),
    "a boolean for a count": _put("architecture.num_hidden_layers", value=True),
    "an unknown size as nothing": _put("kv_cache.bytes_per_sequence", None),
    "a key less": _drop("kv_cache.fixed_bytes_per_sequence"),
    "a fit without its answer": _drop("fit.0.fits"),
    "an answer in words": _put("fit.0.fits", "yes"),
    "a short sha": _put("target.sha", "d04e592"),
    "a target of no kind": _put("target.kind", "url"),
    "a confidence of its own": _put("architecture.confidence", "certain"),
    "a layer kind of its own": _put("architecture.layers.0.kind", "attention"),
    "layers that are not ranges": _put("architecture.layers.0.indices", "0..31"),
    "a window without its size": _put("kv_cache.components.0.growth", "window"),
    "a growth of its own": _put("kv_cache.components.0.growth", "linear"),
    "a warning code in words": _put("warnings", [{"code": "A b", "message": "m", "hint": None}]),
    "a warning that says nothing": _put("warnings", [{"code": "a", "message": "", "hint": None}]),
    "a source that is no text": _put("sources.head_dim", 128),
    "a role without parameters": _drop("weights.by_role.mlp.parameters"),
    "a share above one": _put("fit.0.utilization", 1.2),
    "another version": _put("schema", "hfkv.inspect/2"),
}


@pytest.mark.parametrize("change", BROKEN.values(), ids=BROKEN)
def test_what_breaks_the_contract_is_refused(change: Callable[[Any], None]) -> None:
    """Each single change to a valid report makes it invalid."""
    document = json.loads(json.dumps(inspect_document(REPORTS["dense"])))
    broken = copy.deepcopy(document)
    change(broken)
    assert complaints(document) == []
    assert list(_validator("inspect").iter_errors(broken))


def test_a_new_key_breaks_nothing() -> None:
    """The contract may grow: a reader of this schema accepts what a later hfkv adds."""
    document = json.loads(json.dumps(inspect_document(REPORTS["dense"])))
    document["later"] = document["fit"][0]["later"] = 1
    assert complaints(document) == []


@pytest.mark.parametrize(
    "document",
    [
        {"schema": "hfkv.error/1", "error": "not found"},
        {"schema": "hfkv.error/1", "error": {"code": "x", "message": "m"}},
        {"schema": "hfkv.compare/1", "models": [{"id": "a/b"}]},
        {"schema": "hfkv.compare/1", "models": [{"id": "a/b", "error": "not found"}]},
        {**_CHECK, "report": None},
        {"schema": "hfkv.gpus/1", "gpus": [{"slug": "h100"}]},
        {
            "schema": "hfkv.families/1",
            "families": [{"model_types": [], "kinds": [], "source": "s"}],
        },
        {**_KV, "kv_cache": None},
        {"schema": "hfkv.snapshot/1", "target": {}},
    ],
    ids=lambda document: json.dumps(document)[12:50],
)
def test_other_documents_are_refused_too(document: dict[str, Any]) -> None:
    """Made-up counter-examples of the other schemas fail."""
    assert complaints(document)


def test_a_check_passes_exactly_when_nothing_failed() -> None:
    """`passed` and the statuses must not contradict each other."""
    report = json.loads(json.dumps(inspect_document(REPORTS["dense"])))
    failed = [{"id": "index", "status": "fail", "message": "it does not", "hint": None}]
    good = _CHECK | {"report": report}
    assert complaints(good | {"passed": False, "checks": failed}) == []
    assert complaints(good | {"passed": False})
    assert complaints(good | {"checks": failed})
