"""Who may read a repository on the Hub, and what is said to who may not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hub_models import (
    CONFIG,
    GATED,
    ONE,
    SHARDED,
    codes,
)
from hub_server import FINE_GRAINED, GRANTED, VALID, HubServer

from hfkv.cli import main
from hfkv.errors import (
    HfkvError,
    UnreadableError,
)
from hfkv.sources import load

PUBLIC = {"safetensors": {"parameters": {"BF16": 64}, "total": 64}, "config": {"model_type": "x"}}


def test_token_goes_to_the_hub_alone(
    hub_server: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a granted token a gated repository is read; the CDN never sees the token."""
    monkeypatch.setenv("HF_TOKEN", GRANTED)
    hub_server.add("org/gated", GATED, gated="manual")
    assert load("org/gated").config == CONFIG
    tokens = {(seen.side, seen.token) for seen in hub_server.seen}
    assert tokens == {("hub", f"Bearer {GRANTED}"), ("cdn", None)}


def test_token_that_is_said_back_is_not_repeated(
    hub_server: HubServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """The tokens of a mirror need not look like hf_…; 290 letters let a cut fall into it."""
    secret = "AKCp8-of-a-mirror"
    body = json.dumps({"error": f"{'x' * 290} {secret}", "id": secret, "sha": secret}).encode()
    for status in (200, 400, 403, 418):
        for headers in ({}, {"X-Error-Message": f"{'x' * 290} {secret}"}):
            hub_server.faults.clear()
            hub_server.fault("/revision/", "status", status=status, body=body, headers=headers)
            assert main(["inspect", "org/one", "--token", secret, "--json", "-v"]) in {2, 3, 4}
            assert secret[:8] not in str(capsys.readouterr())


HINT = "accept its license at {0}/org/gated, then run `hf auth login` or set HF_TOKEN"


WAYS_IN: dict[str | None, tuple[str, str]] = {
    None: (
        "org/gated is gated",
        HINT + "; or give its config.json with --config FILE",
    ),
    VALID: (
        "org/gated is gated, and the account of the token has no access to it",
        "ask for it at {0}/org/gated; or give its config.json with --config FILE",
    ),
    FINE_GRAINED: (
        "the token from --token is fine-grained and excludes gated repositories",
        "allow them at https://huggingface.co/settings/tokens",
    ),
}


@pytest.mark.parametrize("token", WAYS_IN)
def test_gated_without_access(hub_server: HubServer, token: str | None) -> None:
    """The public metadata is kept for the weights, and the hint says how to get in."""
    hub_server.add("org/gated", GATED, gated="auto", info=PUBLIC)
    files = load("org/gated", token=token)
    message, hint = WAYS_IN[token]
    assert files.hub == {"gated": "auto", **PUBLIC}
    assert files.config is None
    assert files.weight_files == ("model.safetensors",)
    assert files.files[1].size == len(ONE)
    assert files.tensors == ()
    assert [(p.code, p.message, p.hint) for p in files.problems] == [
        ("gated", message, hint.format(hub_server.endpoint))
    ]


def test_gated_and_the_token_is_not_known(hub_server: HubServer) -> None:
    """The Hub answers 401 for a token it does not know, and 403 for one without access."""
    hub_server.add("org/gated", GATED, gated="auto")
    headers = {"X-Error-Code": "GatedRepo"}
    hub_server.fault("/resolve/", "status", status=401, headers=headers)
    assert [(p.message, p.hint) for p in load("org/gated", token=VALID).problems] == [
        (
            "org/gated is gated, and the token from --token was not accepted",
            "it may have expired or been revoked: run `hf auth login`",
        )
    ]


def test_gated_with_a_config_from_elsewhere(hub_server: HubServer, tmp_path: Path) -> None:
    """`--config FILE` gives a gated model a cache size, its weights from the metadata."""
    hub_server.add("org/gated", GATED, gated="auto", info=PUBLIC)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG))
    files = load("org/gated", config_path=str(path))
    assert files.config == CONFIG
    assert files.hub["safetensors"] == PUBLIC["safetensors"]
    assert codes(files) == ["gated"]


def test_rejected_token_on_a_public_repository(hub_server: HubServer) -> None:
    """The Hub refuses a bad token even for what is public; it is then read without one."""
    hub_server.add("org/one", GATED)
    files = load("org/one", token="hf_revoked")
    assert files.config == CONFIG
    assert [(p.code, p.message, p.hint) for p in files.problems] == [
        (
            "token-rejected",
            "the Hub rejects the token from --token",
            "it may have expired or been revoked: unset it, or run `hf auth login`",
        )
    ]


