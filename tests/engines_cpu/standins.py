"""Stand-ins for the packages that SGLang imports for GPUs and pictures, and does not use for a text model on a CPU.

``python standins.py`` in SGLang's environment writes them there. Good for an integration test with a tiny checkpoint,
and for nothing else.
"""

import importlib.abc
import importlib.machinery
import sys
import types

MODULES = ("sgl_kernel", "torchvision")
PACKAGES = {"torchvision": "0.28.0", "torchaudio": "2.11.0", "torchcodec": "0.17.0"}  # as far as metadata goes


class AnyClass(type):
    """A class whose every attribute is a name."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return f"{cls.__name__}.{name}"


class AnyModule(types.ModuleType):
    """A module whose every attribute is a class that can be called with anything."""

    __path__ = ()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        made = AnyClass(name, (), {"__init__": lambda *_, **__: None, "__call__": lambda *_, **__: None})
        setattr(self, name, made)
        return made


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in MODULES:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return AnyModule(spec.name)

    def exec_module(self, module):
        pass


def write_into_this_environment():
    import sysconfig
    from pathlib import Path

    site = Path(sysconfig.get_path("purelib"))
    (site / "sglang_standins.py").write_text(Path(__file__).read_text())
    (site / "sglang_standins.pth").write_text("import sglang_standins\n")
    for name, version in PACKAGES.items():
        folder = site / f"{name}-{version}.dist-info"
        folder.mkdir(exist_ok=True)
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        (folder / "RECORD").write_text("")


if __name__ == "__main__":
    write_into_this_environment()
else:
    sys.meta_path.append(Finder())
