"""`publish`: bring a release to the Hugging Face hub, or say what would be sent."""

from __future__ import annotations

from pathlib import Path

from panendofm.backbone.command_config import PublishConfig
from panendofm.backbone.release.verify import verify_release
from panendofm.records.release import ReleaseFolder
from panendofm.runtime.console import say
from panendofm.runtime.errors import UserError


def publish_release(release: Path, config: PublishConfig) -> None:
    """Only what `verify` finds intact; nothing is sent unless `upload` asks for it."""
    folder = ReleaseFolder(release)
    verify_release(release)
    info = folder.read()
    if info.license is None:
        raise UserError(f"{folder.info}: no license is stated; export it again with license=…, such as apache-2.0.")
    own = [folder.checksums, *([folder.signature] if folder.signature.is_file() else [])]
    files = [*(folder.path / name for name in sorted(folder.read_checksums())), *own]
    megabytes = sum(file.stat().st_size for file in files) / 2**20
    sent = f"{len(files)} files, {megabytes:.1f} MB, to {config.repository}"
    if not config.upload:
        say("\n".join(file.relative_to(folder.path).as_posix() for file in files))
        say(f"would send {sent}; nothing was sent. To send it, say upload=true.")
        return
    address = _upload(folder, [file.relative_to(folder.path).as_posix() for file in files], config)
    say(f"sent {sent}: {address}")


def _upload(folder: ReleaseFolder, names: list[str], config: PublishConfig) -> str:
    """One commit with these files alone. The token is that of `hf auth login`, or HF_TOKEN."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalTokenNotFoundError

    api = HfApi()
    # Of whichever HTTP library the hub's client is built on.
    unreachable = tuple(base for base in HfHubHTTPError.__bases__ if issubclass(base, Exception))
    try:
        api.create_repo(config.repository, private=config.private, exist_ok=True, token=True)
        commit = api.upload_folder(
            repo_id=config.repository,
            folder_path=folder.path,
            allow_patterns=names,
            commit_message=config.message,
            token=True,
        )
    except LocalTokenNotFoundError as error:
        raise UserError("the hub wants a token: log in with 'hf auth login', or set HF_TOKEN.") from error
    except HFValidationError as error:
        raise UserError(f"repository={config.repository} is no name of a repository; write OWNER/NAME.") from error
    except HfHubHTTPError as error:
        said = error.server_message or f"status {error.response.status_code}"
        raise UserError(f"the hub refused {config.repository}: {said}") from error
    except unreachable as error:
        raise UserError(f"the hub can't be reached ({type(error).__name__}); try again later.") from error
    return str(commit.commit_url)
