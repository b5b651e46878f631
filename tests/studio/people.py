"""A studio for tests, and the browsers of a custodian and an analyst in front of it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from fastapi.testclient import TestClient

from sfumato.flow.request import Request, carry_out
from sfumato.studio.server import make_app
from sfumato.studio.sessions import ANALYST, CUSTODIAN, Sessions
from sfumato.studio.settings import Settings

ADDRESS = "http://127.0.0.1:8765"
TINY = {"features": "64", "steps": "12", "batch": "4", "latent": "4", "width": "8"}


def settings_in(home: Path, **changes) -> Settings:
    for name in ("releases", "data", "state"):
        (home / name).mkdir(exist_ok=True)
    made = {"ledger": str(home / "ledger.sqlite"), "roots": ((home / "data").resolve(),), "device": "cpu"} | changes
    return Settings((home / "releases").resolve(), (home / "state").resolve(), **made)


class Browser:
    """A client that follows links and fills in forms, with the words that its pages carry."""

    def __init__(self, app, sessions: Sessions, role: str | None) -> None:
        self.client = TestClient(app, base_url=ADDRESS, raise_server_exceptions=True)
        self.csrf = ""
        if role:
            assert self.client.get("/enter", params={"token": sessions.token(role)}).status_code == 200
            self.csrf = re.search(r'name="csrf" value="(\w+)"', self.client.get("/").text)[1]

    def get(self, path: str, **more):
        return self.client.get(path, **more)

    def post(self, path: str, data=None, headers=None, **more):
        form = {"csrf": self.csrf} | (data or {})
        return self.client.post(path, data=form, headers={"origin": ADDRESS} | (headers or {}), **more)


def opened(settings: Settings, **options):
    """An application with a custodian, an analyst, and somebody without a link."""
    sessions = Sessions()
    app = make_app(settings, sessions, work=False, **options)
    people = {role or "nobody": Browser(app, sessions, role) for role in (CUSTODIAN, ANALYST, None)}
    return app, people


def scans(folder: Path, n: int = 120, name: str = "scans.npz") -> Path:
    images = np.random.default_rng(0).integers(0, 256, (n, 8, 8), dtype=np.uint8)
    np.savez(folder / name, images=images, labels=np.arange(n) % 3)
    return folder / name


def tiny_release(settings: Settings, name: str = "first", epsilon: float = 2.0) -> Path:
    asked = Request(
        data="digits",
        method="dp-merf",
        epsilon=epsilon,
        settings=TINY,
        count=40,
        out=str(settings.folder / name),
        device="cpu",
    )
    carry_out(asked)
    return settings.folder / name
