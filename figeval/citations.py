"""Publications to cite, as task files, `sources.yaml` and the tables of methods describe them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, model_serializer


class Citation(BaseModel):
    """A publication. `str` gives one line for people, and so does its JSON."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["article", "book", "inproceedings", "mastersthesis", "misc"] = Field(
        default="inproceedings", description="Kind of entry in BibTeX."
    )
    authors: tuple[Annotated[str, Field(pattern=r"^[^,]+(, [^,]+)?$")], ...] = Field(
        default=(),
        description="Each as `Surname, Given names`; an organisation is a name without a comma, and `others` are those "
        "who are not named.",
    )
    year: PositiveInt | None = Field(default=None, description="Year of publication.")
    title: str = Field(min_length=1, description="Title, in its own spelling.")
    venue: str = Field(default="", description="Conference, journal, publisher of a book, or school of a thesis.")
    volume: PositiveInt | None = Field(default=None, description="Volume of a journal.")
    url: Annotated[str, Field(pattern=r"^(https?://[!-\[\]^-z|~]+)?$")] = Field(
        default="", description="Address of the publication."
    )

    def __str__(self) -> str:
        *names, last = [" ".join(reversed(author.split(", "))) for author in self.authors] or [""]
        authors = " and ".join(filter(None, (", ".join(names), last)))
        year = f" ({self.year})" if self.year else ""
        venue = f"{self.venue} {self.volume}" if self.volume else self.venue
        if self.type == "mastersthesis":
            venue = f"Master's thesis, {venue}"
        publication = ", ".join(filter(None, (venue, self.url)))
        head = f"{authors}{year}".strip()
        return f"{head}{': ' * bool(head)}{self.title}.{' ' * bool(publication)}{publication}"

    @model_serializer
    def _as_text(self) -> str:
        return str(self)
