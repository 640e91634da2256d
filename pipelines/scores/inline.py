"""Pages for people, each in one file that loads nothing: templates, and pictures as data URIs."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from importlib.resources import files

import cv2
from jinja2 import DictLoader, Environment, StrictUndefined

from data_prep.files.images import encode_picture
from pipelines.scores.pictures import Picture

_JPEG_QUALITY = 85


def page_environment(templates: Mapping[str, str]) -> Environment:
    """Return what renders pages: everything is escaped, and a name that is not given is an error.

    Args:
        templates: Package that holds each template or style sheet, by the name of its file.
    """
    texts = {name: files(package).joinpath(name).read_text("utf-8") for name, package in templates.items()}
    return Environment(
        loader=DictLoader(texts),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def svg_uri(svg: str) -> str:
    """Return the text of an SVG picture as a data URI."""
    return _data_uri(svg.encode(), "image/svg+xml")


def jpeg_uri(picture: Picture, quality: int = _JPEG_QUALITY) -> str:
    """Return a picture as the data URI of a JPEG file, which loses a little."""
    return _encoded(picture, ".jpg", "image/jpeg", [cv2.IMWRITE_JPEG_QUALITY, quality])


def png_uri(picture: Picture) -> str:
    """Return a picture as the data URI of a PNG file, which loses nothing."""
    return _encoded(picture, ".png", "image/png", [cv2.IMWRITE_PNG_COMPRESSION, 9])


def _encoded(picture: Picture, suffix: str, media_type: str, parameters: list[int]) -> str:
    return _data_uri(encode_picture(picture, suffix, parameters), media_type)


def _data_uri(content: bytes, media_type: str) -> str:
    return f"data:{media_type};base64,{base64.b64encode(content).decode('ascii')}"