REFUSALS: dict[str, tuple[dict[str, Any], str, type[HfkvError], str]] = {
    "nobody, missing or private": (
        {},
        "org/none is not on {host}, or it is private",
        UnreadableError,
        "not-found",
    ),
    "known, missing or private": (
        {"token": VALID},
        "org/none is not on {host}, or the token has no access to it",
        UnreadableError,
        "not-found",
    ),
    "bad token, missing or private": (
        {"token": "hf_revoked"},
        "the Hub rejects the token from --token",
        UnreadableError,
        "token-rejected",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refused_repository(hub_server: HubServer, case: str) -> None:
    """Missing and private look alike from outside; what to do depends on the token."""
    given, message, kind, code = REFUSALS[case]
    host = hub_server.endpoint.removeprefix("http://")
    with pytest.raises(kind) as caught:
        load("org/none", **given)
    assert caught.value.message == message.format(host=host)
    assert caught.value.code == code
    hub_server.add("org/none", GATED, private=True)
    with pytest.raises(kind) as caught:
        load("org/none", **given)
    assert caught.value.message == message.format(host=host)


def test_private_repository_with_its_token(hub_server: HubServer) -> None:
    """A private repository is read like any other by who may."""
    hub_server.add("org/own", GATED, private=True)
    assert load("org/own", token=GRANTED).config == CONFIG


def test_unknown_revision(hub_server: HubServer) -> None:
    """The sentence names the revision and where the existing ones are listed."""
    hub_server.add("org/one", GATED)
    with pytest.raises(UnreadableError) as caught:
        load("org/one@v9")
    assert caught.value.message == "org/one has no revision 'v9'"
    assert caught.value.hint == (
        f"its branches and tags are listed at {hub_server.endpoint}/org/one/tree/main"
    )


def test_unknown_file(hub_server: HubServer) -> None:
    """A file that was named and is not there."""
    hub_server.add("org/one", GATED)
    with pytest.raises(UnreadableError) as caught:
        load("org/one:other.safetensors")
    assert caught.value.message == "org/one has no file other.safetensors at revision main"


def test_disabled_repository(hub_server: HubServer) -> None:
    """A repository that was taken down."""
    hub_server.add("org/one", GATED, disabled=True)
    with pytest.raises(UnreadableError) as caught:
        load("org/one")
    assert caught.value.message == "org/one was disabled by the Hub or its owner"


def test_gated_and_nothing_to_see(hub_server: HubServer) -> None:
    """Where the public metadata holds nothing of a model, the gate is the answer."""
    hub_server.add("org/gated", {"config.json": CONFIG, "README.md": b"x"}, gated="manual")
    with pytest.raises(UnreadableError) as caught:
        load("org/gated")
    assert (caught.value.code, caught.value.message) == ("gated", "org/gated is gated")


def test_behind_a_closed_gate_nothing_more_is_asked(hub_server: HubServer) -> None:
    """The first refusal tells it all: no side file and no shard is asked for after it."""
    hub_server.add("org/gated-400B", {**SHARDED, "hf_quant_config.json": {}}, gated="auto")
    load("org/gated-400B")
    early = {
        "/api/models/org/gated-400B/revision/main",
        "/api/models/org/gated-400B/safetensors-metadata/model.safetensors.index.json",
        "/org/gated-400B/resolve/main/config.json",
        "/org/gated-400B/resolve/main/model.safetensors",  # asked before anything is known
    }
    assert set(hub_server.paths()) <= early


def test_gated_report(hub_server: HubServer, capsys: pytest.CaptureFixture[str]) -> None:
    """Exact weights and what the Hub shows of the config, exit 5, and how to get in."""
    public = {
        "safetensors": {"parameters": {"BF16": 30, "F32": 2}, "total": 32},
        "config": {"architectures": ["LlamaForCausalLM"], "model_type": "llama"},
    }
    hub_server.add("org/gated", GATED, gated="auto", info=public)
    assert main(["inspect", "org/gated", "--json"]) == 5
    out, err = capsys.readouterr()
    report = json.loads(out)
    assert report["weights"]["bytes"] == 30 * 2 + 2 * 4
    assert report["weights"]["parameters"] == 32
    assert report["weights"]["by_dtype"]["F32"]["bytes"] == 8
    assert report["weights"]["source"] == "hub-api"
    assert report["kv_cache"] is None
    assert report["architecture"]["class_name"] == "LlamaForCausalLM"
    assert report["architecture"]["model_type"] == "llama"
    for key in ("kind", "attention", "mtp_layers"):
        assert report["architecture"][key] is None
    assert report["weights"]["tied_embeddings"] is None
    assert [warning["code"] for warning in report["warnings"]] == ["architecture-unknown", "gated"]
    assert err == (
        "hfkv: error: the cache of org/gated cannot be sized: its config.json is behind a gate\n"
        f"hint: {HINT.format(hub_server.endpoint)}; or give its config.json with --config FILE\n"
    )


def test_gated_report_and_gpus(hub_server: HubServer, capsys: pytest.CaptureFixture[str]) -> None:
    """8 x 10^9 bfloat16: too much for 0.9 of 8 GB by 8.8 GB, and not known of 24 and 2 x 10 GB."""
    public = {"safetensors": {"parameters": {"BF16": 8_000_000_000}}, "config": {}}
    hub_server.add("org/gated", GATED, gated="auto", info=public)
    asked = [word for gpu in ("8gb", "24gb", "10gb:2") for word in ("-g", gpu)]
    assert main(["inspect", "org/gated", "--json", *asked]) == 5
    report = json.loads(capsys.readouterr().out)
    warnings = {warning["code"]: warning["message"] for warning in report["warnings"]}
    assert warnings["weights-too-large"] == (
        "does not fit 8 GB GPU: the weights alone need 8,800,000,000 bytes more"
    )
    assert warnings["fit-unknown"] == (
        "whether it fits 24 GB GPU and 2 × 10 GB GPU is not known: the size of the cache is not"
    )
    assert report["fit"] == []


def test_what_is_offloaded_does_not_make_weights_too_large(
    hub_server: HubServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of 16 GB three quarters stay in host memory: 4 GB are less than 0.9 of 8 GB."""
    public = {"safetensors": {"parameters": {"BF16": 8_000_000_000}}, "config": {}}
    hub_server.add("org/gated", GATED, gated="auto", info=public)
    assert main(["inspect", "org/gated", "--json", "-g", "8gb", "--offload", "weights=75%"]) == 5
    codes = {warning["code"] for warning in json.loads(capsys.readouterr().out)["warnings"]}
    assert "fit-unknown" in codes
    assert "weights-too-large" not in codes


def test_only_the_sizes_of_files_are_known(
    hub_server: HubServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """The parameters are not, and it is no packing that hides them; a check says what it can."""
    hub_server.add("org/bare", {**GATED, "x.bin": b"x" * 9}, gated="auto", info={"config": {}})
    assert main(["inspect", "org/bare", "--json"]) == 5
    report = json.loads(capsys.readouterr().out)
    warnings = {warning["code"]: warning["message"] for warning in report["warnings"]}
    assert (report["weights"]["source"], report["weights"]["parameters"]) == ("file-sizes", None)
    assert warnings["parameters-unknown"] == (
        "no header was read: only the sizes of the files are known, not the parameters"
    )
    main(["check", "org/bare", "-g", "24gb", "--json"])
    checks = {one["id"]: one for one in json.loads(capsys.readouterr().out)["checks"]}
    assert checks["fits"]["message"] == (
        "whether it fits 24 GB GPU is not known: the size of the cache is not"
    )
    assert checks["agreement"]["message"] == "its config.json is behind a gate"
    assert "--config FILE" in checks["agreement"]["hint"]


def test_the_hub_names_the_format_of_a_gated_model(
    hub_server: HubServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A config that names no dtype is counted in the one that most weights are stored in."""
    public = {"safetensors": {"parameters": {"F16": 30, "F32": 2, "I64": 900}}}
    hub_server.add("org/gated", GATED, gated="auto", info=public)
    path = tmp_path / "own.json"
    path.write_text(json.dumps({**CONFIG, "hidden_size": 64, "num_attention_heads": 4}))
    assert main(["inspect", "org/gated", "--config", str(path), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["kv_cache"]["dtype"] == "float16"
    assert "dtype-assumed" not in {warning["code"] for warning in report["warnings"]}
    assert report["sources"]["hidden_size"] == f"{path}: hidden_size"


def test_gated_report_with_a_config_from_elsewhere(
    hub_server: HubServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With --config FILE the cache is sized as well, and that is a success."""
    hub_server.add("org/gated", GATED, gated="auto", info=PUBLIC)
    config = {
        "model_type": "llama",
        "hidden_size": 64,
        "num_attention_heads": 4,
        "num_hidden_layers": 2,
        "max_position_embeddings": 128,
    }
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    assert main(["inspect", "org/gated", "--config", str(path), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    # 2 layers x 2 (K and V) x 4 heads x 16 wide x 2 bytes x 128 tokens
    assert report["kv_cache"]["bytes"] == 65_536
    assert report["weights"]["bytes"] == 128


def test_verbose_shows_no_token(hub_server: HubServer, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither --verbose nor a failure repeats what --token was given."""
    hub_server.add("org/gated", GATED, gated="auto", info=PUBLIC)
    for token in (GRANTED, VALID, FINE_GRAINED, "hf_revoked"):
        main(["inspect", "org/gated", "--token", token, "--verbose"])
        main(["inspect", "org/none", "--token", token, "--verbose"])
        assert token not in "".join(capsys.readouterr())
