"""Files that appear whole or not at all."""
import os


def write_whole(path: str, data: bytes) -> None:
    """The file has its name when all of it is on the disk; what had the name before is there until then. OSError."""
    temporary = f"{path}.{os.getpid()}.{os.urandom(4).hex()}.tmp"
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        if isinstance(error, OSError) and error.filename == temporary:
            error.filename = path       # which the caller knows
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise
