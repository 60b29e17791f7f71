"""How much of a file is read: as much as its limit, and not a byte more."""

from __future__ import annotations

from pathlib import Path

import pytest

from acp_bridge.config import profiles
from acp_bridge.errors import ConfigError
from acp_bridge.gateway import openclaw_config
from acp_bridge.gateway.secret_files import OTHERS_MAY_READ, read_linked


@pytest.mark.parametrize(
    "limit", [profiles._MAX_BYTES, openclaw_config._MAX_BYTES], ids=["profiles", "openclaw.json"]
)
def test_a_configuration_may_be_as_large_as_its_limit_and_no_larger(
    limit: int, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * limit)
    path.chmod(0o600)
    assert len(read_linked(path, "it", forbidden=OTHERS_MAY_READ, limit=limit)) == limit

    path.write_bytes(b"x" * (limit + 1))
    with pytest.raises(ConfigError, match=f"is larger than {limit // 1024} KiB"):
        read_linked(path, "it", forbidden=OTHERS_MAY_READ, limit=limit)


def test_what_has_no_end_is_read_to_the_limit_alone() -> None:
    with pytest.raises(ConfigError, match="is not a regular file"):
        read_linked(Path("/dev/zero"), "it", forbidden=OTHERS_MAY_READ, limit=16)
