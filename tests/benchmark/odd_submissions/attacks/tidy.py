"""An honest attack that uses its temporary folder as Python programs do."""

import json
import shutil
import tempfile
import threading
from pathlib import Path

from benchmark.spec import Attack, Recovery


class Tidy(Attack):
    name = "tidy"
    summary = "Makes folders and files in its temporary directory, and removes them."

    def recover(self, observation):
        with tempfile.TemporaryDirectory() as folder:
            deep = Path(folder) / "a" / "b"
            deep.mkdir(parents=True)
            (deep / "file").write_text("x")
            shutil.copy(deep / "file", deep / "copy")
            (deep / "copy").rename(deep.parent / "moved")
            shutil.copytree(deep, Path(folder) / "tree")
            found = sorted(path.name for path in Path(folder).rglob("*"))
        with tempfile.NamedTemporaryFile("w") as stream:
            json.dump(found, stream)
        thread = threading.Thread(target=found.append, args=("thread",))
        thread.start()
        thread.join()
        gone = not Path(folder).exists()
        return Recovery(token_types=frozenset({5}), note=json.dumps([*found, gone]))
