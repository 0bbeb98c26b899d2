"""Run what .ci/run runs, a piece at a time: nox -s tests, lint, types, packaging; check for all."""

from __future__ import annotations

import nox

nox.options.sessions = ["tests", "lint", "types", "packaging"]


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests; arguments after -- go to pytest."""
    session.install("-e", ".[dev]")
    session.run("pytest", *session.posargs)


@nox.session
def coverage(session: nox.Session) -> None:
    """Run the tests and report branch coverage."""
    session.install("-e", ".[dev]")
    session.run("pytest", "--cov", "--cov-report=term-missing:skip-covered", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style and formatting."""
    session.install("ruff>=0.8")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """Check types of the package, the tests and the benchmarks."""
    session.install("-e", ".[dev]")
    session.run("mypy")


@nox.session
def packaging(session: nox.Session) -> None:
    """Install the wheel beside each huggingface_hub, and as an extension of `hf`."""
    session.run("python", "benchmarks/installs.py", *session.posargs)


@nox.session(venv_backend="none")
def check(session: nox.Session) -> None:
    """Run the gate itself, in the fresh environment that it makes."""
    session.run("bash", ".ci/run", external=True)
