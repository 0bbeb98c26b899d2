"""Every check in every way it can end, and the sentence it says."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hfkv.core.checks import (
    CHECKS,
    Case,
    Check,
    Status,
    Surroundings,
    Verdicts,
    known_ids,
    needed_files,
    run_checks,
)
from hfkv.core.files import (
    HeaderInfo,
    IndexInfo,
    ModelFiles,
    Problem,
    RepoFile,
    Target,
    TensorGroup,
)
from hfkv.core.gpus import parse_gpu
from hfkv.core.headers import parse_shard
from hfkv.core.report import analyze
from hfkv.core.workload import Deployment, Workload
from hfkv.errors import HfkvError, MalformedError, UnreadableError, UnsupportedError, UsageError

EXL2 = Path(__file__).parent.parent / "fixtures" / "quantized" / "exl2"
SHA = "d04e592bb4f6aa9cfee91e2e20afa771667e1d4b"
GIB = 2**30
CONFIG = {
    "model_type": "llama",
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "max_position_embeddings": 4096,
    "torch_dtype": "float16",
}
# one projection of both layers: 2 x 64 x 64 values in 16 bit
TENSORS = (
    TensorGroup(
        name="model.layers.{}.self_attn.q_proj.weight",
        dtype="F16",
        shape=(64, 64),
        nbytes=8192,
        count=2,
        layers=(0, 1),
    ),
)
FILES = ModelFiles(
    target=Target(kind="hub", id="org/name", revision="main", sha=SHA),
    files=(
        RepoFile(path="config.json", size=500),
        RepoFile(path="model.safetensors", size=16_584),
        RepoFile(path="tokenizer.json", size=1000),
    ),
    weight_files=("model.safetensors",),
    config=CONFIG,
    tensors=TENSORS,
    headers=(HeaderInfo(path="model.safetensors", header_bytes=192, data_bytes=16_384, tensors=2),),
)


def check(
    name: str,
    files: ModelFiles = FILES,
    around: Surroundings | None = None,
    *,
    allowed: tuple[str, ...] = (),
    **work: Any,
) -> Check:
    """Run one check on a model."""
    report = analyze(files, Workload(**work))
    case = Case(
        files=files,
        report=report,
        surroundings=around or Surroundings(),
        allowed_licenses=allowed,
    )
    return next(one for one in run_checks(case) if one.id == name)


def told(found: Check) -> tuple[str, str]:
    """Return how a check ended, and its sentence."""
    return str(found.status), found.message


def with_files(*paths: str) -> ModelFiles:
    """Return the model with more files beside it."""
    return replace(FILES, files=(*FILES.files, *(RepoFile(path=path, size=1) for path in paths)))


def with_config(**keys: Any) -> ModelFiles:
    """Return the model with another config."""
    return replace(FILES, config={**CONFIG, **keys})


def with_problem(code: str, message: str) -> ModelFiles:
    """Return the model with something odd that was met while reading."""
    return replace(FILES, problems=(Problem(code=code, message=message, hint="do this"),))


def at(**target: Any) -> ModelFiles:
    """Return the model at another place."""
    return replace(FILES, target=replace(FILES.target, **target))


FOLDER = at(kind="folder", id="./name", revision=None, sha=None)


@pytest.mark.parametrize(
    ("files", "status", "message"),
    [
        (FILES, "pass", "read from the Hub at main"),
        (FOLDER, "pass", "read from a folder"),
        (at(kind="snapshot"), "pass", "read from a snapshot"),
        (with_problem("gated", "org/name is gated"), "fail", "org/name is gated"),
        (
            with_problem("renamed", "org/old is called org/name"),
            "warn",
            "org/old is called org/name",
        ),
    ],
)
def test_reachable(files: ModelFiles, status: str, message: str) -> None:
    """A gate fails it; another name is worth a warning."""
    found = check("reachable", files)
    assert told(found) == (status, message)
    assert found.hint == (None if status == "pass" else "do this")


@pytest.mark.parametrize(
    ("files", "status", "message", "hint"),
    [
        (FILES, "warn", f"main can move; it is {SHA} now", f"pin it: --revision {SHA}"),
        (at(revision=SHA), "pass", f"pinned to commit {SHA}", None),
        (at(revision="v1", sha=None), "warn", "v1 can move, and its commit is not known", None),
        (FOLDER, "skipped", "what is on this machine has no revision", None),
    ],
)
def test_pinned(files: ModelFiles, status: str, message: str, hint: str | None) -> None:
    """Only a whole commit stays what it is; a short one or a tag may mean something else."""
    found = check("pinned", files)
    assert (*told(found), found.hint) == (status, message, hint)


def test_complete() -> None:
    """What is missing fails, what is too many warns, and one file needs no index."""
    assert told(check("complete")) == ("pass", "2 tensors in 1 file")
    index = IndexInfo(
        path="model.safetensors.index.json", total_size=16_384, files={"model.safetensors": 2}
    )
    indexed = replace(FILES, index=index)
    assert told(check("complete", indexed)) == (
        "pass",
        "2 tensors in 1 file, as the index names them",
    )
    gone = with_problem("missing-shard", "shard 2 is missing")
    assert told(check("complete", gone)) == ("fail", "shard 2 is missing")
    spare = with_problem("unlisted-shard", "one file too many")
    assert told(check("complete", spare)) == ("warn", "one file too many")
    alone = replace(FILES, headers=(), tensors=(), weight_files=())
    assert told(check("complete", alone)) == ("skipped", "no headers of weights were read")


def test_safetensors() -> None:
    """Pickles alone fail; beside safetensors they need not be loaded."""
    assert told(check("safetensors")) == ("pass", "the weights are safetensors")
    both = with_files("pytorch_model.bin", "optimizer.pt")
    assert told(check("safetensors", both)) == (
        "pass",
        "the weights are safetensors; 2 pickles beside them need not be loaded",
    )
    bare = replace(with_problem("pickle-weights", "only pickled weights"), weight_files=())
    assert told(check("safetensors", bare)) == ("fail", "only pickled weights")
    gguf = replace(with_problem("gguf", "only GGUF files"), weight_files=())
    assert told(check("safetensors", gguf)) == ("skipped", "only GGUF files")


def test_remote_code() -> None:
    """Code that is needed fails; for a known type it is not needed."""
    assert told(check("remote-code")) == ("pass", "no code of its own")
    known = with_config(auto_map={"AutoConfig": "x.Y"})
    assert told(check("remote-code", known)) == ("pass", "code of its own is there and not needed")
    found = check("remote-code", with_config(auto_map={"AutoConfig": "x.Y"}, model_type="alien"))
    assert told(found) == ("fail", "the config names code of its own (auto_map)")


@pytest.mark.parametrize(
    ("license_", "allowed", "status", "message"),
    [
        ("apache-2.0", (), "pass", "apache-2.0"),
        ("other", (), "warn", "a license of its own"),
        (None, (), "warn", "no license is stated"),
        ("Apache-2.0", ("mit", "apache-2.0"), "pass", "Apache-2.0 is allowed"),
        ("llama3.1", ("mit",), "fail", "llama3.1 is not allowed"),
        (None, ("mit",), "fail", "no license is named"),
    ],
)
def test_license(license_: str | None, allowed: tuple[str, ...], status: str, message: str) -> None:
    """Stated is enough until somebody says which are allowed."""
    found = check("license", around=Surroundings(license=license_), allowed=allowed)
    assert told(found) == (status, message)


def test_a_license_text_states_a_license_and_names_none() -> None:
    """LICENSE is a license; which one it is nobody has read."""
    files = with_files("LICENSE.md")
    assert told(check("license", files)) == ("pass", "its text is in LICENSE.md")
    assert told(check("license", files, allowed=("mit",))) == ("fail", "no license is named")


def test_what_is_downloaded_is_the_weights_and_the_small_files() -> None:
    """Neither another format of the weights nor pictures are fetched by an engine."""
    files = with_files("pytorch_model.bin", "original/x.pth", "picture.png", "README.md")
    assert [path for path, _size, _sha in needed_files(files)] == [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
    ]


def test_disk() -> None:
    """18,084 bytes are needed: 500 + 16,584 + 1,000; what is cached is not fetched again."""
    room = Surroundings(free_bytes=18_084, cache_path="/c")
    found = check("disk", around=room)
    assert told(found) == ("pass", "room at /c")
    assert found.sizes == {"to fetch": 18_084, "free": 18_084}
    full = replace(room, free_bytes=18_083)
    assert told(check("disk", around=full)) == ("fail", "no room at /c")
    assert check("disk", around=replace(full, cached_bytes=1)).status is Status.PASS
    assert told(check("disk", FOLDER, room)) == ("skipped", "it is on this machine")
    unknown = ("skipped", "the size of the download is not known")
    assert told(check("disk", around=replace(room, free_bytes=None))) == unknown
    unsized = replace(FILES, files=(RepoFile(path="config.json"),))
    assert told(check("disk", unsized, room)) == unknown


def test_cached() -> None:
    """It never fails: it says what the disk check counts on."""
    for cached, message in ((0, "nothing is in the cache"), (84, "partly cached")):
        assert told(check("cached", around=Surroundings(cached_bytes=cached))) == ("pass", message)
    found = check("cached", around=Surroundings(cached_bytes=18_084))
    assert told(found) == ("pass", "wholly cached")
    assert found.sizes == {"in the cache": 18_084, "to fetch": 0}
    assert check("cached", FOLDER).status is Status.SKIPPED
    assert check("cached").status is Status.SKIPPED


def test_loadable() -> None:
    """VLLM loads plain weights; which formats llama.cpp loads is not known here."""
    assert told(check("loadable")) == ("skipped", "no engine was named")
    assert told(check("loadable", engine="vllm")) == ("pass", "vLLM loads unquantized weights")
    assert told(check("loadable", engine="llama.cpp")) == (
        "skipped",
        "which formats llama.cpp loads is not known to hfkv",
    )
    bare = replace(FILES, headers=(), tensors=(), weight_files=())
    assert told(check("loadable", bare, engine="vllm")) == ("skipped", "the weights are not known")
    header = (EXL2 / "model.safetensors.header").read_bytes()
    shard = parse_shard(header, file_size=None, path="model.safetensors")
    config = json.loads((EXL2 / "config.json").read_text(encoding="utf-8"))
    exl2 = replace(FILES, config=config, tensors=shard.groups, headers=(shard.info,))
    found = check("loadable", exl2, engine="vllm")
    assert told(found) == ("fail", "vLLM does not load exl2 weights")


def on(*gpus: str, **how: Any) -> dict[str, Any]:
    """Return a workload on GPUs with nothing but weights and cache on them."""
    choices = tuple(choice for gpu in gpus for choice in parse_gpu(gpu))
    return {"deployment": Deployment(gpus=choices, overhead_bytes=0, **how)}


def test_fits() -> None:
    """512 bytes a token: 1 GiB x 0.9 holds 4,096 tokens x 400 sequences, not x 500."""
    assert told(check("fits")) == ("skipped", "no GPU was named")
    found = check("fits", context=4096, sequences=400, **on("1gib"))
    assert told(found) == ("pass", "1 GiB GPU holds 4,096 tokens × 400 sequences")
    free = GIB * 9 // 10 - 16_384 - 400 * 4096 * 512
    assert found.sizes == {"free": free}
    short = check("fits", context=4096, sequences=500, **on("1gib"))
    assert told(short) == ("fail", "1 GiB GPU does not hold 4,096 tokens × 500 sequences")
    assert short.sizes == {"short": 500 * 4096 * 512 + 16_384 - GIB * 9 // 10}
    assert short.hint is not None
    assert short.hint.startswith("this would fit: --")


def test_one_gpu_that_fits_is_enough() -> None:
    """The best of them is told."""
    found = check("fits", context=4096, sequences=500, **on("1gib", "2gib", "1gib:2"))
    assert found.status is Status.PASS
    assert "2 GiB GPU" in found.message


def test_a_fit_that_hangs_on_an_estimate_is_a_warning() -> None:
    """With the overhead estimated there is a number of sequences that fits only perhaps."""
    gpu = Deployment(gpus=parse_gpu("8gib"))
    ends = [
        check("fits", context=4096, sequences=number, deployment=gpu).status
        for number in range(2000, 4001, 100)
    ]
    assert list(dict.fromkeys(ends)) == [Status.PASS, Status.WARN, Status.FAIL]


def test_what_is_not_known_does_not_fit_for_sure() -> None:
    """Without weights it is a warning; without a cache nobody can say."""
    bare = replace(FILES, headers=(), tensors=(), weight_files=())
    assert told(check("fits", bare, context=10, **on("1gib"))) == (
        "warn",
        "1 GiB GPU holds the cache; the weights are not known",
    )
    alien = with_config(model_type="alien", num_hidden_layers=None)
    assert told(check("fits", alien, context=10, **on("1gib"))) == (
        "fail",
        "whether it fits 1 GiB GPU is not known: the size of the cache is not",
    )


@pytest.mark.parametrize(
    ("keys", "work", "status", "message"),
    [
        ({}, {}, "pass", "its maximum of 4,096 tokens"),
        ({}, {"context": 1000}, "pass", "1,000 of at most 4,096 tokens"),
        ({}, {"seq_lens": (9, 5000)}, "fail", "5,000 tokens are more than the model's 4,096"),
        ({}, {"context": 4097}, "fail", "4,097 tokens are more than the model's 4,096"),
        (
            {
                "rope_scaling": {
                    "rope_type": "yarn",
                    "factor": 4.0,
                    "original_max_position_embeddings": 1024,
                }
            },
            {"context": 4096},
            "pass",
            "4,096 of at most 4,096 tokens; stretched from 1,024 by yarn rope scaling",
        ),
        (
            {"rope_scaling": {"type": "linear", "factor": 2.0}},
            {},
            "pass",
            "its maximum of 4,096 tokens; stretched by linear rope scaling",
        ),
        ({"rope_scaling": {"rope_type": "default"}}, {}, "pass", "its maximum of 4,096 tokens"),
        ({"rope_scaling": [1]}, {}, "pass", "its maximum of 4,096 tokens"),
    ],
)
def test_context(keys: dict[str, Any], work: dict[str, Any], status: str, message: str) -> None:
    """Beyond the maximum fails; how the maximum is reached is said."""
    assert told(check("context", with_config(**keys), **work)) == (status, message)


def test_a_model_without_a_maximum_is_a_warning() -> None:
    """Nothing then says what is too long."""
    mamba = with_config(
        model_type="mamba", max_position_embeddings=None, state_size=16, conv_kernel=4
    )
    assert told(check("context", mamba)) == ("warn", "the config states no maximum context")


@pytest.mark.parametrize(
    "name",
    [
        "tokenizer.json",
        "tokenizer.model",
        "qwen.tiktoken",
        "vocab.txt",
        "spiece.model",
        "tekken.json",
    ],
)
def test_a_tokenizer_has_many_names(name: str) -> None:
    """What real repositories hold instead of tokenizer.json."""
    files = replace(FILES, files=(RepoFile(path=name, size=1),))
    assert told(check("tokenizer", files)) == ("pass", name)


def test_tokenizer() -> None:
    """None fails, no chat template warns, and one file alone says nothing."""
    some, none = Surroundings(chat_template=True), Surroundings(chat_template=False)
    assert told(check("tokenizer", around=some)) == ("pass", "tokenizer.json, with a chat template")
    assert told(check("tokenizer", around=none)) == ("warn", "tokenizer.json, and no chat template")
    bare = replace(FILES, files=(RepoFile(path="sub/tokenizer.json"),))
    assert told(check("tokenizer", bare)) == ("fail", "there is no tokenizer")
    assert told(check("tokenizer", at(kind="file"))) == ("skipped", "only one file was read")


def test_agreement() -> None:
    """Confidence in four values: agreed, not compared, a guess, a contradiction."""
    bare = replace(FILES, headers=(), tensors=(), weight_files=())
    skipped = ("skipped", "no tensors were compared with the config")
    assert told(check("agreement", bare)) == skipped
    alien = replace(bare, config={**CONFIG, "model_type": "alien"})
    found = check("agreement", alien)
    assert found.status is Status.WARN
    assert "model_type alien is unknown" in found.message
    broken = check("agreement", replace(bare, config={"model_type": "alien"}))
    assert broken.status is Status.FAIL


@pytest.mark.parametrize(
    ("error", "failed"),
    [
        (UnreadableError("it is gone", hint="look"), "reachable"),
        (MalformedError("it is broken", hint="look"), "complete"),
        (UnsupportedError("it is a pipeline", hint="look"), "safetensors"),
        (HfkvError("something else", hint="look"), "reachable"),
    ],
)
def test_a_failure_to_read_is_a_failed_check(error: HfkvError, failed: str) -> None:
    """One check fails with its sentence, the others were not looked at."""
    case = Case(files=None, report=None, surroundings=Surroundings(), error=error)
    ends = {one.id: one for one in run_checks(case)}
    assert told(ends[failed]) == ("fail", error.message)
    assert ends[failed].hint == "look"
    others = {one.status for name, one in ends.items() if name not in (failed, "reachable")}
    assert others == {Status.SKIPPED}
    assert told(ends["context"]) == ("skipped", f"not looked at: {failed} failed")


def test_a_skipped_check_is_not_run() -> None:
    """It keeps its place and says that it was asked for."""
    case = Case(files=FILES, report=analyze(FILES), surroundings=Surroundings())
    found = {one.id: one for one in run_checks(case, skip=known_ids(["license", "license"]))}
    assert list(found) == list(CHECKS)
    assert told(found["license"]) == ("skipped", "as asked")


def test_an_unknown_check_is_refused() -> None:
    """The hint names all that there are."""
    with pytest.raises(UsageError) as caught:
        known_ids(["fits", "nix"])
    assert caught.value.message == "there is no check 'nix'"
    assert caught.value.hint == "known: " + ", ".join(CHECKS)


def test_warnings_fail_only_when_asked() -> None:
    """`--fail-on warn` makes a warning as bad as a failure."""
    case = Case(files=FILES, report=analyze(FILES), surroundings=Surroundings())
    checks = (
        Check(id="a", status=Status.PASS, message="m"),
        Check(id="b", status=Status.WARN, message="m"),
    )
    lenient = Verdicts(target="x", case=case, checks=checks)
    assert lenient.passed
    strict = replace(lenient, fail_on=Status.WARN)
    assert not strict.passed
    assert [one.id for one in strict.failed] == ["b"]
    assert strict.name == "org/name"


def test_every_check_has_a_test_of_its_name() -> None:
    """A new check comes with one."""
    assert all(f"test_{name.replace('-', '_')}" in globals() for name in CHECKS)
