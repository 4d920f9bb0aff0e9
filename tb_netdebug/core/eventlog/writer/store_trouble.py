"""Messages about an object store that does not work: what is wrong, and what to do."""

from __future__ import annotations

from tb_netdebug.core.eventlog.writer.spool import Spool

# By the scheme of the URL: the driver to install, and how to pass credentials and test them.
_DRIVERS = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "az": "adlfs", "abfs": "adlfs"}
_CREDENTIALS = {
    "s3": "as the aws command uses them (a role, AWS_PROFILE, or AWS_ACCESS_KEY_ID and "
    "AWS_SECRET_ACCESS_KEY); `aws s3 ls {url}/` shows whether they are right",
    "gs": "as the gcloud command uses them (a service account, GOOGLE_APPLICATION_CREDENTIALS, or `gcloud "
    "auth application-default login`); `gcloud storage ls {url}/` shows whether they are right",
}
_OF_CREDENTIALS = ("credential", "accesskey", "signature", "token", "forbidden", "denied", "unauthorized")


def trouble(error: Exception, spool: Spool) -> str:
    """Return the message for an error that the store's driver has raised."""
    told = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    return (
        f"NetDebug cannot send what it records to {spool.url}: {told}. The training goes on. The records "
        f"wait in {spool.folder}, and are sent as soon as the store accepts them. "
        f"{next_step(error, spool.url)}"
    )


def next_step(error: Exception, url: str) -> str:
    scheme = url.partition("://")[0].lower()
    kind = {"s3a": "s3", "gcs": "gs"}.get(scheme, scheme)
    text = f"{type(error).__name__} {error}".lower().replace(" ", "")
    if isinstance(error, ImportError | ValueError):
        driver = _DRIVERS.get(scheme)
        return f"Install its driver: pip install {driver or 'the fsspec driver of this store'}."
    if isinstance(error, PermissionError) or any(word in text for word in _OF_CREDENTIALS):
        how = _CREDENTIALS.get(kind, "as its fsspec driver expects them").format(url=url)
        return f"Give credentials that can write there, {how}."
    if isinstance(error, FileNotFoundError):
        return "Create the bucket, or give another one."
    return "Check that this machine can reach the store."


def left_over(count: int, spool: Spool) -> str:
    """Return the message at the end of a run whose files the store has not all taken."""
    files = "1 file" if count == 1 else f"{count} files"
    return (
        f"NetDebug: {spool.url} did not accept {files} of this run in time. They are in {spool.folder}; the "
        "next run on this machine that records to the same place sends them. Or copy them there unchanged."
    )
